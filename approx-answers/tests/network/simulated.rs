//! One job on a simulated network: the state machines and the laws of ATP, unchanged.

use std::cell::RefCell;
use std::rc::Rc;

use atp_common::units::{Msr, Rate};
use atp_common::wire::{Order, TermsGroup};
use atp_proto::endpoint::{Event, EventKind, Request, RequestKind};
use atp_proto::{GroupConfig, GroupSummary, ReceiverConfig};
use atp_sim::engine::{MS, S, US};
use atp_sim::experiment::msr_from_fraction;
use atp_sim::net::topology::{Lines, Star};
use atp_sim::net::{PortQueues, Topology, Unit};
use atp_sim::scheme::LawChoice;
use atp_sim::scheme::atp::{Application, AtpReceiver, AtpSender, AtpSettings};
use atp_sim::simulation::{NewFlow, Simulation};
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use switch_profiles::Profile;

use crate::lossy::Lossy;

/// The line of each sender's host. It is slow, so that requests, at most one a millisecond, come in
/// time for jobs of few messages. The timers are those of kernel hosts.
const LINE_BITS_PER_S: u64 = 100_000_000;
/// Propagation, and the processing of the switch.
const DELAY_PS: u64 = 10 * US;
const BUFFER_BYTES: u64 = 1_500_000;
/// No job takes as long.
const END_PS: u64 = 60 * S;

/// The path of a job's packets: hosts around one switch, and one receiving host.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// The receiver's line, as a share of a sender's. Packets wait in front of it, in the short
    /// queues of the default profile.
    pub line: f64,
    /// The share of packets that are lost at random, in both directions.
    pub lost: f64,
}

impl Network {
    /// Queues overflow.
    pub const SHORT_QUEUES: Self = Self { line: 0.5, lost: 0.0 };
    /// The line loses packets, and no queue overflows.
    pub const RANDOM_DROPS: Self = Self { line: 1.5, lost: 0.05 };
}

/// One sender's part of a job.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The sender's host.
    pub host: u32,
    /// Bytes of each message, in the order of queueing.
    pub lengths: Vec<u32>,
    pub msr: f64,
    pub mrdf: bool,
    /// As the sender states it.
    pub order: Order,
}

/// The terms of the group.
pub type Terms = TermsGroup;

/// The part of a job that the receiver got.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// By flow: the terms that the receiver had at the end, and its summary.
    pub groups: Vec<(Option<Terms>, GroupSummary)>,
    /// The time until all summaries were there.
    pub took_ns: u64,
    /// Bytes on the wire of packets with data.
    pub sent_bytes: u64,
}

/// A request to a sender.
pub enum Ask {
    /// Another sampling rate.
    Msr(Msr),
    /// The end of the job.
    End,
}

/// The application that reads the messages of all flows.
pub trait Reader {
    /// A message of a flow has arrived.
    fn take(&mut self, flow: usize, message: u32);
    /// The terms of a flow have arrived, or have changed.
    fn tell(&mut self, flow: usize, terms: &Terms);
    /// The next request to the sender of a flow, asked for after each packet.
    fn next_request(&mut self, flow: usize) -> Option<Ask>;
    /// The flow has ended.
    fn end(&mut self, flow: usize, terms: Option<&Terms>, group: &GroupSummary);
}

/// An application that doesn't read before the end.
impl Reader for () {
    fn take(&mut self, _flow: usize, _message: u32) {}
    fn tell(&mut self, _flow: usize, _terms: &Terms) {}
    fn next_request(&mut self, _flow: usize) -> Option<Ask> {
        None
    }
    fn end(&mut self, _flow: usize, _terms: Option<&Terms>, _group: &GroupSummary) {}
}

/// The time of a flow's end, nanoseconds, its terms, and its summary.
type Ended = (u64, (Option<Terms>, GroupSummary));

/// The application of one flow's receiver.
struct App<R> {
    flow: usize,
    reader: Rc<RefCell<R>>,
    ended: Rc<RefCell<Vec<Option<Ended>>>>,
    taken: u32,
    terms: Option<Terms>,
    /// The sender's run, as the first event named it.
    run: Option<u64>,
}

impl<R> std::fmt::Debug for App<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("flow", &self.flow).finish_non_exhaustive()
    }
}

