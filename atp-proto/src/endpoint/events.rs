//! What an endpoint tells its application.

use super::source::Source;
use crate::{Message, Summary, Terms};
use std::net::SocketAddr;

/// An event of one sender's job, with the sender's address (IPv4 as such, not mapped) and the job's
/// id. A sender of which no message has arrived gives none: any host can send a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The terms of the job, or of the next window.
    Started(SocketAddr, u32, Terms),
    /// The terms of the current window have changed, or the sender has answered a request.
    TermsChanged(SocketAddr, u32, Terms),
    /// A complete message.
    Message(SocketAddr, u32, Message),
    /// The end of a window that others follow.
    WindowEnded(SocketAddr, u32, Summary),
    /// The end of the job.
    Finished(SocketAddr, u32, Summary),
}

/// Tells the terms of a sender, once the sender has delivered a message.
pub fn take_terms<L>(source: &mut Source<L>, events: &mut Vec<Event>) {
    if source.delivered() == 0 {
        return;
    }
    if let Some(terms) = source.transport.take_terms() {
        let (address, job) = source.name();
        events.push(match terms.is_first {
            true => Event::Started(address, job, terms),
            false => Event::TermsChanged(address, job, terms),
        });
    }
}

/// Hands over a sender's terms and its messages that are ready. Returns the number of messages.
pub fn take_messages<L>(source: &mut Source<L>, events: &mut Vec<Event>) -> u64 {
    take_terms(source, events);
    let (address, job) = source.name();
    let before = events.len();
    let ready = std::iter::from_fn(|| source.transport.next_message());
    events.extend(ready.map(|message| Event::Message(address, job, message)));
    (events.len() - before) as u64
}

/// Tells the ends of a sender's windows.
pub fn take_summaries<L>(source: &mut Source<L>, events: &mut Vec<Event>) {
    let has_messages = source.delivered() > 0;
    let (address, job) = source.name();
    while let Some(summary) = source.transport.take_summary() {
        // Anybody can send a FIN. Without a message it is answered, but it ends nothing.
        if has_messages {
            events.push(match summary.more {
                true => Event::WindowEnded(address, job, summary),
                false => Event::Finished(address, job, summary),
            });
        }
    }
}
