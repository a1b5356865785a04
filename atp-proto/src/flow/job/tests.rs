//! Tests a job alone, with any order of the application's steps, and a peer that loses nothing.
//! `tests/everything.rs` runs it over bad networks.

use super::*;
use crate::{GroupConfig, SenderConfig};
use atp_common::wire::{
    Features, Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind, ReceiptBody,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const MS: u64 = 1_000_000;
const LEN_BYTES: u32 = 100;
const HALF: u32 = 500_000_000;

/// A step of the application, the clock, or the peer.
#[derive(Clone, Debug)]
enum Step {
    /// So many messages of the application's window.
    Give(u32),
    /// The end of its window's input, and perhaps the beginning of the next with a known N.
    NextWindow(Option<u32>),
    /// A sampling rate, and how many windows later it begins to hold.
    SetMsr(u32, u32),
    Cancel,
    /// A round of the job, with the numbers of DATA packets and FINs that leave and arrive.
    Round(usize, usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..30u32).prop_map(Step::Give),
        3 => proptest::option::weighted(0.3, 0..30u32).prop_map(Step::NextWindow),
        2 => (0..3u32, 0..1_000_000_000u32).prop_map(|(later, msr)| Step::SetMsr(later, msr)),
        6 => (0..60usize, 0..3usize).prop_map(|(packets, fins)| Step::Round(packets, fins)),
        1 => (1..40u64).prop_map(|ms| Step::Pass(ms * MS)),
    ];
    let steps = proptest::collection::vec(step, 0..60);
    (steps, proptest::option::weighted(0.2, 0..60usize)).prop_map(|(mut steps, cancel)| {
        if let Some(at) = cancel {
            steps.insert(at.min(steps.len()), Step::Cancel);
        }
        steps
    })
}

/// A job with its application and its peer.
struct World {
    job: Job<(u32, u32)>,
    now_ns: u64,
    deadline_ns: Option<u64>,
    /// The application's window, its announced N, and the number of messages given in each window.
    window: u32,
    announced: Option<u32>,
    given: BTreeMap<u32, u32>,
    has_ended: bool,
    has_canceled: bool,
    rates_set: usize,
    rates_answered: usize,
    /// By window: when its first message was queued, and the number of those that were.
    began_ns: BTreeMap<u32, u64>,
    queued: BTreeMap<u32, u32>,
    not_needed: u32,
    reports: Vec<EndedWindow>,
    /// Messages that have arrived: window and id.
    arrived: BTreeSet<(u32, u32)>,
}

impl World {
    fn new(deadline_ns: Option<u64>, overlap: bool) -> Self {
        let group = GroupConfig::new(0, Msr::from_parts_per_billion(HALF).unwrap());
        let new = SenderConfig::new(1, 2, group);
        let config = SenderConfig { windows: true, overlap, packing: false, ..new };
        Self {
            job: Job::new(Sender::new(config).unwrap(), deadline_ns),
            now_ns: MS,
            deadline_ns,
            window: 0,
            announced: None,
            given: BTreeMap::new(),
            has_ended: false,
            has_canceled: false,
            rates_set: 0,
            rates_answered: 0,
            began_ns: BTreeMap::new(),
            queued: BTreeMap::new(),
            not_needed: 0,
            reports: Vec::new(),
            arrived: BTreeSet::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Give(messages) if !self.has_ended => {
                (0..messages).for_each(|_| self.give());
            }
            Step::NextWindow(n) if !self.has_ended => self.next_window(n),
            Step::SetMsr(later, msr) if !self.has_ended => {
                let (window, msr) =
                    (self.window + later, Msr::from_parts_per_billion(msr).unwrap());
                self.job.command(Command::SetMsr { window, group: 0, msr });
                self.rates_set += 1;
                self.work();
                assert_eq!(self.rates_set, self.rates_answered, "the application waits");
            }
            Step::Cancel if !self.has_ended => {
                self.job.command(Command::Cancel);
                (self.has_ended, self.has_canceled) = (true, true);
            }
            Step::Round(packets, fins) => self.round(packets, fins),
            Step::Pass(ns) => self.now_ns += ns,
            _ => {}
        }
    }

    /// Gives a message that says which it is. The library accepts no more than N.
    fn give(&mut self) {
        let given = self.given.entry(self.window).or_default();
        if self.announced.is_none_or(|n| *given < n) {
            let data = (self.window, *given);
            let (window, len_bytes) = (self.window, LEN_BYTES);
            self.job.give([NewMessage { window, group: 0, len_bytes, data }]);
            *given += 1;
        }
    }

