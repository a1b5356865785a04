//! Ends a job or a window: sends FIN until a FIN-ACK confirms that every group has what it needs.
//!
//! FIN is sent as soon as the needed messages have reached the peer's *host*. It arrives behind the
//! data, and its answer comes earlier than the next receipt would. If the receiver lacks messages,
//! the sender continues. A job of many groups sends FIN in pages. The receiver states the end
//! itself (ENDED): in every answer from then on it says how the end was reached, and what it
//! counted. The sender reads nothing else. A sum over other answers would not do, because different
//! processes gave them if the receiving process was restarted.
//!
//! An end can be forced, by a canceled job or by a window's deadline. Then only FIN is sent, and
//! the receiver's counts are final.

use super::{
    config::SenderConfig,
    ending::Attempt,
    group::Group,
    report::State,
    sent_packets::{SentPackets, Transmission},
    silence::Silence,
    window::Window,
};
use atp_common::wire::{
    FIN_GROUPS_MAX, Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind,
};

/// The consequence of an answer to a FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing, or the end.
    Taken,
    /// Every page of the current attempt is answered, and the receiver lacks messages.
    Continue,
    /// The receiver lacks messages that can't be replaced.
    LostState,
}

impl Window {
    /// When the next FIN is due; `None` while none makes sense: the end is not forced, and not
    /// enough has reached the peer's host.
    pub(super) fn fin_timeout_ns(&self) -> Option<u64> {
        let is_enough =
            |group: &Group| group.has_enough() && (!group.tries_all || group.is_tried());
        let wants_end =
            !self.is_over() && (self.sends_only_fin() || self.groups.iter().all(is_enough));
        wants_end.then(|| self.ending.due_ns())
    }

    /// Writes the next page of FIN, which is due, into `out`. If a new attempt has to begin, its
    /// slot is the next of `sent`. An attempt without an answer is a sign of `silence`.
    pub(super) fn next_fin(
        &mut self,
        start: &Attempt,
        config: &SenderConfig,
        sent: &mut SentPackets,
        silence: &mut Silence,
        out: &mut [u8],
    ) -> Option<usize> {
        if self.ending.next_page().is_none() {
            self.begin_fin_attempt(start, sent, silence);
        }
        let page = self.ending.next_page()?;
        let len = self.write_fin(start.now_ns, config, page, Flags::NONE, out)?;
        self.ending.on_page_sent(page);
        Some(len)
    }

    /// Begins an attempt at FIN, or repeats the unanswered pages of one with several pages.
    fn begin_fin_attempt(
        &mut self,
        start: &Attempt,
        sent: &mut SentPackets,
        silence: &mut Silence,
    ) {
        let named = self.delivered;
        if self.ending.naming_mut().is_some_and(|naming| !naming.asks_again(named)) {
            return self.end();
        }
        if let Some(sent_ns) = self.ending.unanswered_since_ns(start.packets_sent) {
            silence.on_timeout(sent_ns);
        }
        self.state = State::Finishing;
        if self.ending.begin_attempt(start) {
            // The FIN has a slot of its own, so its answer shows that all earlier packets were
            // read.
            let slot = sent.push(Transmission::VOID);
            self.ending.set_snapshot(slot, self.groups.iter().map(|group| group.delivered));
        }
    }

    /// Writes one of the FINs that tell the receiver that this sender knows of the job's end;
    /// `None` if none is left.
    pub(super) fn next_confirmation(
        &mut self,
        now_ns: u64,
        config: &SenderConfig,
        out: &mut [u8],
    ) -> Option<usize> {
        let is_due = self.ending.next_confirmation();
        is_due.then(|| self.write_fin(now_ns, config, 0, Flags::ENDED, out)).flatten()
    }

    /// Writes one page of the current FIN attempt.
    fn write_fin(
        &self,
        now_ns: u64,
        config: &SenderConfig,
        page: usize,
        ended: Flags,
        out: &mut [u8],
    ) -> Option<usize> {
        let (head, body) = out.split_at_mut_checked(HEADER_LEN)?;
        let groups: Vec<_> =
            self.groups.chunks(FIN_GROUPS_MAX).nth(page)?.iter().map(fin_group).collect();
        let body_len = FinBody::write(body, self.number, &groups)?;
        let flag = |set: bool, flag: Flags| if set { flag } else { Flags::NONE };
        let header = Header::new(&Fields {
            kind: Kind::Fin,
            flags: ended
                .with(flag(self.ending.is_forced(), Flags::FORCED))
                .with(flag(!self.ending.is_last(), Flags::MORE)),
            group: groups[0].group,
            job: config.job,
            cookie: config.cookie,
            message: self.groups.iter().map(Group::messages).sum(),
            index: self.ending.index(),
            count: self.fin_pages() as u32,
            epoch: page as u16,
            slot: self.ending.slot(),
            time: Header::time_of(now_ns),
        });
        head.copy_from_slice(header.as_bytes());
        Some(HEADER_LEN + body_len)
    }

