//! The two hosts: the work of the kernels around the state machines, and the checks of the
//! applications.

use super::{Acks, Request, Scenario};
use atp_common::{
    laws::rtt::Rtt,
    maps::ack_ring,
    wire::{
        Advice, Features, FinBody, Flags, HEADER_LEN, Header, Kind, Order, ResetReason, TermsBody,
        member_header,
    },
};
use atp_proto::{
    Account, AckRing, Budget, DropReason, Message, MessageId, MsrError, Outcome, Pace, Packet,
    Part, QueueError, Receiver, Sender, Share, State, Summary, Terms, reset_header,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    sync::Arc,
};

/// The bytes of a header's epoch field, in which receipts announce features.
const EPOCH: Range<usize> = 22..24;

/// The bytes of one message. No two messages and no two packets are alike.
pub fn content(window: u32, group: u8, message: u32, len: u32) -> Vec<u8> {
    let own = window.wrapping_mul(77) ^ u32::from(group) << 5 ^ message.wrapping_mul(31);
    (0..len).map(|i| (own ^ i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
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
        Self {
            sender: Sender::new(scenario.sender.clone()).unwrap(),
            ring: Ring(vec![Cell::new(0); scenario.sender.ack_ring_words as usize]),
            rtt: Rtt::default(),
            acks: scenario.acks,
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
        let refused = self.sender.on_packet(now_ns, payload);
        assert_eq!(refused, Ok(()), "{header:?}");
    }

    /// Does everything that the library does when it wakes up. Returns the sent packets with their
    /// times of departure.
    pub fn work(
        &mut self,
        now_ns: u64,
        scenario: &Scenario,
        rng: &mut ChaCha8Rng,
    ) -> Vec<(u64, Vec<u8>)> {
        let backlog_ns = self.wire_free_ns.saturating_sub(now_ns);
        for group in &scenario.sender.groups {
            self.sender
                .set_pace(group.group, Pace { rtt: self.rtt, backlog_ns, ..Pace::default() });
        }
        if self.acks == Acks::Kernel {
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
        // The library keeps four packets in the host's queue.
        while self.wire_free_ns <= now_ns + 4 * scenario.wire_ns {
            let Some(packet) = self.sender.next_packet(now_ns) else { break };
            self.refused = rng.random_bool(scenario.refuse);
            if self.refused {
                self.sender.take_back(&packet);
                break;
            }
            sent.push(self.depart(now_ns, scenario, &packet));
        }
        let mut out = [0; 524];
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
        header.stamp(0, departs_ns);
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
        let deadline = self.deadline_ns(scenario).filter(|_| !self.sender.has_ended());
        let deadline = deadline.into_iter().chain(self.closing_deadline_ns(scenario));
        let deadline = deadline.filter(|at_ns| *at_ns > now_ns).min();
        [queue, wire, deadline, self.sender.poll_timeout()].into_iter().flatten().min()
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

pub struct ReceivingHost {
    pub receiver: Option<Receiver>,
    acks: Acks,
    socket: VecDeque<Vec<u8>>,
    /// The messages that the application got: window, group, id.
    pub got: BTreeSet<(u32, u8, u32)>,
    /// The summaries of ended windows.
    pub summaries: Vec<Summary>,
    /// The terms that the application got.
    pub terms: Vec<Terms>,
    /// The requests that the application has made of the present process.
    requested: usize,
    /// The window of the sender.
    pub present_window: u32,
    budget: Arc<Budget>,
    /// The part of the sender's address.
    share: Arc<Share>,
    /// The memory that another address holds.
    others: [Account; 2],
}

impl ReceivingHost {
    pub fn new(scenario: &Scenario) -> Self {
        let budget = Budget::new(scenario.budget_bytes);
        let parts = [Part::Messages, Part::Records];
        let share = budget.share();
        let mut others = parts.map(|part| Account::new(Some(share.clone()), part));
        if scenario.full_ns.is_some() {
            for (account, part) in others.iter_mut().zip(parts) {
                account.take(budget.part_bytes_max(part));
            }
        }
        Self {
            share: budget.share(),
            budget,
            others,
            receiver: None,
            acks: scenario.acks,
            socket: VecDeque::new(),
            got: BTreeSet::new(),
            summaries: vec![],
            terms: vec![],
            requested: 0,
            present_window: 0,
        }
    }

    /// Replaces the process by a new one with the same port.
    pub fn restart(&mut self) {
        self.receiver = None;
        self.requested = 0;
        self.socket.clear();
        // The application keeps the messages of windows whose end it saw.
        let summaries = &self.summaries;
        self.got.retain(|got| summaries.iter().any(|summary| summary.window == got.0));
    }

    /// Takes in a packet as the kernel does: acknowledges it first, then checks for room.
    pub fn arrive(&mut self, scenario: &Scenario, payload: Vec<u8>) -> Option<Vec<u8>> {
        let (header, kind) = Header::parse(&payload).unwrap();
        let is_packed = kind == Kind::Data && header.flags().contains(Flags::PACKED);
        if scenario.is_old_receiver && (is_packed || kind == Kind::Terms) {
            return None;
        }
        let states_order = |body: TermsBody<'_>| {
            body.groups().any(|group| group.order != Order::Unknown || group.shortest_first)
        };
        let is_terms = kind == Kind::Terms && scenario.without_order;
        if is_terms && TermsBody::parse(&payload[HEADER_LEN..]).is_none_or(states_order) {
            return None;
        }
        if self.socket.len() < scenario.socket_packets {
            self.socket.push_back(payload);
        }
        let acknowledges = self.acks == Acks::Kernel && kind == Kind::Data;
        acknowledges.then(|| header.into_ack(false).as_bytes().to_vec())
    }

    /// Reads some packets as the library does. Returns its answers.
    pub fn read(&mut self, now_ns: u64, scenario: &Scenario) -> Vec<Vec<u8>> {
        let mut answers = vec![];
        if scenario.full_ns.is_some_and(|full_ns| now_ns >= full_ns) {
            self.others.iter_mut().for_each(Account::clear);
        }
        for _ in 0..scenario.read_packets {
            let Some(payload) = self.socket.pop_front() else { break };
            let (header, kind) = Header::parse(&payload).unwrap();
            let refuse = |answers: &mut Vec<Vec<u8>>| {
                // The packet reached the host, so the library acknowledges it.
                if self.acks == Acks::Library && kind == Kind::Data {
                    answers.push(header.into_ack(false).as_bytes().to_vec());
                }
                let reset = reset_header(&header, ResetReason::NoRoom);
                answers.push(reset.as_bytes().to_vec());
            };
            if self.receiver.is_none() && kind == Kind::Terms {
                continue;
            }
            let is_full = scenario.full_ns.is_some_and(|full_ns| now_ns < full_ns);
            if self.receiver.is_none() && is_full && scenario.refuses_places {
                refuse(&mut answers);
                continue;
            }
            let share = Some(self.share.clone());
            let new = || Receiver::with_share(scenario.receiver, now_ns, &header, share);
            let receiver = self.receiver.get_or_insert_with(new);
            if scenario.advises {
                // From 1 to 2^40 bytes per second, often much more or less than before.
                let bits = (now_ns ^ u64::from(header.slot())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                receiver.set_advice(header.group(), Advice::of(1 << (bits >> 58).min(40)));
            }
            match kind {
                Kind::Data => {
                    let outcome = receiver.on_data(now_ns, &header, &payload[HEADER_LEN..]);
                    assert!(self.budget.bytes() <= scenario.budget_bytes);
                    if outcome == Outcome::Refused(ResetReason::NoRoom) {
                        refuse(&mut answers);
                        continue;
                    }
                    let kept = is_kept(&outcome);
                    if self.acks == Acks::Library && kept {
                        answers.push(header.into_ack(false).as_bytes().to_vec());
                    }
                }
                Kind::Fin => {
                    let body = FinBody::parse(&payload[HEADER_LEN..]).unwrap();
                    let mut out = [0; 484];
                    let late = receiver.stats().packets_late;
                    let len = receiver.on_fin(now_ns, &header, &body, &mut out);
                    if len > 0 {
                        answers.push(out[..len].to_vec());
                    } else {
                        let is_late = receiver.stats().packets_late > late;
                        assert!(is_late, "a sender's FIN was refused");
                    }
                }
                Kind::Terms => {
                    let body = TermsBody::parse(&payload[HEADER_LEN..]).unwrap();
                    receiver.on_terms(now_ns, &header, &body);
                    assert_eq!(receiver.stats().packets_refused, 0);
                }
                other => panic!("{other:?} at the receiver"),
            }
            self.take_messages(scenario);
        }
        answers.extend(self.receipt(now_ns, scenario));
        answers.extend(self.request(now_ns, scenario));
        answers
    }

    /// When [`ReceivingHost::read`] is due again.
    pub fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let receipt_ns = self.receiver.as_ref().and_then(Receiver::poll_timeout);
        if self.socket.is_empty() { receipt_ns } else { Some(now_ns) }
    }

    fn receipt(&mut self, now_ns: u64, scenario: &Scenario) -> Option<Vec<u8>> {
        let receiver = self.receiver.as_mut()?;
        let mut out = [0; 1_196];
        receiver.receipt_due(now_ns).then(|| {
            let len = receiver.write_receipt(now_ns, &mut out);
            let epoch = &mut out[EPOCH];
            let plain = Features::PACKED.with(Features::TERMS).with(Features::OVERLAP);
            let plain = plain.with(Features::ORDER);
            let own = match scenario.advises {
                true => plain.with(Features::ADVICE),
                false => plain,
            };
            assert!(len == 0 || epoch == own.bits().to_be_bytes());
            if scenario.without_order {
                let bits = own.bits() & !Features::ORDER.bits();
                epoch.copy_from_slice(&bits.to_be_bytes());
            }
            if scenario.is_old_receiver {
                epoch.copy_from_slice(&Features::OVERLAP.bits().to_be_bytes());
            }
            out[..len].to_vec()
        })
    }

    /// Makes the requests that are due, and writes them. A new process makes the last ones again.
    fn request(&mut self, now_ns: u64, scenario: &Scenario) -> Option<Vec<u8>> {
        let receiver = self.receiver.as_mut()?;
        while let Some(request) = scenario.requests.get(self.requested)
            && request.at_ns <= now_ns
        {
            match request.rate {
                Some((group, msr)) => receiver.request_msr(now_ns, group, msr),
                None => receiver.request_end(now_ns),
            }
            self.requested += 1;
        }
        let mut out = [0; 600];
        receiver.request_due(now_ns).then(|| {
            let len = receiver.write_request(now_ns, &mut out);
            out[..len].to_vec()
        })
    }

    /// Checks that each message comes once, complete, unaltered, and in order if its group is
    /// exact.
    fn take_messages(&mut self, scenario: &Scenario) {
        let Some(receiver) = self.receiver.as_mut() else { return };
        while let Some(Message { window, group, message, data }) = receiver.next_message() {
            // A process that joined in the middle only knows whether the window's number is odd.
            let window = match scenario.restart_ns {
                None => window,
                Some(_) => self.present_window - (self.present_window + window) % 2,
            };
            let len = scenario.len_of(window, group, message).expect("it was sent");
            let expected = content(window, group, message, len);
            assert_eq!(data, expected, "message {message} of group {group} was altered");
            if scenario.is_exact(group) {
                let last = self.got.range((window, group, 0)..=(window, group, message)).last();
                // Only a forced end may leave gaps.
                let in_order = last.is_none_or(|last| last.2 < message);
                let gapless = last.map_or(0, |last| last.2 + 1) == message;
                let ends = |request: &Request| request.rate.is_none();
                let forced = scenario.windows[window as usize].deadline_ns.is_some()
                    || scenario.requests.iter().any(ends);
                assert!(in_order && (gapless || forced), "message {message} of {group} early");
            }
            let new = self.got.insert((window, group, message));
            // A delayed copy may reach a new process after the old one saw the window's end.
            let had_ended = scenario.restart_ns.is_some()
                && self.summaries.iter().any(|summary| summary.window == window);
            assert!(new || had_ended, "message {message} of group {group} was delivered twice");
        }
        self.summaries.extend(receiver.take_summary());
        self.terms.extend(receiver.take_terms());
    }
}

/// Whether the receiver kept the packet, or had it already.
fn is_kept(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Complete | Outcome::Incomplete | Outcome::Duplicate => true,
        Outcome::Dropped(DropReason::NoRoom | DropReason::Ended | DropReason::Stale) => false,
        outcome => panic!("{outcome:?} for a correct packet"),
    }
}
