//! The event loop, and what must hold in every run.

use super::{
    Scenario,
    channel::Channel,
    hosts::{ReceivingHost, SendingHost},
};
use atp_proto::{Report, SendError, State, Summary};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::{cmp::Reverse, collections::BinaryHeap};

const NS_MAX: u64 = 3_000_000_000_000;
const EVENTS_MAX: u64 = 5_000_000;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    AtReceiver(Vec<u8>),
    AtSender(Vec<u8>),
    Send,
    Read,
}

/// How a run ended.
#[derive(Debug)]
pub struct End {
    pub result: Result<(), SendError>,
    pub report: Report,
    /// The receiver's, if it saw the end.
    pub summary: Option<Summary>,
    /// Ids that the receiving application got.
    pub got: usize,
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
    /// When the sender will work next, so that it isn't woken twice.
    send_ns: Option<u64>,
    read_ns: Option<u64>,
    restarted: bool,
}

/// Runs a scenario until its sender is done or has failed, and checks everything on the way.
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
                self.sending.sender
            );
            self.restart_if_due();
            self.handle(event);
            if self.number.is_multiple_of(16) {
                self.check_bounds();
            }
            match self.sending.sender.state() {
                State::Done => return self.end(Ok(())),
                State::Failed(error) => {
                    let error = error.clone();
                    return self.end(Err(error));
                }
                State::Open | State::Finishing => {}
            }
        }
        panic!("nothing more will happen: {:?}", self.sending.sender)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::AtReceiver(payload) => {
                if let Some(ack) = self.receiving.arrive(self.scenario, payload) {
                    self.answer(ack);
                }
                self.wake_reader();
            }
            Event::AtSender(payload) => {
                self.sending.arrive(self.now_ns, &payload);
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
                for answer in self.receiving.read(self.now_ns, self.scenario) {
                    self.answer(answer);
                }
                self.read_ns = None;
                self.wake_reader();
            }
        }
    }

    fn work(&mut self) {
        let sent = self.sending.work(self.now_ns, self.scenario, &mut self.rng);
        for (departs_ns, payload) in sent {
            for at_ns in self.forward.carry(departs_ns, &mut self.rng) {
                if self.scenario.vanish_ns.is_none_or(|vanish_ns| at_ns < vanish_ns) {
                    self.at(at_ns, Event::AtReceiver(payload.clone()));
                }
            }
        }
        let Some(next_ns) = self.sending.next_ns(self.now_ns, self.scenario) else { return };
        let next_ns = next_ns.max(self.now_ns + 1_000);
        if self.send_ns.is_none_or(|at_ns| next_ns < at_ns) {
            self.send_ns = Some(next_ns);
            self.at(next_ns, Event::Send);
        }
    }

    fn wake_reader(&mut self) {
        let every_ns = self.scenario.read_every_ns;
        let Some(next_ns) = self.receiving.next_ns(self.now_ns) else { return };
        let next_ns = next_ns.max(self.now_ns + every_ns);
        if self.read_ns.is_none_or(|at_ns| next_ns < at_ns) {
            self.read_ns = Some(next_ns);
            self.at(next_ns, Event::Read);
        }
    }

    fn answer(&mut self, payload: Vec<u8>) {
        if self.scenario.vanish_ns.is_some_and(|vanish_ns| self.now_ns >= vanish_ns) {
            return;
        }
        for at_ns in self.back.carry(self.now_ns, &mut self.rng) {
            self.at(at_ns, Event::AtSender(payload.clone()));
        }
    }

    fn restart_if_due(&mut self) {
        let due = self.scenario.restart_ns.is_some_and(|at_ns| at_ns <= self.now_ns);
        // A process that has seen the end has given its result away.
        let finished =
            self.receiving.receiver.as_ref().is_some_and(|receiver| receiver.is_finished());
        if due && !self.restarted && !finished {
            self.restarted = true;
            self.receiving.restart();
        }
    }

    fn check_bounds(&self) {
        let config = &self.scenario.sender;
        assert!(self.sending.sender.in_flight() <= config.window_packets());
        assert!(self.sending.buffered() <= config.buffer_messages_max as usize);
        for (group, report) in config.groups.iter().zip(self.sending.sender.report().groups) {
            // NetApprox §4.2, Eq. 1, never above 1 - MSR.
            assert!(report.target_loss_rate <= group.msr.slack_share());
            assert!(report.delivered + report.lost <= report.messages);
        }
    }

    fn end(self, result: Result<(), SendError>) -> End {
        let report = self.sending.sender.report();
        assert_eq!(self.sending.buffered(), 0, "data was not given back at the end");
        let got = |group: u8| self.receiving.got.values().filter(|&&g| g == group).count() as u32;
        if result.is_ok() {
            for group in &report.groups {
                let need = need(self.scenario, group.group, group.messages);
                assert!(
                    got(group.group) >= need,
                    "{group:?} is complete with {}",
                    got(group.group)
                );
                assert!(group.delivered >= need && group.delivered <= got(group.group));
                assert_eq!(group.needed, need);
            }
        }
        let summary = self.receiving.receiver.as_ref().and_then(|receiver| receiver.summary());
        if let Some(summary) = &summary {
            assert!(result.is_err() || summary.delivered as usize == self.receiving.got.len());
            let lost: Vec<u32> = summary.lost.iter().cloned().flatten().collect();
            let missing = |id: &u32| !self.receiving.got.contains_key(id);
            let expected: Vec<u32> = (0..summary.messages).filter(missing).collect();
            assert_eq!(lost, expected, "the receiver names the wrong messages as lost");
        }
        End { result, report, summary, got: self.receiving.got.len(), at_ns: self.now_ns }
    }
}

fn need(scenario: &Scenario, group: u8, messages: u32) -> u32 {
    let config = scenario.sender.groups.iter().find(|config| config.group == group).unwrap();
    let parts = u128::from(messages) * u128::from(config.msr.parts_per_billion());
    parts.div_ceil(1_000_000_000) as u32
}
