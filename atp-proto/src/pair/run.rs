//! The event loop, and the invariants of every run.

use super::{
    Scenario,
    channel::{Arrival, Channel},
    receiving::ReceivingHost,
    scenario::ClockStep,
    sending::SendingHost,
};
use crate::{EndedWindow, GroupConfig, LostIds, Report, SendError, Summary, Terms};
use atp_common::{units::Msr, wire::HEADER_LEN};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::{cmp::Reverse, collections::BinaryHeap};

const NS_MAX: u64 = 3_000_000_000_000;
const EVENTS_MAX: u64 = 5_000_000;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet, and whether it is marked.
    AtReceiver(Vec<u8>, bool),
    AtSender(Vec<u8>),
    Send,
    Read,
}

/// The result of a run.
#[derive(Debug)]
pub struct End {
    /// The sender's verdict.
    pub result: Result<(), SendError>,
    /// The sender's report.
    pub report: Report,
    /// The receiver's summary of each window whose end it saw.
    pub summaries: Vec<Summary>,
    /// The terms that the receiving application got.
    pub terms: Vec<Terms>,
    /// The sender's groups at the end.
    pub groups: Vec<GroupConfig>,
    /// The number of messages that the receiving application got.
    pub got: usize,
    /// The number of windows that ended with enough messages.
    pub windows_done: u32,
    /// The number of windows that began before the last one had ended.
    pub begun_beside: u32,
    /// Groups of ended windows whose sender should name the lost messages.
    pub names_asked: u32,
    /// Groups of ended windows whose sender names the lost messages.
    pub names_known: u32,
    /// When it ended.
    pub at_ns: u64,
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    rng: ChaCha8Rng,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    forward: Channel,
    back: Channel,
    sending: SendingHost,
    receiving: ReceivingHost,
    /// When the sender works next. Other wake-ups are ignored.
    send_ns: Option<u64>,
    read_ns: Option<u64>,
    restarted: bool,
    windows_done: u32,
    names_asked: u32,
    names_known: u32,
}

/// Runs a scenario until its sender is done or has failed, and checks the invariants throughout.
///
/// # Panics
/// If an invariant is violated.
pub fn run(scenario: &Scenario) -> End {
    let mut simulation = Simulation {
        scenario,
        rng: ChaCha8Rng::seed_from_u64(scenario.seed ^ 0x0051_3a7e),
        now_ns: 0,
        events: BinaryHeap::new(),
        number: 0,
        forward: Channel::new(scenario.forward.clone()),
        back: Channel::new(scenario.back.clone()),
        sending: SendingHost::new(scenario),
        receiving: ReceivingHost::new(scenario),
        send_ns: None,
        read_ns: None,
        restarted: false,
        windows_done: 0,
        names_asked: 0,
        names_known: 0,
    };
    simulation.work();
    simulation.run()
}