    /// The number of FINs, or pages, for all groups.
    pub(super) fn fin_pages(&self) -> usize {
        self.groups.len().div_ceil(FIN_GROUPS_MAX)
    }

    /// Whether a FIN-ACK can be an answer to this window's FINs.
    pub(super) fn can_be_answer(&self, header: &Header, body: &FinBody) -> bool {
        let page = usize::from(header.epoch());
        let ours = self.groups.chunks(FIN_GROUPS_MAX).nth(page).unwrap_or_default();
        let same_groups =
            body.groups().map(|group| group.group).eq(ours.iter().map(|group| group.config.group));
        let same_counts =
            body.groups().zip(ours).all(|(theirs, ours)| theirs.messages <= ours.messages());
        // Without FORCED a receiver ends no window that is short.
        let flags = header.flags();
        let may_be_short = !flags.contains(Flags::ENDED) || flags.contains(Flags::FORCED);
        self.ending.was_fin_sent()
            && same_groups
            && same_counts
            && (may_be_short || body.groups().all(|group| group.delivered >= group.needed))
    }

    /// Takes in a possible FIN-ACK.
    pub(super) fn on_fin_ack(
        &mut self,
        now_ns: u64,
        header: &Header,
        body: &FinBody,
        names_lost: bool,
    ) -> Answer {
        self.awaiting_receipt.on_receipt(now_ns);
        if self.ending.is_settled() {
            return Answer::Taken;
        }
        let (attempt, page) = (header.index(), usize::from(header.epoch()));
        let ended = header.flags().contains(Flags::ENDED);
        let is_current = self.ending.is_fin_sent() && self.ending.is_current(attempt);
        if ended {
            let groups = self.groups.len();
            let counts = self.ending.on_stated(header.time(), page, body.groups(), groups);
            if let Some(counts) = counts {
                for (group, &delivered) in self.groups.iter_mut().zip(counts) {
                    group.delivered_by_fin = delivered;
                }
                self.told_by.note(header.time());
                self.settle(names_lost);
                return Answer::Taken;
            }
        } else if is_current {
            let ours = &mut self.groups[page * FIN_GROUPS_MAX..];
            for (theirs, ours) in body.groups().zip(ours) {
                ours.delivered_by_fin = theirs.delivered;
            }
        }
        if !(is_current && self.ending.on_answer(page, ended)) {
            return Answer::Taken;
        }
        self.ending.set_answered();
        if self.ending.has_ended() {
            // Pages that were answered before the end say nothing of it.
            self.ending.ask_at_once();
            return Answer::Taken;
        }
        self.note_forgotten()
    }

    /// Notes that the receiver has stated the end in full. The window ends, or waits for the ids of
    /// lost messages.
    fn settle(&mut self, names_lost: bool) {
        self.ending.settle();
        self.ending.set_answered();
        match names_lost {
            true => self.end_if_named(),
            false => self.end(),
        }
    }

    /// After an answer with fewer messages than needed, notes those that the receiver has
    /// forgotten.
    fn note_forgotten(&mut self) -> Answer {
        for (group, &before) in self.groups.iter_mut().zip(self.ending.delivered()) {
            // The receiver has fewer messages now than it gave receipts for.
            let forgotten = before.saturating_sub(group.delivered_by_fin);
            group.forgotten = group.forgotten.max(forgotten);
        }
        // Only queued messages count: no other is accepted while the job is ending.
        let unreachable = |group: &Group| {
            u64::from(group.needed()) + u64::from(group.forgotten) > group.queued.into()
        };
        match self.groups.iter().any(unreachable) {
            true => Answer::LostState,
            false => Answer::Continue,
        }
    }

    /// Messages delivered according to the last FIN-ACK.
    pub(super) fn delivered_by_fin(&self) -> u32 {
        self.groups.iter().map(|group| group.delivered_by_fin).sum()
    }
}

fn fin_group(group: &Group) -> FinGroup {
    FinGroup {
        group: group.config.group,
        messages: group.messages(),
        needed: group.needed(),
        delivered: group.delivered.min(group.messages()),
    }
}
