//! The sending host: the work of its library and kernel around the state machine.

use super::{
    Acks, Scenario,
    probes::{Probing, Ring},
};
use crate::{
    MessageId, MsrError, Pace, Packet, QueueError, Sender, State,
    flow::{Clock, LaneSettings, Lanes},
};
use atp_common::{
    laws::{RateLaw, Rules, rtt::Rtt},
    maps::ack_ring::SLOTS_PER_WORD,
    units::Rate,
    wire::{HEADER_LEN, Header, Kind, arrival, member_header},
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Of IPv4 and UDP.
const OVERHEAD_BYTES: u32 = 28;
/// Of Ethernet. Lanes count it.
const LINK_HEADER_BYTES: u32 = 14;

/// The bytes of one message. No two messages and no two packets are alike.
pub fn content(window: u32, group: u8, message: u32, len: u32) -> Vec<u8> {
    let own = window.wrapping_mul(77) ^ u32::from(group) << 5 ^ message.wrapping_mul(31);
    (0..len).map(|i| (own ^ i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

pub struct SendingHost {
    pub sender: Sender,
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
    /// Messages of this window that are still to be queued.
    unqueued: VecDeque<(u8, u32)>,
    /// Data of queued messages that is still needed.
    buffer: BTreeMap<MessageId, Vec<u8>>,
    next_queue_ns: u64,
    finished: bool,
    began_ns: u64,
    /// The same, of the window before.
    closing_began_ns: u64,
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
            sender: Sender::new(scenario.sender.clone()).unwrap(),
            ring: Ring::new(scenario.sender.ack_ring_words),
            rtt: Rtt::default(),
            paced: BTreeMap::new(),
            lanes: scenario
                .law
                .map(|law| Lanes::new(settings(scenario, law), &scenario.sender.groups, None, 0)),
            has_ring: scenario.acks == Acks::Kernel || scenario.probes,
            probing: scenario.probes.then(|| Probing::new(scenario)),
            unqueued: scenario.windows[0].messages.iter().copied().collect(),
            buffer: BTreeMap::new(),
            next_queue_ns: 0,
            finished: false,
            began_ns: 0,
            closing_began_ns: 0,
            begun_beside: 0,
            wire_free_ns: 0,
            refused: false,
            released: BTreeSet::new(),
        }
    }

    /// Takes in a packet of the network.
    pub fn arrive(&mut self, now_ns: u64, payload: &[u8]) {
        let Ok((header, kind)) = Header::parse(payload) else {
            return assert!(self.sender.on_packet(now_ns, payload).is_err());
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
        let refused = self.sender.on_packet(now_ns, payload);
        assert_eq!(refused, Ok(()), "{header:?}");
        if kind == Kind::Ack
            && let Some(lanes) = &mut self.lanes
        {
            lanes.on_ack(now_ns, &header, arrival(&payload[HEADER_LEN..]));
        }
    }

    /// Does everything that the library does when it wakes up. Returns the sent packets with their
    /// times of departure.
    pub fn work(
        &mut self,
        now_ns: u64,
        scenario: &Scenario,
        rng: &mut ChaCha8Rng,
    ) -> Vec<(u64, Vec<u8>)> {
        self.set_paces(now_ns, scenario);
        if let Some(probing) = &mut self.probing {
            probing.read(now_ns, &mut self.sender, &self.ring);
            probing.set_no_ack(now_ns, &mut self.sender, scenario);
        } else if self.has_ring {
            self.sender.scan_acks(now_ns, &self.ring);
        }
        self.sender.handle_timeout(now_ns);
        self.change_msr(now_ns, scenario);
        self.queue(now_ns, scenario);
        while self.begins_beside(now_ns, scenario) {
            self.queue(now_ns, scenario);
        }
        self.end_in_time(now_ns, scenario);
        let mut sent = vec![];
        let leaves_ns = self.wire_free_ns.max(now_ns);
        if let Some(probing) = &mut self.probing
            && let Some(probe) =
                probing.next(now_ns, leaves_ns, &mut self.sender, !rng.random_bool(scenario.refuse))
        {
            self.wire_free_ns = leaves_ns + scenario.wire_ns;
            sent.push((leaves_ns, probe.to_vec()));
        }
        // The library keeps four packets in the host's queue.
        while self.wire_free_ns <= now_ns + 4 * scenario.wire_ns {
            let lanes = self.lanes.as_ref();
            let may_send =
                |group| lanes.is_none_or(|lanes| lanes.hold_until(group, now_ns).is_none());
            let Some(mut packet) = self.sender.next_packet_of(now_ns, may_send) else { break };
            let payload_bytes = packet.len + HEADER_LEN as u32;
            if let Some(lanes) = &mut self.lanes {
                lanes.depart(now_ns, &mut packet.header, payload_bytes);
            }
            if let Some(probing) = &mut self.probing {
                probing.sent(&packet);
            }
            self.refused = rng.random_bool(scenario.refuse);
            if self.refused {
                if let Some(probing) = &mut self.probing {
                    probing.take_back(&packet);
                }
                if let Some(lanes) = &mut self.lanes {
                    lanes.take_back(&packet.header, payload_bytes);
                }
                self.sender.take_back(&packet);
                break;
            }
            self.check_pacing(now_ns, scenario, &packet);
            sent.push(self.depart(now_ns, scenario, &packet));
        }
        let mut out = [0; 524];
        while let Some(len) = self.sender.next_control(now_ns, &mut out) {
            sent.push((self.wire_free_ns.max(now_ns), out[..len].to_vec()));
        }
        self.release();
        sent
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
            let _ = lanes.tick(clock, &mut self.sender, |_, own| own);
            return lanes.set_paces(&mut self.sender, backlog_ns);
        }
        for group in &scenario.sender.groups {
            self.sender
                .set_pace(group.group, Pace { rtt: self.rtt, backlog_ns, ..Pace::default() });
        }
    }

    fn queue(&mut self, now_ns: u64, scenario: &Scenario) {
        while now_ns >= self.next_queue_ns
            && let Some(&(group, len)) = self.unqueued.front()
        {
            match self.sender.queue(group, len) {
                Ok(id) => {
                    let data = content(self.sender.window(), id.group, id.id, len);
                    assert_eq!(self.buffer.insert(id, data), None);
                }
                Err(QueueError::Full) => return,
                Err(QueueError::Complete | QueueError::Failed) => return self.unqueued.clear(),
                Err(error) => panic!("{error}"),
            }
            self.unqueued.pop_front();
            self.next_queue_ns = now_ns + scenario.queue_pause_ns;
        }
        if self.unqueued.is_empty() && !self.finished {
            self.finished = true;
            match self.sender.window() as usize + 1 < scenario.windows.len() {
                true => self.sender.finish_window(),
                false => self.sender.finish(),
            }
        }
    }

    /// Begins the next window if it may begin before the present one has ended.
    fn begins_beside(&mut self, now_ns: u64, scenario: &Scenario) -> bool {
        let has_next = self.sender.window() as usize + 1 < scenario.windows.len();
        let is_open = *self.sender.state() == State::Finishing && self.finished;
        if !(has_next && is_open && self.sender.can_begin_window()) {
            return false;
        }
        self.closing_began_ns = self.began_ns;
        self.begun_beside += 1;
        self.begin_window(now_ns, scenario)
    }

    fn change_msr(&mut self, now_ns: u64, scenario: &Scenario) {
        for change in &scenario.msr_changes {
            let now = self.sender.config().groups.iter().find(|g| g.group == change.group).unwrap();
            if change.at_ns <= now_ns && now.msr != change.msr {
                match self.sender.set_msr(change.group, change.msr) {
                    Ok(()) | Err(MsrError::Ending) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    fn deadline_ns(&self, scenario: &Scenario) -> Option<u64> {
        let window = scenario.windows.get(self.sender.window() as usize)?;
        Some(self.began_ns + window.deadline_ns?)
    }

    /// The deadline of the window before the present one, if it is open.
    fn closing_deadline_ns(&self, scenario: &Scenario) -> Option<u64> {
        let number = self.sender.closing_window()?;
        Some(self.closing_began_ns + scenario.windows[number as usize].deadline_ns?)
    }

    fn end_in_time(&mut self, now_ns: u64, scenario: &Scenario) {
        if self.deadline_ns(scenario).is_some_and(|at_ns| at_ns <= now_ns) {
            self.unqueued.clear();
            self.sender.end_now();
        }
        if self.closing_deadline_ns(scenario).is_some_and(|at_ns| at_ns <= now_ns) {
            self.sender.end_closing_now();
        }
    }

    /// Begins the next window; `false` if the last one has ended.
    pub fn begin_window(&mut self, now_ns: u64, scenario: &Scenario) -> bool {
        let next = self.sender.window() as usize + 1;
        if self.sender.report().ended_by_receiver {
            return self.end_with_nothing(now_ns);
        }
        let Some(window) = scenario.windows.get(next) else { return self.end_with_nothing(now_ns) };
        let begun = self.sender.begin_window(|group| {
            let number = window.messages.iter().filter(|message| message.0 == group.group).count();
            let known = group.total.is_some().then_some(number as u32);
            (known, scenario.windows[next - 1].messages.len() as u32)
        });
        assert!(begun, "the next window doesn't begin");
        self.unqueued = window.messages.iter().copied().collect();
        (self.finished, self.began_ns) = (false, now_ns);
        true
    }

    /// Ends the stream with an empty window, if the last one ended before it was known to be the
    /// last.
    fn end_with_nothing(&mut self, now_ns: u64) -> bool {
        if self.sender.is_last_window() {
            return false;
        }
        assert!(self.sender.begin_window(|_| (Some(0), 0)));
        self.sender.finish();
        // The last window may have had enough before all of its messages were queued.
        self.unqueued.clear();
        (self.finished, self.began_ns) = (true, now_ns);
        true
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
            for member in self.sender.packed_messages(packet) {
                payload.extend_from_slice(&member_header(member.message.id, member.len));
                payload.extend_from_slice(&self.buffer[&member.message]);
            }
            assert_eq!(payload.len(), HEADER_LEN + packet.len as usize);
            assert!(packet.len <= self.sender.config().payload_bytes_max);
            // Padding, as in a GSO buffer.
            payload.resize(payload.len() + (header.slot() % 4) as usize, 0x55);
        } else {
            payload.extend_from_slice(&self.buffer[&packet.message][from..to]);
        }
        (departs_ns, payload)
    }

    fn release(&mut self) {
        for id in self.sender.released() {
            assert!(self.released.insert(id), "message {id:?} was released twice");
            assert!(self.buffer.remove(&id).is_some());
        }
    }

    /// When [`SendingHost::work`] is due again.
    pub fn next_ns(&self, now_ns: u64, scenario: &Scenario) -> Option<u64> {
        let queue = (!self.unqueued.is_empty() && self.next_queue_ns > now_ns)
            .then_some(self.next_queue_ns);
        // It polls the ring regularly, as the library does.
        let busy = self.sender.in_flight() > 0 || self.wire_free_ns > now_ns || self.refused;
        let wire = busy.then_some(now_ns + (4 * scenario.wire_ns).max(100_000));
        let release_ns = self.lanes.as_ref().and_then(|lanes| lanes.next_release(now_ns));
        let deadline = self.deadline_ns(scenario).filter(|_| !self.sender.has_ended());
        let deadline = deadline.into_iter().chain(self.closing_deadline_ns(scenario));
        let deadline = deadline.filter(|at_ns| *at_ns > now_ns).min();
        let due = [queue, wire, release_ns, deadline, self.sender.poll_timeout()];
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