impl Simulation<'_> {
    fn at(&mut self, at_ns: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at_ns, self.number, event)));
    }

    fn run(mut self) -> End {
        while let Some(Reverse((at_ns, _, event))) = self.events.pop() {
            assert!(at_ns >= self.now_ns);
            self.now_ns = at_ns;
            assert!(
                at_ns < NS_MAX && self.number < EVENTS_MAX,
                "doesn't end: {} ns, {:#?}",
                self.now_ns,
                self.sending.job.sender
            );
            self.restart_if_due();
            self.handle(event);
            if self.number.is_multiple_of(16) {
                self.check_bounds();
            }
            if let Some(outcome) = self.sending.job.outcome() {
                let result = outcome.map_err(SendError::clone);
                return self.end(result);
            }
        }
        panic!("nothing more will happen: {:?}", self.sending.job.sender)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::AtReceiver(payload, marked) => {
                let now_ns = clock_ns(self.now_ns, self.scenario.receiver_clock);
                let answer = self.receiving.arrive(now_ns, self.scenario, payload, marked);
                if let Some(ack) = answer {
                    self.answer(ack);
                }
                self.wake_reader();
            }
            Event::AtSender(payload) => {
                let now_ns = self.sender_now_ns();
                self.sending.arrive(now_ns, &payload);
                self.work();
            }
            Event::Send => {
                if self.send_ns != Some(self.now_ns) {
                    return;
                }
                self.send_ns = None;
                self.work();
            }
            Event::Read => {
                if self.read_ns != Some(self.now_ns) {
                    return;
                }
                self.read_ns = None;
                if !self.scenario.stall_ns.contains(&self.now_ns) {
                    let now_ns = clock_ns(self.now_ns, self.scenario.receiver_clock);
                    self.receiving.current_window = self.sending.job.sender.window();
                    for answer in self.receiving.read(now_ns, self.scenario) {
                        self.answer(answer);
                    }
                }
                self.wake_reader();
            }
        }
    }

    fn work(&mut self) {
        let now_ns = self.sender_now_ns();
        let ahead_ns = now_ns - self.now_ns;
        let (sent, ended) = self.sending.work(now_ns, self.scenario, &mut self.rng);
        ended.iter().for_each(|ended| self.check_window(now_ns, ended));
        for (departs_ns, payload) in sent {
            let departs_ns = departs_ns - ahead_ns;
            if self.is_too_long(departs_ns, &payload) {
                continue;
            }
            for Arrival { at_ns, marked } in self.forward.carry(departs_ns, &mut self.rng) {
                if self.scenario.vanish_ns.is_none_or(|vanish_ns| at_ns < vanish_ns) {
                    let payload = self.forward.cut(&payload, &mut self.rng);
                    self.at(at_ns, Event::AtReceiver(payload, marked));
                }
            }
        }
        let Some(next_ns) = self.sending.next_ns(now_ns, self.scenario) else { return };
        let next_ns = next_ns.saturating_sub(ahead_ns).max(self.now_ns + 1_000);
        if self.send_ns.is_none_or(|at_ns| next_ns < at_ns) {
            self.send_ns = Some(next_ns);
            self.at(next_ns, Event::Send);
        }
    }

    fn wake_reader(&mut self) {
        let every_ns = self.scenario.read_every_ns;
        let now_ns = clock_ns(self.now_ns, self.scenario.receiver_clock);
        let Some(next_ns) = self.receiving.next_ns(now_ns, self.scenario) else { return };
        let next_ns = next_ns.saturating_sub(now_ns - self.now_ns).max(self.now_ns + every_ns);
        let stall_ns = &self.scenario.stall_ns;
        let next_ns = if stall_ns.contains(&next_ns) { stall_ns.end } else { next_ns };
        if self.read_ns.is_none_or(|at_ns| next_ns < at_ns) {
            self.read_ns = Some(next_ns);
            self.at(next_ns, Event::Read);
        }
    }

    fn answer(&mut self, payload: Vec<u8>) {
        if self.scenario.vanish_ns.is_some_and(|vanish_ns| self.now_ns >= vanish_ns) {
            return;
        }
        for Arrival { at_ns, .. } in self.back.carry(self.now_ns, &mut self.rng) {
            let payload = self.back.cut(&payload, &mut self.rng);
            self.at(at_ns, Event::AtSender(payload));
        }
    }

    fn sender_now_ns(&self) -> u64 {
        clock_ns(self.now_ns, self.scenario.sender_clock)
    }

    fn is_too_long(&self, departs_ns: u64, payload: &[u8]) -> bool {
        self.scenario.narrow.is_some_and(|(from_ns, bytes)| {
            departs_ns >= from_ns && payload.len() > HEADER_LEN + bytes as usize
        })
    }

    fn restart_if_due(&mut self) {
        let due = self.scenario.restart_ns.is_some_and(|at_ns| at_ns <= self.now_ns);
        // A process that has seen the end has given its result away.
        if due && !self.restarted && !self.receiving.has_finished {
            self.restarted = true;
            self.receiving.restart(self.scenario);
        }
    }

    fn check_bounds(&self) {
        let config = self.sending.job.sender.config();
        assert!(self.sending.job.sender.in_flight() <= config.window_packets());
        assert!(self.sending.buffered() <= config.buffer_messages_max as usize);
        for (group, report) in config.groups.iter().zip(self.sending.job.sender.report().groups) {
            // NetApprox §4.2, Eq. 1, never above 1 - MSR.
            assert!(report.target_loss_rate <= group.msr.slack_share());
            assert!(report.delivered + report.lost <= report.messages);
        }
    }

    /// Checks an ended window: it has enough messages, or its end was forced, and not before its
    /// deadline.
    fn check_window(&mut self, now_ns: u64, ended: &EndedWindow) {
        let EndedWindow { window, is_done, .. } = *ended;
        self.windows_done += u32::from(is_done);
        assert_eq!(self.sending.buffered_of(window), 0, "data was not released at the end");
        let began_ns = self.sending.began_ns.get(&window);
        let deadline_ns =
            began_ns.zip(self.scenario.window_deadline_ns).map(|(from, ns)| from + ns);
        let is_over = deadline_ns.is_some_and(|at_ns| at_ns <= now_ns);
        assert!(is_done || is_over || self.sending.application.has_canceled(), "{ended:?}");
        let got = |group: u8| {
            self.receiving.got.range((window, group, 0)..=(window, group, u32::MAX)).count() as u32
        };
        for group in &ended.groups {
            let need = need(group.msr, group.messages);
            assert!(!is_done || got(group.group) >= need, "{group:?}: {}", got(group.group));
            assert!(!is_done || group.delivered >= need);
            assert_eq!(group.needed, need);
            assert!(group.delivered <= got(group.group), "{group:?}: {}", got(group.group));
        }
        // After a restart, each process only knows its own messages.
        if self.scenario.restart_ns.is_some() {
            return;
        }
        let summary = self.receiving.summaries.iter().find(|summary| summary.window == window);
        let Some(summary) = summary else {
            // An endpoint tells nothing of a sender without a message.
            let has_message = self.receiving.got.first().is_some_and(|first| first.0 <= window);
            assert!(!has_message, "a window's end without a summary");
            return;
        };
        assert!(is_done || summary.forced);
        let awaits = self.scenario.confirm_ns.is_some() && summary.more;
        assert!(!awaits || self.receiving.confirmed.contains(&window), "it was not confirmed");
        self.check_terms();
        for (group, named) in summary.groups.iter().zip(&ended.lost_ids) {
            let missing = |id: &u32| !self.receiving.got.contains(&(window, group.group, *id));
            let lost: Vec<u32> = group.lost.iter().cloned().flatten().collect();
            let expected: Vec<u32> = (0..group.messages).filter(missing).collect();
            assert_eq!(lost, expected, "the receiver names the wrong messages as lost");
            assert_eq!(group.delivered, got(group.group));
            if self.sending.job.sender.config().names_lost {
                self.names_asked += 1;
                self.names_known += u32::from(matches!(named, LostIds::Known(_)));
            }
            if let LostIds::Known(named) = named {
                assert_eq!(*named, group.lost, "the sender names others");
            }
        }
    }

    /// Checks the terms that the application got: they name the groups, and the N that was true.
    fn check_terms(&self) {
        for terms in &self.receiving.terms {
            assert!((terms.window as usize) < self.scenario.windows.len() + 1);
            let groups = &self.scenario.sender.groups;
            assert_eq!(terms.groups.len(), groups.len());
            for told in &terms.groups {
                let config = groups.iter().find(|config| config.group == told.group).unwrap();
                assert_eq!((told.exact, told.name), (config.msr.is_exact(), config.name));
                if let (Some(window), Some(messages)) =
                    (self.scenario.windows.get(terms.window as usize), told.messages)
                {
                    let of_group = window.messages.iter().filter(|m| m.0 == told.group);
                    assert!(messages as usize <= of_group.count());
                }
            }
        }
    }

    /// Checks that the end of each window was reported, but for an empty one at the end.
    fn check_reports(&self) {
        let sending = &self.sending;
        let (reported, last) =
            (sending.application.windows_reported(), sending.job.sender.window());
        let groups = sending.job.sender.report().groups;
        let is_empty = groups.iter().all(|group| group.messages == 0);
        assert!(reported == last + 1 || (is_empty && reported == last), "{reported} of {last}");
        let is_cut =
            sending.application.has_canceled() || sending.job.sender.is_ended_by_receiver();
        assert!(is_cut || reported as usize == self.scenario.windows.len(), "{reported} windows");
    }

    fn end(self, result: Result<(), SendError>) -> End {
        if result.is_ok() && self.scenario.restart_ns.is_none() {
            let last = self.receiving.summaries.last();
            assert!(last.is_none_or(|last| !last.more), "the receiver waits for a window");
        }
        if result.is_ok() {
            self.check_reports();
        }
        assert_eq!(self.sending.buffered(), 0, "data was not released at the end");
        End {
            result,
            report: self.sending.job.sender.report(),
            summaries: self.receiving.summaries,
            terms: self.receiving.terms,
            groups: self.sending.job.sender.config().groups.clone(),
            got: self.receiving.got.len(),
            windows_done: self.windows_done,
            begun_beside: self.sending.begun_beside,
            names_asked: self.names_asked,
            names_known: self.names_known,
            at_ns: self.now_ns,
        }
    }
}

/// The time of a clock that jumps ahead once.
fn clock_ns(now_ns: u64, clock: Option<ClockStep>) -> u64 {
    clock.filter(|step| now_ns >= step.at_ns).map_or(now_ns, |step| now_ns + step.step_ns)
}

fn need(msr: Msr, messages: u32) -> u32 {
    let parts = u128::from(messages) * u128::from(msr.parts_per_billion());
    parts.div_ceil(1_000_000_000) as u32
}
