//! The events of an endpoint, for its application.

use super::source::Source;
use crate::{Message, Summary, Terms};
use std::net::SocketAddr;

/// An event of one sender's job. A sender of which no message has arrived gives none: any host can
/// send a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The sender's address, IPv4 as such and not mapped.
    pub source: SocketAddr,
    /// The job's id.
    pub job: u32,
    /// The run of the job. This endpoint gives each run that it admits the next number, from 1 on,
    /// and gives none twice. A host that forges the sender's address and the job's id has a run of
    /// its own, unless it knows the cookie.
    pub run: u64,
    /// The event itself.
    pub kind: EventKind,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// The terms of the job, or of the next window.
    Started(Terms),
    /// The terms of the current window have changed, or the sender has answered a request.
    TermsChanged(Terms),
    /// A complete message.
    Message(Message),
    /// The end of a window that others follow.
    WindowEnded(Summary),
    /// The end of the job.
    Finished(Summary),
}

/// Tells the terms of a sender, once the sender has delivered a message.
pub fn take_terms<L>(source: &mut Source<L>, events: &mut Vec<Event>) {
    if source.delivered() == 0 {
        return;
    }
    if let Some(terms) = source.transport.take_terms() {
        events.push(source.event(match terms.is_first {
            true => EventKind::Started(terms),
            false => EventKind::TermsChanged(terms),
        }));
    }
}

/// Hands over a sender's terms and its messages that are ready. Returns the number of messages.
pub fn take_messages<L>(source: &mut Source<L>, events: &mut Vec<Event>) -> u64 {
    take_terms(source, events);
    let before = events.len();
    while let Some(message) = source.transport.next_message() {
        events.push(source.event(EventKind::Message(message)));
    }
    (events.len() - before) as u64
}

/// Tells the ends of a sender's windows.
pub fn take_summaries<L>(source: &mut Source<L>, events: &mut Vec<Event>) {
    let has_messages = source.delivered() > 0;
    while let Some(summary) = source.transport.take_summary() {
        // Any host can send a FIN. Without a message it is answered, but it ends nothing.
        if has_messages {
            events.push(source.event(match summary.more {
                true => EventKind::WindowEnded(summary),
                false => EventKind::Finished(summary),
            }));
        }
    }
}
