//! The main job of `cargo xtask run`: several senders to one host, beside exact TCP requests.
//!
//! The testbed's Linux has no ECN marks, limits queues in packets, and runs controllers every 2 ms.

use super::{DaemonProfile, msr_from_fraction};
use crate::{
    engine::{MS, S, US},
    net::{
        ETHERNET_BYTES, FlowId, PortQueues, Unit,
        topology::{Lines, Star},
    },
    scheme::{
        Ends, LawChoice, Route,
        atp::{AtpReceiver, AtpSender, AtpSettings, HostAdvice},
        dctcp::{DctcpReceiver, DctcpSender, DctcpSettings},
    },
    simulation::{NewFlow, Simulation},
    workload::{Arrivals, Gaps, Sizes},
};
use atp_common::{
    laws::advice,
    units::{Msr, Rate},
};
use atp_proto::{GroupConfig, ReceiverConfig};
use switch_profiles::{PortRole, Profile};

/// The transport of the main job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MainJobTransport {
    /// ATP.
    Atp(LawChoice),
    /// TCP that stops when enough messages have arrived.
    Tcp,
    /// No main job: the exact requests alone, for as long as the ideal job takes.
    Alone,
}

/// The main job.
#[derive(Clone, Debug, PartialEq)]
pub struct MainJob {
    /// The number of hosts that send to one host. As many others send the exact requests.
    pub senders: u32,
    /// The rate of every line as Linux counts it: an IP packet and 14 bytes.
    pub rate_bytes_per_s: u64,
    /// The latency of each line in each direction, with that of the host or switch at its end.
    pub latency_ps: u64,
    /// The number of messages of each sender.
    pub messages: u32,
    /// The size of each message, at most a packet's payload.
    pub message_bytes: u32,
    /// The minimal sampling rate, above 0 and up to 1.
    pub msr: f64,
    /// The share of the line that the exact requests use, below 1.
    pub exact_load: f64,
    /// The queues of the switch's ports.
    pub profile: Profile,
    /// The profile of the sending hosts' daemons, which states their law if the transport doesn't.
    pub sender_profile: DaemonProfile,
    /// The profile of the receiving host's daemon, which its advice follows.
    pub receiver_profile: DaemonProfile,
    /// The line's rate that the receiving host knows, as a share of the right one.
    pub known_line_share: f64,
    /// The clock of each sending host is this far ahead of the previous one's.
    pub clock_offset_ns: u64,
    /// The time between two reads of ACKs and receipts by a sending host. 0: at once.
    pub read_interval_ns: u64,
    /// The long TCP flows from another host to each sending host, whose ACKs wait in their queue.
    pub reverse_flows: u32,
    /// The job's transport.
    pub transport: MainJobTransport,
    /// The seed of everything random.
    pub seed: u64,
}

/// The outcome of the main job. Without a job, its times are not numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MainJobOutcome {
    /// The time until each sender's needed messages had arrived: that of the last one, seconds.
    pub completion_s: f64,
    /// The time until the first sender's needed messages had arrived, seconds.
    pub first_s: f64,
    /// The completion time of the ideal: the needed message bytes on what exact requests leave.
    pub of_ideal: f64,
    /// The share of the job's packets that were dropped.
    pub dropped_share: f64,
    /// The median time of an exact request that began during the job, seconds.
    pub exact_median_s: f64,
    /// The 99th percentile.
    pub exact_p99_s: f64,
}

/// The packets of an exact request: TCP's initial window.
const REQUEST_PACKETS: u32 = 10;
/// The message bytes of a full TCP packet.
const TCP_PAYLOAD_BYTES: u32 = 1_448;
/// A full packet as Linux counts it.
const LINUX_PACKET_BYTES: u32 = 1_514;
/// The bytes of a frame that Linux counts beyond the IP packet.
const LINUX_LINK_BYTES: u32 = 14;
/// The headers of an ATP packet: ATP, UDP and IP.
const HEADER_BYTES: u32 = 32 + 8 + 20;
/// The TCP connections of each host that sends requests.
const CONNECTIONS: usize = 8;
/// The least retransmission timeout of Linux's TCP.
const TCP_TIMEOUT_PS: u64 = 200 * MS;
/// The daemon's tick, the shortest epoch and the receipt delay on the testbed.
const TICK_NS: u64 = 2_000_000;
/// The timer granularity that a Linux host states.
const TIMER_GRANULARITY_NS: u64 = 1_000_000;
/// The bytes of each message of a long TCP flow.
const LONG_MESSAGE_BYTES: u32 = 1_000_000;
/// The exact requests begin before the job.
const WARM_UP_PS: u64 = 100 * MS;
/// The time between checks for the end, which is the precision of completion times.
const CHECK_INTERVAL_PS: u64 = 100 * US;
/// A job that takes this many times the ideal one doesn't end.
const IDEALS_MAX: f64 = 20.0;

