//! The end of a job or of a window: FIN until a FIN-ACK confirms that every group has what it needs.
//!
//! FIN goes out as soon as what is needed has reached the peer's *host*: it is the question "is it
//! in your hands?", it arrives behind the data, and its answer comes sooner than the next receipt
//! would. Where the answer is "not yet", the sender goes on. A job of many groups asks in pages. That
//! the end has come is the receiver's word, not a sum of its answers: the process that gave the first
//! of them may not be the one that gave the last.
//!
//! An end can be forced: by whoever cancels the job, or by a window's deadline. Then nothing more is
//! sent but FIN, and what the receiver answers is what there is.

use super::{
    PacketRefused, Sender,
    group::Group,
    report::{SendError, State},
    sent_packets::Transmission,
};
use atp_common::wire::{
    FIN_GROUPS_MAX, Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind, U24_MAX,
};

const INTERVAL_NS_MIN: u64 = 10_000_000;
const INTERVAL_NS_MAX: u64 = 100_000_000;

/// What was asked about the end.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// Rounds of FIN so far, over all windows; the number of the last one, in its index field.
    number: u32,
    /// Whether this window's end was asked for.
    asked: bool,
    /// No other window follows.
    pub(crate) last: bool,
    forced: bool,
    /// Pages of the present round without an answer, and those still to be sent: one bit each.
    unanswered: u16,
    unsent: u16,
    /// The first moment at which the next question may go.
    next_ns: u64,
    sent_ns: u64,
    /// How often the interval was doubled.
    doubled: u32,
    answered: bool,
    /// An answer to the present round said that the receiver takes nothing more.
    ended: bool,
    /// The slot of the last round.
    pub(crate) slot: u32,
    /// DATA packets handed out when the last one was written.
    packets_sent: u64,
    /// Messages with receipts, per group, when the last one was written.
    delivered: Vec<u32>,
}

impl Ending {
    pub(crate) fn is_forced(&self) -> bool {
        self.forced
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }

    /// For the next window: the numbers go on.
    pub(crate) fn begin_window(&mut self) {
        *self = Self { number: self.number, slot: self.slot, ..Self::default() };
    }

    /// Gives up what isn't delivered, and asks at once.
    pub(crate) fn force(&mut self) {
        *self = Self {
            forced: true,
            number: self.number,
            slot: self.slot,
            last: self.last,
            ..Self::default()
        };
    }

    /// Takes in the answer to a page; whether every page of the question is answered now. A question
    /// of one page is answered by the answer to any earlier one as well.
    fn note_answer(&mut self, round: u32, page: usize, pages: usize, ended: bool) -> bool {
        if round == self.number & U24_MAX {
            self.ended |= ended;
            self.unanswered &= !(1 << page);
            self.unsent &= !(1 << page);
            self.doubled = 0;
            return self.unanswered == 0;
        }
        self.ended |= ended && pages == 1;
        pages == 1
    }
}

impl Sender {
    /// Whether it is time to ask for the end.
    fn wants_end(&self) -> bool {
        !self.has_ended()
            && (self.ending.forced
                || self
                    .groups
                    .iter()
                    .all(|group| group.has_enough() && (!group.tries_all || group.is_tried())))
    }

    /// When the next FIN is due.
    pub(super) fn fin_timeout_ns(&self) -> Option<u64> {
        let at_ns = if self.ending.unsent != 0 { 0 } else { self.ending.next_ns };
        self.wants_end().then_some(at_ns)
    }

    fn pages(&self) -> usize {
        self.groups.len().div_ceil(FIN_GROUPS_MAX)
    }

    pub(super) fn write_fin(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        if self.fin_timeout_ns().is_none_or(|at_ns| at_ns > now_ns) {
            // In the middle of a question there may be nothing left to ask.
            self.ending.unsent = 0;
            return None;
        }
        let (head, body) = out.split_at_mut_checked(HEADER_LEN)?;
        if self.ending.unsent == 0 {
            self.begin_question(now_ns);
        }
        let page = self.ending.unsent.trailing_zeros() as usize;
        let groups: Vec<_> =
            self.groups.chunks(FIN_GROUPS_MAX).nth(page)?.iter().map(fin_group).collect();
        let body_len = FinBody::write(body, self.window, &groups)?;
        let more = self.config.windows && !self.ending.last;
        let flag = |set: bool, flag: Flags| if set { flag } else { Flags::NONE };
        let header = Header::new(&Fields {
            kind: Kind::Fin,
            flags: flag(self.ending.forced, Flags::FORCED).with(flag(more, Flags::MORE)),
            group: groups[0].group,
            job: self.config.job,
            cookie: self.config.cookie,
            message: self.groups.iter().map(Group::messages).sum(),
            index: self.ending.number & U24_MAX,
            count: self.pages() as u32,
            epoch: page as u16,
            slot: self.ending.slot,
            time: Header::time_of(now_ns),
        });
        head.copy_from_slice(header.as_bytes());
        self.ending.unsent &= !(1 << page);
        Some(HEADER_LEN + body_len)
    }

