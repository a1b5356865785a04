//! One run on the testbed: the exact traffic alone, then every scheme beside it.
//!
//! A job of a second or two is too short for a 99th percentile. So within a run a scheme's job
//! repeats, back to back, until enough requests were due during its jobs.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::accepted::Accepted;
use super::answer::{Answers, QueryError};
use super::clock;
use super::exact::{self, Latency, Window};
use super::exact_traffic::Traffic;
use super::fleet::Fleet;
use super::intervals::{Coverage, Interval, coverage};
use super::messages::needed;
use super::progress::Progress;
use super::protocol::{JobSpec, Order, ReceiverReport, Reply, Role, SenderReport};
use super::query::Query;
use super::scheme_name::SchemeName;
use crate::median::median_count;
use testbed::{Launch, Profile, Testbed, interrupt};

/// The time limit of a measurement: at a light load, enough requests would take minutes.
const MEASURED_S_MAX: f64 = 30.0;
pub const START_LEAD_NS: u64 = 50_000_000;
/// Factor over the ideal completion time after which a job counts as stuck.
const STUCK_FACTOR: f64 = 30.0;
const STUCK_MIN: Duration = Duration::from_secs(60);

/// The extent of a scheme's measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The number of exact requests for a 99th percentile.
    pub requests_min: u32,
    /// The maximum number of a scheme's jobs in one run.
    pub jobs_max: usize,
}

impl Effort {
    /// Ten requests beyond the 99th percentile. All schemes together take half a minute.
    pub const BRIEF: Effort = Effort { requests_min: 1_000, jobs_max: 4 };
    /// Twenty requests beyond the 99th percentile, even for jobs of half a second.
    pub const THOROUGH: Effort = Effort { requests_min: 2_000, jobs_max: 20 };
}

/// The part of the job that is the same in all runs.
pub struct Plan {
    pub effort: Effort,
    /// The number of sending hosts.
    pub senders: usize,
    /// The name of the table.
    pub input: String,
    pub schemes: Vec<SchemeName>,
    /// With an accepted error: the rule of thumb, with which jobs begin.
    pub msr: f64,
    /// The accepted relative error, instead of an MSR.
    pub emax: Option<f64>,
    /// The confidence of the intervals.
    pub confidence: f64,
    pub load: f64,
    pub rate_bytes_per_s: u64,
    pub queries: Vec<Query>,
    /// The answers of the complete table.
    pub answers: Answers,
    pub messages: usize,
    pub message_bytes: usize,
    /// The daemon's command line; None if ATP runs on the library's own datapath.
    pub daemon: Option<Launch>,
    /// The queue profile of switch and daemons; none for that of each scheme.
    pub profile: Option<PathBuf>,
}

impl Plan {
    /// The time of this share of the messages' bytes at the port's rate left by the exact traffic.
    pub fn ideal_jct_s(&self, share: f64) -> f64 {
        let free_bytes_per_s = self.rate_bytes_per_s as f64 * (1.0 - self.load);
        share * self.message_bytes as f64 / free_bytes_per_s
    }

    /// The MSR of a scheme's jobs after these schemes. A scheme that can't be asked gets the share
    /// that the first one that can has needed.
    fn msr_of(&self, scheme: SchemeName, before: &[SchemeRun]) -> f64 {
        let needed = self.emax.and_then(|_| before.iter().find_map(|run| run.share_needed(self)));
        needed.filter(|_| !scheme.obeys_requests()).unwrap_or(self.msr)
    }

    fn requests_per_s(&self) -> f64 {
        exact::requests_per_s(self.load, self.rate_bytes_per_s)
    }

    /// The time in which enough requests for a percentile are due.
    fn measured_s(&self) -> f64 {
        (f64::from(self.effort.requests_min) / self.requests_per_s()).min(MEASURED_S_MAX)
    }

    fn has_exact_traffic(&self) -> bool {
        self.load > 0.0
    }
}

/// The measurements of one run.
pub struct Run {
    pub seed: u64,
    /// None if there is no exact traffic.
    pub exact_alone: Option<Latency>,
    /// The times of the exact requests without a job, sorted.
    pub alone_times_ms: Vec<f64>,
    pub schemes: Vec<SchemeRun>,
}

