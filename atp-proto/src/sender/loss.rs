//! When a transmission counts as lost.
//!
//! Slots number transmissions, so an acknowledgement is never ambiguous and Karn's rule isn't
//! needed. Two rules, as in RACK (RFC 8985) and QUIC (RFC 9002):
//!
//! *Order.* Lost if a transmission sent sufficiently later was acknowledged: [`REORDER_PACKETS`]
//! transmissions later, or a quarter of the least RTT (1 ms at least) later. Mild reordering is
//! normal here: a lane that moves to another queue of a switch between two epochs overtakes its own
//! packets, as many as that queue holds; approximate queues hold 1 to 7 (NetApprox §5.2). Hence 8,
//! where QUIC has 3. Detection that proves wrong widens both margins, up to 64 packets and one
//! smoothed RTT; sixteen round trips without error narrow them again (RFC 8985 §7.1).
//!
//! *Knowledge in steps.* Transmissions that get no acknowledgement of their own are known of when a
//! question about their slots is answered, all at once: they are overtaken by the question, not by each
//! other, whose answers may come in any order.
//!
//! *Silence.* Lost if nothing at all was acknowledged for RFC 6298's time-out after its estimated
//! departure. Time spent in this host's own queue under pacing doesn't count. Doubled with every
//! time-out in a row, since a starved queue's RTT grows faster than the estimate.

use super::{
    Fate, Pace, Sender,
    flight::Transmission,
    report::{SendError, State},
};
use crate::packets::PacketState;
use atp_common::wire::Flags;
use std::ops::Range;

/// See the module's text.
const REORDER_PACKETS: u32 = 8;
const REORDER_PACKETS_MAX: u32 = 64;
const REORDER_NS_MIN: u64 = 1_000_000;
const WIDENED_MAX: u32 = 8;
const NARROWING_RTTS: u64 = 16;
const TIMEOUT_NS_MAX: u64 = 1_000_000_000;
/// Silence is only called so if this many questions in a row went unanswered: a caller that did
/// other things for a while must first ask again.
const UNANSWERED_MIN: u32 = 3;

/// What decides losses.
#[derive(Debug)]
pub(crate) struct Losses {
    pub(crate) pace: Pace,
    /// The youngest transmission known to have arrived: slot and departure.
    youngest: Option<(u32, u64)>,
    /// How often a loss proved wrong, as far as it widens the margins.
    widened: u32,
    /// When the margins changed last.
    widened_ns: u64,
    /// When the last acknowledgement came.
    acked_ns: u64,
    /// What is sent from now on gets no acknowledgement of its own.
    pub(crate) probed: bool,
    /// Since when questions about such transmissions have been without an answer.
    asking_since_ns: Option<u64>,
    /// Time-outs and repeated FINs without any word from the peer since.
    unanswered: u32,
    /// When the first of them was sent.
    silent_since_ns: u64,
}

impl Losses {
    pub(crate) fn new() -> Self {
        Self {
            pace: Pace::default(),
            youngest: None,
            widened: 0,
            widened_ns: 0,
            acked_ns: 0,
            probed: false,
            asking_since_ns: None,
            unanswered: 0,
            silent_since_ns: 0,
        }
    }

    /// Notes that the peer or its host said something.
    pub(crate) fn heard(&mut self) {
        self.unanswered = 0;
    }

