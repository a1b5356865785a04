//! Fuzzes a job at its sender with a hostile peer, between the application's steps. The peer knows
//! the job and the cookie, and sends false receipts, ACKs, PROBE-ACKs, FIN-ACKs, RESETs and ring
//! words.
//!
//! Invariants:
//!
//! - Delivered and lost messages together are never more than the messages.
//! - The target loss rate stays in [0, 1 - MSR].
//! - No more packets are in flight than the window allows.
//! - Every packet is part of a buffered message, and every id is released once.
//! - A window's terminal state stays, each window is reported once and in order, and each change of
//!   a rate is answered at once.
//! - The job ends once the peer is silent.

mod application;
mod peer;
mod step;

use application::{Application, Data};
use arbitrary::{Arbitrary, Unstructured};
use atp_common::{
    laws::Rules,
    maps::ack_ring::{self, SLOTS_PER_WORD},
    units::Msr,
    wire::{HEADER_LEN, Header, Kind, MEMBER_HEADER_LEN, Order, PROBE_SLOTS, TermsBody},
};
use atp_proto::{
    AckRing, CompleteAt, GroupConfig, MessageId, Packet, Sender, SenderConfig, State,
    flow::{Command, Event, Job},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
};
use step::{COOKIE, JOB, Step};

const STEPS_MAX: usize = 200;
/// More timeouts than a job needs to fail with a silent peer: ten seconds of at least ten
/// milliseconds each, and the packets in between.
const SILENT_STEPS_MAX: usize = 20_000;
const BUFFER_MESSAGES: u32 = 300;
const LEN_BYTES_MAX: u32 = 20_000;
/// The time that a window may take, if windows have deadlines.
const DEADLINE_NS: u64 = 100_000_000;
const PAYLOAD_BYTES_MIN: u32 = 200;
/// The most unanswered PROBEs of the library.
const PROBES_MAX: usize = 32;
/// The sender's state for a full buffer and window, and the peer's packets while they are read.
const MEMORY_BYTES_MAX: isize = 4 << 20;

/// Reads `data` as a configuration and steps.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let before = counting_allocator::bytes();
    let Ok(config) = config(&mut u) else { return };
    let Ok(sender) = Sender::new(config) else { return };
    // From the number of unread bytes, so that inputs of the corpus keep their meaning.
    let deadline_ns = u.len().is_multiple_of(2).then_some(DEADLINE_NS);
    let mut fuzz = Fuzz::new(Job::new(sender, deadline_ns));
    for _ in 0..STEPS_MAX {
        if u.is_empty() {
            break;
        }
        // Read without taking, so that inputs of the corpus keep their meaning.
        if u.len().is_multiple_of(6)
            && let Some(bytes) = u.peek_bytes(12)
        {
            fuzz.arrive(&peer::request(bytes));
        }
        let Ok(step) = Step::arbitrary(&mut u) else { break };
        fuzz.take(step);
        fuzz.check();
        let held = counting_allocator::bytes() - before;
        assert!(held <= MEMORY_BYTES_MAX, "{held} bytes are held");
    }
    fuzz.fall_silent();
}

