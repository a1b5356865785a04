//! Fuzzes an endpoint with many hostile senders: DATA, FINs, TERMS, PROBEs and damaged packets from
//! a few addresses, packets that come again, messages that come complete in one buffer, silence,
//! housekeeping, requests, and a receiver that leaves.
//!
//! Invariants:
//!
//! - Each message of a run is handed over once, unaltered, with the address and the job of its
//!   sender. In every other input jobs may have several windows, and a message may come again.
//! - The messages of a run have one number, which those of no other run have.
//! - Answers to the FINs of a run state the same end.
//! - Senders and memory keep to their limits, and the allocator's memory to what arrived.
//! - No address gets more than five times the bytes that came from it, but for the last packets of
//!   a receiver that leaves.
//! - A receiver that leaves is gone after five seconds. Another one forgets all senders, frees
//!   their memory, and serves a new one.

mod step;

use arbitrary::{Arbitrary, Unstructured};
use atp_common::wire::{Advice, FinBody, Flags, HEADER_LEN, Header, Kind};
use atp_proto::{
    Message, ReceiverConfig,
    endpoint::{
        Admission, Arrived, Buffer, Datagram, Endpoint, Ends, Event, EventKind, Host, Lanes,
        PeerIp, Request, RequestKind, SourceLanes,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::SocketAddr,
};
use step::{Origin, Step};

const STEPS_MAX: usize = 200;
/// Half of the runs that steps name. Four times as many have tombstones: all of them.
const SOURCES_MAX: usize = 16;
/// Far longer than all pauses of an input: what was delivered once never comes again.
const SILENCE_NS: u64 = 1 << 50;
/// The memory of each sender, and of the tables.
const SOURCE_BYTES: u64 = 1 << 16;
/// See the target `receiver`.
const PACKET_BYTES: u64 = 24_000;
/// The longest stay of a receiver that leaves.
const STAY_NS_MAX: u64 = 5_000_000_000;

/// Reads `data` as settings and steps.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let before = counting_allocator::bytes();
    let Ok(settings) = u8::arbitrary(&mut u) else { return };
    let mut fuzz = Fuzz::new(settings);
    for _ in 0..STEPS_MAX {
        if u.is_empty() {
            break;
        }
        let Ok(step) = Step::arbitrary(&mut u) else { break };
        fuzz.take(&step);
        let held = u64::try_from(counting_allocator::bytes() - before).unwrap_or(0);
        let most = fuzz.memory_bytes_max();
        assert!(held <= most, "{held} bytes are held, {most} are allowed");
    }
    fuzz.finish();
}

/// Address, job, window, group, id and content of a message. The content is that of a run.
type Got = (SocketAddr, u32, u32, u8, u32, u8);

struct Fuzz {
    endpoint: Endpoint<Advised>,
    budget_bytes: u64,
    /// When the receiver began to leave.
    left_ns: Option<u64>,
    /// The ends that answers stated, by address, job, cookie, window and page.
    ends: BTreeMap<(SocketAddr, u32, u32, u32, u16), Vec<u8>>,
    /// Whether all addresses are admitted.
    admits_all: bool,
    host: FuzzHost,
    /// Whether packets may be of jobs with several windows.
    windows: bool,
    /// The application confirms windows.
    confirms: bool,
    now_ns: u64,
    slot: u32,
    /// The messages that were handed over.
    got: BTreeSet<Got>,
    /// The number of each run, by the content of its messages.
    runs: BTreeMap<u8, u64>,
    /// The packets that came.
    history: Vec<(Origin, Vec<u8>)>,
    received: BTreeMap<SocketAddr, u64>,
    sent: BTreeMap<SocketAddr, u64>,
    packets: u64,
    bytes: u64,
}

