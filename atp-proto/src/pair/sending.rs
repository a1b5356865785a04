//! The sending host: the work of its library and kernel around the job.

use super::{
    Acks, Scenario,
    application::Application,
    probes::{Probing, Ring},
};
use crate::{
    EndedWindow, MessageId, Pace, Packet, Sender, State,
    flow::{Clock, Job, LaneSettings, Lanes},
};
use atp_common::{
    laws::{RateLaw, Rules, rtt::Rtt},
    maps::ack_ring::SLOTS_PER_WORD,
    units::Rate,
    wire::{HEADER_LEN, Header, Kind, arrival, member_header},
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};

/// The bytes of the headers of IPv4 and UDP.
const OVERHEAD_BYTES: u32 = 28;
/// The bytes of Ethernet's header. Lanes count it.
const LINK_HEADER_BYTES: u32 = 14;

pub struct SendingHost {
    pub job: Job<Vec<u8>>,
    pub application: Application,
    ring: Ring,
    rtt: Rtt,
    /// The lanes, if the library paces them.
    lanes: Option<Lanes>,
    /// By group: when its first packet left, and the bytes that left since.
    paced: BTreeMap<u8, (u64, u64)>,
    /// Whether a daemon's programs take in the ACKs, and write them to the ring.
    has_ring: bool,
    /// Packets without ACKs of their own, if there are any.
    probing: Option<Probing>,
    /// Data of queued messages that is still needed.
    buffer: BTreeMap<MessageId, Vec<u8>>,
    /// When the first message of each window was queued.
    pub began_ns: BTreeMap<u32, u64>,
    /// Windows that began before the last one had ended.
    pub begun_beside: u32,
    wire_free_ns: u64,
    refused: bool,
    released: BTreeSet<MessageId>,
}

impl SendingHost {
    pub fn new(scenario: &Scenario) -> Self {
        assert!(scenario.law.is_none() || scenario.acks == Acks::Library, "nobody counts ACKs");
        Self {
            job: Job::new(
                Sender::new(scenario.sender.clone()).unwrap(),
                scenario.window_deadline_ns,
            ),
            application: Application::new(scenario),
            ring: Ring::new(scenario.sender.ack_ring_words),
            rtt: Rtt::default(),
            paced: BTreeMap::new(),
            lanes: scenario
                .law
                .map(|law| Lanes::new(settings(scenario, law), &scenario.sender.groups, None, 0)),
            has_ring: scenario.acks == Acks::Kernel || scenario.probes,
            probing: scenario.probes.then(|| Probing::new(scenario)),
            buffer: BTreeMap::new(),
            began_ns: BTreeMap::new(),
            begun_beside: 0,
            wire_free_ns: 0,
            refused: false,
            released: BTreeSet::new(),
        }
    }

    /// Takes in a packet of the network.
    pub fn arrive(&mut self, now_ns: u64, payload: &[u8]) {
        let Ok((header, kind)) = Header::parse(payload) else {
            return assert!(self.job.sender.on_packet(now_ns, payload).is_err());
        };
        if kind == Kind::Ack {
            if let Some(age_ns) = header.age_ns(now_ns) {
                self.rtt = self.rtt.observe(age_ns);
            }
            if self.has_ring {
                return self.ring.merge(header.slot(), 1 << (header.slot() % SLOTS_PER_WORD));
            }
        }
        if kind == Kind::ProbeAck
            && let Some(probing) = &mut self.probing
        {
            return probing.on_answer(&self.ring, &header, &payload[HEADER_LEN..]);
        }
        let refused = self.job.sender.on_packet(now_ns, payload);
        assert_eq!(refused, Ok(()), "{header:?}");
        if kind == Kind::Ack
            && let Some(lanes) = &mut self.lanes
        {
            lanes.on_ack(now_ns, &header, arrival(&payload[HEADER_LEN..]));
        }
    }

    /// Does everything that the library does when it wakes up, and the application with it. Returns
    /// the sent packets with their times of departure, and the windows that have ended.
    pub fn work(
        &mut self,
        now_ns: u64,
        scenario: &Scenario,
        rng: &mut ChaCha8Rng,
    ) -> (Vec<(u64, Vec<u8>)>, Vec<EndedWindow>) {
        let (mut sent, mut ended) = (vec![], vec![]);
        loop {
            self.release();
            self.application.act(now_ns, scenario, &mut self.job);
            self.work_on_windows(now_ns);
            let before = self.tell_events(&mut ended);
            assert!(self.application.has_answers(), "a change of a rate has no answer");
            self.set_paces(now_ns, scenario);
            let sender = &mut self.job.sender;
            if let Some(probing) = &mut self.probing {
                probing.read(now_ns, sender, &self.ring);
                probing.set_no_ack(now_ns, sender, scenario);
            } else if self.has_ring {
                sender.scan_acks(now_ns, &self.ring);
            }
            self.job.sender.handle_timeout(now_ns);
            self.send(now_ns, scenario, rng, &mut sent);
            self.job.report_ends();
            let after = self.tell_events(&mut ended);
            let goes_on = before + after > 0 || self.job.is_runnable();
            if !goes_on || self.job.outcome().is_some() {
                self.release();
                return (sent, ended);
            }
        }
    }