fn config(u: &mut Unstructured<'_>) -> arbitrary::Result<SenderConfig> {
    let mut groups = Vec::new();
    for _ in 0..u.int_in_range(1..=40)? {
        let parts = *u.choose(&[0, 1, 500_000_000, 800_000_000, 999_999_999, 1_000_000_000])?;
        let Some(msr) = Msr::from_parts_per_billion(parts) else { continue };
        let group = if groups.is_empty() { u.arbitrary()? } else { groups.len() as u8 };
        let total = if u.arbitrary()? { Some(u.int_in_range(0..=90)?) } else { None };
        groups.push(GroupConfig { total, ..GroupConfig::new(group, msr) });
        // Mostly few groups; many groups make pages of a FIN.
        if u.ratio(3, 4)? {
            break;
        }
    }
    // From the number of unread bytes, as below: a FIN awaits terms that state an order.
    if u.len().is_multiple_of(11) {
        groups.iter_mut().for_each(|group| group.order = Order::Shuffled);
    }
    let first = GroupConfig::new(0, Msr::EXACT);
    Ok(SenderConfig {
        payload_bytes_max: *u.choose(&[1, 16, 1_400, 8_900])?,
        message_bytes_max: 1 << 17,
        buffer_bytes_max: 1 << 18,
        buffer_messages_max: *u.choose(&[1, 5, BUFFER_MESSAGES])?,
        messages_max: *u.choose(&[100, 5_000])?,
        ack_ring_words: *u.choose(&[4, 16, 256])?,
        mrdf: u.arbitrary()?,
        complete_at: *u.choose(&[CompleteAt::Msr, CompleteAt::EveryMessageTried])?,
        windows: u.arbitrary()?,
        timer_granularity_ns: *u.choose(&[1_000, 40_000, 1_000_000, 25_000_000])?,
        groups,
        // From the number of unread bytes, so that inputs of the corpus keep their meaning.
        packing: !u.len().is_multiple_of(4),
        rank_by_bytes: u.len().is_multiple_of(5),
        announce_terms: !u.len().is_multiple_of(3),
        overlap: u.len().is_multiple_of(2),
        names_lost: u.len().is_multiple_of(7),
        ..SenderConfig::new(JOB, COOKIE, first)
    })
}

struct Ring<'a>(&'a [u64]);

impl AckRing for Ring<'_> {
    fn word(&self, position: u32) -> u64 {
        self.0[position as usize]
    }
}

struct Fuzz {
    job: Job<Data>,
    application: Application,
    now_ns: u64,
    /// The acknowledgment ring of the datapath.
    ring: Vec<u64>,
    /// The lengths of messages that are queued and not released.
    buffer: BTreeMap<MessageId, u32>,
    released: BTreeSet<MessageId>,
    /// The latest packets.
    sent: VecDeque<Packet>,
    /// The last FIN.
    fin: Option<(Header, Vec<u8>)>,
    /// PROBEs without an answer: group, slots, time of departure.
    probes: VecDeque<(u8, Range<u32>, u64)>,
    /// The current window and its terminal state, if it has ended.
    ended: Option<(u32, State)>,
}

impl Fuzz {
    fn new(job: Job<Data>) -> Self {
        Self {
            ring: vec![0; job.sender.config().ack_ring_words as usize],
            application: Application::default(),
            job,
            now_ns: 1,
            buffer: BTreeMap::new(),
            released: BTreeSet::new(),
            sent: VecDeque::new(),
            fin: None,
            probes: VecDeque::new(),
            ended: None,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Queue { group, messages, len_bytes } => {
                (0..messages % 32).for_each(|_| self.queue(group, len_bytes));
            }
            Step::Send(packets) => {
                (0..=packets).for_each(|_| {
                    self.send();
                });
            }
            Step::TakeBack => {
                if let Some(packet) = self.sent.pop_back() {
                    self.job.sender.take_back(&packet);
                }
            }
            Step::Control => {
                self.control();
            }
            Step::Timeout { ms } => {
                self.now_ns += u64::from(ms) * 1_000_000;
                self.job.sender.handle_timeout(self.now_ns);
            }
            Step::Due => self.due(),
            Step::Finish => self.application.end(&mut self.job, Command::Finish),
            Step::FinishWindow => self.application.finish_window(&mut self.job),
            // The end comes by a deadline or, without one, by a cancel.
            Step::EndNow => match self.job.next_deadline_ns() {
                Some(at_ns) => self.now_ns = self.now_ns.max(at_ns),
                None => self.application.end(&mut self.job, Command::Cancel),
            },
            Step::BeginWindow { total } => {
                self.application.begin_window(&mut self.job, total.map(|n| u32::from(n) % 90));
            }
            Step::SetMsr { group, parts } => {
                if let Some(msr) = Msr::from_parts_per_billion(parts % 1_000_000_001) {
                    let group = self.group(group);
                    self.application.set_msr(&mut self.job, group, msr);
                }
            }
            Step::Narrow { bytes } => {
                self.job.sender.set_payload_bytes(u32::from(bytes).max(PAYLOAD_BYTES_MIN));
            }
            Step::Pace { group, pace } => self.job.sender.set_pace(self.group(group), pace.into()),
            Step::Ring(marks) => self.scan(&marks),
            Step::NoAck { group, on } => self.job.sender.set_no_ack(self.group(group), on),
            Step::SendProbe { group, slots } => self.send_probe(group, slots),
            Step::AnswerProbe { which, words } => self.answer_probe(which, words),
            Step::StopProbing => self.job.sender.stop_probing(),
            Step::Ack(ack) => self.arrive(&peer::ack(&ack, &self.sent)),
            Step::Receipt(receipt) => {
                self.arrive(&peer::receipt(&receipt, &self.job.sender, self.slot()))
            }
            Step::FinAck(answer) => self.arrive(&peer::fin_ack(&answer, self.fin.as_ref())),
            Step::Reset { sure, reason } => {
                if sure == 0x5a {
                    self.arrive(&peer::reset(reason));
                }
            }
            Step::Raw { kind, bytes } => self.arrive(&peer::raw(kind, &bytes)),
        }
        self.work();
    }

