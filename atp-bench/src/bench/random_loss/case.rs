//! One job from host to host through a router that loses packets.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use approxlib::{Event, Job, Receiver, Report};
use atp_common::laws::RateLaw;
use atp_options::law;
use serde::Serialize;
use testbed::faults::{Injection, Trouble, wired_star};
use testbed::{Daemon, Host, Launch};

use crate::job::messages::needed;

const MESSAGE_BYTES: usize = 1_400;
/// A full message's packet, as rates count it.
const PACKET_BYTES: f64 = 1_474.0;
/// The longest pause of a receiver between two messages.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A kind of datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Datapath {
    Ebpf,
    Userspace,
}

impl Datapath {
    /// As reports name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ebpf => "ebpf",
            Self::Userspace => "userspace",
        }
    }
}

/// A job and its network.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Case {
    /// The sender's datapath. The receiver has the same, but advice needs a daemon.
    pub sender: Datapath,
    /// The receiver's daemon gives advice.
    pub advice: bool,
    pub msr: f64,
    /// ACKs and receipts are lost too.
    pub both_ways: bool,
    pub loss: f64,
    pub messages: u32,
    pub rate_bytes_per_s: u64,
    #[serde(skip)]
    pub law: RateLaw,
}

/// The result of one run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    /// From the first message to the confirmed end.
    pub completion_s: f64,
    /// The part of it in which the last tenth of the needed messages arrived.
    pub last_tenth_s: f64,
    pub packets_sent: u64,
    pub packets_retransmitted: u64,
    /// Samples of the lane, mean.
    pub rate_bytes_per_s: f64,
    pub loss: f64,
}

impl Case {
    /// For messages to the user.
    pub fn name(&self) -> String {
        let advice = if self.advice { "with advice" } else { "without advice" };
        let ways = if self.both_ways { "both ways" } else { "one way" };
        format!("{}, {advice}, loss {ways}, MSR {}", self.sender.name(), self.msr)
    }

    /// The time in which the needed packets leave at the line's rate, and the share that the
    /// network doesn't lose is enough.
    pub fn ideal_s(&self) -> f64 {
        let sent = f64::from(self.needed()) / (1.0 - self.loss);
        sent * PACKET_BYTES / self.rate_bytes_per_s as f64
    }

    fn needed(&self) -> u32 {
        needed(self.msr, self.messages as usize) as u32
    }

    /// Runs the job in a network of its own.
    pub fn run(&self, launch: &Launch) -> Result<Run> {
        let star = wired_star(2)?;
        let there = Trouble::loss(self.loss);
        let back = if self.both_ways { there } else { Trouble::default() };
        let _injection = Injection::start(&star.router, &back, &there)?;
        let [from, to] = &star.hosts[..] else { return Err(anyhow!("not two hosts")) };
        let from_daemon = self.daemon(from, launch, self.sender == Datapath::Ebpf)?;
        let to_daemon = self.daemon(to, launch, self.advice || self.sender == Datapath::Ebpf)?;
        let socket = |daemon: &Option<Daemon>| daemon.as_ref().map(|at| at.socket().to_owned());
        let (from_socket, to_socket) = (socket(&from_daemon), socket(&to_daemon));
        let mut receiver = to
            .namespace
            .enter(|| Ok(Receiver::builder().control_socket(to_socket).bind((to.ipv4, 0))?))?;
        let peer = receiver.local_addr()?;
        let late = self.needed() - self.needed() / 10;
        let (report, late_at) = std::thread::scope(|scope| {
            let receiving = scope.spawn(move || receive(&mut receiver, late));
            let report = from.namespace.enter(|| self.send(from_socket, peer));
            let late_at = receiving.join().map_err(|_| anyhow!("the receiver panicked"))?;
            Ok::<_, anyhow::Error>((report?, late_at?))
        })?;
        let (report, ended) = report;
        ensure!(
            report.datapath == self.sender.name(),
            "the sender's datapath is {}, not {}",
            report.datapath,
            self.sender.name()
        );
        let samples = report.timeline.iter();
        let mean = |sum: f64| sum / report.timeline.len().max(1) as f64;
        Ok(Run {
            completion_s: report.elapsed_s,
            last_tenth_s: ended.saturating_duration_since(late_at).as_secs_f64(),
            packets_sent: report.packets_sent,
            packets_retransmitted: report.packets_retransmitted,
            rate_bytes_per_s: mean(
                samples.clone().map(|sample| sample.rate_bytes_per_s as f64).sum(),
            ),
            loss: mean(samples.map(|sample| sample.loss).sum()),
        })
    }

    fn daemon(&self, host: &Host, launch: &Launch, wanted: bool) -> Result<Option<Daemon>> {
        if !wanted {
            return Ok(None);
        }
        let mut launch = launch.clone();
        let rate = format!("{}bit", self.rate_bytes_per_s * 8);
        launch.options.extend(["--rate-max".into(), rate.into()]);
        launch.options.extend(["--profile".into(), "default".into()]);
        let advice = if self.advice { "on" } else { "off" };
        launch.options.extend(["--advice".into(), advice.into()]);
        let law = RateLaw::ALL.into_iter().find(|(law, _)| *law == self.law);
        let (_, law) = law.context("the law has no name")?;
        launch.options.extend(["--law".into(), law.into()]);
        Daemon::start(host, &launch).map(Some)
    }

    /// Sends all messages. Returns the report, and when the job ended.
    fn send(
        &self,
        control: Option<PathBuf>,
        peer: std::net::SocketAddr,
    ) -> Result<(Report, Instant)> {
        let law = law::Choice { law: Some(self.law), ..law::Choice::default() };
        let mut job = Job::builder()
            .messages(self.messages)
            .msr(self.msr)
            .rate_max_bytes_per_s(self.rate_bytes_per_s)
            .rules(law.rules())
            .control_socket(control)
            .connect(peer)?;
        let message = [7; MESSAGE_BYTES];
        for _ in 0..self.messages {
            job.send(&message)?;
        }
        let report = job.finish()?;
        Ok((report, Instant::now()))
    }
}

/// Takes messages to the end of the job. Returns when message number `late` came.
fn receive(receiver: &mut Receiver, late: u32) -> Result<Instant> {
    let mut late_at = Instant::now();
    let mut messages = 0;
    loop {
        match receiver.recv(Some(SILENCE_MAX))? {
            Some(Event::Message { data, .. }) => {
                messages += 1;
                if messages == late {
                    late_at = Instant::now();
                }
                receiver.recycle(data);
            }
            Some(Event::Started { .. } | Event::TermsChanged { .. }) => {}
            Some(Event::Finished { .. } | Event::WindowEnded { .. }) => return Ok(late_at),
            None => return Err(anyhow!("no message came within {SILENCE_MAX:?}")),
        }
    }
}
