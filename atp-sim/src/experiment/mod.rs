//! Runs one point: a network, a workload and a scheme.

mod adaptive_background;
mod background;
mod bottleneck;
mod coflows;
mod collective;
mod daemon_profile;
mod environment;
mod long_flows;
mod main_job;
mod msr;
mod network_spec;
mod outcome;
mod pattern;
mod progress;
mod settings;
mod stop_rule;
mod stragglers;
mod summary;
mod timeline;
mod traffic;

pub use crate::scheme::{LoadBalancing, Scheme};
pub use adaptive_background::AdaptiveBackground;
pub use bottleneck::{Bottleneck, BottleneckOutcome};
pub use coflows::CoflowOutcome;
pub use daemon_profile::DaemonProfile;
pub use long_flows::{LongFlows, LongFlowsOutcome};
pub use main_job::{MainJob, MainJobOutcome, MainJobTransport};
pub use msr::{fraction_from_msr, msr_from_fraction};
pub use network_spec::{NetworkSpec, Rate};
pub use outcome::{JobOutcome, Outcome};
pub use pattern::Pattern;
pub use settings::Settings;
pub use stragglers::Stragglers;
pub use summary::{Summary, Times};
pub use timeline::Sample;
pub use traffic::{AllReduce, Burst, Tenant, Traffic};

use crate::{
    engine::{MS, S},
    net::{FlowId, PortQueues, Unit, topology::mixed},
    parallel::ReportProgress,
    scheme::{Feature, Policy, dctcp, wire_bytes},
    simulation::{Messages, NewFlow, Simulation},
    workload::{Arrivals, Background, Gaps, Sizes, TraceJob, sampled},
};
use atp_common::units::Msr;
use collective::Collective;
use outcome::Waited;
use std::{collections::BTreeSet, ops::Range};
use stop_rule::StopRule;
use switch_profiles::Profile;

/// The description of one run.
#[derive(Clone, Debug)]
pub struct Point {
    /// The network.
    pub network_spec: NetworkSpec,
    /// The rate of every line.
    pub rate: Rate,
    /// Slow hosts and links.
    pub stragglers: Stragglers,
    /// The choice of paths.
    pub load_balancing: LoadBalancing,
    /// The buffer that a switch's ports share.
    pub buffer_bytes: u64,
    /// The ECN threshold of the queues that mark packets (DCTCP's K); `None` leaves the scheme's
    /// own, or the profile's.
    pub ecn_threshold_packets: Option<u32>,
    /// The queues of ATP's switches. One queue for all traffic is that of other schemes too.
    pub profile: Option<Profile>,
    /// The unit of the profile's limits.
    pub unit: Unit,
    /// The source of the jobs' messages.
    pub traffic: Traffic,
    /// The pairs of senders and receivers.
    pub pattern: Pattern,
    /// The distribution of message sizes.
    pub sizes: Sizes,
    /// The distribution of times between messages.
    pub gaps: Gaps,
    /// The share of a host's line that its messages would use if sent over UDP.
    pub load: f64,
    /// The time of the first messages.
    pub begins_ps: u64,
    /// The time in which messages arrive.
    pub duration_ps: u64,
    /// The minimal sampling rate of every job.
    pub msr: Msr,
    /// The transport of the hosts.
    pub scheme: Scheme,
    /// The share of sending hosts whose job is exact. Exact jobs use DCTCP under every scheme.
    pub exact_share: f64,
    /// Jobs of other kinds that share the network, under the same scheme.
    pub tenants: Vec<Tenant>,
    /// Background traffic, which belongs to no job.
    pub background: Vec<Background>,
    /// The timer granularity that ATP's senders assume (`SenderConfig::timer_granularity_ns`). The
    /// minimal timeout is five times this. Simulated hosts have exact timers, so the default gives
    /// ATP the same minimal timeout as DCTCP, 200 us. The default of kernel hosts is 1 ms.
    pub timer_granularity_ns: u64,
    /// The time for which ATP's receivers delay a receipt (`ReceiverConfig::receipt_delay_ns`):
    /// some round trips of a fabric. The default of kernel hosts is 2 ms.
    pub receipt_delay_ns: u64,
    /// The seed of everything random.
    pub seed: u64,
}

/// The time after the last job's completion in which senders may learn of it: one or two of ATP's
/// timeouts.
const AFTERMATH_PS: u64 = S;

impl Default for Point {
    /// NetApprox §7.1: 192 hosts, 40 Gbit/s, 1.5 MB of buffer, FBKV.
    fn default() -> Self {
        Self {
            network_spec: NetworkSpec::default(),
            rate: Rate::default(),
            stragglers: Stragglers::default(),
            load_balancing: LoadBalancing::default(),
            buffer_bytes: 1_500_000,
            ecn_threshold_packets: None,
            profile: None,
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
            timer_granularity_ns: 40_000,
            receipt_delay_ns: 20_000,
            seed: 1,
        }
    }
}