    /// Lets the job go on, as the library does in each round.
    fn work(&mut self) {
        loop {
            let Self { job, buffer, released, .. } = self;
            let mut refused = None;
            job.work(self.now_ns, |id, Data { window, len_bytes }| {
                if id.is_none() {
                    refused = Some(window);
                }
                if let Some(id) = id {
                    assert_eq!(id.window, window, "{id:?} is in another window");
                    assert!(!released.contains(&id));
                    assert_eq!(buffer.insert(id, len_bytes), None, "{id:?} was given twice");
                }
            });
            let current = job.sender.window();
            assert!(refused.is_none_or(|window| window <= current), "its window hasn't begun");
            job.report_ends();
            while let Some(event) = job.next_event() {
                self.application.on_event(&event);
                if let Event::WindowEnded(ended) = event {
                    let of_window = |id: &&MessageId| id.window == ended.window;
                    job.sender.released().for_each(|id| release(buffer, released, id));
                    assert_eq!(buffer.keys().find(of_window), None, "held after the end");
                }
            }
            job.sender.released().for_each(|id| release(buffer, released, id));
            assert!(self.application.has_answers(), "a change of a rate has no answer");
            if !self.job.is_runnable() {
                return;
            }
        }
    }

    /// One of the configured groups, mostly.
    fn group(&self, choice: u8) -> u8 {
        let groups = &self.job.sender.config().groups;
        groups.get(usize::from(choice) % (groups.len() + 1)).map_or(choice, |group| group.group)
    }

    fn slot(&self) -> u32 {
        self.sent.back().map_or(0, |packet| packet.header.slot())
    }

    fn queue(&mut self, group: u8, len_bytes: u32) {
        // Enough packets for every rule, but a short run.
        let payload_bytes = self.job.sender.config().payload_bytes_max;
        let len_bytes = len_bytes % (40 * payload_bytes + 1).min(LEN_BYTES_MAX);
        let group = self.group(group);
        self.application.queue(&mut self.job, group, len_bytes);
        self.work();
    }

    fn send(&mut self) -> bool {
        let had_ended = self.job.sender.has_ended();
        let Some(packet) = self.job.sender.next_packet(self.now_ns) else { return false };
        assert!(!had_ended, "a packet after the end");
        let (header, kind) = Header::parse(packet.header.as_bytes()).expect("it is well-formed");
        let window = self.window_of(&header);
        let id = MessageId { window, group: header.group(), id: header.message() };
        assert_eq!((kind, id, header.job()), (Kind::Data, packet.message, JOB));
        if packet.is_packed() {
            self.check_packed(&packet);
            self.remember(packet);
            return true;
        }
        let len_bytes = *self.buffer.get(&id).expect("a packet of a released message");
        assert!(packet.offset + packet.len <= len_bytes, "{packet:?} of {len_bytes} bytes");
        assert!(packet.len > 0 || len_bytes == 0, "an empty packet of {len_bytes} bytes");
        let is_last = header.index() + 1 == header.count();
        assert_eq!(is_last, packet.offset + packet.len == len_bytes);
        assert!(packet.len <= self.job.sender.config().payload_bytes_max);
        self.remember(packet);
        true
    }

