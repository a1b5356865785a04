//! The receiving host: its kernel, the endpoint of its library, and an application that checks what
//! it gets.

use super::{Acks, Scenario, application::content, probes::Recorded};
use crate::{
    Account, Budget, Message, Part, ReceiverConfig, Summary, Terms,
    endpoint::{
        Admission, Arrived, Datagram, Endpoint, Ends, EventKind, Host, Lanes, Request, RequestKind,
    },
};
use atp_common::wire::{
    Ack, Advice, Features, Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind, Order,
    TermsBody,
};
use std::{
    collections::{BTreeSet, VecDeque},
    net::SocketAddr,
    ops::Range,
    sync::Arc,
};

/// The bytes of a header's epoch field, in which receipts announce features.
const EPOCH: Range<usize> = 22..24;
/// The traffic class of a marked packet (RFC 3168).
const CONGESTION_EXPERIENCED: u8 = 3;
/// How often the library forgets senders.
const HOUSEKEEPING_NS: u64 = 1_000_000_000;

/// The sender's address.
fn source() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1_000))
}

/// The receiving host.
pub struct ReceivingHost {
    endpoint: Endpoint<DrawnAdvice>,
    acks: Acks,
    /// Packets, and whether each is marked.
    socket: VecDeque<(Vec<u8>, bool)>,
    /// The programs' record of packets without ACKs of their own.
    recorded: Recorded,
    /// The messages that the application got: window, group, id.
    pub got: BTreeSet<(u32, u8, u32)>,
    /// The summaries of ended windows.
    pub summaries: Vec<Summary>,
    /// The windows that the application has confirmed.
    pub confirmed: BTreeSet<u32>,
    /// Windows that it will confirm, and when.
    unconfirmed: VecDeque<(u64, u32)>,
    /// The terms that the application got.
    pub terms: Vec<Terms>,
    /// The requests that the application has made of the current process.
    requested: usize,
    /// The window of the sender.
    pub current_window: u32,
    /// Whether the current process saw the end of the job.
    pub has_finished: bool,
    budget: Arc<Budget>,
    /// The memory that another address holds.
    others: [Account; 2],
    /// The sender that holds the only place.
    stranger: Option<Stranger>,
    housekeeping_ns: u64,
    /// Once the receiver has begun to leave: when it does something next; `None` when it is gone.
    leaving: Option<Option<u64>>,
    /// Packets read that were cut.
    cut: u64,
    /// The number of the sender's run, once an event of the current process has told it.
    run: Option<u64>,
}

impl ReceivingHost {
    pub fn new(scenario: &Scenario) -> Self {
        let budget = Budget::new(scenario.budget_bytes);
        let parts = [Part::Messages, Part::Records];
        let share = budget.share();
        let mut others = parts.map(|part| Account::new(Some(share.clone()), part));
        let refuses_places = scenario.full_ns.is_some() && scenario.refuses_places;
        if scenario.full_ns.is_some() && !refuses_places {
            for (account, part) in others.iter_mut().zip(parts) {
                account.take(budget.part_bytes_max(part));
            }
        }
        Self {
            endpoint: endpoint(scenario, &budget),
            budget,
            others,
            acks: scenario.acks,
            socket: VecDeque::new(),
            recorded: Recorded::default(),
            got: BTreeSet::new(),
            summaries: vec![],
            confirmed: BTreeSet::new(),
            unconfirmed: VecDeque::new(),
            terms: vec![],
            requested: 0,
            current_window: 0,
            has_finished: false,
            stranger: refuses_places.then(Stranger::default),
            housekeeping_ns: 0,
            leaving: None,
            cut: 0,
            run: None,
        }
    }

    /// Replaces the process by a new one with the same port.
    pub fn restart(&mut self, scenario: &Scenario) {
        self.endpoint = endpoint(scenario, &self.budget);
        (self.requested, self.run, self.cut) = (0, None, 0);
        self.socket.clear();
        self.unconfirmed.clear();
        // The application keeps the messages of windows whose end it saw.
        let summaries = &self.summaries;
        self.got.retain(|got| summaries.iter().any(|summary| summary.window == got.0));
    }