impl Point {
    /// Runs the point.
    pub fn run(&self) -> Outcome {
        self.run_with_progress(&|_| ())
    }

    /// Runs the point and reports its progress. The outcome is the same as without reports.
    pub fn run_with_progress(&self, report_progress: ReportProgress<'_>) -> Outcome {
        let Setup { mut simulation, mut jobs, background, collective } = self.set_up();
        let mut stop_rule = StopRule::new(&simulation, self.last_ps());
        let mut is_done = true;
        let busy_ps = self.busy_ps();
        simulation.run_on(busy_ps.start);
        let before = Waited::until(&simulation, busy_ps.start);
        let mut until_ps = busy_ps.end;
        if let Some(collective) = collective {
            is_done =
                collective.run(self, &mut simulation, &mut jobs, &mut stop_rule, report_progress);
            until_ps = simulation.now_ps().max(busy_ps.start);
        } else {
            progress::run_on(&mut simulation, until_ps, &jobs, report_progress);
        }
        let queues = outcome::Queues::since(&before, &simulation, until_ps);
        is_done &= stop_rule.run(&mut simulation, |simulation| {
            report_progress(&|| progress::share_done(simulation, &jobs));
        });
        let ended_ps = simulation.now_ps();
        background.flows.into_iter().for_each(|flow| simulation.end_messages(flow));
        if is_done {
            // The receivers are complete, but some senders may not know it yet.
            simulation.run_on(ended_ps + AFTERMATH_PS);
        }
        Outcome::of(&simulation, &jobs, queues, ended_ps, stop_rule.is_given_up())
    }

    /// Builds the network with all its flows, before the first event.
    fn set_up(&self) -> Setup {
        let mut topology = self.network_spec.topology(self.rate);
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

    /// The time in which the point's own messages arrive. Queues are measured over the same time
    /// under every scheme. The messages of a trace may arrive all at once, so the time also covers
    /// their transmission by the hosts' lines. A collective ends when its last transfer is
    /// complete.
    fn busy_ps(&self) -> Range<u64> {
        match &self.traffic {
            Traffic::Drawn | Traffic::Burst(_) => self.begins_ps..self.begins_ps + self.duration_ps,
            Traffic::Trace(trace) => trace.busy_ps(|bytes| {
                (udp_bytes(bytes) * 8.0 * S as f64 / self.rate.bits_per_s() as f64) as u64
            }),
            Traffic::AllReduce(_) => self.begins_ps..self.begins_ps,
        }
    }

    /// The planned queue of background traffic at a time, of the first kind that sends then; `None`
    /// if none does.
    pub fn background_queue(&self, at_ps: u64) -> Option<u8> {
        self.background.iter().find_map(|background| background.queue(at_ps))
    }

    /// The time of the last message of any job.
    fn last_ps(&self) -> u64 {
        let own_ps = match &self.traffic {
            Traffic::Trace(trace) => trace.last_ps(),
            Traffic::AllReduce(_) => self.begins_ps,
            Traffic::Drawn | Traffic::Burst(_) => self.begins_ps + self.duration_ps,
        };
        let of_tenant = |tenant: &Tenant| tenant.begins_ps + tenant.duration_ps;
        self.tenants.iter().map(of_tenant).fold(own_ps, u64::max)
    }

    /// The mean number of messages of a job.
    pub fn mean_messages_per_job(&self) -> f64 {
        let bits_per_s = self.load * self.rate.bits_per_s() as f64;
        let message_bits = 8.0 * self.sizes.mean(udp_bytes);
        bits_per_s * (self.duration_ps as f64 / S as f64) / message_bits
    }

    /// The queue profile of ATP's switches.
    pub fn profile(&self) -> &Profile {
        self.profile.as_ref().unwrap_or_else(|| self.scheme.profile())
    }

    /// The queues of the switches' ports.
    pub fn port_queues(&self) -> PortQueues {
        let own = self.scheme.queues(&self.environment());
        let queues = match &self.profile {
            // A network without priorities is the same under every scheme, unless its switches do
            // more than queue packets.
            Some(profile) if profile.is_one_queue() && own.have_priorities() => {
                PortQueues::of_profile(profile, self.unit, self.buffer_bytes)
            }
            _ => own,
        };
        match self.ecn_threshold_packets {
            Some(packets) => queues.with_ecn_threshold(packets),
            None => queues,
        }
    }

    fn add_jobs(&self, simulation: &mut Simulation) -> Vec<outcome::Job> {
        match &self.traffic {
            Traffic::Drawn => {
                let pairs = self.pattern.pairs(self.network_spec.hosts() as u32, self.seed);
                let exact = self.exact_hosts(pairs.iter().map(|pair| pair.0));
                let bits_per_s = self.load * self.rate.bits_per_s() as f64;
                let gap_ps = Arrivals::gap_at_rate_ps(&self.sizes, bits_per_s, udp_bytes);
                let add = |(source, destination)| {
                    let is_exact = exact.contains(&source);
                    let messages = self.arrivals(source, gap_ps);
                    self.add_job(simulation, source, destination, is_exact, messages, None)
                };
                pairs.into_iter().map(add).collect()
            }
            Traffic::Burst(burst) => {
                let pairs = self.pattern.pairs(self.network_spec.hosts() as u32, self.seed);
                let exact = self.exact_hosts(pairs.iter().map(|pair| pair.0));
                let add = |(source, destination)| {
                    let is_exact = exact.contains(&source);
                    let messages = self.burst(source, *burst);
                    self.add_job(simulation, source, destination, is_exact, messages, None)
                };
                pairs.into_iter().map(add).collect()
            }
            Traffic::Trace(trace) => {
                let exact = self.exact_hosts(trace.jobs.iter().map(|job| job.source));
                let add = |job: &TraceJob| {
                    let is_exact = exact.contains(&job.source);
                    let messages = job.messages();
                    let (from, to) = (job.source, job.destination);
                    let added = self.add_job(simulation, from, to, is_exact, messages, None);
                    outcome::Job { coflow: job.coflow, ..added }
                };
                trace.jobs.iter().map(add).collect()
            }
            // `Collective` adds each transfer when the transfers it depends on are complete.
            Traffic::AllReduce(_) => Vec::new(),
        }
    }

    /// Selects the sending hosts with an exact job. The selection depends only on the seed. A
    /// larger share includes the hosts of a smaller one.
    fn exact_hosts(&self, sources: impl Iterator<Item = u32>) -> BTreeSet<u32> {
        let sources: BTreeSet<u32> = sources.collect();
        let wanted = (self.exact_share * sources.len() as f64).round() as usize;
        let mut order: Vec<u32> = sources.into_iter().collect();
        order.sort_by_key(|host| (mixed(host ^ mixed(self.seed as u32)), *host));
        order.into_iter().take(wanted).collect()
    }

    /// Adds a job. It may continue the connection of an `earlier` flow between the same hosts.
    fn add_job(
        &self,
        simulation: &mut Simulation,
        source: u32,
        destination: u32,
        exact: bool,
        arrivals: impl Iterator<Item = (u64, u32)> + Clone + 'static,
        earlier: Option<FlowId>,
    ) -> outcome::Job {
        let total = arrivals.clone().count() as u32;
        let began_ps = arrivals.clone().next().map_or(0, |(at_ps, _)| at_ps);
        let (scheme, msr) = match exact {
            true => (Scheme::new(&dctcp::SPEC), Msr::EXACT),
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
            sprayed: self.load_balancing.sprays(scheme.spec().sprays),
            path_seed: self.seed,
            continues: earlier.filter(|_| scheme.features().has(Feature::Persistent)),
            began_ps,
            messages,
            needed,
            stops: !scheme.spec().stops_by_itself,
            timed: exact,
        };
        let flow = simulation.add(new, |route| scheme.ends(route, &self.environment(), total));
        outcome::Job { flow, source, destination, tenant: 0, coflow: None, total, needed, exact }
    }

    fn seed_of(&self, host: u32) -> u64 {
        self.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(host))
    }