    /// The number of the window of a packet that was just handed out.
    fn window_of(&self, header: &Header) -> u32 {
        let current = self.job.sender.window();
        let is_current = header.may_be_of_window(current);
        let window = if is_current { current } else { current.wrapping_sub(1) };
        assert!(header.may_be_of_window(window));
        assert!(window == current || self.job.sender.closing_window() == Some(window));
        window
    }

    /// Checks that a packed packet holds several buffered messages of one group, each once.
    fn check_packed(&self, packet: &Packet) {
        let members: Vec<_> = self.job.sender.packed_messages(packet).collect();
        let ids: BTreeSet<_> = members.iter().map(|member| member.message).collect();
        assert_eq!((ids.len(), members.len()), (members.len(), packet.header.count() as usize));
        assert!(members.len() >= 2 && members[0].message == packet.message, "{members:?}");
        assert!(ids.iter().all(|id| id.group == packet.header.group()));
        for member in &members {
            let len_bytes = self.buffer.get(&member.message).copied();
            assert_eq!(len_bytes, Some(member.len.into()), "{member:?} isn't buffered");
        }
        let bytes: usize = members.iter().map(|m| MEMBER_HEADER_LEN + usize::from(m.len)).sum();
        assert_eq!(bytes, packet.len as usize);
        assert!(packet.len <= self.job.sender.config().payload_bytes_max);
    }

    fn remember(&mut self, packet: Packet) {
        self.sent.push_back(packet);
        if self.sent.len() > 256 {
            self.sent.pop_front();
        }
    }

    fn control(&mut self) -> bool {
        let mut out = [0; 524];
        let Some(len) = self.job.sender.next_control(self.now_ns, &mut out) else { return false };
        let (header, kind) = Header::parse(&out[..len]).expect("it is well-formed");
        assert_eq!(header.cookie(), COOKIE);
        if kind == Kind::Terms {
            let body = TermsBody::parse(&out[HEADER_LEN..len]).expect("so is its body");
            assert_eq!(body.window, self.job.sender.window());
            return true;
        }
        assert_eq!(kind, Kind::Fin);
        self.fin = Some((header, out[HEADER_LEN..len].to_vec()));
        true
    }

    fn scan(&mut self, marks: &[(u8, bool, u32)]) {
        let words = self.ring.len();
        for &(back, honest, bits) in marks {
            let slot = self.slot().wrapping_sub(u32::from(back) * 8);
            let lap = if honest { slot / 32 } else { bits };
            self.ring[(slot / 32) as usize % words] = u64::from(lap) << 32 | u64::from(bits);
        }
        self.job.sender.scan_acks(self.now_ns, &Ring(&self.ring));
    }

    /// Sends a PROBE as the library does, about slots that have left.
    fn send_probe(&mut self, group: u8, slots: u8) {
        let group = self.group(group);
        let end = self.slot().wrapping_add(1);
        let start = end.wrapping_sub(slots.into()) & !(SLOTS_PER_WORD - 1);
        let end = start.wrapping_add(end.wrapping_sub(start).min(PROBE_SLOTS));
        self.probes.push_back((group, start..end, self.now_ns));
        self.probes.truncate(PROBES_MAX);
        self.job.sender.probe_sent(self.now_ns, group);
    }

    /// Takes in any answer to a PROBE, as the datapath and the library do.
    fn answer_probe(&mut self, which: u8, words: [u32; 8]) {
        let probes = self.probes.len();
        let Some(probe) = self.probes.remove(usize::from(which) % probes.max(1)) else {
            return;
        };
        let (group, slots, left_ns) = probe;
        let words_of_ring = self.ring.len() as u32;
        for (at, bits) in (0..).zip(words) {
            let slot = slots.start.wrapping_add(at * SLOTS_PER_WORD);
            let word = &mut self.ring[ack_ring::position(slot, words_of_ring) as usize];
            *word = ack_ring::merged(*word, slot, bits).unwrap_or(*word);
        }
        self.job.sender.scan_acks(self.now_ns, &Ring(&self.ring));
        self.job.sender.probe_answered(self.now_ns, group, slots, left_ns);
    }

