//! One point: a network, a workload and a scheme, run to its end.

mod background;
mod bottleneck;
mod collective;
mod long_flows;
mod outcome;
mod place;
mod scheme;
mod stragglers;
mod timeline;
mod traffic;

pub use bottleneck::{Bottleneck, BottleneckOutcome};
pub use long_flows::{LongFlows, LongFlowsOutcome};
pub use outcome::{JobOutcome, Outcome};
pub use place::{Place, Rate};
pub use scheme::{Atp, Policy, Scheme};
pub use stragglers::Stragglers;
pub use timeline::Sample;
pub use traffic::{AllReduce, Tenant, Traffic};

use crate::{
    engine::{MS, S},
    net::{FlowId, PortQueues, Unit, topology::mixed},
    scheme::wire_bytes,
    simulation::{Messages, NewFlow, Simulation},
    workload::{Arrivals, Background, Gaps, Sizes, TraceJob, sampled},
};
use atp_common::units::Msr;
use collective::Collective;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;
use switch_profiles::Profile;

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every host to another one, drawn at random: some receive from several, others from none
    /// (NetApprox §7.1.1's all-to-all).
    Random,
    /// Every host to another one, and no two to the same.
    Permutation,
    /// All other hosts to host 0, or so many of them.
    Incast(Option<u32>),
    /// So many hosts to one, all over the network: hosts are cut at random into groups of one receiver
    /// and its senders.
    FanIn(u32),
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Point {
    /// The network.
    pub place: Place,
    /// Every line's rate.
    pub rate: Rate,
    /// Hosts and links that are slower than others.
    pub stragglers: Stragglers,
    /// Every packet takes a way of its own; else all of a flow go the same.
    pub sprayed: bool,
    /// Bytes that the ports of a switch share.
    pub buffer_bytes: u64,
    /// The queues of ATP's switches.
    pub profile: Profile,
    /// What its limits count.
    pub unit: Unit,
    /// Where its jobs' messages come from.
    pub traffic: Traffic,
    /// Who sends to whom.
    pub pattern: Pattern,
    /// How long the messages are.
    pub sizes: Sizes,
    /// What lies between them.
    pub gaps: Gaps,
    /// The share of its line that a host's messages would take as UDP.
    pub load: f64,
    /// When messages begin to come.
    pub begins_ps: u64,
    /// For how long messages come.
    pub duration_ps: u64,
    /// Every job's minimal sampling rate.
    pub msr: Msr,
    /// What the hosts run.
    pub scheme: Scheme,
    /// The share of hosts whose job is exact: all of it over DCTCP, whatever the others run.
    pub exact_share: f64,
    /// Jobs of other kinds that share the network, under the same scheme.
    pub tenants: Vec<Tenant>,
    /// Traffic that is nobody's job.
    pub background: Vec<Background>,
    /// Everything random follows from it.
    pub seed: u64,
}

/// Jobs that aren't done so long after their last message never will be: ten of ATP's longest waits for
/// a word of a peer.
const PATIENCE_PS: u64 = S;

impl Default for Point {
    /// NetApprox §7.1: 192 hosts, 40 Gbit/s, 1.5 MB of buffer, FBKV.
    fn default() -> Self {
        Self {
            place: Place::default(),
            rate: Rate::default(),
            stragglers: Stragglers::default(),
            sprayed: false,
            buffer_bytes: 1_500_000,
            profile: Profile::default(),
            unit: Unit::default(),
            traffic: Traffic::Drawn,
            pattern: Pattern::Random,
            sizes: Sizes::KeyValue,
            gaps: Gaps::Poisson,
            load: 0.6,
            begins_ps: 0,
            duration_ps: MS,
            msr: Msr::from_parts_per_billion(500_000_000).unwrap_or(Msr::EXACT),
            scheme: Scheme::default(),
            exact_share: 0.0,
            tenants: Vec::new(),
            background: Vec::new(),
            seed: 1,
        }
    }
}

impl Point {
    /// Runs it.
    pub fn run(&self) -> Outcome {
        let Setup { mut simulation, mut jobs, background, collective } = self.set_up();
        let end_ps = self.last_ps() + PATIENCE_PS;
        let mut is_done = true;
        if let Some(collective) = collective {
            is_done = collective.run(self, &mut simulation, &mut jobs, end_ps);
        } else {
            // Queues are looked at over the same time under every scheme: while messages come.
            simulation.run_on(self.begins_ps + self.duration_ps);
        }
        let queues = outcome::Queues::of(&simulation);
        is_done &= simulation.run(end_ps);
        let ended_ps = simulation.now_ps();
        background.into_iter().for_each(|flow| simulation.silence(flow));
        if is_done {
            // Receivers have what they need; senders are still to learn it.
            simulation.run_on(ended_ps + PATIENCE_PS);
        }
        Outcome::of(&simulation, &jobs, queues, ended_ps)
    }