/// One scheme in one run.
pub struct SchemeRun {
    pub scheme: SchemeName,
    /// The MSR with which the jobs began.
    pub msr: f64,
    pub jobs: Vec<JobRun>,
    pub exact: Option<Latency>,
    /// The times of the exact requests, sorted.
    pub exact_times_ms: Vec<f64>,
    /// Exact requests without a response.
    pub unanswered: usize,
}

impl SchemeRun {
    /// The share of the messages with which the receiver ended its jobs, if it could ask.
    pub fn share_needed(&self, plan: &Plan) -> Option<f64> {
        let delivered: Vec<usize> = self.jobs.iter().map(|job| job.delivered).collect();
        let share = median_count(delivered) as f64 / plan.messages.max(1) as f64;
        // Rounded down, as `needed` rounds up.
        let share = (share * 1e9).floor() / 1e9;
        self.jobs.iter().all(|job| job.accepted.is_some()).then_some(share)
    }
}

/// The results of one job.
pub struct JobRun {
    pub window: Window,
    pub delivered: usize,
    pub errors: Vec<QueryError>,
    /// By query.
    pub intervals: Vec<Vec<Interval>>,
    /// By query.
    pub coverage: Vec<Coverage>,
    /// If the receiver asked for as much as an accepted error needs.
    pub accepted: Option<Accepted>,
    /// The share of the sent packets that did not arrive.
    pub dropped_share: f64,
    pub datapath: Option<String>,
    pub pacing: Option<String>,
}

/// A run in progress.
pub struct Session<'a> {
    pub testbed: &'a mut Testbed,
    pub plan: &'a Plan,
    pub progress: &'a Progress,
    /// The file of this run's messages.
    pub messages: &'a Path,
    pub seed: u64,
    /// The number of the last job, over all runs.
    pub jobs: &'a mut u32,
}