    fn next_window(&mut self, announced: Option<u32>) {
        self.job.command(Command::FinishWindow);
        let messages = announced.map(|n| (0, n)).into_iter().collect();
        self.job.command(Command::BeginWindow { messages });
        (self.window, self.announced) = (self.window + 1, announced);
    }

    fn work(&mut self) {
        let Self { job, began_ns, queued, not_needed, now_ns, .. } = self;
        job.work(*now_ns, |id, data| match id {
            Some(id) => {
                assert_eq!((id.window, id.id), data, "another message or window");
                began_ns.entry(id.window).or_insert(*now_ns);
                *queued.entry(id.window).or_default() += 1;
            }
            None => *not_needed += 1,
        });
        assert!(self.job.next_deadline_ns().is_none_or(|at_ns| at_ns > self.now_ns));
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.job.next_event() {
            match event {
                Event::MsrAnswer(_) => self.rates_answered += 1,
                Event::WindowEnded(ended) => self.take_report(ended),
                Event::Complete(window) => assert!(window <= self.job.sender.window()),
                Event::Hurried(_) => assert!(self.deadline_ns.is_some()),
            }
        }
    }

    /// Checks that windows are reported in order, and cut by a cancel or their own deadline only.
    fn take_report(&mut self, ended: EndedWindow) {
        let EndedWindow { window, is_done, ref groups, .. } = ended;
        assert_eq!(window as usize, self.reports.len());
        let began_ns = self.began_ns.get(&window);
        let deadline_ns = began_ns.zip(self.deadline_ns).map(|(began_ns, ns)| began_ns + ns);
        let is_over = deadline_ns.is_some_and(|at_ns| at_ns <= self.now_ns);
        assert!(is_done || is_over || self.has_canceled, "{ended:?}");
        assert!(!is_done || groups[0].delivered >= groups[0].needed, "{ended:?}");
        assert!(groups[0].delivered <= self.queued.get(&window).copied().unwrap_or(0));
        self.reports.push(ended);
    }

    fn round(&mut self, packets: usize, fins: usize) {
        self.work();
        self.job.sender.handle_timeout(self.now_ns);
        for _ in 0..packets {
            let Some(packet) = self.job.sender.next_packet(self.now_ns) else { break };
            self.arrived.insert((packet.message.window, packet.message.id));
            let ack = packet.header.into_ack(false);
            self.job.sender.on_packet(self.now_ns, ack.as_bytes()).unwrap();
            if packet.header.slot() == 0 {
                self.receipt_of_first();
            }
        }
        for _ in 0..fins {
            let mut out = [0; 84];
            let Some(len) = self.job.sender.next_control(self.now_ns, &mut out) else { break };
            self.answer_fin(&out[..len]);
        }
        self.job.report_ends();
        self.take_events();
    }

    /// The receipt of the first message announces overlap.
    fn receipt_of_first(&mut self) {
        let epoch = Features::OVERLAP.bits();
        let header = Fields { kind: Kind::Receipt, epoch, index: 1, ..fields() };
        let mut out = [0; HEADER_LEN + 12];
        out[..HEADER_LEN].copy_from_slice(Header::new(&header).as_bytes());
        ReceiptBody::write(&mut out[HEADER_LEN..], 1, 1, 1, &[]).unwrap();
        self.job.sender.on_packet(self.now_ns, &out).unwrap();
    }

    fn answer_fin(&mut self, fin: &[u8]) {
        let (header, kind) = Header::parse(fin).unwrap();
        assert_eq!(kind, Kind::Fin);
        let body = FinBody::parse(&fin[HEADER_LEN..]).unwrap();
        let requested = body.groups().next().unwrap();
        let window = body.window();
        let delivered = self.arrived.range((window, 0)..=(window, u32::MAX)).count() as u32;
        let is_forced = header.flags().contains(Flags::FORCED);
        assert!(is_forced || delivered >= requested.needed, "a FIN too early");
        let flags = header.flags().with(Flags::ENDED);
        let (index, slot) = (header.index(), header.slot());
        let answer = Fields { kind: Kind::FinAck, flags, index, slot, ..fields() };
        let mut out = [0; HEADER_LEN + 20];
        out[..HEADER_LEN].copy_from_slice(Header::new(&answer).as_bytes());
        let group = FinGroup { delivered, ..requested };
        FinBody::write(&mut out[HEADER_LEN..], window, &[group]).unwrap();
        self.job.sender.on_packet(self.now_ns, &out).unwrap();
    }