    fn arrive(&mut self, payload: &[u8]) {
        let before = self.job.sender.report().packets_refused;
        let refused = self.job.sender.on_packet(self.now_ns, payload).is_err();
        assert_eq!(self.job.sender.report().packets_refused, before + u64::from(refused));
    }

    /// Checks the invariants that hold after every step.
    fn check(&mut self) {
        let sender = &self.job.sender;
        assert!(sender.in_flight() <= sender.config().window_packets());
        let groups = &sender.config().groups;
        let oldest = groups.iter().filter_map(|group| sender.oldest_in_flight(group.group));
        assert!(oldest.count() as u32 <= sender.in_flight());
        let report = sender.report();
        for (group, config) in report.groups.iter().zip(&sender.config().groups) {
            let known = group.delivered.checked_add(group.lost);
            assert!(known.is_some_and(|known| known <= group.messages), "{group:?}");
            assert!(group.needed <= group.messages, "{group:?}");
            assert!(group.target_loss_rate <= config.msr.slack_share(), "{group:?}, {config:?}");
            let progress = sender.progress(group.group).expect("it is configured");
            assert!(progress.delivered + progress.lost <= progress.messages);
            assert!(progress.target_loss_rate(Rules::default()) <= config.msr.slack_share());
        }
        assert!(report.packets_retransmitted <= report.packets_sent);
        assert!(report.packets_lost_wrongly <= report.packets_acked);
        let window = sender.window();
        if sender.has_ended() {
            self.check_end();
        } else {
            let has_ended = self.ended.as_ref().is_some_and(|(ended, _)| *ended == window);
            assert!(!has_ended, "it continued after its end");
        }
    }

    fn check_end(&mut self) {
        let state = self.job.sender.state().clone();
        if state == State::Done {
            let groups = self.job.sender.report().groups;
            assert!(groups.iter().all(|group| group.delivered >= group.needed), "{groups:?}");
        }
        assert!(self.buffer.is_empty(), "messages are held after the end: {:?}", self.buffer);
        assert_eq!(self.job.sender.poll_timeout(), None);
        let now = (self.job.sender.window(), state);
        match &self.ended {
            Some(ended) if ended.0 == now.0 => assert_eq!(*ended, now, "a terminal state changed"),
            _ => self.ended = Some(now),
        }
    }

    /// Waits until a timeout is due, and handles it.
    fn due(&mut self) {
        let timeout_ns = self.job.sender.poll_timeout();
        let due_ns = timeout_ns.into_iter().chain(self.job.next_deadline_ns()).min();
        if let Some(at_ns) = due_ns {
            self.now_ns = self.now_ns.max(at_ns);
            self.job.sender.handle_timeout(self.now_ns);
        }
    }

    /// Continues to send PROBEs, as the caller of a sender with NO_ACK packets must.
    fn probe_all(&mut self) {
        for group in
            self.job.sender.config().groups.iter().map(|group| group.group).collect::<Vec<_>>()
        {
            if self.job.sender.oldest_in_flight(group).is_some() {
                self.job.sender.probe_sent(self.now_ns, group);
            }
        }
    }

    /// Checks that the job ends after the application finished it and the peer fell silent.
    fn fall_silent(&mut self) {
        self.application.end(&mut self.job, Command::Finish);
        self.work();
        for _ in 0..SILENT_STEPS_MAX {
            while self.send() {}
            while self.control() {}
            // The last FIN may have given up the wait for names.
            self.work();
            if self.job.outcome().is_some() {
                return;
            }
            self.probe_all();
            let timeout_ns = self.job.sender.poll_timeout();
            let due_ns = timeout_ns.into_iter().chain(self.job.next_deadline_ns()).min();
            assert!(due_ns.is_some(), "no timeout: it would wait forever");
            self.take(Step::Due);
            self.check();
        }
        panic!("no end: {:?}", self.job.sender.report());
    }
}

fn release(
    buffer: &mut BTreeMap<MessageId, u32>,
    released: &mut BTreeSet<MessageId>,
    id: MessageId,
) {
    assert!(buffer.remove(&id).is_some(), "{id:?} was released, but not queued");
    assert!(released.insert(id), "{id:?} was released twice");
}