    /// Takes in a packet as the kernel does: acknowledges it first, then checks for room.
    pub fn arrive(
        &mut self,
        now_ns: u64,
        scenario: &Scenario,
        payload: Vec<u8>,
        marked: bool,
    ) -> Option<Vec<u8>> {
        if self.leaving == Some(None) {
            return None;
        }
        let len = payload.len();
        let Ok((header, kind)) = Header::parse(&payload) else {
            if self.socket.len() < scenario.socket_packets {
                self.socket.push_back((payload, marked));
            }
            return None;
        };
        let by_kernel = self.acks == Acks::Kernel;
        if by_kernel && kind == Kind::Probe {
            return Some(self.recorded.answer(&header));
        }
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
            self.socket.push_back((payload, marked));
        }
        let acknowledges = by_kernel && kind == Kind::Data;
        if acknowledges && header.flags().contains(Flags::NO_ACK) {
            self.recorded.record(&header, marked);
            return None;
        }
        acknowledges.then(|| Ack::answering(header, marked, now_ns).bytes(len).to_vec())
    }

    /// Reads some packets as the library does. Returns its answers.
    pub fn read(&mut self, now_ns: u64, scenario: &Scenario) -> Vec<Vec<u8>> {
        self.make_room(now_ns, scenario);
        let mut arrival = Arrival { acks: self.acks, now_ns, advises: scenario.advises };
        for _ in 0..scenario.read_packets {
            let Some((payload, marked)) = self.socket.pop_front() else { break };
            let (head, body) = payload.split_at(HEADER_LEN.min(payload.len()));
            self.cut += u64::from(head.len() < HEADER_LEN);
            let ends = Ends { source: source(), local: None };
            let traffic_class = if marked { CONGESTION_EXPERIENCED } else { 0 };
            let packet = Datagram { head, body, ends, traffic_class };
            self.endpoint.on_packet(now_ns, &packet, &mut arrival);
            assert!(self.budget.bytes() <= scenario.budget_bytes);
            self.take_events(now_ns, scenario);
        }
        self.confirm_windows(now_ns);
        self.make_requests(now_ns, scenario);
        if now_ns >= self.housekeeping_ns {
            self.housekeeping_ns = now_ns + HOUSEKEEPING_NS;
            self.endpoint.expire(now_ns);
        }
        if scenario.leave_ns.is_some_and(|leave_ns| leave_ns <= now_ns) {
            self.endpoint.leave(now_ns, LINGER_NS);
            self.leaving = Some(self.endpoint.handle_leave_timeout(now_ns));
        }
        self.endpoint.handle_timeout(now_ns);
        self.check_stats(scenario);
        self.answers(scenario)
    }

    /// When [`ReceivingHost::read`] is due again.
    pub fn next_ns(&self, now_ns: u64, scenario: &Scenario) -> Option<u64> {
        let stranger_ns = self.stranger.as_ref().map(|stranger| stranger.due_ns);
        let leave_ns = self.leaving.unwrap_or(scenario.leave_ns);
        let confirm_ns = self.unconfirmed.front().map(|(at_ns, _)| *at_ns);
        let due = [self.endpoint.poll_timeout(), stranger_ns, leave_ns, confirm_ns];
        let due = due.into_iter().flatten();
        if self.socket.is_empty() { due.min() } else { Some(now_ns) }
    }

    /// Until the receiver has room, a stranger holds its only place, or others its memory.
    fn make_room(&mut self, now_ns: u64, scenario: &Scenario) {
        let full_ns = scenario.full_ns.unwrap_or(0);
        if now_ns >= full_ns {
            self.others.iter_mut().for_each(Account::clear);
        }
        let Some(stranger) = &mut self.stranger else { return };
        if now_ns >= stranger.due_ns || now_ns >= full_ns {
            stranger.send(now_ns, now_ns >= full_ns, &mut self.endpoint);
            self.take_events(now_ns, scenario);
            self.endpoint.replies().clear();
        }
        if now_ns >= full_ns {
            self.stranger = None;
        }
    }

    /// Takes the endpoint's packets, as an older version would have written them.
    fn answers(&mut self, scenario: &Scenario) -> Vec<Vec<u8>> {
        let replies = self.endpoint.replies();
        let to_sender = replies.packets().filter(|(_, to)| to.source == source());
        let mut answers: Vec<_> = to_sender.map(|(packet, _)| packet.to_vec()).collect();
        replies.clear();
        for answer in &mut answers {
            if matches!(Header::parse(answer), Ok((_, Kind::Receipt))) {
                announce(scenario, &mut answer[EPOCH]);
            }
        }
        answers
    }

    /// Confirms the windows that are due.
    fn confirm_windows(&mut self, now_ns: u64) {
        while let Some((_, window)) = self.unconfirmed.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            let run = self.run.expect("an event told it");
            let kind = RequestKind::ConfirmWindow(window);
            self.endpoint.request(now_ns, &Request { run, kind });
            self.confirmed.insert(window);
        }
    }

    /// Makes the requests that are due. A new process makes the last ones again.
    fn make_requests(&mut self, now_ns: u64, scenario: &Scenario) {
        let Some(run) = self.run else { return };
        while let Some(request) = scenario.requests.get(self.requested)
            && request.at_ns <= now_ns
        {
            let kind =
                request.rate.map_or(RequestKind::End, |(id, msr)| RequestKind::Rate(id, msr));
            let request = Request { run, kind };
            self.endpoint.request(now_ns, &request);
            self.requested += 1;
        }
    }

    /// Nothing that a sender of this version sends is damaged, unwanted or too large.
    fn check_stats(&self, scenario: &Scenario) {
        let refusals = self.endpoint.stats().refusals;
        assert_eq!((refusals.too_large, refusals.malformed), (0, self.cut));
        assert!(refusals.forgotten == 0 || scenario.silence_ns.is_some());
        assert!(refusals.unwanted == 0 || scenario.leave_ns.is_some());
    }

    /// Checks that each message comes once, complete, unaltered, and in order if its group is
    /// exact.
    fn take_events(&mut self, now_ns: u64, scenario: &Scenario) {
        let events: Vec<_> = self.endpoint.take_events().collect();
        for event in events {
            if event.source != source() {
                let is_stranger =
                    matches!(event.kind, EventKind::Message(_) | EventKind::Finished(_));
                assert!(is_stranger, "{event:?}");
                continue;
            }
            let run = *self.run.get_or_insert(event.run);
            assert_eq!(event.run, run, "the sender has another run");
            match event.kind {
                EventKind::Started(terms) | EventKind::TermsChanged(terms) => {
                    self.terms.push(terms);
                }
                EventKind::WindowEnded(summary) => {
                    let due =
                        scenario.confirm_ns.map(|after_ns| (now_ns + after_ns, summary.window));
                    self.unconfirmed.extend(due);
                    self.summaries.push(summary);
                }
                EventKind::Finished(summary) => {
                    self.has_finished = true;
                    self.summaries.push(summary);
                }
                EventKind::Message(message) => self.take_message(scenario, message),
            }
        }
    }

    fn take_message(&mut self, scenario: &Scenario, message: Message) {
        let Message { window, group, message, data } = message;
        // A process that joined in the middle only knows whether the window's number is odd.
        let window = match scenario.restart_ns {
            None => window,
            Some(_) => self.current_window - (self.current_window + window) % 2,
        };
        let len = scenario.len_of(window, group, message).expect("it was sent");
        let expected = content(window, group, message, len);
        assert_eq!(data, expected, "message {message} of group {group} was altered");
        if scenario.is_exact(group) {
            let last = self.got.range((window, group, 0)..=(window, group, message)).last();
            // Only a forced end may leave gaps.
            let in_order = last.is_none_or(|last| last.2 < message);
            let gapless = last.map_or(0, |last| last.2 + 1) == message;
            let forced = scenario.window_deadline_ns.is_some()
                || scenario.cancel_ns.is_some()
                || scenario.requests.iter().any(|request| request.rate.is_none());
            assert!(in_order && (gapless || forced), "message {message} of {group} early");
        }
        let new = self.got.insert((window, group, message));
        // A delayed copy may reach a new process after the old one saw the window's end.
        let had_ended = scenario.restart_ns.is_some()
            && self.summaries.iter().any(|summary| summary.window == window);
        assert!(new || had_ended, "message {message} of group {group} was delivered twice");
    }
}

