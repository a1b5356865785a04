//! Ends a job or a window: sends FIN until a FIN-ACK confirms that every group has what it needs.
//!
//! FIN is sent as soon as the needed messages have reached the peer's *host*. It arrives behind the
//! data, and its answer comes sooner than the next receipt would. If the receiver lacks messages,
//! the sender continues. A job of many groups sends FIN in pages. The receiver states the end
//! itself (ENDED): in every answer from then on it says how the end was reached, and what it
//! counted. The sender reads nothing else. A sum over other answers would not do, because different
//! processes gave them if the receiving process was restarted.
//!
//! An end can be forced, by a canceled job or by a window's deadline. Then only FIN is sent, and
//! the receiver's counts are final.

use super::{
    PacketRefused, Sender,
    ending::Attempt,
    group::Group,
    report::{SendError, Short, State},
    sent_packets::Transmission,
    window::Window,
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
        self.window.ending.set_last();
        self.finish_window();
    }

    /// Announces that no more messages come in this window.
    pub fn finish_window(&mut self) {
        if self.window.state == State::Open {
            self.window.state = State::Finishing;
            let told = |group: &Group| group.is_total_known().then(|| group.messages());
            let before: Vec<_> = self.window.groups.iter().map(told).collect();
            for group in &mut self.window.groups {
                group.closed = true;
            }
            if !self.window.groups.iter().map(told).eq(before) {
                self.announcement.change();
            }
        }
    }

    /// Ends the present window (or a job without windows) now, with the messages delivered so far.
    /// From now on only FIN is sent. [`State::Ended`] follows, or [`State::Done`] if enough was
    /// delivered.
    pub fn end_now(&mut self) {
        if !self.has_ended() && !self.sends_only_fin() {
            self.window.state = State::Finishing;
            self.window.ending.force();
        }
    }

    /// Ends the window before the present one now, if it has not ended.
    pub fn end_closing_now(&mut self) {
        self.in_closing(Self::end_now);
    }

    /// Whether [`Sender::end_now`] would tell the receiver the true N of every group. `false` once
    /// the window has ended, or was told to end.
    pub fn can_end_now(&self) -> bool {
        let is_ending = self.has_ended() || self.sends_only_fin();
        !is_ending && self.window.groups.iter().all(Group::is_total_known)
    }

    /// Ends the job now, as [`Sender::end_now`] ends the window.
    pub fn cancel(&mut self) {
        self.window.ending.set_last();
        self.in_each_window(|sender| {
            // Names of lost messages are not worth waiting for any more.
            match !sender.has_ended() && sender.window.ending.is_settled() {
                true => sender.end_window(),
                false => sender.end_now(),
            }
        });
    }

    /// Writes the next control packet (FIN or TERMS), header and body, into `out` and returns its
    /// length. `None` if none is due. 524 bytes are always enough, 84 for one group. Once the job
    /// has ended, the last FINs tell the receiver so: no answer follows them.
    pub fn next_control(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        let of_closing = self.in_closing(|sender| sender.next_fin(now_ns, out)).flatten();
        if of_closing.is_some() {
            return of_closing;
        }
        if self.window.ending.next_confirmation() {
            return self.write_fin(now_ns, 0, Flags::ENDED, out);
        }
        // Windows end in order.
        let may_end = self.closing.as_ref().is_none_or(|closing| closing.is_over());
        if may_end && let Some(len) = self.next_fin(now_ns, out) {
            return Some(len);
        }
        if self.window.ending.next_confirmation() {
            return self.write_fin(now_ns, 0, Flags::ENDED, out);
        }
        self.next_terms(now_ns, out)
    }

    /// Writes the next FIN of the window.
    fn next_fin(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        if self.fin_timeout_ns(&self.window).is_none_or(|at_ns| at_ns > now_ns) {
            // The reason for a FIN may have disappeared between two of its pages.
            self.window.ending.stop_pages();
            return None;
        }
        if self.fin_awaits_terms_until_ns(&self.window).is_some()
            && let Some(len) = self.next_terms_before_fin(now_ns, out)
        {
            return Some(len);
        }
        if self.window.ending.next_page().is_none() {
            self.begin_fin_attempt(now_ns);
        }
        let page = self.window.ending.next_page()?;
        let len = self.write_fin(now_ns, page, Flags::NONE, out)?;
        self.window.ending.on_page_sent(page);
        Some(len)
    }

    /// Writes one page of the present FIN attempt.
    fn write_fin(&self, now_ns: u64, page: usize, ended: Flags, out: &mut [u8]) -> Option<usize> {
        let (head, body) = out.split_at_mut_checked(HEADER_LEN)?;
        let groups: Vec<_> =
            self.window.groups.chunks(FIN_GROUPS_MAX).nth(page)?.iter().map(fin_group).collect();
        let body_len = FinBody::write(body, self.window.number, &groups)?;
        let more = self.config.windows && !self.window.ending.is_last();
        let flag = |set: bool, flag: Flags| if set { flag } else { Flags::NONE };
        let header = Header::new(&Fields {
            kind: Kind::Fin,
            flags: ended
                .with(flag(self.window.ending.is_forced(), Flags::FORCED))
                .with(flag(more, Flags::MORE)),
            group: groups[0].group,
            job: self.config.job,
            cookie: self.config.cookie,
            message: self.window.groups.iter().map(Group::messages).sum(),
            index: self.window.ending.index(),
            count: self.window.fin_pages() as u32,
            epoch: page as u16,
            slot: self.window.ending.slot(),
            time: Header::time_of(now_ns),
        });
        head.copy_from_slice(header.as_bytes());
        Some(HEADER_LEN + body_len)
    }

    /// When the next FIN of a window is due.
    pub(super) fn fin_timeout_ns(&self, window: &Window) -> Option<u64> {
        let paused_until_ns = self.no_room.paused_until_ns().unwrap_or(0);
        let terms_ns = self.fin_awaits_terms_until_ns(window).unwrap_or(0);
        window.wants_end().then(|| window.ending.due_ns().max(paused_until_ns).max(terms_ns))
    }

    /// When the next FIN of any window is due. Windows end in order.
    pub(super) fn next_fin_timeout_ns(&self) -> Option<u64> {
        let window = self.windows().find(|window| !window.is_over())?;
        self.fin_timeout_ns(window)
    }

    /// Whether no more data is sent: the end is forced, or the receiver has confirmed it.
    pub(super) fn sends_only_fin(&self) -> bool {
        self.window.sends_only_fin()
    }

    /// Begins an attempt at FIN, or repeats the unanswered pages of one with several pages.
    fn begin_fin_attempt(&mut self, now_ns: u64) {
        let (packets_sent, named) = (self.report.packets_sent, self.window.delivered);
        if self.window.ending.naming_mut().is_some_and(|naming| !naming.asks_again(named)) {
            return self.end_window();
        }
        if let Some(sent_ns) = self.window.ending.unanswered_since_ns(packets_sent) {
            self.silence.on_timeout(sent_ns);
        }
        self.window.state = State::Finishing;
        let is_new = self.window.ending.begin_attempt(&Attempt {
            now_ns,
            timeout_ns: self.lanes.base_timeout_ns(),
            backlog_ns: self.lanes.longest_backlog_ns(),
            packets_sent,
            pages: self.window.fin_pages(),
        });
        if is_new {
            // The FIN has a slot of its own, so its answer shows that all earlier packets were
            // read.
            let slot = self.sent_packets.push(Transmission::VOID);
            self.window
                .ending
                .set_snapshot(slot, self.window.groups.iter().map(|group| group.delivered));
        }
    }

    pub(super) fn on_fin_ack(
        &mut self,
        now_ns: u64,
        header: &Header,
        body: &FinBody,
    ) -> Result<(), PacketRefused> {
        let in_window = |sender: &mut Self| sender.on_fin_ack_of_window(now_ns, header, body);
        self.in_window(body.window(), in_window).unwrap_or(Ok(()))
    }

    fn on_fin_ack_of_window(
        &mut self,
        now_ns: u64,
        header: &Header,
        body: &FinBody,
    ) -> Result<(), PacketRefused> {
        let (attempt, page) = (header.index(), usize::from(header.epoch()));
        if self.has_ended() {
            return Ok(());
        }
        let ours = self.window.groups.chunks(FIN_GROUPS_MAX).nth(page).unwrap_or_default();
        let same_groups =
            body.groups().map(|group| group.group).eq(ours.iter().map(|group| group.config.group));
        let same_counts =
            body.groups().zip(ours).all(|(theirs, ours)| theirs.messages <= ours.messages());
        let ended = header.flags().contains(Flags::ENDED);
        // Without FORCED a receiver ends no window that is short.
        let may_be_short = !ended || header.flags().contains(Flags::FORCED);
        let is_possible = self.window.ending.was_fin_sent()
            && same_groups
            && same_counts
            && (may_be_short || body.groups().all(|group| group.delivered >= group.needed));
        if !is_possible {
            return Err(PacketRefused::Impossible);
        }
        self.silence.end();
        self.window.awaiting_receipt.on_receipt(now_ns);
        if self.window.ending.is_settled() {
            return Ok(());
        }
        let is_present = self.window.ending.is_fin_sent() && self.window.ending.is_present(attempt);
        if ended {
            let groups = self.window.groups.len();
            let counts = self.window.ending.on_stated(header.time(), page, body.groups(), groups);
            if let Some(counts) = counts {
                for (group, &delivered) in self.window.groups.iter_mut().zip(counts) {
                    group.delivered_by_fin = delivered;
                }
                self.window.told_by.note(header.time());
                self.settle();
                return Ok(());
            }
        } else if is_present {
            let ours = &mut self.window.groups[page * FIN_GROUPS_MAX..];
            for (theirs, ours) in body.groups().zip(ours) {
                ours.delivered_by_fin = theirs.delivered;
            }
        }
        if is_present && self.window.ending.on_answer(page, ended) {
            self.window.ending.set_answered();
            match self.window.ending.has_ended() {
                // Pages that were answered before the end say nothing of it.
                true => self.window.ending.ask_at_once(),
                false => self.continue_window(now_ns),
            }
        }
        Ok(())
    }

    /// Notes that the receiver has stated the end in full. The window ends, or waits for the ids of
    /// lost messages.
    fn settle(&mut self) {
        self.window.ending.settle();
        self.window.ending.set_answered();
        if !self.config.names_lost {
            self.end_window();
        }
        self.end_if_named();
    }

    /// Ends the window if the receiver has confirmed its end, and receipts have named every message
    /// that the receiver has.
    pub(super) fn end_if_named(&mut self) {
        if !self.has_ended() && self.window.ending.is_settled() && self.window.is_all_named() {
            self.end_window();
        }
    }

    /// Ends the window with the counts that the receiver has stated.
    fn end_window(&mut self) {
        for group in &mut self.window.groups {
            group.forgotten = group.delivered;
        }
        let enough =
            self.window.groups.iter().all(|group| group.delivered_by_fin >= group.needed());
        self.window.state = if enough { State::Done } else { State::Ended };
        if self.is_last_window() {
            self.window.ending.confirm();
        }
        self.window.close();
    }

    /// Continues the window after an answer with fewer messages than needed.
    fn continue_window(&mut self, now_ns: u64) {
        for (group, &before) in self.window.groups.iter_mut().zip(self.window.ending.delivered()) {
            // The receiver has fewer messages now than it gave receipts for.
            let forgotten = before.saturating_sub(group.delivered_by_fin);
            group.forgotten = group.forgotten.max(forgotten);
        }
        // Only queued messages count: no other is accepted while the job is ending.
        let unreachable = |group: &Group| {
            u64::from(group.needed()) + u64::from(group.forgotten) > group.queued.into()
        };
        if self.window.groups.iter().any(unreachable) {
            let short = self.short();
            return self.fail(SendError::ReceiverLostState { short });
        }
        let delivered = self.window.groups.iter().map(|group| group.delivered_by_fin).sum();
        self.on_slot_read(now_ns, self.window.ending.slot(), delivered);
    }

    /// The groups that have less than they need, in all open windows.
    pub(super) fn short(&self) -> Vec<Short> {
        self.windows().filter(|window| !window.is_over()).flat_map(Window::short).collect()
    }

    /// Fails the job, unless the receiver has confirmed the window's end.
    pub(super) fn fail(&mut self, error: SendError) {
        if self.window.ending.is_settled() {
            return self.end_window();
        }
        self.in_closing(|sender| sender.fail_window(error.clone()));
        self.fail_window(error);
    }

    fn fail_window(&mut self, error: SendError) {
        if self.has_ended() {
            return;
        }
        if self.window.ending.is_settled() {
            return self.end_window();
        }
        self.window.state = State::Failed(error);
        self.window.close();
    }
}

impl Window {
    /// Whether a FIN makes sense: the end is forced, or enough has reached the peer's host.
    fn wants_end(&self) -> bool {
        let is_enough =
            |group: &Group| group.has_enough() && (!group.tries_all || group.is_tried());
        !self.is_over() && (self.sends_only_fin() || self.groups.iter().all(is_enough))
    }

    /// Whether no more data is sent: the end is forced, or the receiver has confirmed it.
    pub(super) fn sends_only_fin(&self) -> bool {
        self.ending.is_forced() || self.ending.is_settled()
    }

    pub(super) fn fin_pages(&self) -> usize {
        self.groups.len().div_ceil(FIN_GROUPS_MAX)
    }

    /// The groups that have less than they need.
    fn short(&self) -> Vec<Short> {
        self.groups.iter().filter_map(Group::short).collect()
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