impl Default for MainJob {
    /// The first command's: 336,776 records in 23,029 messages.
    fn default() -> Self {
        Self {
            senders: 4,
            rate_bytes_per_s: 25_000_000,
            latency_ps: 20 * US,
            messages: 5_757,
            message_bytes: 1_349,
            msr: 0.8,
            exact_load: 0.3,
            profile: Profile::default(),
            sender_profile: DaemonProfile::OfSwitch,
            receiver_profile: DaemonProfile::OfSwitch,
            known_line_share: 1.0,
            clock_offset_ns: 0,
            read_interval_ns: 0,
            reverse_flows: 0,
            transport: MainJobTransport::Atp(LawChoice::default()),
            seed: 1,
        }
    }
}

impl MainJob {
    /// The time in which the needed message bytes pass the part of the line that exact requests
    /// leave, seconds.
    ///
    /// # Panics
    /// If the MSR isn't above 0 and at most 1.
    pub fn ideal_s(&self) -> f64 {
        let needed = self.exact_msr().needed(self.messages);
        let bytes = f64::from(self.senders) * f64::from(needed) * f64::from(self.message_bytes);
        bytes / (self.rate_bytes_per_s as f64 * (1.0 - self.exact_load))
    }

    /// Runs the job.
    ///
    /// # Panics
    /// If its MSR isn't above 0 and at most 1.
    pub fn run(&self) -> MainJobOutcome {
        let ideal_ps = (self.ideal_s() * S as f64) as u64;
        let end_ps = WARM_UP_PS + (ideal_ps as f64 * IDEALS_MAX) as u64;
        let mut simulation = self.network();
        let requests = self.add_requests(&mut simulation, end_ps);
        self.add_reverse_flows(&mut simulation, end_ps);
        let flows = self.add_job(&mut simulation);
        let is_done = |simulation: &Simulation| match flows.is_empty() {
            true => simulation.now_ps() >= WARM_UP_PS + ideal_ps,
            false => flows.iter().all(|flow| simulation.progress(*flow).done_ps.is_some()),
        };
        let mut at_ps = WARM_UP_PS;
        simulation.run_on(at_ps);
        while !is_done(&simulation) && at_ps < end_ps {
            at_ps += CHECK_INTERVAL_PS;
            simulation.run_on(at_ps);
        }
        let seconds = |ps: u64| (ps - WARM_UP_PS) as f64 / S as f64;
        let done = flows.iter().map(|flow| simulation.progress(*flow).done_ps.unwrap_or(end_ps));
        let (first, last) = (done.clone().min(), done.max());
        let completion_s = last.map_or(f64::NAN, seconds);
        let times_s = request_times_s(&simulation, &requests, last.unwrap_or(at_ps));
        MainJobOutcome {
            completion_s,
            first_s: first.map_or(f64::NAN, seconds),
            of_ideal: completion_s / self.ideal_s(),
            dropped_share: self.dropped_share(&simulation, &flows),
            exact_median_s: percentile(&times_s, 50),
            exact_p99_s: percentile(&times_s, 99),
        }
    }

    fn exact_msr(&self) -> Msr {
        msr_from_fraction(self.msr).expect("an MSR above 0 and up to 1")
    }