/// How long a receiver that leaves waits for its senders.
const LINGER_NS: u64 = 2_000_000_000;

fn endpoint(scenario: &Scenario, budget: &Arc<Budget>) -> Endpoint<DrawnAdvice> {
    let places = if scenario.full_ns.is_some() && scenario.refuses_places { 1 } else { 256 };
    let silence_ns = scenario.silence_ns.unwrap_or(scenario.receiver.silence_ns);
    let admission = Admission {
        sources_max: places,
        transport: ReceiverConfig { silence_ns, ..scenario.receiver },
        ..Admission::new(scenario.seed)
    };
    let mut endpoint = Endpoint::with_budget(admission, budget.clone());
    endpoint.set_gives_advice(scenario.advises);
    endpoint
}

/// Checks the features that a receipt announces, and makes them those of an older version.
fn announce(scenario: &Scenario, epoch: &mut [u8]) {
    let plain = Features::PACKED.with(Features::TERMS).with(Features::OVERLAP);
    let plain = plain.with(Features::ORDER);
    let own = if scenario.advises { plain.with(Features::ADVICE) } else { plain };
    assert_eq!(epoch, own.bits().to_be_bytes());
    if scenario.without_order {
        let bits = own.bits() & !Features::ORDER.bits();
        epoch.copy_from_slice(&bits.to_be_bytes());
    }
    if scenario.is_old_receiver {
        epoch.copy_from_slice(&Features::OVERLAP.bits().to_be_bytes());
    }
}

