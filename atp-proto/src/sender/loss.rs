//! When a transmission counts as lost.
//!
//! Lane by lane: those of a job travel in different queues. Slots number transmissions, so an acknowledgement is never ambiguous and Karn's rule isn't
//! needed. Two rules, as in RACK (RFC 8985) and QUIC (RFC 9002):
//!
//! *Order.* Lost if a transmission sent sufficiently later was acknowledged: [`REORDER_PACKETS`]
//! transmissions later, or a quarter of the least RTT later (and not less than the hosts are late by). Mild reordering is
//! normal here: a lane that moves to another queue of a switch between two epochs overtakes its own
//! packets, as many as that queue holds; approximate queues hold 1 to 7 (NetApprox §5.2). Hence 8,
//! where QUIC has 3. Detection that proves wrong widens both margins, up to 64 packets and one
//! smoothed RTT; sixteen round trips without error narrow them again (RFC 8985 §7.1).
//!
//! *Knowledge in steps.* Transmissions that get no acknowledgement of their own are known of when a
//! question about their slots is answered, all at once: they are overtaken by the question, not by each
//! other, whose answers may come in any order.
//!
//! *Silence.* Lost if nothing at all was acknowledged for RFC 6298's timeout after its estimated
//! departure. Time spent in this host's own queue under pacing doesn't count. Doubled with every
//! timeout in a row, since a starved queue's RTT grows faster than the estimate.

use super::{Fate, Pace, Sender, report::SendError, sent_packets::Transmission};
use crate::packets::PacketState;
use atp_common::laws::rtt::Rtt;
use std::ops::Range;

/// See the module's text.
const REORDER_PACKETS: u32 = 8;
const REORDER_PACKETS_MAX: u32 = 64;
const WIDENED_MAX: u32 = 8;
const NARROWING_RTTS: u64 = 16;
/// Transmissions that are called lost are remembered for so long at least.
const KEEP_NS_MIN: u64 = 400_000_000;
const TIMEOUT_NS_MAX: u64 = 1_000_000_000;
/// Silence is only called so if this many questions in a row went unanswered: a caller that did
/// other things for a while must first ask again.
const UNANSWERED_MIN: u32 = 3;
/// Longer than any timeout.
const ABSENCE_NS_MIN: u64 = 2 * TIMEOUT_NS_MAX;

/// What decides losses.
#[derive(Debug)]
pub(crate) struct LossDetector {
    /// By index of the group.
    lanes: Vec<LaneLossDetector>,
    /// How late hosts are: [`SenderConfig::timer_granularity_ns`](super::SenderConfig::timer_granularity_ns).
    timer_granularity_ns: u64,
    /// The longest timeout of a lane that knows its RTT, without doubling.
    base_timeout_ns: u64,
    /// What it is as long as no lane knows its RTT.
    first_timeout_ns: u64,
    /// Timeouts and repeated FINs without any word from the peer since.
    unanswered: u32,
    /// When the first of them was sent.
    silent_since_ns: u64,
    /// Until when nobody looked here last time.
    absent_until_ns: u64,
}

/// What decides losses of one lane: those of a job travel in different queues, at rates of their own,
/// and overtake each other.
#[derive(Clone, Debug, Default)]
struct LaneLossDetector {
    pace: Pace,
    /// The youngest transmission known to have arrived: number and departure.
    youngest: Option<(u32, u64)>,
    /// How often a loss proved wrong, as far as it widens the margins.
    widened: u32,
    /// When the margins changed last.
    widened_ns: u64,
    /// When the last acknowledgement came.
    acked_ns: u64,
    /// What is sent from now on gets no acknowledgement of its own.
    probed: bool,
    /// Since when questions about such transmissions have been without an answer.
    asking_since_ns: Option<u64>,
}