    /// The network with all its flows, before anything happens.
    fn set_up(&self) -> Setup {
        let mut topology = self.place.topology(self.rate);
        self.stragglers.slow(&mut topology, self.seed);
        let mut simulation = Simulation::new(&topology, self.port_queues());
        let mut jobs = self.add_jobs(&mut simulation);
        for (number, tenant) in (1..).zip(&self.tenants) {
            let theirs = tenant.as_point(self, number).add_jobs(&mut simulation);
            jobs.extend(theirs.into_iter().map(|job| outcome::Job { tenant: number, ..job }));
        }
        let collective = match &self.traffic {
            Traffic::AllReduce(all_reduce) => Some(Collective::new(self, all_reduce)),
            _ => None,
        };
        let background = background::add(self, &mut simulation);
        Setup { simulation, jobs, background, collective }
    }

    /// When the last message of any job comes.
    fn last_ps(&self) -> u64 {
        let own_ps = match &self.traffic {
            Traffic::Trace(trace) => trace.last_ps(),
            _ => self.begins_ps + self.duration_ps,
        };
        let of_tenant = |tenant: &Tenant| tenant.begins_ps + tenant.duration_ps;
        self.tenants.iter().map(of_tenant).fold(own_ps, u64::max)
    }

    /// How many messages a job has, on the average.
    pub fn messages_of_a_job(&self) -> f64 {
        let bits_per_s = self.load * self.rate.bits_per_s() as f64;
        let message_bits = 8.0 * self.sizes.mean(udp_bytes);
        bits_per_s * (self.duration_ps as f64 / S as f64) / message_bits
    }

    /// The queues of its switches.
    pub fn port_queues(&self) -> PortQueues {
        self.scheme.port_queues(self)
    }

    fn pairs(&self, hosts: u32) -> Vec<(u32, u32)> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        match self.pattern {
            Pattern::Random => {
                (0..hosts).map(|host| (host, (host + rng.random_range(1..hosts)) % hosts)).collect()
            }
            Pattern::Permutation => cycle(&mut rng, hosts),
            Pattern::Incast(number) => (1..hosts.min(number.map_or(hosts, |number| number + 1)))
                .map(|host| (host, 0))
                .collect(),
            Pattern::FanIn(senders) => groups(&mut rng, hosts, senders),
        }
    }

    fn add_jobs(&self, simulation: &mut Simulation) -> Vec<outcome::Job> {
        match &self.traffic {
            Traffic::Drawn => {
                let pairs = self.pairs(self.place.hosts() as u32);
                let exact = self.exact_hosts(pairs.iter().map(|pair| pair.0));
                let add = |(source, destination)| {
                    let is_exact = exact.contains(&source);
                    self.add_job(simulation, source, destination, is_exact, self.arrivals(source))
                };
                pairs.into_iter().map(add).collect()
            }
            Traffic::Trace(trace) => {
                let exact = self.exact_hosts(trace.jobs.iter().map(|job| job.source));
                let add = |job: &TraceJob| {
                    let is_exact = exact.contains(&job.source);
                    self.add_job(simulation, job.source, job.destination, is_exact, job.messages())
                };
                trace.jobs.iter().map(add).collect()
            }
            // Each of its transfers begins when others are done.
            Traffic::AllReduce(_) => Vec::new(),
        }
    }

    /// Which of the hosts that send have an exact job: as many as the share says. The same ones whatever
    /// else changes, and those of a small share among those of a larger.
    fn exact_hosts(&self, sources: impl Iterator<Item = u32>) -> BTreeSet<u32> {
        let sources: BTreeSet<u32> = sources.collect();
        let wanted = (self.exact_share * sources.len() as f64).round() as usize;
        let mut order: Vec<u32> = sources.into_iter().collect();
        order.sort_by_key(|host| (mixed(host ^ mixed(self.seed as u32)), *host));
        order.into_iter().take(wanted).collect()
    }

    fn add_job(
        &self,
        simulation: &mut Simulation,
        source: u32,
        destination: u32,
        exact: bool,
        arrivals: impl Iterator<Item = (u64, u32)> + Clone + 'static,
    ) -> outcome::Job {
        let total = arrivals.clone().count() as u32;
        let began_ps = arrivals.clone().next().map_or(0, |(at_ps, _)| at_ps);
        let (scheme, msr) = match exact {
            true => (Scheme::Dctcp(Policy::EarlySend), Msr::EXACT),
            false => (self.scheme, self.msr),
        };
        let needed = msr.needed(total);
        let messages: Messages = match scheme.policy() {
            Policy::EarlySend => Box::new(arrivals),
            Policy::SampleSend => {
                let seed = self.seed_of(source) ^ 0x5a5a;
                Box::new(sampled(arrivals, seed, needed, total))
            }
        };
        let new = NewFlow {
            source,
            destination,
            sprayed: self.sprayed,
            began_ps,
            messages,
            needed,
            stops: scheme.is_told_to_stop(),
            timed: exact,
        };
        let flow = simulation.add(new, |route| scheme.ends(route, self, total));
        outcome::Job { flow, tenant: 0, total, needed, exact }
    }

    fn seed_of(&self, host: u32) -> u64 {
        self.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(host))
    }

    /// The messages of a host's job: the same ones under every scheme.
    fn arrivals(&self, host: u32) -> impl Iterator<Item = (u64, u32)> + Clone + 'static {
        let seed = self.seed_of(host);
        let bits_per_s = self.load * self.rate.bits_per_s() as f64;
        let begins_ps = self.begins_ps;
        Arrivals::at_rate(seed, &self.sizes, self.gaps, bits_per_s, udp_bytes, self.duration_ps)
            .map(move |(at_ps, bytes)| (begins_ps + at_ps, bytes))
    }
}