    /// Notes that what was sent at `sent_ns` got no answer in time.
    pub(crate) fn unheard(&mut self, sent_ns: u64) {
        if self.unanswered == 0 {
            self.silent_since_ns = sent_ns;
        }
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// How long the peer has been silent although it was asked repeatedly.
    fn silence_ns(&self, now_ns: u64) -> Option<u64> {
        (self.unanswered >= UNANSWERED_MIN).then(|| now_ns.saturating_sub(self.silent_since_ns))
    }

    fn acked(&mut self, now_ns: u64, slot: u32, departs_ns: u64) {
        self.heard();
        self.acked_ns = now_ns;
        let narrows_ns = self.widened_ns + NARROWING_RTTS * self.pace.rtt.smoothed_ns;
        if self.widened > 0 && now_ns >= narrows_ns {
            (self.widened, self.widened_ns) = (self.widened - 1, now_ns);
        }
        let younger =
            self.youngest.is_none_or(|(youngest, _)| (slot.wrapping_sub(youngest) as i32) > 0);
        if younger {
            self.youngest = Some((slot, departs_ns));
        }
    }

    /// The time-out without the doubling, nanoseconds.
    pub(crate) fn base_timeout_ns(&self) -> u64 {
        self.pace.rtt.timeout_ns()
    }

    fn timeout_ns(&self) -> u64 {
        let doubled = self.base_timeout_ns() << self.unanswered.min(8);
        // The backlog is part of the estimated departure; once more here, because the rate may have
        // fallen since, and what waits then waits longer than was estimated.
        doubled.min(TIMEOUT_NS_MAX.max(self.base_timeout_ns())) + self.pace.backlog_ns
    }

    /// What every packet's header says now.
    pub(crate) fn flags(&self) -> Flags {
        if self.probed { Flags::PROBED } else { Flags::NONE }
    }

    /// When `transmission` counts as lost if nothing is heard. Where nobody asks, silence says nothing.
    fn deadline_ns(&self, transmission: &Transmission) -> u64 {
        let asked_ns = match transmission.probed {
            true => self.asking_since_ns.unwrap_or(u64::MAX),
            false => 0,
        };
        let since_ns = transmission.departs_ns.max(self.acked_ns).max(asked_ns);
        since_ns.saturating_add(self.timeout_ns())
    }

    fn is_overtaken(&self, slot: u32, transmission: &Transmission) -> bool {
        match self.youngest {
            Some(youngest) if !transmission.probed => {
                self.is_overtaken_by(youngest, slot, transmission)
            }
            _ => false,
        }
    }

    /// Whether what left as number `youngest` and has arrived says that `transmission` won't.
    fn is_overtaken_by(
        &self,
        (youngest, departs_ns): (u32, u64),
        slot: u32,
        transmission: &Transmission,
    ) -> bool {
        let packets_later = youngest.wrapping_sub(slot) as i32;
        let packets_max = (REORDER_PACKETS << self.widened).min(REORDER_PACKETS_MAX);
        let rtt = &self.pace.rtt;
        let margin_ns = (rtt.min_ns / 4).max(REORDER_NS_MIN);
        let margin_ns = (margin_ns << self.widened).min(margin_ns.max(rtt.smoothed_ns));
        packets_later > 0
            && (packets_later as u32 >= packets_max
                || departs_ns.saturating_sub(transmission.departs_ns) >= margin_ns)
    }
}

impl Sender {
    /// Takes in the acknowledgement of one transmission; `false` if it is not known (any more).
    pub(super) fn acknowledge(&mut self, now_ns: u64, slot: u32) -> bool {
        let Some(&transmission) = self.flight.get(slot) else { return false };
        let was_lost = match transmission.fate {
            Fate::Open => false,
            Fate::Lost => true,
            Fate::Acked => return true,
            Fate::Void => return false,
        };
        self.flight.decide(slot, Fate::Acked);
        self.losses.acked(now_ns, slot, transmission.departs_ns);
        self.report.packets_acked += 1;
        if was_lost {
            self.report.packets_lost_wrongly += 1;
            self.losses.widened = (self.losses.widened + 1).min(WIDENED_MAX);
            self.losses.widened_ns = now_ns;
        }
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

    pub(super) fn take_answer(&mut self, now_ns: u64, group: u8, slots: Range<u32>, asked_ns: u64) {
        self.losses.asking_since_ns = None;
        for i in 0..slots.end.wrapping_sub(slots.start) {
            let slot = slots.start.wrapping_add(i);
            let Some(&transmission) = self.flight.get(slot) else { continue };
            if !transmission.probed
                || transmission.fate != Fate::Open
                || !self.losses.is_overtaken_by((slots.end, asked_ns), slot, &transmission)
                || self.group_of(&transmission).is_some_and(|of| of != group)
            {
                continue;
            }
            self.flight.decide(slot, Fate::Lost);
            self.lose(now_ns, &transmission);
        }
        self.detect_losses(now_ns);
    }

    pub(super) fn note_question(&mut self, now_ns: u64) {
        self.losses.asking_since_ns.get_or_insert(now_ns);
    }

    fn group_of(&self, transmission: &Transmission) -> Option<u8> {
        let message = self.ledger.message(self.current(transmission)?);
        Some(self.groups[usize::from(message.group)].config.group)
    }

    /// Calls lost what counts as lost by now.
    pub(super) fn detect_losses(&mut self, now_ns: u64) {
        let mut timed_out_ns = None;
        while let Some((slot, transmission)) = self.flight.first_open() {
            let overtaken = self.losses.is_overtaken(slot, &transmission);
            // Sent in order, so whoever follows a transmission that isn't lost isn't lost either.
            if !overtaken && self.losses.deadline_ns(&transmission) > now_ns {
                break;
            }
            if !overtaken && timed_out_ns.is_none() {
                timed_out_ns = Some(transmission.departs_ns);
            }
            self.flight.decide(slot, Fate::Lost);
            self.lose(now_ns, &transmission);
        }
        if let Some(sent_ns) = timed_out_ns {
            self.losses.unheard(sent_ns);
        }
        let keep_ns = 2 * self.losses.base_timeout_ns();
        let crowded = self.flight.span() > self.config.window_packets() / 2;
        self.flight.reclaim(|lost| crowded || lost.departs_ns.saturating_add(keep_ns) <= now_ns);
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
        let key = self.ledger.key(transmission.message)?;
        (self.ledger.message(key).round == transmission.round).then_some(key)
    }

    /// When the oldest open transmission counts as lost, if nothing is heard.
    pub(super) fn loss_timeout_ns(&self) -> Option<u64> {
        let (_, transmission) = self.flight.peek_open()?;
        Some(self.losses.deadline_ns(transmission)).filter(|at_ns| *at_ns != u64::MAX)
    }

    /// Fails the job if the peer has been silent for too long.
    pub(super) fn give_up_if_silent(&mut self, now_ns: u64) {
        if matches!(self.state, State::Done | State::Failed(_)) {
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