impl LossDetector {
    /// `cookie`: the job's. It spreads first timeouts from the least to twice that: what was lost because
    /// all began at once would be again, and timeouts double.
    pub(crate) fn new(lanes: usize, cookie: u32, timer_granularity_ns: u64) -> Self {
        let least_ns = Rtt::default().timeout_ns(timer_granularity_ns);
        // Knuth's multiplicative hash (TAOCP 6.4): cookies needn't be random.
        let spread = u64::from(cookie.wrapping_mul(0x9e37_79b1));
        let first_timeout_ns = least_ns + ((least_ns * spread) >> 32);
        Self {
            lanes: vec![LaneLossDetector::default(); lanes],
            timer_granularity_ns,
            first_timeout_ns,
            base_timeout_ns: first_timeout_ns,
            unanswered: 0,
            silent_since_ns: 0,
            absent_until_ns: 0,
        }
    }

    /// What the host knows of a lane's path.
    pub(crate) fn set_pace(&mut self, lane: u8, pace: Pace) {
        let before = std::mem::replace(&mut self.lanes[usize::from(lane)].pace, pace);
        if before.rtt == pace.rtt {
            return;
        }
        let (longest_ns, timer_granularity_ns) = (self.base_timeout_ns, self.timer_granularity_ns);
        let before_ns = before.rtt.timeout_ns(timer_granularity_ns);
        self.base_timeout_ns = match pace.rtt.timeout_ns(timer_granularity_ns) {
            longer_ns if longer_ns >= longest_ns && before.rtt.smoothed_ns != 0 => longer_ns,
            _ if before.rtt.smoothed_ns != 0 && before_ns < longest_ns => longest_ns,
            _ => self.longest_timeout_ns(),
        };
    }

    fn longest_timeout_ns(&self) -> u64 {
        let known = self.lanes.iter().map(|lane| lane.pace.rtt).filter(|rtt| rtt.smoothed_ns > 0);
        known
            .map(|rtt| rtt.timeout_ns(self.timer_granularity_ns))
            .max()
            .unwrap_or(self.first_timeout_ns)
    }

    /// Whether what is sent now gets no acknowledgement of its own.
    pub(crate) fn is_probed(&self, lane: u8) -> bool {
        self.lanes[usize::from(lane)].probed
    }

    pub(crate) fn backlog_ns(&self, lane: u8) -> u64 {
        self.lanes[usize::from(lane)].pace.backlog_ns
    }

    /// How long what is handed over now waits in this host, in whatever lane.
    pub(crate) fn longest_backlog_ns(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.pace.backlog_ns).max().unwrap_or(0)
    }

    /// Notes that the peer or its host said something.
    pub(crate) fn heard(&mut self) {
        self.unanswered = 0;
    }

    /// Notes that what was sent at `sent_ns` got no answer in time.
    pub(crate) fn unheard(&mut self, sent_ns: u64) {
        if self.unanswered == 0 {
            self.silent_since_ns = sent_ns.max(self.absent_until_ns);
        }
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// Timeouts in a row without a word from the peer or its host.
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered
    }

    /// For how long nothing was heard that was waited for; 0 if something was.
    pub(crate) fn silent_for_ns(&self, now_ns: u64) -> u64 {
        match self.unanswered {
            0 => 0,
            _ => now_ns.saturating_sub(self.silent_since_ns),
        }
    }

    /// How long the peer has been silent although it was asked repeatedly.
    fn silence_ns(&self, now_ns: u64) -> Option<u64> {
        (self.unanswered >= UNANSWERED_MIN).then(|| now_ns.saturating_sub(self.silent_since_ns))
    }

    /// The timeout without the doubling, nanoseconds: that of the slowest lane.
    pub(crate) fn base_timeout_ns(&self) -> u64 {
        self.base_timeout_ns
    }

    /// When `transmission` counts as lost if nothing is heard.
    fn deadline_ns(&self, transmission: &Transmission) -> u64 {
        let lane = &self.lanes[usize::from(transmission.group)];
        let base_ns = match lane.pace.rtt.smoothed_ns {
            // Another lane's is a better guess than none.
            0 => self.base_timeout_ns,
            _ => lane.pace.rtt.timeout_ns(self.timer_granularity_ns),
        };
        let doubled_ns = (base_ns << self.unanswered.min(8)).min(TIMEOUT_NS_MAX.max(base_ns));
        // The backlog is part of the estimated departure; once more here, because the rate may have
        // fallen since, and what waits then waits longer than was estimated.
        let timeout_ns = doubled_ns + lane.pace.backlog_ns;
        let asked_ns = match transmission.probed {
            // Where nobody asks, silence says nothing.
            true => lane.asking_since_ns.unwrap_or(u64::MAX),
            false => 0,
        };
        let since_ns = transmission.departs_ns.max(lane.acked_ns).max(asked_ns);
        since_ns.saturating_add(timeout_ns)
    }
}