/// The host's part in the arrival of a packet.
struct Arrival {
    acks: Acks,
    now_ns: u64,
    advises: bool,
}

/// Advice that changes with every packet.
#[derive(Default)]
struct DrawnAdvice(Option<(u8, Advice)>);

impl Lanes for DrawnAdvice {
    fn take_advice(&mut self, mut give: impl FnMut(u8, Advice)) {
        if let Some((group, advice)) = self.0.take() {
            give(group, advice);
        }
    }

    fn clear(&mut self) -> impl Iterator<Item = u8> {
        self.0.take().into_iter().map(|(group, _)| group)
    }
}

impl Host for Arrival {
    type Lanes = DrawnAdvice;

    fn acknowledges(&self) -> bool {
        self.acks == Acks::Library
    }

    fn on_data(&mut self, _: SocketAddr, lanes: &mut DrawnAdvice, arrived: &Arrived<'_>) {
        if self.advises {
            // From 1 to 2^40 bytes per second, often much more or less than before.
            let bits = (self.now_ns ^ u64::from(arrived.header.slot()))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let advice = Advice::of(1 << (bits >> 58).min(40));
            lanes.0 = Some((arrived.header.group(), advice));
        }
    }
}

/// A sender that holds the only place until it ends its job. It sends every second: one that is
/// silent for longer may be evicted.
#[derive(Default)]
struct Stranger {
    due_ns: u64,
    message: u32,
}

impl Stranger {
    fn send(&mut self, now_ns: u64, ends: bool, endpoint: &mut Endpoint<DrawnAdvice>) {
        self.due_ns = now_ns + 1_000_000_000;
        self.message += 1;
        self.packet(now_ns, Kind::Data, &[1], endpoint);
        if ends {
            let messages = self.message;
            let group = FinGroup { group: 0, messages, needed: messages, delivered: messages };
            let mut body = [0; 20];
            FinBody::write(&mut body, 0, &[group]).expect("a body of one group");
            self.packet(now_ns, Kind::Fin, &body, endpoint);
        }
    }

    fn packet(&self, now_ns: u64, kind: Kind, body: &[u8], endpoint: &mut Endpoint<DrawnAdvice>) {
        let header = Header::new(&Fields {
            job: 1,
            cookie: 1,
            message: if kind == Kind::Fin { self.message } else { self.message - 1 },
            count: 1,
            slot: self.message,
            ..Fields::of(kind)
        });
        let ends = Ends { source: SocketAddr::from(([10, 0, 0, 2], 1_000)), local: None };
        let packet = Datagram { head: header.as_bytes(), body, ends, traffic_class: 0 };
        let mut arrival = Arrival { acks: Acks::Kernel, now_ns, advises: false };
        endpoint.on_packet(now_ns, &packet, &mut arrival);
    }
}