    fn network(&self) -> Simulation {
        // Scaled so that a packet of the job takes as long as with Linux's accounting.
        let ip_bytes = u64::from(self.message_bytes + HEADER_BYTES);
        let bits_per_s = self.rate_bytes_per_s * 8 * (ip_bytes + u64::from(ETHERNET_BYTES))
            / (ip_bytes + u64::from(LINUX_LINK_BYTES));
        let lines = Lines {
            host_bits_per_s: bits_per_s,
            switch_bits_per_s: bits_per_s,
            propagation_ps: self.latency_ps,
            switching_ps: 0,
        };
        let groups = if self.reverse_flows > 0 { 3 } else { 2 };
        let topology = Star { hosts: 1 + groups * self.senders }.topology(&lines);
        let queues = PortQueues::of_profile(&self.profile, Unit::Packets, self.buffer_bytes());
        Simulation::new(&topology, queues.without_marks())
    }

    /// The switch's buffer. Only one port is ever full.
    fn buffer_bytes(&self) -> u64 {
        // One queue for all traffic has its own limit, as Linux's pfifo: packets of any length.
        if self.profile.is_one_queue() {
            return u64::MAX;
        }
        // TCP uses queue 0 alone, which the buffer limits, and so do lanes that write DSCP 0.
        let is_in_queue_0 = match self.transport {
            MainJobTransport::Tcp => true,
            MainJobTransport::Atp(_) => self.sender_profile.is_in_queue_0(&self.profile),
            MainJobTransport::Alone => false,
        };
        let packets = if is_in_queue_0 {
            self.profile.depth_packets(0, PortRole::ToHost).into()
        } else {
            let buffer_bytes = self.profile.port_buffer_bytes(PortRole::ToHost);
            buffer_bytes / u64::from(self.profile.mtu_bytes())
        };
        packets * u64::from(self.profile.mtu_bytes() + ETHERNET_BYTES)
    }

    /// Adds the exact requests. Returns each connection with the times at which its requests begin.
    fn add_requests(&self, simulation: &mut Simulation, end_ps: u64) -> Vec<(FlowId, Vec<u64>)> {
        if self.exact_load <= 0.0 {
            return Vec::new();
        }
        let request_bytes = f64::from(REQUEST_PACKETS * LINUX_PACKET_BYTES);
        let per_s = self.exact_load * self.rate_bytes_per_s as f64
            / (request_bytes * f64::from(self.senders));
        let sizes = Sizes::Fixed(REQUEST_PACKETS * TCP_PAYLOAD_BYTES);
        let mut requests = Vec::new();
        for host in 1..=self.senders {
            let seed = self.seed * 1_000 + u64::from(host);
            let gap_ps = S as f64 / per_s;
            let all: Vec<(u64, u32)> =
                Arrivals::every(seed, &sizes, Gaps::Poisson, gap_ps, end_ps).collect();
            for connection in 0..CONNECTIONS {
                let own = all.iter().copied().skip(connection).step_by(CONNECTIONS);
                let began_ps = own.clone().map(|(at_ps, _)| at_ps).collect();
                let own: Vec<_> = own.collect();
                let source = self.senders + host;
                let new = NewFlow {
                    timed: true,
                    ..NewFlow::new(source, 0, Box::new(own.into_iter()), 0)
                };
                requests.push((simulation.add(new, tcp), began_ps));
            }
        }
        requests
    }

    /// Fills the queues towards the sending hosts. Other hosts than those of the requests do it, so
    /// the requests meet the job alone.
    fn add_reverse_flows(&self, simulation: &mut Simulation, end_ps: u64) {
        let bytes = (end_ps as f64 / S as f64) * self.rate_bytes_per_s as f64;
        let messages = (bytes / f64::from(LONG_MESSAGE_BYTES)) as u32 + 1;
        for destination in 1..=self.senders {
            for _ in 0..self.reverse_flows {
                let source = 2 * self.senders + destination;
                let sizes = Sizes::Fixed(LONG_MESSAGE_BYTES);
                let stream = Box::new(Arrivals::at_once(1, &sizes, messages, 0));
                simulation.add(NewFlow::new(source, destination, stream, 0), tcp);
            }
        }
    }

