//! Ends a job or a window: sends FIN until a FIN-ACK confirms that every group has what it needs.
//!
//! FIN is sent as soon as the needed messages have reached the peer's *host*. It arrives behind the
//! data, and its answer comes sooner than the next receipt would. If the receiver lacks messages,
//! the sender continues. A job of many groups sends FIN in pages. The receiver states the end
//! itself (ENDED). A sum over its answers would not do, because different processes gave them if
//! the receiving process was restarted.
//!
//! An end can be forced, by a canceled job or by a window's deadline. Then only FIN is sent, and
//! the receiver's counts are final.

use super::{
    PacketRefused, Sender,
    awaiting_receipt::AwaitingReceipt,
    buckets::Ranks,
    config::GroupConfig,
    ending::Attempt,
    group::Group,
    naming::Naming,
    report::{SendError, Short, State},
    sent_packets::Transmission,
};
use atp_common::wire::{
    FIN_GROUPS_MAX, Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind,
};

impl Sender {
    /// Announces that no more messages come, in this window or any other. N becomes the number of
    /// queued messages, unless the job is ending already with its configured N. Further calls do
    /// nothing.
    ///
    /// In a stream this window ends the job. If a FIN of this window was sent before, the job ends
    /// with the next window, which may be empty.
    pub fn finish(&mut self) {
        self.ending.set_last();
        self.finish_window();
    }

    /// Announces that no more messages come in this window.
    pub fn finish_window(&mut self) {
        if self.state == State::Open {
            self.state = State::Finishing;
            let told = |group: &Group| group.is_total_known().then(|| group.messages());
            let before: Vec<_> = self.groups.iter().map(told).collect();
            for group in &mut self.groups {
                group.closed = true;
            }
            if !self.groups.iter().map(told).eq(before) {
                self.announcement.change();
            }
        }
    }

    /// Ends the window (or a job without windows) now, with the messages delivered so far. From now
    /// on only FIN is sent. [`State::Ended`] follows, or [`State::Done`] if enough was delivered.
    pub fn end_now(&mut self) {
        if !self.has_ended() && !self.sends_only_fin() {
            self.state = State::Finishing;
            self.ending.force();
        }
    }

    /// Whether [`Sender::end_now`] would tell the receiver the true N of every group. `false` once
    /// the window has ended, or was told to end.
    pub fn can_end_now(&self) -> bool {
        let is_ending = self.has_ended() || self.sends_only_fin();
        !is_ending && self.groups.iter().all(Group::is_total_known)
    }

    /// Ends the job now, as [`Sender::end_now`] ends the window.
    pub fn cancel(&mut self) {
        self.ending.set_last();
        self.end_now();
    }

    /// Writes the next control packet (FIN or TERMS), header and body, into `out` and returns its
    /// length. `None` if none is due. 524 bytes are always enough, 84 for one group. Once the job
    /// has ended, the last FINs tell the receiver so: no answer follows them.
    pub fn next_control(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        if self.ending.next_confirmation() {
            return self.write_fin(now_ns, 0, Flags::ENDED, out);
        }
        if self.fin_timeout_ns().is_none_or(|at_ns| at_ns > now_ns) {
            // The reason for a FIN may have disappeared between two of its pages.
            self.ending.stop_pages();
            return self.next_terms(now_ns, out);
        }
        if self.ending.next_page().is_none() {
            self.begin_fin_attempt(now_ns);
        }
        if self.has_ended() {
            return self.next_control(now_ns, out);
        }
        let page = self.ending.next_page()?;
        let len = self.write_fin(now_ns, page, Flags::NONE, out)?;
        self.ending.on_page_sent(page);
        Some(len)
    }