impl Fuzz {
    fn new(settings: u8) -> Self {
        let transport = ReceiverConfig {
            message_bytes_max: 1 << 16,
            incomplete_messages_max: [2, 65_536][usize::from(settings & 1)],
            silence_ns: SILENCE_NS,
            confirms_windows: settings & 64 != 0,
            receipt_messages: [1, 256][usize::from(settings >> 1 & 1)],
            ..ReceiverConfig::default()
        };
        let of_one: HashSet<PeerIp> = HashSet::from([Origin::default().address().into()]);
        let peers = if settings & 4 == 0 { HashSet::new() } else { of_one };
        let admission = Admission {
            sources_max: SOURCES_MAX,
            memory_bytes_max: 0,
            peers,
            transport,
            ..Admission::new(1)
        };
        let budget_bytes = transport.budget_bytes_min();
        let mut endpoint = Endpoint::new(admission);
        endpoint.set_gives_advice(settings & 8 != 0);
        Self {
            endpoint,
            budget_bytes,
            left_ns: None,
            ends: BTreeMap::new(),
            admits_all: settings & 4 == 0,
            host: FuzzHost { acknowledges: settings & 16 == 0 },
            windows: settings & 32 != 0,
            confirms: settings & 64 != 0,
            now_ns: 0,
            slot: 0,
            got: BTreeSet::new(),
            runs: BTreeMap::new(),
            history: Vec::new(),
            received: BTreeMap::new(),
            sent: BTreeMap::new(),
            packets: 0,
            bytes: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Packet(origin, packet) => {
                let bytes = packet.bytes(origin, &mut self.slot, self.windows);
                self.packet(origin, &bytes);
            }
            Step::Flood(runs, origin, packet) => {
                for run in 0..runs % 32 {
                    let (host, cookie) = (origin.host.wrapping_add(run), run / 4);
                    let origin = Origin { host, cookie, job: origin.job ^ (run >= 16) };
                    let bytes = packet.bytes(&origin, &mut self.slot, self.windows);
                    self.packet(&origin, &bytes);
                }
            }
            Step::Complete(origin, message) => {
                let packets = message.packets(origin, &mut self.slot, self.windows);
                for packet in &packets {
                    self.note(origin.address(), packet.len());
                }
                let ends = Ends { source: origin.address(), local: None };
                let mut buffer = Merged { ends, packets };
                self.endpoint.on_buffer(self.now_ns, &mut buffer, &mut self.host);
            }
            Step::Again(back) => {
                let at = self.history.len().checked_sub(1 + usize::from(*back));
                if let Some((origin, bytes)) = at.map(|at| self.history[at].clone()) {
                    self.packet(&origin, &bytes);
                }
            }
            Step::Wait(ms) => self.now_ns += 1 + u64::from(*ms) * 1_000_000,
            Step::Expire => self.endpoint.expire(self.now_ns),
            Step::Request(origin, rate) => {
                let rate = rate.map(step::rate);
                let other = match self.confirms {
                    true => RequestKind::ConfirmWindow(0),
                    false => RequestKind::End,
                };
                let kind = rate.map_or(other, |(id, msr)| RequestKind::Rate(id, msr));
                let run = self.runs.get(&origin.content()).copied().unwrap_or_default();
                self.endpoint.request(self.now_ns, &Request { run, kind });
            }
            Step::EndAdvice => self.endpoint.end_advice(),
            Step::Leave => {
                self.left_ns.get_or_insert(self.now_ns);
                self.endpoint.leave(self.now_ns, 2_000_000_000);
                // Its last packets go to all senders, whatever came from them.
                self.endpoint.replies().clear();
            }
        }
        self.endpoint.handle_timeout(self.now_ns);
        let due_ns = self.endpoint.poll_timeout();
        assert!(due_ns.is_none_or(|due_ns| due_ns > self.now_ns), "due at once after it was done");
        self.stay();
        self.collect();
        self.check();
    }