    /// The messages of a host's burst, which are the same under every scheme.
    fn burst(&self, host: u32, burst: Burst) -> impl Iterator<Item = (u64, u32)> + Clone + 'static {
        let late_ps = u64::from(mixed(host ^ mixed(self.seed as u32))) % Burst::SPREAD_PS;
        let at_ps = self.begins_ps + late_ps;
        Arrivals::at_once(self.seed_of(host), &self.sizes, burst.messages, at_ps)
    }

    /// The messages of a host's job, which are the same under every scheme.
    fn arrivals(
        &self,
        host: u32,
        gap_ps: f64,
    ) -> impl Iterator<Item = (u64, u32)> + Clone + 'static {
        let begins_ps = self.begins_ps;
        Arrivals::every(self.seed_of(host), &self.sizes, self.gaps, gap_ps, self.duration_ps)
            .map(move |(at_ps, bytes)| (begins_ps + at_ps, bytes))
    }
}

/// A simulation before its first event.
struct Setup {
    simulation: Simulation,
    jobs: Vec<outcome::Job>,
    background: background::Added,
    collective: Option<Collective>,
}

/// The bytes on the wire of a message sent as UDP datagrams.
fn udp_bytes(bytes: u32) -> f64 {
    let (full, rest) = (bytes / 1_472, bytes % 1_472);
    let last = if rest > 0 || full == 0 { wire_bytes(rest + 28) } else { 0 };
    f64::from(full) * f64::from(wire_bytes(1_500)) + f64::from(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udp_bytes__counts_every_datagram() {
        assert_eq!(udp_bytes(1), 84.0);
        assert_eq!(udp_bytes(1_472), 1_538.0);
        assert_eq!(udp_bytes(1_473), 1_538.0 + 84.0);
    }
}
