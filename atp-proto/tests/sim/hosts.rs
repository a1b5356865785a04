//! The two hosts: what the kernels would do around the state machines, and what the applications
//! check.

use super::{Acks, Scenario};
use atp_common::{
    laws::rtt::Rtt,
    maps::ack_ring,
    wire::{FinBody, HEADER_LEN, Header, Kind},
};
use atp_proto::{
    AckRing, DropReason, MessageId, Outcome, Pace, Packet, QueueError, Receiver, Sender,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

/// The bytes of one message: no two alike, no two packets alike.
pub fn content(message: u32, len: u32) -> Vec<u8> {
    (0..len)
        .map(|i| (message.wrapping_mul(31) ^ i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

pub struct Ring(Vec<Cell<u64>>);

impl AckRing for Ring {
    fn word(&self, position: u32) -> u64 {
        self.0[position as usize].get()
    }
}

pub struct SendingHost {
    pub sender: Sender,
    ring: Ring,
    rtt: Rtt,
    acks: Acks,
    /// Messages yet to be queued, and queued ones whose data is still needed.
    unqueued: VecDeque<(u8, u32)>,
    buffer: BTreeMap<u32, Vec<u8>>,
    next_queue_ns: u64,
    finished: bool,
    wire_free_ns: u64,
    refused: bool,
    released: BTreeSet<u32>,
}

impl SendingHost {
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            sender: Sender::new(scenario.sender.clone()).unwrap(),
            ring: Ring(vec![Cell::new(0); scenario.sender.ack_ring_words as usize]),
            rtt: Rtt::default(),
            acks: scenario.acks,
            unqueued: scenario.messages.iter().copied().collect(),
            buffer: BTreeMap::new(),
            next_queue_ns: 0,
            finished: false,
            wire_free_ns: 0,
            refused: false,
            released: BTreeSet::new(),
        }
    }

    /// What arrives from the network.
    pub fn arrive(&mut self, now_ns: u64, payload: &[u8]) {
        let (header, kind) = Header::parse(payload).unwrap();
        if kind == Kind::Ack {
            if let Some(age_ns) = header.age_ns(now_ns) {
                self.rtt = self.rtt.observe(age_ns);
            }
            if self.acks == Acks::Kernel {
                let slot = header.slot();
                let position = ack_ring::position(slot, self.ring.0.len() as u32);
                let word = &self.ring.0[position as usize];
                word.set(ack_ring::acknowledged(word.get(), slot).unwrap_or(word.get()));
                return;
            }
        }
        self.sender.on_packet(now_ns, payload).unwrap();
    }

    /// Everything that the library does when it wakes up. Returns what goes on the wire, with the
    /// time of departure.
    pub fn work(
        &mut self,
        now_ns: u64,
        scenario: &Scenario,
        rng: &mut ChaCha8Rng,
    ) -> Vec<(u64, Vec<u8>)> {
        let backlog_ns = self.wire_free_ns.saturating_sub(now_ns);
        self.sender.set_pace(Pace { rtt: self.rtt, backlog_ns });
        if self.acks == Acks::Kernel {
            self.sender.scan_acks(now_ns, &self.ring);
        }
        self.sender.handle_timeout(now_ns);
        self.queue(now_ns, scenario);
        let mut sent = vec![];
        // The library keeps four packets in the host's queue.
        while self.wire_free_ns <= now_ns + 4 * scenario.wire_ns {
            let Some(packet) = self.sender.next_packet(now_ns) else { break };
            self.refused = rng.random_bool(scenario.refuse);
            if self.refused {
                self.sender.unsent(&packet);
                break;
            }
            sent.push(self.depart(now_ns, scenario, &packet));
        }
        let mut out = [0; 1_056];
        while let Some(len) = self.sender.next_control(now_ns, &mut out) {
            sent.push((self.wire_free_ns.max(now_ns), out[..len].to_vec()));
        }
        self.release();
        sent
    }

    fn queue(&mut self, now_ns: u64, scenario: &Scenario) {
        while now_ns >= self.next_queue_ns
            && let Some(&(group, len)) = self.unqueued.front()
        {
            match self.sender.queue(group, len) {
                Ok(MessageId(id)) => assert_eq!(self.buffer.insert(id, content(id, len)), None),
                Err(QueueError::Full) => return,
                Err(QueueError::Complete | QueueError::Failed) => return self.unqueued.clear(),
                Err(error) => panic!("{error}"),
            }
            self.unqueued.pop_front();
            self.next_queue_ns = now_ns + scenario.queue_pause_ns;
        }
        if self.unqueued.is_empty() && !self.finished {
            self.finished = true;
            self.sender.finish();
        }
    }

    fn depart(&mut self, now_ns: u64, scenario: &Scenario, packet: &Packet) -> (u64, Vec<u8>) {
        let departs_ns = self.wire_free_ns.max(now_ns);
        self.wire_free_ns = departs_ns + scenario.wire_ns;
        let mut header = packet.header;
        header.stamp(0, departs_ns);
        let (from, to) = (packet.offset as usize, (packet.offset + packet.len) as usize);
        let mut payload = header.as_bytes().to_vec();
        payload.extend_from_slice(&self.buffer[&packet.message.0][from..to]);
        (departs_ns, payload)
    }

    fn release(&mut self) {
        for MessageId(id) in self.sender.released() {
            assert!(self.released.insert(id), "message {id} was released twice");
            assert!(self.buffer.remove(&id).is_some());
        }
    }

    /// When to work again.
    pub fn next_ns(&self, now_ns: u64, scenario: &Scenario) -> Option<u64> {
        let queue = (!self.unqueued.is_empty() && self.next_queue_ns > now_ns)
            .then_some(self.next_queue_ns);
        // Also polls the ring now and then, as the library does.
        let busy = self.sender.in_flight() > 0 || self.wire_free_ns > now_ns || self.refused;
        let wire = busy.then_some(now_ns + (4 * scenario.wire_ns).max(100_000));
        [queue, wire, self.sender.poll_timeout()].into_iter().flatten().min()
    }

    /// Messages whose data the application still holds.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }
}

pub struct ReceivingHost {
    pub receiver: Option<Receiver>,
    acks: Acks,
    socket: VecDeque<Vec<u8>>,
    /// What the application got, by id.
    pub got: BTreeMap<u32, u8>,
}

impl ReceivingHost {
    pub fn new(scenario: &Scenario) -> Self {
        Self { receiver: None, acks: scenario.acks, socket: VecDeque::new(), got: BTreeMap::new() }
    }

    /// The process dies and a new one takes the port.
    pub fn restart(&mut self) {
        self.receiver = None;
        self.socket.clear();
        self.got.clear();
    }

    /// What the kernel does with an arrival: acknowledges, then looks for room.
    pub fn arrive(&mut self, scenario: &Scenario, payload: Vec<u8>) -> Option<Vec<u8>> {
        let (header, kind) = Header::parse(&payload).unwrap();
        if self.socket.len() < scenario.socket_packets {
            self.socket.push_back(payload);
        }
        let acknowledges = self.acks == Acks::Kernel && kind == Kind::Data;
        acknowledges.then(|| header.into_ack(false).as_bytes().to_vec())
    }

    /// The library reads some packets and answers.
    pub fn read(&mut self, now_ns: u64, scenario: &Scenario) -> Vec<Vec<u8>> {
        let mut answers = vec![];
        for _ in 0..scenario.read_packets {
            let Some(payload) = self.socket.pop_front() else { break };
            let (header, kind) = Header::parse(&payload).unwrap();
            let new = || Receiver::new(scenario.receiver, now_ns, &header);
            let receiver = self.receiver.get_or_insert_with(new);
            match kind {
                Kind::Data => {
                    let outcome = receiver.on_data(now_ns, &header, &payload[HEADER_LEN..]);
                    let kept = self.check(scenario, &outcome);
                    if self.acks == Acks::Library && kept {
                        answers.push(header.into_ack(false).as_bytes().to_vec());
                    }
                }
                Kind::Fin => {
                    let body = FinBody::parse(&payload[HEADER_LEN..]).unwrap();
                    let mut out = [0; 1_056];
                    let len = receiver.on_fin(now_ns, &header, &body, &mut out);
                    assert!(len > 0, "a sender's FIN made no sense");
                    answers.push(out[..len].to_vec());
                }
                other => panic!("{other:?} at the receiver"),
            }
        }
        answers.extend(self.receipt(now_ns));
        answers
    }

    /// When to read again.
    pub fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let receipt_ns = self.receiver.as_ref().and_then(Receiver::poll_timeout);
        if self.socket.is_empty() { receipt_ns } else { Some(now_ns) }
    }

    fn receipt(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let receiver = self.receiver.as_mut()?;
        let mut out = [0; 1_196];
        receiver.receipt_due(now_ns).then(|| {
            let len = receiver.write_receipt(now_ns, &mut out);
            out[..len].to_vec()
        })
    }

    /// Once, whole and unaltered. Whether the packet was of use.
    fn check(&mut self, scenario: &Scenario, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Complete { message, group, data } => {
                let (expected_group, len) = scenario.messages[*message as usize];
                assert_eq!(*data, content(*message, len), "message {message} was altered");
                assert_eq!(*group, expected_group);
                let before = self.got.insert(*message, *group);
                assert_eq!(before, None, "message {message} was delivered twice");
                true
            }
            Outcome::Incomplete | Outcome::Duplicate => true,
            Outcome::Dropped(DropReason::NoRoom | DropReason::Ended) => false,
            outcome => panic!("{outcome:?} for a correct packet"),
        }
    }
}