/// What is there before anything happens.
struct Setup {
    simulation: Simulation,
    jobs: Vec<outcome::Job>,
    background: Vec<FlowId>,
    collective: Option<Collective>,
}

/// What a message takes on the wire as UDP datagrams.
fn udp_bytes(bytes: u32) -> f64 {
    let (full, rest) = (bytes / 1_472, bytes % 1_472);
    let last = if rest > 0 || full == 0 { wire_bytes(rest + 28) } else { 0 };
    f64::from(full) * f64::from(wire_bytes(1_500)) + f64::from(last)
}

/// Every host to the next one of a random round (Sattolo's algorithm): nobody to itself.
fn cycle(rng: &mut ChaCha8Rng, hosts: u32) -> Vec<(u32, u32)> {
    let mut to: Vec<u32> = (0..hosts).collect();
    for last in (1..to.len()).rev() {
        to.swap(last, rng.random_range(0..last));
    }
    (0..).zip(to).collect()
}

/// Hosts in random order (Fisher and Yates), cut into groups of `senders` and the one they send to. The
/// last group may have fewer.
fn groups(rng: &mut ChaCha8Rng, hosts: u32, senders: u32) -> Vec<(u32, u32)> {
    let mut order: Vec<u32> = (0..hosts).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.random_range(0..=last));
    }
    let size = senders as usize + 1;
    let of_group = |group: &[u32]| -> Vec<(u32, u32)> {
        let Some((&receiver, senders)) = group.split_first() else { return Vec::new() };
        senders.iter().map(|sender| (*sender, receiver)).collect()
    };
    order.chunks(size).flat_map(of_group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs__nobody_sends_to_itself() {
        for (pattern, number) in
            [(Pattern::Random, 192), (Pattern::Permutation, 192), (Pattern::Incast(Some(7)), 7)]
        {
            let pairs = Point { pattern, ..Point::default() }.pairs(192);
            assert_eq!(pairs.len(), number);
            assert!(pairs.iter().all(|(from, to)| from != to && *from < 192 && *to < 192));
        }
        let pairs = Point { pattern: Pattern::Permutation, ..Point::default() }.pairs(192);
        let receivers: std::collections::BTreeSet<u32> = pairs.iter().map(|pair| pair.1).collect();
        assert_eq!(receivers.len(), 192);
    }

    #[test]
    fn pairs__fan_in_gives_every_receiver_its_senders() {
        for (senders, pairs) in [(1, 16), (3, 24), (7, 28), (31, 31), (12, 29)] {
            let point = Point { pattern: Pattern::FanIn(senders), ..Point::default() };
            let drawn = point.pairs(32);
            assert_eq!(drawn.len(), pairs, "{senders}");
            let mut of_receiver = std::collections::BTreeMap::new();
            for (source, destination) in &drawn {
                assert!(drawn.iter().all(|pair| pair.1 != *source), "{source} receives as well");
                *of_receiver.entry(destination).or_insert(0) += 1;
            }
            assert_eq!(
                of_receiver.values().filter(|number| **number == senders).count(),
                32 / (senders as usize + 1)
            );
            assert_ne!(drawn, Point { seed: 2, ..point }.pairs(32));
        }
    }

    #[test]
    fn udp_bytes__counts_every_datagram() {
        assert_eq!(udp_bytes(1), 84.0);
        assert_eq!(udp_bytes(1_472), 1_538.0);
        assert_eq!(udp_bytes(1_473), 1_538.0 + 84.0);
    }
}