impl Session<'_> {
    pub fn run(&mut self) -> Result<Run> {
        let (exact_alone, alone_times_ms) = self.exact_alone()?;
        let mut schemes = Vec::new();
        for &scheme in &self.plan.schemes {
            let msr = self.plan.msr_of(scheme, &schemes);
            schemes.push(self.scheme(scheme, msr)?);
        }
        Ok(Run { seed: self.seed, exact_alone, alone_times_ms, schemes })
    }

    fn exact_alone(&self) -> Result<(Option<Latency>, Vec<f64>)> {
        if !self.plan.has_exact_traffic() {
            return Ok((None, Vec::new()));
        }
        self.progress.begin("exact traffic alone");
        let traffic = Traffic::start(self.testbed, self.plan.requests_per_s(), self.seed)?;
        let from_ns = clock::now_ns();
        let until = Instant::now() + Duration::from_secs_f64(self.plan.measured_s());
        while Instant::now() < until {
            ensure!(!interrupt::interrupted(), "interrupted");
            thread::sleep(Duration::from_millis(50));
        }
        let window = Window { from_ns, to_ns: clock::now_ns() };
        let requests = traffic.finish()?;
        let times_ms = exact::times_ms(&requests.times_ns, &[window]);
        let latency = exact::latency(requests.times_ns, &[window])?;
        if let Some(Latency { p50_ms, p99_ms, requests }) = latency {
            self.progress.line(&format!(
                "exact traffic alone: p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms of {requests} requests"
            ));
        }
        Ok((latency, times_ms))
    }

    fn scheme(&mut self, scheme: SchemeName, msr: f64) -> Result<SchemeRun> {
        let profile = self.plan.profile.as_deref().unwrap_or(Path::new(scheme.profile()));
        self.testbed.set_profile(Profile::load(profile)?)?;
        // Daemons run only under ATP: other schemes get plain hosts.
        let launch = self.plan.daemon.as_ref().zip(scheme.daemon_options());
        if let Some((launch, options)) = launch {
            self.progress.begin("starting a daemon in each host");
            let mut launch = launch.clone();
            launch.options.extend(options.iter().map(Into::into));
            self.testbed.start_daemons(&launch, Some(profile))?;
        }
        let outcome = self.scheme_on_hosts(scheme, msr).with_context(|| scheme.name());
        if launch.is_some() {
            self.testbed.stop_daemons();
        }
        outcome
    }

    fn scheme_on_hosts(&mut self, scheme: SchemeName, msr: f64) -> Result<SchemeRun> {
        let traffic = match self.plan.has_exact_traffic() {
            true => Some(Traffic::start(self.testbed, self.plan.requests_per_s(), self.seed)?),
            false => None,
        };
        let mut jobs = Vec::new();
        let mut measured_s = 0.0;
        while jobs.is_empty()
            || (traffic.is_some()
                && measured_s < self.plan.measured_s()
                && jobs.len() < self.plan.effort.jobs_max)
        {
            let job = self.job(scheme, msr)?;
            measured_s += job.window.seconds();
            jobs.push(job);
        }
        let requests = traffic.map(Traffic::finish).transpose()?.unwrap_or_default();
        let windows: Vec<Window> = jobs.iter().map(|job| job.window).collect();
        let unanswered = requests.unanswered;
        let exact_times_ms = exact::times_ms(&requests.times_ns, &windows);
        let exact = exact::latency(requests.times_ns, &windows)?;
        Ok(SchemeRun { scheme, msr, jobs, exact, exact_times_ms, unanswered })
    }

    fn job(&mut self, scheme: SchemeName, msr: f64) -> Result<JobRun> {
        *self.jobs += 1;
        let plan = self.plan;
        let sources: Vec<Ipv4Addr> = self.testbed.senders().iter().map(|host| host.ipv4).collect();
        let job = JobSpec {
            scheme,
            number: *self.jobs,
            seed: self.seed.wrapping_mul(1_000_003).wrapping_add((*self.jobs).into()),
            msr,
            emax: plan.emax.filter(|_| scheme.obeys_requests()),
            confidence: plan.confidence,
            sources,
            messages: self.messages.to_owned(),
            queries: plan.queries.clone(),
            rate_bytes_per_s: plan.rate_bytes_per_s,
            // Without a daemon, the library runs the law of the profile.
            law: law_options(self.testbed.profile()),
        };
        self.progress.begin_messages(scheme.name(), plan.messages);
        let mut crew = Crew::assemble(self.testbed, &job)?;
        let start_ns = clock::now_ns() + START_LEAD_NS;
        crew.start(start_ns)?;
        let stuck = STUCK_MIN.max(Duration::from_secs_f64(STUCK_FACTOR * plan.ideal_jct_s(msr)));
        let mut delivered = 0;
        let results = crew.results(Instant::now() + stuck, |messages| {
            delivered = messages;
            self.progress.delivered(messages);
        });
        let (received, sent) = results.with_context(|| {
            format!(
                "the job was stopped with about {delivered} of {} messages delivered",
                plan.messages
            )
        })?;
        let outcome = outcome(plan, start_ns, received, sent)?;
        self.progress.line(&format!(
            "{}: {:.2} s, {} of {} messages, {:.1} % of packets dropped",
            scheme.name(),
            outcome.window.seconds(),
            outcome.delivered,
            plan.messages,
            100.0 * outcome.dropped_share
        ));
        // A job that met an accepted error needs no more.
        let needed = if outcome.accepted.is_some() { 0 } else { needed(msr, plan.messages) };
        ensure!(
            outcome.delivered >= needed || !scheme.guarantees_msr(),
            "{} messages were delivered, but {needed} are needed",
            outcome.delivered
        );
        Ok(outcome)
    }
}

/// The law that a profile states, as options of the daemon.
fn law_options(profile: &Profile) -> Vec<String> {
    profile.law().map_or_else(Vec::new, |law| vec!["--law".to_owned(), law.to_owned()])
}

/// The workers of one job.
pub struct Crew {
    fleet: Fleet,
    receiver: usize,
    senders: Vec<usize>,
}