impl LaneLossDetector {
    fn acked(&mut self, now_ns: u64, transmission: &Transmission, was_lost: bool) {
        self.acked_ns = now_ns;
        let narrows_ns = self.widened_ns + NARROWING_RTTS * self.pace.rtt.smoothed_ns;
        if self.widened > 0 && now_ns >= narrows_ns {
            (self.widened, self.widened_ns) = (self.widened - 1, now_ns);
        }
        if was_lost {
            (self.widened, self.widened_ns) = ((self.widened + 1).min(WIDENED_MAX), now_ns);
        }
        let Transmission { number, departs_ns, .. } = *transmission;
        let is_younger = |youngest: u32| (number.wrapping_sub(youngest) as i32) > 0;
        if self.youngest.is_none_or(|(youngest, _)| is_younger(youngest)) {
            self.youngest = Some((number, departs_ns));
        }
    }

    fn is_overtaken(&self, transmission: &Transmission, timer_granularity_ns: u64) -> bool {
        let Some((youngest, departs_ns)) = self.youngest else { return false };
        // What has to be asked about is overtaken by questions.
        let packets_later = youngest.wrapping_sub(transmission.number) as i32;
        !transmission.probed
            && self.is_overtaken_by(packets_later, departs_ns, transmission, timer_granularity_ns)
    }

    /// Whether what left so many packets of the lane later, at `departs_ns`, and has arrived says that
    /// `transmission` won't.
    fn is_overtaken_by(
        &self,
        packets_later: i32,
        departs_ns: u64,
        transmission: &Transmission,
        timer_granularity_ns: u64,
    ) -> bool {
        let packets_max = (REORDER_PACKETS << self.widened).min(REORDER_PACKETS_MAX);
        let rtt = &self.pace.rtt;
        let margin_ns = (rtt.min_ns / 4).max(timer_granularity_ns);
        let margin_ns = (margin_ns << self.widened).min(margin_ns.max(rtt.smoothed_ns));
        packets_later > 0
            && (packets_later as u32 >= packets_max
                || departs_ns.saturating_sub(transmission.departs_ns) >= margin_ns)
    }
}

impl Sender {
    /// Takes in the acknowledgement of one transmission; `false` if it is not known (any more).
    pub(super) fn acknowledge(&mut self, now_ns: u64, slot: u32) -> bool {
        let Some(&transmission) = self.sent_packets.get(slot) else { return false };
        let was_lost = match transmission.fate {
            Fate::Open => false,
            Fate::Lost => true,
            Fate::Acked => return true,
            Fate::Void => return false,
        };
        self.sent_packets.decide(slot, Fate::Acked);
        self.losses.heard();
        self.losses.lanes[usize::from(transmission.group)].acked(now_ns, &transmission, was_lost);
        self.report.packets_acked += 1;
        self.report.packets_lost_wrongly += u64::from(was_lost);
        self.path_carried(&transmission);
        if let Some(key) = self.current(&transmission) {
            let packets = &mut self.ledger.message_mut(key).packets;
            if packets.state(transmission.turn) != PacketState::Acked {
                let before = self.ledger.message(key).place();
                self.ledger.message_mut(key).packets.set(transmission.turn, PacketState::Acked);
                self.refile(now_ns, key, before);
            }
        }
        true
    }

