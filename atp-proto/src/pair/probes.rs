//! Packets without ACKs of their own: what a daemon's programs and their library do about them at
//! both hosts. The programs themselves are tested in the kernel.

use super::Scenario;
use crate::{AckRing, Packet, Sender, flow::Probers};
use atp_common::{
    maps::{
        ANSWER_WORDS,
        ack_ring::{self, SLOTS_PER_WORD},
        arrivals::{self, Arrivals, Run},
    },
    wire::{Flags, HEADER_LEN, Header, PROBE_LEN, PROBE_WORDS, ProbeBody},
};
use std::{cell::Cell, collections::BTreeMap};

/// How long a group's packets have ACKs of their own, or have none: a lane's rate changes.
const NO_ACK_NS: u64 = 20_000_000;
/// The length of an epoch.
const EPOCH_NS: u64 = 1_000_000;

/// The ring of a flow's ACKs, which the sending host's programs write.
pub struct Ring(Vec<Cell<u64>>);

impl Ring {
    pub fn new(words: u32) -> Self {
        Self(vec![Cell::new(0); words as usize])
    }

    /// Writes the delivery bits of the slots from `slot` on.
    pub fn merge(&self, slot: u32, bits: u32) {
        let word = &self.0[ack_ring::position(slot, self.0.len() as u32) as usize];
        word.set(ack_ring::merged(word.get(), slot, bits).unwrap_or(word.get()));
    }
}

impl AckRing for Ring {
    fn word(&self, position: u32) -> u64 {
        self.0[position as usize].get()
    }
}

const fn answer_word(number: u32) -> usize {
    (number % ANSWER_WORDS) as usize
}

/// The sending host's probes.
pub struct Probing {
    probers: Probers,
    /// The ring's words for answers: at a number's place, the number plus 1.
    answered: [u32; ANSWER_WORDS as usize],
    timeout_ns: u64,
}

impl Probing {
    pub fn new(scenario: &Scenario) -> Self {
        let config = &scenario.sender;
        let groups = config.groups.iter().map(|group| group.group);
        Self {
            probers: Probers::new(config.job, config.cookie, groups),
            answered: [0; ANSWER_WORDS as usize],
            timeout_ns: config.timer_granularity_ns,
        }
    }

    /// Takes in the answer to a probe, as the programs do.
    pub fn on_answer(&mut self, ring: &Ring, header: &Header, body: &[u8]) {
        let Some(body) = ProbeBody::parse(body) else { return };
        for word in 0..PROBE_WORDS {
            ring.merge(header.slot().wrapping_add(word as u32 * SLOTS_PER_WORD), body.word(word));
        }
        self.answered[answer_word(header.index())] = header.index() + 1;
    }

    /// Reads the ring after the answers, as the library does, so that it holds the bits of each.
    pub fn read(&mut self, now_ns: u64, sender: &mut Sender, ring: &Ring) {
        let answered = &self.answered;
        let is_answered = |number| answered[answer_word(number)] == number + 1;
        let answers = self.probers.take_answered(now_ns, |_| self.timeout_ns, is_answered);
        sender.scan_acks(now_ns, ring);
        for (group, probe) in answers {
            sender.probe_answered(now_ns, group, probe.slots, probe.left_ns);
        }
    }

    /// Draws the groups whose packets have no ACKs of their own for now.
    pub fn set_no_ack(&self, now_ns: u64, sender: &mut Sender, scenario: &Scenario) {
        for group in &scenario.sender.groups {
            let drawn = (scenario.seed ^ u64::from(group.group) << 20 ^ (now_ns / NO_ACK_NS))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            sender.set_no_ack(group.group, drawn >> 62 > 0);
        }
    }

    /// Completes the header of a packet that leaves at `departs_ns`.
    pub fn depart(&mut self, departs_ns: u64, header: &mut Header) {
        let epoch = (departs_ns / EPOCH_NS) as u16;
        match header.flags().contains(Flags::NO_ACK) {
            true => header.set_no_ack(epoch),
            false => header.stamp(epoch, departs_ns),
        }
    }

    /// Notes a packet that is to leave.
    pub fn sent(&mut self, packet: &Packet) {
        if packet.header.flags().contains(Flags::NO_ACK) {
            self.probers.sent(packet.header.group(), packet.header.slot());
        }
    }

    /// Takes back a packet that didn't leave.
    pub fn take_back(&mut self, packet: &Packet) {
        if packet.header.flags().contains(Flags::NO_ACK) {
            self.probers.take_back(packet.header.group(), packet.header.slot());
        }
    }

    /// The next probe, if one is due. `leaves_ns`: when it leaves; `left`: whether the socket takes
    /// it.
    pub fn next(
        &mut self,
        now_ns: u64,
        leaves_ns: u64,
        sender: &mut Sender,
        left: bool,
    ) -> Option<[u8; PROBE_LEN]> {
        let backlog_ns = |_| leaves_ns - now_ns;
        let oldest = |group| sender.oldest_in_flight(group);
        let (group, packet) = self.probers.next_probe(now_ns, backlog_ns, oldest)?;
        if !left {
            self.probers.take_back_probe(group);
            return None;
        }
        sender.probe_sent(leaves_ns, group);
        Some(packet)
    }
}

/// The arrivals of packets without ACKs of their own, which the receiving host's programs record.
#[derive(Default)]
pub struct Recorded(BTreeMap<u8, Arrivals>);

impl Recorded {
    /// Records a packet.
    pub fn record(&mut self, header: &Header, marked: bool) {
        let run = Run { slot: header.slot(), packets: 1, epoch: header.epoch(), marked };
        arrivals::record(self.0.entry(header.group()).or_default(), &run);
    }

    /// The answer to a probe.
    pub fn answer(&self, probe: &Header) -> Vec<u8> {
        let arrived = self.0.get(&probe.group());
        let body = arrived.map(|arrived| arrivals::answer(arrived, probe.slot()));
        let mut answer = Vec::with_capacity(PROBE_LEN);
        answer.extend_from_slice(probe.into_probe_ack().as_bytes());
        answer.extend_from_slice(body.unwrap_or_default().as_bytes());
        assert_eq!(answer.len(), PROBE_LEN, "a probe's length, {HEADER_LEN} of its header");
        answer
    }
}