impl Crew {
    /// Starts the workers on the job's hosts, and waits until all are ready.
    pub fn assemble(testbed: &Testbed, job: &JobSpec) -> Result<Crew> {
        let mut fleet = Fleet::new();
        let host = testbed.receiver();
        let bind = host.ipv4.into();
        let daemon = testbed.control_socket(host).filter(|_| job.scheme.receives_with_daemon());
        let role = Role::Receive {
            job: job.clone(),
            bind,
            control_socket: daemon.map(Path::to_owned),
            line_rate_bytes_per_s: testbed.receiver_line_rate_bits_per_s() / 8,
            queue_depth_packets: testbed.profile().advised_depth_packets(),
        };
        let receiver = fleet.start(host, &role)?;
        let address = SocketAddr::new(bind, fleet.ready(receiver)?);
        let mut senders = Vec::new();
        let hosts = testbed.senders().iter().filter(|host| job.sources.contains(&host.ipv4));
        for (sender, host) in hosts.enumerate() {
            let role = Role::Send {
                job: job.clone(),
                sender,
                receiver: address,
                control_socket: testbed.control_socket(host).map(Path::to_owned),
            };
            senders.push(fleet.start(host, &role)?);
        }
        fleet.all_ready(&senders)?;
        Ok(Crew { fleet, receiver, senders })
    }

    /// Orders all workers to begin at this instant of the shared clock.
    pub fn start(&mut self, at_ns: u64) -> Result<()> {
        self.fleet.order_all(Order::Start { at_ns })
    }

    /// Waits for all workers to end. `progress` gets the number of delivered messages.
    pub fn results(
        &mut self,
        deadline: Instant,
        mut progress: impl FnMut(usize),
    ) -> Result<(ReceiverReport, Vec<SenderReport>)> {
        let mut received = None;
        let mut sent = Vec::new();
        loop {
            match self.fleet.next(deadline)? {
                (_, Reply::Progress { delivered }) => progress(delivered),
                (_, Reply::Received(report)) => received = Some(report),
                (_, Reply::Sent(report)) => {
                    sent.push(report);
                    if sent.len() == self.senders.len() && received.is_none() {
                        // The receiver's result may already be in flight, and the worker gone.
                        let _ = self.fleet.order(self.receiver, Order::SendersEnded);
                    }
                }
                (worker, reply) => return Err(self.fleet.unexpected(worker, &reply)),
            }
            if let Some(report) = received.take_if(|_| sent.len() == self.senders.len()) {
                return Ok((report, sent));
            }
        }
    }
}

fn outcome(
    plan: &Plan,
    start_ns: u64,
    received: ReceiverReport,
    sent: Vec<SenderReport>,
) -> Result<JobRun> {
    let dropped_share = dropped_share(&received, &sent)?;
    // The greatest name wins: `userspace`, if one sender fell back to it.
    let datapath = sent.iter().filter_map(|sender| sender.datapath.clone()).max();
    let pacing = sent.iter().filter_map(|sender| sender.pacing.clone()).max();
    let of_queries = plan.queries.iter().zip(&received.intervals).enumerate();
    let coverage = of_queries.map(|(n, (query, own))| coverage(n, query, own, &plan.answers));
    Ok(JobRun {
        coverage: coverage.collect(),
        window: Window { from_ns: start_ns, to_ns: received.ended_ns },
        delivered: received.delivered,
        errors: received.answers.errors(&plan.answers, &plan.queries),
        intervals: received.intervals,
        accepted: received.accepted,
        dropped_share,
        datapath,
        pacing,
    })
}

/// The share of the sent packets that did not arrive.
pub fn dropped_share(received: &ReceiverReport, sent: &[SenderReport]) -> Result<f64> {
    let packets_sent: u64 = sent.iter().map(|sender| sender.packets_sent).sum();
    let lost_by_senders: Option<u64> = sent.iter().map(|sender| sender.packets_lost).sum();
    let arrived = received.packets_arrived.map(|arrived| packets_sent.saturating_sub(arrived));
    let Some(lost) = lost_by_senders.or(arrived) else {
        bail!("neither the senders nor the receiver counted lost packets")
    };
    Ok(lost as f64 / packets_sent.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::laws::RateLaw;
    use atp_options::law;

    #[test]
    fn law_options__are_those_of_a_worker() {
        let rules_of = |profile: &Profile| {
            law::Choice::from_options(&law_options(profile)).unwrap().rules().law()
        };
        assert_eq!(rules_of(&Profile::one_queue()), RateLaw::Yield);
        assert_eq!(rules_of(&Profile::default()), RateLaw::default());
    }
}