    /// Writes one page of the present FIN attempt.
    fn write_fin(&self, now_ns: u64, page: usize, ended: Flags, out: &mut [u8]) -> Option<usize> {
        let (head, body) = out.split_at_mut_checked(HEADER_LEN)?;
        let groups: Vec<_> =
            self.groups.chunks(FIN_GROUPS_MAX).nth(page)?.iter().map(fin_group).collect();
        let body_len = FinBody::write(body, self.window, &groups)?;
        let more = self.config.windows && !self.ending.is_last();
        let flag = |set: bool, flag: Flags| if set { flag } else { Flags::NONE };
        let header = Header::new(&Fields {
            kind: Kind::Fin,
            flags: ended
                .with(flag(self.ending.is_forced(), Flags::FORCED))
                .with(flag(more, Flags::MORE)),
            group: groups[0].group,
            job: self.config.job,
            cookie: self.config.cookie,
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

    /// When the next FIN is due.
    pub(super) fn fin_timeout_ns(&self) -> Option<u64> {
        let paused_until_ns = self.no_room.paused_until_ns().unwrap_or(0);
        self.wants_end().then(|| self.ending.due_ns().max(paused_until_ns))
    }

    /// Whether a FIN makes sense: the end is forced, or enough has reached the peer's host.
    fn wants_end(&self) -> bool {
        let is_enough =
            |group: &Group| group.has_enough() && (!group.tries_all || group.is_tried());
        !self.has_ended() && (self.sends_only_fin() || self.groups.iter().all(is_enough))
    }

    /// Whether no more data is sent: the end is forced, or the receiver has confirmed it.
    pub(super) fn sends_only_fin(&self) -> bool {
        self.ending.is_forced() || self.ending.is_settled()
    }

    pub(super) fn fin_pages(&self) -> usize {
        self.groups.len().div_ceil(FIN_GROUPS_MAX)
    }

    /// Begins an attempt at FIN, or repeats the unanswered pages of one with several pages.
    fn begin_fin_attempt(&mut self, now_ns: u64) {
        let (packets_sent, named) = (self.report.packets_sent, self.delivered);
        if self.ending.naming_mut().is_some_and(|naming| !naming.asks_again(named)) {
            return self.end_window();
        }
        if let Some(sent_ns) = self.ending.unanswered_since_ns(packets_sent) {
            self.silence.on_timeout(sent_ns);
        }
        self.state = State::Finishing;
        let is_new = self.ending.begin_attempt(&Attempt {
            now_ns,
            timeout_ns: self.lanes.base_timeout_ns(),
            backlog_ns: self.lanes.longest_backlog_ns(),
            packets_sent,
            pages: self.fin_pages(),
        });
        if is_new {
            // The FIN has a slot of its own, so its answer shows that all earlier packets were
            // read.
            let slot = self.sent_packets.push(Transmission::VOID);
            self.ending.set_snapshot(slot, self.groups.iter().map(|group| group.delivered));
        }
    }

    pub(super) fn on_fin_ack(
        &mut self,
        now_ns: u64,
        header: &Header,
        body: &FinBody,
    ) -> Result<(), PacketRefused> {
        let (attempt, page) = (header.index(), usize::from(header.epoch()));
        if self.has_ended() || body.window() != self.window {
            return Ok(());
        }
        let ours = self.groups.chunks(FIN_GROUPS_MAX).nth(page).unwrap_or_default();
        let same_groups =
            body.groups().map(|group| group.group).eq(ours.iter().map(|group| group.config.group));
        let same_counts =
            body.groups().zip(ours).all(|(theirs, ours)| theirs.messages <= ours.messages());
        if !self.ending.is_fin_sent() || !same_groups || !same_counts {
            return Err(PacketRefused::Impossible);
        }
        self.silence.end();
        self.awaiting_receipt.on_receipt(now_ns);
        let ended = header.flags().contains(Flags::ENDED);
        if ended || !self.ending.is_settled() {
            let ours = &mut self.groups[page * FIN_GROUPS_MAX..];
            for (theirs, ours) in body.groups().zip(ours) {
                ours.delivered_by_fin = theirs.delivered;
            }
        }
        if ended {
            self.ending.on_final_page(page);
        }
        let pages = self.fin_pages();
        if self.ending.on_answer(attempt, page, pages, ended) {
            let forced = header.flags().contains(Flags::FORCED);
            self.conclude(now_ns, forced, self.ending.is_present(attempt));
        }
        Ok(())
    }

    /// Ends the window or continues it, once every page is answered.
    fn conclude(&mut self, now_ns: u64, forced: bool, answers_last: bool) {
        if self.ending.has_ended() {
            self.ending.settle(forced);
            self.ending.set_answered();
            if !self.config.names_lost {
                self.end_window();
            }
            self.end_if_named();
        } else if answers_last && !self.ending.is_settled() {
            self.ending.set_answered();
            self.continue_window(now_ns);
        }
    }

    /// Ends the window if the receiver has confirmed its end, and receipts have named every message
    /// that the receiver has.
    pub(super) fn end_if_named(&mut self) {
        if !self.has_ended() && self.ending.is_settled() && self.is_all_named() {
            self.end_window();
        }
    }

    /// Ends the window, whose end the receiver has confirmed.
    fn end_window(&mut self) {
        let forced = self.ending.naming().is_some_and(Naming::is_forced);
        for group in &mut self.groups {
            // The answer may be older than the last message's arrival.
            let least = if forced { 0 } else { group.needed() };
            group.delivered_by_fin = group.delivered_by_fin.max(least);
            group.forgotten = group.delivered;
        }
        let enough = self.groups.iter().all(|group| group.delivered_by_fin >= group.needed());
        self.state = if enough { State::Done } else { State::Ended };
        if self.is_last_window() {
            self.ending.confirm();
        }
        self.close();
    }

    /// Continues the window after an answer with fewer messages than needed.
    fn continue_window(&mut self, now_ns: u64) {
        for (group, &before) in self.groups.iter_mut().zip(self.ending.delivered()) {
            // The receiver has fewer messages now than it gave receipts for.
            let forgotten = before.saturating_sub(group.delivered_by_fin);
            group.forgotten = group.forgotten.max(forgotten);
        }
        // Only queued messages count: no other is accepted while the job is ending.
        let unreachable = |group: &Group| {
            u64::from(group.needed()) + u64::from(group.forgotten) > group.queued.into()
        };
        if self.groups.iter().any(unreachable) {
            let short = self.short();
            return self.fail(SendError::ReceiverLostState { short });
        }
        let delivered = self.groups.iter().map(|group| group.delivered_by_fin).sum();
        self.on_slot_read(now_ns, self.ending.slot(), delivered);
    }

    /// The groups that have less than they need.
    pub(super) fn short(&self) -> Vec<Short> {
        self.groups.iter().filter_map(Group::short).collect()
    }

    /// Fails the job, unless the receiver has confirmed its end.
    pub(super) fn fail(&mut self, error: SendError) {
        if self.ending.is_settled() {
            return self.end_window();
        }
        self.state = State::Failed(error);
        self.close();
    }

    /// Releases all messages.
    fn close(&mut self) {
        self.awaiting_receipt.clear();
        self.ledger.release_all();
    }

    /// Begins the next window of a stream whose last one is [`State::Done`] or [`State::Ended`].
    /// `sizes` gives each group's N, known or expected. Ids are counted from 0 again. `false` if
    /// the job has ended, or its window has not.
    pub fn begin_window(&mut self, sizes: impl Fn(&GroupConfig) -> (Option<u32>, u32)) -> bool {
        let is_over = matches!(self.state, State::Done | State::Ended);
        if self.is_last_window() || !is_over {
            return false;
        }
        self.window = self.window.wrapping_add(1);
        self.window_slot = self.sent_packets.next_slot().wrapping_sub(1);
        let mut announced = 0;
        for group in &mut self.groups {
            let (total, expected) = sizes(&group.config);
            // The receiver would refuse an N above the limit, so it isn't announced.
            let total = total.filter(|total| *total <= self.config.messages_max - announced);
            announced += total.unwrap_or(0);
            let config = GroupConfig { total, expected, ..group.config };
            *group = Group::new(config, group.exact, &self.config);
        }
        self.ledger.begin_window();
        self.ranks = Ranks::default();
        self.sent_packets.void_all();
        self.awaiting_receipt = AwaitingReceipt::new();
        self.delivered = 0;
        self.ending.begin_window();
        self.announcement.begin_window(self.report.packets_sent);
        self.state = State::Open;
        true
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