impl<R: Reader> Application for App<R> {
    fn take(&mut self, now_ns: u64, Event { run, kind, .. }: Event) {
        self.run = Some(run);
        let mut reader = self.reader.borrow_mut();
        match kind {
            EventKind::Started(terms) | EventKind::TermsChanged(terms) => {
                let [group] = terms.groups[..] else { panic!("one group: {terms:?}") };
                reader.tell(self.flow, &group);
                self.terms = Some(group);
            }
            EventKind::Message(message) => {
                self.taken += 1;
                reader.take(self.flow, message.message);
            }
            EventKind::WindowEnded(summary) => panic!("a window: {summary:?}"),
            EventKind::Finished(summary) => {
                let [group] = &summary.groups[..] else { panic!("one group: {summary:?}") };
                assert_eq!(group.delivered, self.taken);
                reader.end(self.flow, self.terms.as_ref(), group);
                self.ended.borrow_mut()[self.flow] = Some((now_ns, (self.terms, group.clone())));
            }
        }
    }

    fn next_request(&mut self) -> Option<Request> {
        let run = self.run?;
        let kind = match self.reader.borrow_mut().next_request(self.flow)? {
            Ask::Msr(msr) => RequestKind::Rate(0, msr),
            Ask::End => RequestKind::End,
        };
        Some(Request { run, kind })
    }
}

/// Whether a message of a flow didn't arrive.
pub fn is_lost(group: &GroupSummary, message: u32) -> bool {
    group.lost.iter().any(|lost| lost.contains(&message))
}

/// Runs a job until each receiver has its summary.
pub fn run<R: Reader + 'static>(
    network: Network,
    flows: &[Flow],
    reader: Rc<RefCell<R>>,
    seed: u64,
) -> Delivered {
    let mut draws = ChaCha8Rng::seed_from_u64(seed);
    // Short queues and no advice lose more than the default does.
    let profile = Profile::paper();
    let receiver = flows.iter().map(|flow| flow.host + 1).max().unwrap_or(0);
    // No two jobs have the same pattern of losses.
    let line = network.line * draws.random_range(0.95..1.05);
    let queues = PortQueues::of_profile(&profile, Unit::default(), BUFFER_BYTES);
    let mut simulation = Simulation::new(&topology(receiver, line), queues);
    let ended = Rc::new(RefCell::new(vec![None; flows.len()]));
    for (number, flow) in flows.iter().enumerate() {
        let began_ps = draws.random_range(0..1_000) * US;
        let at = move |bytes: &u32| (began_ps, *bytes);
        let messages: Vec<(u64, u32)> = flow.lengths.iter().map(at).collect();
        let new = NewFlow::new(flow.host, receiver, Box::new(messages.into_iter()), 0);
        let (reader, ended) = (reader.clone(), ended.clone());
        let app = App { flow: number, reader, ended, taken: 0, terms: None, run: None };
        let mut lossy = || (network.lost, ChaCha8Rng::seed_from_u64(draws.random()));
        let ((share, there), (_, back)) = (lossy(), lossy());
        simulation.add(new, |route| {
            let sender = AtpSender::new(route, settings(flow, route.flow, &profile), 0);
            let receiver = AtpReceiver::new(route, ReceiverConfig::default(), None)
                .with_application(Box::new(app));
            (
                Box::new(Lossy { endpoint: sender, share, draws: back }),
                Box::new(Lossy { endpoint: receiver, share, draws: there }),
            )
        });
    }
    let mut until_ps = 0;
    while ended.borrow().iter().any(Option::is_none) {
        until_ps += MS;
        assert!(until_ps < END_PS && !simulation.is_over(), "the job doesn't end: {flows:?}");
        simulation.run_on(until_ps);
    }
    let (ended_ns, groups): (Vec<u64>, Vec<_>) = ended.take().into_iter().flatten().unzip();
    let sent = (0..simulation.flows()).map(|flow| simulation.spent(flow).sent_bytes);
    Delivered { groups, took_ns: ended_ns.into_iter().max().unwrap_or(0), sent_bytes: sent.sum() }
}

/// A star whose last host has a line of another rate.
fn topology(receiver: u32, line: f64) -> Topology {
    let lines = Lines {
        host_bits_per_s: LINE_BITS_PER_S,
        switch_bits_per_s: LINE_BITS_PER_S,
        propagation_ps: DELAY_PS,
        switching_ps: DELAY_PS,
    };
    let mut topology = Star { hosts: receiver + 1 }.topology(&lines);
    let down = &mut topology.switches[0].links[receiver as usize];
    down.bits_per_s = (line * LINE_BITS_PER_S as f64) as u64;
    topology
}

fn settings(flow: &Flow, number: u32, profile: &Profile) -> AtpSettings {
    let msr = msr_from_fraction(flow.msr).expect("a rate");
    let total = Some(flow.lengths.len() as u32);
    let group = GroupConfig { total, order: flow.order, ..GroupConfig::new(0, msr) };
    let rate_max = Rate::from_bytes_per_s(LINE_BITS_PER_S / 8);
    let mut settings = AtpSettings::new(LawChoice::PAPER, number, group, rate_max, profile);
    settings.config.mrdf = flow.mrdf;
    settings.config.announce_terms = true;
    settings
}