    /// Takes in the acknowledgements of many transmissions, in order; those of one message together.
    pub(super) fn acknowledge_all(&mut self, now_ns: u64, slots: &[u32]) {
        let mut left = slots;
        while let Some((&slot, others)) = left.split_first() {
            let Some(&first) = self.sent_packets.get(slot).filter(|first| first.fate == Fate::Open)
            else {
                self.acknowledge(now_ns, slot);
                left = others;
                continue;
            };
            let key = self.current(&first);
            let before = key.and_then(|key| self.ledger.message(key).place());
            let mut changed = false;
            while let Some((&slot, others)) = left.split_first()
                && let Some(&transmission) = self.sent_packets.get(slot)
                && transmission.fate == Fate::Open
                && (transmission.group, transmission.message, transmission.round)
                    == (first.group, first.message, first.round)
            {
                self.sent_packets.decide(slot, Fate::Acked);
                self.losses.lanes[usize::from(first.group)].acked(now_ns, &transmission, false);
                self.report.packets_acked += 1;
                self.path_carried(&transmission);
                if let Some(key) = key {
                    let packets = &mut self.ledger.message_mut(key).packets;
                    changed |= packets.acknowledge(transmission.turn);
                }
                left = others;
            }
            self.losses.heard();
            if let Some(key) = key.filter(|_| changed) {
                self.refile(now_ns, key, before);
            }
        }
    }

    /// What is handed out of a lane from now on gets no acknowledgement of its own, or does.
    pub(super) fn set_probed_of(&mut self, lane: u8, probed: bool) {
        self.losses.lanes[usize::from(lane)].probed = probed;
    }

    /// Nobody asks any more.
    pub(super) fn ask_no_more(&mut self) {
        self.sent_packets.forget_questions();
        for lane in &mut self.losses.lanes {
            (lane.probed, lane.asking_since_ns) = (false, None);
        }
    }

    /// A question about a lane left at `now_ns`.
    pub(super) fn note_question(&mut self, now_ns: u64, lane: u8) {
        self.losses.lanes[usize::from(lane)].asking_since_ns.get_or_insert(now_ns);
    }

    /// A question about a lane's transmissions in `slots`, which left at `asked_ns`, was answered.
    pub(super) fn take_answer(&mut self, now_ns: u64, lane: u8, slots: Range<u32>, asked_ns: u64) {
        self.losses.lanes[usize::from(lane)].asking_since_ns = None;
        // From the youngest on, for the question itself left after it, to the oldest that can be lost.
        let oldest = self.sent_packets.first_open(lane).map_or(slots.end, |(slot, _)| slot);
        let (mut packets_later, mut lost) = (1, Vec::new());
        for back in 1..=slots.end.wrapping_sub(slots.start).min(self.config.window_packets()) {
            let slot = slots.end.wrapping_sub(back);
            if (slot.wrapping_sub(oldest) as i32) < 0 {
                break;
            }
            let Some(&transmission) = self.sent_packets.get(slot) else { continue };
            if transmission.group != lane || transmission.fate == Fate::Void {
                continue;
            }
            let losses = &self.losses.lanes[usize::from(lane)];
            if transmission.probed
                && transmission.fate == Fate::Open
                && losses.is_overtaken_by(
                    packets_later,
                    asked_ns,
                    &transmission,
                    self.losses.timer_granularity_ns,
                )
            {
                lost.push((slot, transmission));
            }
            packets_later += 1;
        }
        // What was sent first is sent again first.
        for (slot, transmission) in lost.into_iter().rev() {
            self.sent_packets.decide(slot, Fate::Lost);
            self.path_lost(&transmission);
            self.lose(now_ns, &transmission);
        }
        self.detect_losses(now_ns);
    }