    fn add_job(&self, simulation: &mut Simulation) -> Vec<FlowId> {
        let needed = self.exact_msr().needed(self.messages);
        let senders = match self.transport {
            MainJobTransport::Alone => 0,
            _ => self.senders,
        };
        let flows = (1..=senders).map(|source| {
            // Processes don't start at the same time.
            let at_ps = WARM_UP_PS + u64::from(source) * (37 + self.seed * 13 % 50) * US;
            let sizes = Sizes::Fixed(self.message_bytes);
            let messages = Box::new(Arrivals::at_once(1, &sizes, self.messages, at_ps));
            let stops = self.transport == MainJobTransport::Tcp;
            let new = NewFlow {
                stops,
                began_ps: WARM_UP_PS,
                ..NewFlow::new(source, 0, messages, needed)
            };
            simulation.add(new, |route| match self.transport {
                MainJobTransport::Atp(laws) => self.atp(route, laws),
                MainJobTransport::Tcp | MainJobTransport::Alone => tcp(route),
            })
        });
        flows.collect()
    }

    fn atp(&self, route: Route, laws: LawChoice) -> Ends {
        let group =
            GroupConfig { total: Some(self.messages), ..GroupConfig::new(0, self.exact_msr()) };
        let rate_max = Rate::from_bytes_per_s(self.rate_bytes_per_s);
        let laws = self.sender_profile.laws(laws, &self.profile);
        let of_dscps = self.sender_profile.of_dscps(&self.profile);
        let mut settings = AtpSettings::new(laws, route.flow, group, rate_max, &of_dscps);
        let depth_packets = self.sender_profile.depth_packets(&self.profile);
        settings.deep_queues = advice::queues_are_deep(depth_packets);
        settings.epoch_ns_min = TICK_NS;
        settings.advice_tick_ns = TICK_NS;
        settings.clock_ns = u64::from(route.source - 1) * self.clock_offset_ns;
        settings.read_interval_ns = self.read_interval_ns;
        settings.config.timer_granularity_ns = TIMER_GRANULARITY_NS;
        let advice = laws.additions.advice_interval_ns.map(|_| HostAdvice {
            interval_ns: TICK_NS,
            depth_packets: self.receiver_profile.depth_packets(&self.profile),
            known_line_share: self.known_line_share,
        });
        let config = ReceiverConfig { receipt_delay_ns: TICK_NS, ..Default::default() };
        let sender = AtpSender::new(route, settings, 0);
        (Box::new(sender), Box::new(AtpReceiver::new(route, config, advice)))
    }

    fn dropped_share(&self, simulation: &Simulation, flows: &[FlowId]) -> f64 {
        let packet_bytes = u64::from(self.message_bytes + HEADER_BYTES + LINUX_LINK_BYTES);
        let probes = flows.iter().filter_map(|flow| simulation.sender(*flow).probe());
        let sent = probes.map(|probe| probe.sent_bytes / packet_bytes).sum::<u64>();
        let dropped: u64 = flows.iter().map(|flow| simulation.dropped(*flow)).sum();
        // TCP has no probe: its packets are the messages and the repetitions.
        let sent = match self.transport {
            MainJobTransport::Tcp => {
                let bytes = f64::from(self.senders * self.messages) * f64::from(self.message_bytes);
                (bytes * self.msr / f64::from(TCP_PAYLOAD_BYTES)) as u64 + dropped
            }
            _ => sent,
        };
        dropped as f64 / sent.max(1) as f64
    }
}

fn tcp(route: Route) -> Ends {
    let settings = DctcpSettings { timeout_ps_min: TCP_TIMEOUT_PS, ..DctcpSettings::default() };
    (Box::new(DctcpSender::new(route, settings)), Box::new(DctcpReceiver::new(route)))
}

/// The times of the requests that began during the job, in order. One that isn't answered yet
/// counts with its time so far.
fn request_times_s(
    simulation: &Simulation,
    requests: &[(FlowId, Vec<u64>)],
    done_ps: u64,
) -> Vec<f64> {
    let now_ps = simulation.now_ps();
    let mut times_ps = Vec::new();
    for (flow, began_ps) in requests {
        let took_ps = simulation.times_ps(*flow);
        let began_ps = began_ps.iter().enumerate();
        times_ps.extend(
            began_ps
                .filter(|(_, at_ps)| (WARM_UP_PS..done_ps).contains(*at_ps))
                .map(|(number, at_ps)| took_ps.get(number).copied().unwrap_or(now_ps - at_ps)),
        );
    }
    times_ps.sort_unstable();
    times_ps.into_iter().map(|ps| ps as f64 / S as f64).collect()
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or(f64::NAN)
}
