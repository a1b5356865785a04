//! Terms, totals and ends that senders state of their tables.

use crate::{
    Session, SessionError,
    session::{ROWS_GROUP, bytes},
    strata::Header,
};
use approxlib::{GroupSummary, Receiver, Summary, Terms};
use std::mem;

impl Session {
    pub(crate) fn on_terms(
        &mut self,
        stratum: u32,
        terms: &Terms,
        receiver: &Receiver,
    ) -> Result<(), SessionError> {
        let rows = terms.groups.iter().find(|group| group.group == ROWS_GROUP);
        let Some(rows) = rows.filter(|_| terms.window == 0) else { return Ok(()) };
        let of = self.strata.of_mut(stratum);
        if of.has_ended {
            return Ok(());
        }
        of.terms = Some(rows.into());
        of.sent = rows.messages.map(u64::from).or(of.sent);
        if of.is_of_table() { self.join(stratum, receiver) } else { Ok(()) }
    }

    pub(crate) fn on_end(&mut self, stratum: u32, summary: &Summary) {
        let is_planned_end = self.has_asked_for_the_end();
        let of = self.strata.of_mut(stratum);
        let source = of.source;
        if mem::replace(&mut of.has_ended, true) {
            // A later window of the job.
            return;
        }
        let rows = summary.groups.iter().find(|group| group.group == ROWS_GROUP);
        // N of a stream that was cut off is the number of messages by then: it says nothing of
        // those that its sender still had.
        let is_whole = summary.complete && !is_planned_end;
        let is_known = is_whole || of.sent.is_some() || of.terms.is_none();
        let ended = rows.filter(|_| summary.window == 0 && is_known);
        if let Some(rows) = ended {
            of.sent = Some(rows.messages.into());
        }
        let is_counted = of.is_counted();
        // The end that the plan asked for may meet one of the sender's own.
        of.is_canceled = !summary.complete && !is_planned_end;
        let waiting = match &mut of.header {
            Header::Awaited(waiting) => mem::take(waiting),
            Header::Same | Header::Other => Vec::new(),
        };
        self.waiting_bytes -= bytes(&waiting);
        self.set_sent(stratum);
        self.set_delivery(stratum, ended);
        let lost = rows.map_or(0, |rows| rows.messages.saturating_sub(rows.delivered));
        let messages = waiting.len() as u64 + u64::from(lost);
        if !is_counted && messages > 0 {
            let why = match waiting.len() {
                0 => "no message with records arrived",
                _ => "no header arrived: send a table with `send --csv` or `send_dataframe`",
            };
            self.leave_out(messages, format_args!("{source}: {why}"));
        }
        if let Some(planner) = &mut self.planner {
            planner.source_ended(stratum);
        }
    }

    /// A sender without a message in the answer has no part in it.
    pub(crate) fn set_sent(&mut self, stratum: u32) {
        let of = self.strata.of(stratum);
        let source = of.source;
        let (Some(sent), true, Some((_, kept))) = (of.sent, of.is_counted(), &mut self.table)
        else {
            return;
        };
        if let Err(error) = kept.set_messages_sent(stratum, sent) {
            self.strata.of_mut(stratum).sent = None;
            self.leave_out(1, format_args!("the terms of {source}: {error}"));
        }
    }

    /// Hands on the totals of a sender of the table.
    pub(crate) fn set_totals(&mut self, stratum: u32) {
        let of = self.strata.of(stratum);
        let source = of.source;
        let (Some(totals), true, Some((_, kept))) = (of.totals, of.is_counted(), &mut self.table)
        else {
            return;
        };
        if let Err(error) = kept.set_totals(stratum, totals) {
            self.leave_out(1, format_args!("the totals of {source}: {error}"));
        }
    }

    /// Hands on how a sender of the table sends, and from its end on what is lost.
    pub(crate) fn set_delivery(&mut self, stratum: u32, ended: Option<&GroupSummary>) {
        let of = self.strata.of(stratum);
        let (source, delivery) = (of.source, of.delivery(ended));
        let (true, Some((_, kept))) = (of.is_counted(), &mut self.table) else { return };
        if let Err(error) = kept.set_delivery(stratum, &delivery) {
            self.leave_out(1, format_args!("the delivery of {source}: {error}"));
        }
    }
}