    /// Lets the job go on, and checks that every message is queued in its window, or not needed.
    fn work_on_windows(&mut self, now_ns: u64) {
        let Self { job, application, buffer, began_ns, .. } = self;
        let window = job.sender.window();
        let mut refused = false;
        job.work(now_ns, |id, data| match id {
            Some(id) => {
                began_ns.entry(id.window).or_insert(now_ns);
                assert_eq!(buffer.insert(id, data), None);
            }
            None => {
                refused = true;
                application.released(&data);
            }
        });
        let has_begun = job.sender.window() != window;
        assert!(!refused || has_begun || *job.sender.state() != State::Open, "it was needed");
        self.begun_beside += u32::from(has_begun && job.sender.closing_window().is_some());
        let deadline_ns = self.job.next_deadline_ns();
        assert!(deadline_ns.is_none_or(|at_ns| at_ns > now_ns), "a window goes on after its time");
    }

    /// Tells the application the job's events, and returns their number.
    fn tell_events(&mut self, ended: &mut Vec<EndedWindow>) -> usize {
        let mut number = 0;
        while let Some(event) = self.job.next_event() {
            ended.extend(self.application.on_event(event));
            number += 1;
        }
        number
    }

    fn send(
        &mut self,
        now_ns: u64,
        scenario: &Scenario,
        rng: &mut ChaCha8Rng,
        sent: &mut Vec<(u64, Vec<u8>)>,
    ) {
        let leaves_ns = self.wire_free_ns.max(now_ns);
        if let Some(probing) = &mut self.probing
            && let left = !rng.random_bool(scenario.refuse)
            && let Some(probe) = probing.next(now_ns, leaves_ns, &mut self.job.sender, left)
        {
            self.wire_free_ns = leaves_ns + scenario.wire_ns;
            sent.push((leaves_ns, probe.to_vec()));
        }
        // The library keeps four packets in the host's queue.
        while self.wire_free_ns <= now_ns + 4 * scenario.wire_ns {
            let lanes = self.lanes.as_ref();
            let may_send =
                |group| lanes.is_none_or(|lanes| lanes.hold_until(group, now_ns).is_none());
            let Some(mut packet) = self.job.sender.next_packet_of(now_ns, may_send) else {
                if self.job.sender.is_full() && self.job.sender.waits_for_acks() {
                    self.job.note_full();
                }
                break;
            };
            let payload_bytes = packet.len + HEADER_LEN as u32;
            if let Some(lanes) = &mut self.lanes {
                lanes.depart(now_ns, &mut packet.header, payload_bytes);
            }
            if let Some(probing) = &mut self.probing {
                probing.sent(&packet);
            }
            self.refused = rng.random_bool(scenario.refuse);
            if self.refused {
                if let Some(lanes) = &mut self.lanes {
                    lanes.take_back(&packet.header, payload_bytes);
                }
                if let Some(probing) = &mut self.probing {
                    probing.take_back(&packet);
                }
                self.job.sender.take_back(&packet);
                break;
            }
            self.check_pacing(now_ns, scenario, &packet);
            sent.push(self.depart(now_ns, scenario, &packet));
        }
        let mut out = [0; 524];
        while let Some(len) = self.job.sender.next_control(now_ns, &mut out) {
            sent.push((self.wire_free_ns.max(now_ns), out[..len].to_vec()));
        }
    }