    /// Calls lost what counts as lost by now.
    pub(super) fn detect_losses(&mut self, now_ns: u64) {
        let mut timed_out_ns = None;
        for lane in 0..self.groups.len() {
            let sent_ns = self.detect_losses_of(now_ns, lane as u8);
            timed_out_ns = timed_out_ns.into_iter().chain(sent_ns).min();
        }
        if let Some(sent_ns) = timed_out_ns {
            self.losses.unheard(sent_ns);
        }
        // ACKs that are late on a path whose RTT isn't known yet tell it.
        let keep_ns = (2 * self.losses.base_timeout_ns()).max(KEEP_NS_MIN);
        let crowded = self.sent_packets.span() > self.config.window_packets() / 2;
        self.sent_packets
            .reclaim(|lost| crowded || lost.departs_ns.saturating_add(keep_ns) <= now_ns);
    }

    /// The same in one lane; returns when the first of those was sent that timed out.
    fn detect_losses_of(&mut self, now_ns: u64, lane: u8) -> Option<u64> {
        let mut timed_out_ns = None;
        while let Some((slot, transmission)) = self.sent_packets.first_open(lane) {
            let overtaken = self.losses.lanes[usize::from(lane)]
                .is_overtaken(&transmission, self.losses.timer_granularity_ns);
            // Sent in order, so whoever follows a transmission that isn't lost isn't lost either.
            if !overtaken && self.losses.deadline_ns(&transmission) > now_ns {
                break;
            }
            if !overtaken && timed_out_ns.is_none() {
                timed_out_ns = Some(transmission.departs_ns);
            }
            self.sent_packets.decide(slot, Fate::Lost);
            self.path_lost(&transmission);
            self.lose(now_ns, &transmission);
        }
        timed_out_ns
    }

    fn lose(&mut self, now_ns: u64, transmission: &Transmission) {
        let Some(key) = self.current(transmission) else { return };
        let message = self.ledger.message_mut(key);
        if message.packets.state(transmission.turn) == PacketState::InFlight {
            let before = message.place();
            message.packets.set(transmission.turn, PacketState::Lost);
            self.report.packets_lost += 1;
            self.refile(now_ns, key, before);
        }
    }

    /// The message that a transmission is part of, unless it was released or started over since.
    pub(super) fn current(&self, transmission: &Transmission) -> Option<u32> {
        let key = self.ledger.key(transmission.group, transmission.message)?;
        (self.ledger.message(key).round == transmission.round).then_some(key)
    }

    /// When the oldest open transmission counts as lost, if nothing is heard.
    pub(super) fn loss_timeout_ns(&self) -> Option<u64> {
        let first = |lane| self.sent_packets.find_open(lane as u8);
        let open = (0..self.groups.len()).filter_map(first);
        let deadlines_ns = open.map(|(_, transmission)| self.losses.deadline_ns(&transmission));
        deadlines_ns.min().filter(|at_ns| *at_ns != u64::MAX)
    }

    /// Time in which nobody looked here, though it was due, is no silence of the peer's: this process
    /// was stopped, or its whole machine.
    pub(super) fn forgive_absence(&mut self, now_ns: u64) {
        let away_ns = self.poll_timeout().map_or(0, |due_ns| now_ns.saturating_sub(due_ns));
        if away_ns > ABSENCE_NS_MIN {
            self.losses.silent_since_ns = (self.losses.silent_since_ns + away_ns).min(now_ns);
            self.losses.absent_until_ns = now_ns;
            self.awaited.forgive_absence(now_ns, away_ns);
        }
    }

    /// Fails the job if the peer has been silent for too long.
    pub(super) fn give_up_if_silent(&mut self, now_ns: u64) {
        if self.has_ended() {
            return;
        }
        if let Some(silence_ns) = self.losses.silence_ns(now_ns)
            && silence_ns >= self.config.peer_timeout_ns
        {
            let short = self.short();
            self.fail(SendError::PeerSilent { silence_ns, short });
        }
    }
}