    /// Ends the job's input, and lets the job go on until it has ended.
    fn end(mut self) -> Self {
        if !self.has_ended {
            self.job.command(Command::Finish);
            self.has_ended = true;
        }
        for _ in 0..10_000 {
            self.round(1_000, 10);
            if let Some(outcome) = self.job.outcome() {
                assert_eq!(outcome, Ok(()));
                return self;
            }
            self.now_ns += MS;
        }
        panic!("it doesn't end: {:?}", self.job);
    }
}

fn fields() -> Fields {
    Fields { job: 1, cookie: 2, count: 1, ..Fields::of(Kind::Fin) }
}

proptest! {
    #[test]
    fn job__ends_each_window_once_and_in_order(
        steps in steps(),
        deadline_ms in proptest::option::of(1..60u64),
        overlap: bool,
    ) {
        let mut world = World::new(deadline_ms.map(|ms| ms * MS), overlap);
        for step in &steps {
            world.take(step);
        }
        let world = world.end();
        let reported = world.reports.len() as u32;
        let given: u32 = world.given.values().sum();
        let queued: u32 = world.queued.values().sum();
        let last = world.job.sender.window();
        if world.has_canceled {
            // Windows that had not begun never do.
            prop_assert!(queued + world.not_needed <= given);
            prop_assert!(reported <= world.window + 1);
        } else {
            prop_assert_eq!(queued + world.not_needed, given);
            prop_assert_eq!(reported, world.window + 1);
        }
        // An empty window may have ended the job.
        let is_empty = !world.queued.contains_key(&last);
        prop_assert!(reported == last + 1 || (reported == last && is_empty));
        prop_assert_eq!(world.job.windows_ended(), last + 1);
    }
}

fn world_of_two_windows() -> World {
    let mut world = World::new(None, false);
    world.take(&Step::Give(10));
    world.take(&Step::NextWindow(None));
    world.take(&Step::Give(10));
    world
}

#[test]
fn command__rate_of_a_later_window_holds_from_its_beginning_on() {
    let mut world = world_of_two_windows();
    world.take(&Step::SetMsr(0, 800_000_000));
    world.take(&Step::SetMsr(1, 900_000_000));
    world.take(&Step::NextWindow(None));
    world.take(&Step::Give(10));
    let needed = |report: &EndedWindow| report.groups[0].needed;
    assert_eq!(world.end().reports.iter().map(needed).collect::<Vec<_>>(), [5, 8, 9]);
}

#[test]
fn command__finish_after_the_last_window_ends_with_an_empty_one() {
    let mut world = World::new(None, false);
    world.take(&Step::Give(10));
    world.job.command(Command::FinishWindow);
    world.round(1_000, 10);
    assert_eq!((world.reports.len(), world.job.outcome()), (1, None));
    let world = world.end();
    assert_eq!((world.reports.len(), world.job.sender.window()), (1, 1));
    assert_eq!((world.job.windows_ended(), world.job.was_cut()), (2, false));
}

#[test]
fn command__cancel_leaves_out_windows_that_have_not_begun() {
    let mut world = world_of_two_windows();
    world.take(&Step::Cancel);
    let world = world.end();
    assert_eq!((world.reports.len(), world.job.was_cut()), (1, true));
    assert!(world.reports[0].groups[0].messages == 10 && !world.queued.contains_key(&1));
}

#[test]
fn command__abandon_is_seen_at_once() {
    let mut world = world_of_two_windows();
    assert!(!world.job.is_abandoned());
    world.job.command(Command::Abandon);
    assert!(world.job.is_abandoned());
}

#[test]
fn deadline__ends_its_own_window_beside_the_next() {
    let mut world = World::new(Some(10 * MS), true);
    world.take(&Step::Give(10));
    world.round(1, 0);
    world.take(&Step::NextWindow(None));
    world.now_ns += 9 * MS;
    world.take(&Step::Give(10));
    world.round(0, 0);
    assert_eq!(world.job.sender.closing_window(), Some(0));
    world.now_ns += MS;
    let is_done = |report: &EndedWindow| report.is_done;
    assert_eq!(world.end().reports.iter().map(is_done).collect::<Vec<_>>(), [false, true]);
}