    /// A lane sends no more than Rmax allows since its first packet, and what may leave early: the
    /// pacer's 120 us, and what uneven gaps add up to. Each is 0.17 packets off on average.
    fn check_pacing(&mut self, now_ns: u64, scenario: &Scenario, packet: &Packet) {
        let (Some(lanes), Some(law)) = (&self.lanes, scenario.law) else { return };
        let settings = settings(scenario, law);
        let group = packet.header.group();
        let status = lanes.status(group);
        assert!(status.rate_bytes_per_s <= settings.rate_max.bytes_per_s(), "{status:?}");
        let (began_ns, bytes) = self.paced.entry(group).or_insert((now_ns, 0));
        *bytes += u64::from(packet.len + HEADER_LEN as u32 + OVERHEAD_BYTES + LINK_HEADER_BYTES);
        let allowed = settings.rate_max.bytes_in(now_ns - *began_ns + 120_000);
        let packet_bytes = u64::from(settings.packet_bytes());
        let packets = 4 + 2 * (*bytes / packet_bytes).isqrt();
        assert!(
            *bytes <= allowed + packets * packet_bytes,
            "{bytes} bytes of group {group} left, {allowed} may"
        );
    }

    /// Runs the lanes' laws, or does what a daemon tells.
    fn set_paces(&mut self, now_ns: u64, scenario: &Scenario) {
        let backlog_ns = self.wire_free_ns.saturating_sub(now_ns);
        if let Some(lanes) = &mut self.lanes {
            let clock = Clock { now_ns, shared_ns: now_ns };
            let _ = lanes.tick(clock, &mut self.job.sender, |_, own| own);
            return lanes.set_paces(&mut self.job.sender, backlog_ns);
        }
        for group in &scenario.sender.groups {
            self.job
                .sender
                .set_pace(group.group, Pace { rtt: self.rtt, backlog_ns, ..Pace::default() });
        }
    }

    fn depart(&mut self, now_ns: u64, scenario: &Scenario, packet: &Packet) -> (u64, Vec<u8>) {
        let departs_ns = self.wire_free_ns.max(now_ns);
        self.wire_free_ns = departs_ns + scenario.wire_ns;
        let mut header = packet.header;
        match &mut self.probing {
            Some(probing) => probing.depart(departs_ns, &mut header),
            None if self.lanes.is_none() => header.stamp(0, departs_ns),
            None => {}
        }
        let (from, to) = (packet.offset as usize, (packet.offset + packet.len) as usize);
        let mut payload = header.as_bytes().to_vec();
        if packet.is_packed() {
            for member in self.job.sender.packed_messages(packet) {
                payload.extend_from_slice(&member_header(member.message.id, member.len));
                payload.extend_from_slice(&self.buffer[&member.message]);
            }
            assert_eq!(payload.len(), HEADER_LEN + packet.len as usize);
            assert!(packet.len <= self.job.sender.config().payload_bytes_max);
            // Padding, as in a GSO buffer.
            payload.resize(payload.len() + (header.slot() % 4) as usize, 0x55);
        } else {
            payload.extend_from_slice(&self.buffer[&packet.message][from..to]);
        }
        (departs_ns, payload)
    }

    fn release(&mut self) {
        for id in self.job.sender.released() {
            assert!(self.released.insert(id), "message {id:?} was released twice");
            self.application.released(&self.buffer.remove(&id).expect("it was queued"));
        }
    }

    /// When [`SendingHost::work`] is due again.
    pub fn next_ns(&self, now_ns: u64, scenario: &Scenario) -> Option<u64> {
        // It polls the ring regularly, as the library does.
        let busy = self.job.sender.in_flight() > 0 || self.wire_free_ns > now_ns || self.refused;
        let wire = busy.then_some(now_ns + (4 * scenario.wire_ns).max(100_000));
        let release_ns = self.lanes.as_ref().and_then(|lanes| lanes.next_release(now_ns));
        let application = self.application.next_ns(now_ns, scenario);
        let deadline = self.job.next_deadline_ns();
        let due = [application, wire, release_ns, deadline, self.job.sender.poll_timeout()];
        due.into_iter().flatten().min()
    }

    /// The number of messages whose data the application still holds.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// The same, of one window.
    pub fn buffered_of(&self, window: u32) -> usize {
        self.buffer.keys().filter(|id| id.window == window).count()
    }
}

/// Lanes at most half as fast as the host's wire, so that the pacer holds packets back.
fn settings(scenario: &Scenario, law: RateLaw) -> LaneSettings {
    let payload_bytes = scenario.sender.payload_bytes_max + HEADER_LEN as u32;
    let packet_bytes = u64::from(payload_bytes + OVERHEAD_BYTES + LINK_HEADER_BYTES);
    LaneSettings {
        rate_max: Rate::from_bytes_per_s(packet_bytes * 500_000_000 / scenario.wire_ns),
        rules: Some(Rules::new(law)),
        payload_bytes,
        overhead_bytes: OVERHEAD_BYTES,
        first_window: scenario.sender.initial_window_packets > 0,
    }
}