    /// Asks for the end, or again for what was not answered of a question of several pages.
    fn begin_question(&mut self, now_ns: u64) {
        let all = u16::MAX >> (u16::BITS as usize - self.pages());
        let timeout_ns = self.losses.base_timeout_ns().max(INTERVAL_NS_MIN);
        let ending = &mut self.ending;
        if ending.packets_sent != self.report.packets_sent {
            ending.doubled = 0;
        } else if ending.asked && !ending.answered {
            self.losses.unheard(ending.sent_ns);
        }
        let interval_ns = (timeout_ns << ending.doubled).min(INTERVAL_NS_MAX.max(timeout_ns));
        ending.next_ns = now_ns + interval_ns + self.losses.longest_backlog_ns();
        ending.doubled = (ending.doubled + 1).min(8);
        let goes_on = self.groups.len() > FIN_GROUPS_MAX
            && ending.unanswered != 0
            && ending.packets_sent == self.report.packets_sent;
        (ending.asked, ending.sent_ns) = (true, now_ns);
        ending.answered = false;
        ending.packets_sent = self.report.packets_sent;
        self.state = State::Finishing;
        if goes_on {
            ending.unsent = ending.unanswered;
            return;
        }
        ending.number = ending.number.wrapping_add(1);
        ending.ended = false;
        (ending.unanswered, ending.unsent) = (all, all);
        ending.delivered.clear();
        ending.delivered.extend(self.groups.iter().map(|group| group.delivered));
        // A slot of its own: the answer then says that all sent before was taken in.
        ending.slot = self.sent_packets.push(Transmission::VOID);
    }

    pub(super) fn take_fin_ack(
        &mut self,
        now_ns: u64,
        header: &Header,
        body: &FinBody,
    ) -> Result<(), PacketRefused> {
        let (round, page) = (header.index(), usize::from(header.epoch()));
        if self.has_ended() || body.window() != self.window {
            return Ok(());
        }
        let asked = self.groups.chunks(FIN_GROUPS_MAX).nth(page).unwrap_or_default();
        let same_groups =
            body.groups().map(|group| group.group).eq(asked.iter().map(|group| group.config.group));
        let same_counts =
            body.groups().zip(asked).all(|(theirs, ours)| theirs.messages <= ours.messages());
        if !self.ending.asked || !same_groups || !same_counts {
            return Err(PacketRefused::Impossible);
        }
        self.losses.heard();
        self.awaited.receipt_came(now_ns);
        let asked = &mut self.groups[page * FIN_GROUPS_MAX..];
        for (theirs, ours) in body.groups().zip(asked) {
            ours.delivered_by_fin = theirs.delivered;
        }
        let pages = self.pages();
        let ended = header.flags().contains(Flags::ENDED);
        if self.ending.note_answer(round, page, pages, ended) {
            let forced = header.flags().contains(Flags::FORCED);
            self.conclude(now_ns, forced, round == self.ending.number & U24_MAX);
        }
        Ok(())
    }

    /// Every page of a round was answered.
    fn conclude(&mut self, now_ns: u64, forced: bool, answers_last: bool) {
        if self.ending.ended {
            for group in &mut self.groups {
                // An answer may have come before the last message did.
                let least = if forced { 0 } else { group.needed() };
                group.delivered_by_fin = group.delivered_by_fin.max(least);
                group.forgotten = group.delivered;
            }
            let enough = self.groups.iter().all(|group| group.delivered_by_fin >= group.needed());
            self.state = if enough { State::Done } else { State::Ended };
            self.close();
        } else if answers_last {
            self.ending.answered = true;
            self.go_on(now_ns);
        }
    }

    /// The receiver has less than needed: finds out what is missing.
    fn go_on(&mut self, now_ns: u64) {
        for (group, &before) in self.groups.iter_mut().zip(&self.ending.delivered) {
            // It had more when it gave its receipts than it has now.
            let forgotten = before.saturating_sub(group.delivered_by_fin);
            group.forgotten = group.forgotten.max(forgotten);
        }
        // Of what was queued: while the job is ending no other message is taken.
        let unreachable = |group: &Group| {
            u64::from(group.needed()) + u64::from(group.forgotten) > group.queued.into()
        };
        if self.groups.iter().any(unreachable) {
            let short = self.short();
            return self.fail(SendError::ReceiverLostState { short });
        }
        let delivered = self.groups.iter().map(|group| group.delivered_by_fin).sum();
        self.learn_slot(now_ns, self.ending.slot, delivered);
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