    fn note(&mut self, from: SocketAddr, bytes: usize) {
        *self.received.entry(from).or_default() += bytes as u64;
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    fn packet(&mut self, origin: &Origin, bytes: &[u8]) {
        self.note(origin.address(), bytes.len());
        self.history.push((*origin, bytes.to_vec()));
        let (head, body) = bytes.split_at(HEADER_LEN.min(bytes.len()));
        let ends = Ends { source: origin.address(), local: None };
        let packet = Datagram { head, body, ends, traffic_class: 0 };
        self.endpoint.on_packet(self.now_ns, &packet, &mut self.host);
    }

    /// Takes what the endpoint hands over, and counts what it sends.
    fn collect(&mut self) {
        for event in self.endpoint.take_events() {
            let Event { source: from, job, run, kind: EventKind::Message(message) } = event else {
                continue;
            };
            let Message { window, group, message, data } = message;
            let content = data.first().copied().unwrap_or_default();
            assert!(data.iter().all(|byte| *byte == content), "the message was altered");
            let is_of = data.is_empty() || step::is_content_of(content, from, job);
            assert!(is_of, "a message of another sender came as that of {from}");
            if !data.is_empty() {
                self.runs.entry(content).or_insert(run);
                let mut runs = self.runs.iter();
                let is_one = runs.all(|(of, number)| (*of == content) == (*number == run));
                assert!(is_one, "a message of {from} has the number of another run");
            }
            let is_new = self.got.insert((from, job, window, group, message, content));
            // Empty messages say nothing of their run. A receiver that joins a job in the middle
            // numbers its windows anew.
            let may_come_again = data.is_empty() || self.windows;
            assert!(is_new || may_come_again, "message {message} of {from} came twice");
        }
        let replies = self.endpoint.replies();
        for (packet, to) in replies.packets() {
            *self.sent.entry(to.source).or_default() += packet.len() as u64;
            let Ok((header, Kind::FinAck)) = Header::parse(packet) else { continue };
            if header.flags().contains(Flags::ENDED) {
                let body = &packet[HEADER_LEN..];
                let window = FinBody::parse(body).expect("a FIN-ACK is well-formed").window();
                let run = (to.source, header.job(), header.cookie(), window, header.epoch());
                // A run without a message has no tombstone: it may begin anew, and end otherwise.
                let content = step::content_of(to.source, header.job(), header.cookie());
                let of_run =
                    |got: &&Got| (got.0, got.1, got.5) == (to.source, header.job(), content);
                if !self.got.iter().any(|got| of_run(&got)) {
                    continue;
                }
                let stated = self.ends.entry(run).or_insert_with(|| body.to_vec());
                assert!(self.windows || stated == body, "another end was stated before");
            }
        }
        replies.clear();
    }

    fn check(&self) {
        let stats = self.endpoint.stats();
        assert!(stats.sources as usize <= SOURCES_MAX, "{stats:?}");
        let r = stats.refusals;
        assert!(stats.memory_bytes <= self.budget_bytes, "{stats:?}");
        let refused = r.malformed + r.unwanted + r.too_large + r.no_room + r.forgotten;
        assert_eq!(stats.refused, refused);
        for (to, sent) in &self.sent {
            let received = self.received.get(to).copied().unwrap_or_default();
            assert!(*sent <= 5 * received, "{sent} bytes were sent to {to} for {received}");
        }
    }

    /// The receiver's stay, if it has begun to leave.
    fn stay(&mut self) {
        let due_ns = self.endpoint.handle_leave_timeout(self.now_ns);
        let Some(left_ns) = self.left_ns else { return assert_eq!(due_ns, None) };
        if let Some(due_ns) = due_ns {
            assert!(due_ns > self.now_ns, "it waits for the past");
            assert!(due_ns <= left_ns + STAY_NS_MAX, "it doesn't leave");
        }
    }

    /// After a long silence nothing is left, and a new sender is served.
    fn finish(&mut self) {
        if self.left_ns.is_some() {
            return;
        }
        self.now_ns += 2 * SILENCE_NS;
        self.endpoint.expire(self.now_ns);
        let stats = self.endpoint.stats();
        assert_eq!((stats.sources, stats.memory_bytes), (0, 0), "{stats:?}");
        if self.admits_all {
            let before = stats.messages;
            let origin = Origin::default();
            self.packet(&origin, &step::first_message(&origin));
            assert_eq!(self.endpoint.stats().messages, before + 1, "a new sender isn't served");
        }
    }

    fn memory_bytes_max(&self) -> u64 {
        let sources = SOURCES_MAX as u64 * SOURCE_BYTES;
        2 * self.budget_bytes + sources + self.packets * PACKET_BYTES + 3 * self.bytes
    }
}

struct FuzzHost {
    acknowledges: bool,
}

/// The advice to each lane is the number of its packets.
#[derive(Default)]
struct Advised(SourceLanes<u64>);

impl Lanes for Advised {
    fn take_advice(&mut self, mut give: impl FnMut(u8, Advice)) {
        self.0.iter_mut().for_each(|(group, packets)| give(group, Advice::of(*packets)));
    }

    fn clear(&mut self) -> impl Iterator<Item = u8> {
        self.0.clear()
    }
}

impl Host for FuzzHost {
    type Lanes = Advised;

    fn acknowledges(&self) -> bool {
        self.acknowledges
    }

    fn on_data(&mut self, _: SocketAddr, lanes: &mut Advised, arrived: &Arrived<'_>) {
        lanes.0.open(arrived.header.group(), || Some(0));
        if let Some(packets) = lanes.0.get_mut(arrived.header.group()) {
            *packets += u64::from(arrived.packets);
        }
    }
}

/// Packets in one buffer, whose bodies lie in one piece.
struct Merged {
    ends: Ends,
    packets: Vec<Vec<u8>>,
}

impl Buffer for Merged {
    fn ends(&self) -> Ends {
        self.ends
    }

    fn traffic_class(&self) -> u8 {
        0
    }

    fn packets(&self) -> impl ExactSizeIterator<Item = Datagram<'_>> {
        self.packets.iter().map(|packet| {
            let (head, body) = packet.split_at(HEADER_LEN.min(packet.len()));
            Datagram { head, body, ends: self.ends, traffic_class: 0 }
        })
    }

    fn contiguous_bytes(&self) -> Option<usize> {
        Some(self.packets.iter().map(|packet| packet.len().saturating_sub(HEADER_LEN)).sum())
    }

    fn take_contiguous(&mut self) -> Vec<u8> {
        let packets = std::mem::take(&mut self.packets);
        packets.iter().flat_map(|packet| &packet[HEADER_LEN.min(packet.len())..]).copied().collect()
    }
}
