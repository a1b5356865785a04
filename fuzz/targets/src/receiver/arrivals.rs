//! Compares the record of arrived NO_ACK packets, lane by lane, with a simple model.

use atp_common::{
    maps::arrivals::{self, ARRIVAL_WORDS, Arrivals, Run},
    wire::{HEADER_LEN, Header, Kind, PROBE_EPOCHS, PROBE_WORDS, ProbeBody, probe_packet},
};
use std::collections::BTreeMap;

/// One sender's lanes, by group.
#[derive(Default)]
pub struct Lanes(BTreeMap<u8, Lane>);

#[derive(Default)]
struct Lane {
    arrivals: Box<Arrivals>,
    /// Delivery bits by the number of the 32 slots.
    words: BTreeMap<u32, u32>,
    /// The number of packets by epoch.
    epochs: BTreeMap<u16, u32>,
}

impl Lanes {
    /// Records an accepted packet.
    pub fn record(&mut self, header: &Header) {
        self.0.entry(header.group()).or_default().record(header);
    }

    /// Answers a PROBE through its packets, and checks the answer.
    pub fn answer(&self, probe: &Header) {
        let mut packet = probe_packet(probe);
        let (probe, kind) = Header::parse(&packet).expect("a PROBE is well-formed");
        assert_eq!(kind, Kind::Probe);
        packet[..HEADER_LEN].copy_from_slice(probe.into_probe_ack().as_bytes());
        let lane = self.0.get(&probe.group());
        let body = lane.map(|lane| arrivals::answer(&*lane.arrivals, probe.slot()));
        packet[HEADER_LEN..].copy_from_slice(body.unwrap_or_default().as_bytes());
        let (answer, kind) = Header::parse(&packet).expect("so is its answer");
        assert_eq!((kind, answer.slot()), (Kind::ProbeAck, probe.slot()));
        let body = ProbeBody::parse(&packet[HEADER_LEN..]).expect("of the right length");
        match lane {
            Some(lane) => lane.check(probe.slot(), &body),
            None => assert_eq!(body, ProbeBody::default()),
        }
    }
}

impl Lane {
    fn record(&mut self, header: &Header) {
        let slot = header.slot();
        let marked = slot.is_multiple_of(3);
        let run = Run { slot, packets: 1, epoch: header.epoch(), marked };
        let new = arrivals::record(&mut *self.arrivals, &run);
        let (number, bit) = (slot / 32, 1 << (slot % 32));
        let known = self.words.get(&number).is_some_and(|bits| bits & bit != 0);
        assert!(new == 1 || known || self.is_contested(number), "slot {slot} was not recorded");
        if new == 1 {
            assert!(!known || self.is_contested(number), "slot {slot} was new twice");
            *self.words.entry(number).or_default() |= bit;
            *self.epochs.entry(header.epoch()).or_default() += 1;
        }
    }

    /// Whether another lap used the same word of the ring.
    fn is_contested(&self, number: u32) -> bool {
        let others = self.words.keys().filter(|&&other| other != number);
        others.into_iter().any(|other| other % ARRIVAL_WORDS == number % ARRIVAL_WORDS)
    }

    fn check(&self, first: u32, body: &ProbeBody) {
        for at in 0..PROBE_WORDS {
            let number = first.wrapping_add(at as u32 * 32) / 32;
            let (named, true_bits) =
                (body.word(at), self.words.get(&number).copied().unwrap_or_default());
            assert_eq!(named & !true_bits, 0, "slots that did not arrive, from {}", number * 32);
            assert!(
                named == true_bits || self.is_contested(number),
                "{named:x}, not {true_bits:x}"
            );
        }
        for count in (0..PROBE_EPOCHS).filter_map(|at| body.epoch(at)) {
            let arrived = self.epochs.get(&count.epoch).copied().unwrap_or_default();
            assert!(count.arrived <= arrived && count.marked <= count.arrived, "{count:?}");
        }
    }
}
