//! Runs the job on the testbed, and samples the daemons' lanes meanwhile.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use approxlib::control::{Client, ClientError, GroupStats, Snapshot};
use atp_output::say;
use switch_profiles::Profile;

use super::{Args, MESSAGE_BYTES, Outcome, SAMPLE_US};
use crate::job::clock;
use crate::job::messages::{Messages, needed};
use crate::job::progress::Progress;
use crate::job::protocol::JobSpec;
use crate::job::session::{Crew, START_LEAD_NS, dropped_share};
use testbed::{Host, Launch, Options, Testbed};

/// The measurements.
pub struct Measured {
    /// The round-trip time of a one-byte datagram on the idle testbed.
    pub idle_rtt_us: f64,
    /// Whether the switch's ports mark ECN, the only part of a profile that they may lack.
    pub marks: bool,
    /// The outcomes of all runs, by MSR.
    pub runs: Vec<Vec<Outcome>>,
}

/// The time limit of a job, after which it counts as hung.
const JOB_MAX: Duration = Duration::from_secs(120);

pub fn measure(args: &Args, launch: &Launch) -> Result<Measured> {
    let rate_bits_per_s = args.rate * 8;
    let profile = Path::new(args.scheme().profile());
    let mut testbed = Testbed::build(&Options {
        senders: args.senders.into(),
        rate_bits_per_s,
        nic_rate_bits_per_s: rate_bits_per_s,
        receiver_rate_bits_per_s: None,
        profile: Profile::load(profile)?,
    })?;
    for note in testbed.notes() {
        say!("switch: {note}");
    }
    let marks = testbed.notes().is_empty();
    let count = args.messages as usize * usize::from(args.senders);
    let messages = testbed.folder().join("messages");
    Messages::of_size(count, MESSAGE_BYTES as usize, 1).write(&messages)?;
    let idle_rtt_us = idle_rtt_us(&testbed)?;
    let options = args.scheme().daemon_options().unwrap_or_default();
    let mut launch = launch.clone();
    launch.options.extend(options.iter().map(Into::into));
    let progress = Progress::new();
    let sources: Vec<Ipv4Addr> = testbed.senders().iter().map(|host| host.ipv4).collect();
    let mut runs = vec![Vec::new(); args.msr.len()];
    let mut number = 0;
    for _ in 0..args.repetitions {
        for (msr, runs) in args.msr.iter().zip(&mut runs) {
            number += 1;
            let job = JobSpec {
                scheme: args.scheme(),
                number,
                seed: 1,
                msr: *msr,
                emax: None,
                confidence: 0.95,
                sources: sources.clone(),
                messages: messages.clone(),
                queries: Vec::new(),
                rate_bytes_per_s: args.rate,
                law: Vec::new(),
            };
            // Start new daemons each time: the simulator has no state of earlier jobs either.
            progress.begin("starting a daemon in each host");
            testbed.start_daemons(&launch, Some(profile))?;
            let run = run(&testbed, &job, count).with_context(|| format!("MSR {msr}"))?;
            testbed.stop_daemons();
            progress.line(&format!("MSR {msr}: {:.1} ms", run.completion_s * 1e3));
            runs.push(run);
        }
    }
    Ok(Measured { idle_rtt_us, marks, runs })
}

fn run(testbed: &Testbed, job: &JobSpec, count: usize) -> Result<Outcome> {
    let mut crew = Crew::assemble(testbed, job)?;
    let sockets: Vec<PathBuf> = testbed
        .senders()
        .iter()
        .map(|host| Ok(testbed.control_socket(host).context("a host without a daemon")?.to_owned()))
        .collect::<Result<_>>()?;
    let start_ns = clock::now_ns() + START_LEAD_NS;
    crew.start(start_ns)?;
    let has_ended = AtomicBool::new(false);
    let (results, seen) = thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&sockets, job.number, start_ns, &has_ended));
        let results = crew.results(Instant::now() + JOB_MAX, |_| {});
        has_ended.store(true, Ordering::Relaxed);
        (results, watching.join())
    });
    let (received, sent) = results?;
    let seen = seen.map_err(|_| anyhow!("watching the daemons failed"))??;
    ensure!(
        received.delivered >= needed(job.msr, count),
        "{} of {count} messages were delivered",
        received.delivered
    );
    Ok(Outcome {
        completion_s: clock::seconds_between(start_ns, received.ended_ns),
        packets_sent: sent.iter().map(|sender| sender.packets_sent).sum(),
        dropped_share: dropped_share(&received, &sent)?,
        tlr: seen.tlr / seen.count,
        loss: seen.loss / seen.count,
        rate_bytes_per_s: seen.rate / seen.count,
    })
}

/// Sums over samples of the job's lanes.
#[derive(Default)]
struct Seen {
    count: f64,
    tlr: f64,
    loss: f64,
    rate: f64,
}

fn watch(sockets: &[PathBuf], job: u32, start_ns: u64, has_ended: &AtomicBool) -> Result<Seen> {
    let snapshot = |socket: &PathBuf| Client::connect(socket)?.snapshot();
    let mut snapshots: Vec<Snapshot> =
        sockets.iter().map(snapshot).collect::<Result<_, ClientError>>()?;
    let mut seen = Seen::default();
    for sample in 1.. {
        clock::sleep_until(start_ns + sample * SAMPLE_US * 1_000)?;
        if has_ended.load(Ordering::Relaxed) {
            break;
        }
        for snapshot in &mut snapshots {
            let stats = snapshot.read();
            // A sender that has reached its MSR is idle: skip its lane.
            let lanes =
                stats.lanes.iter().filter(|lane| lane.job == job && needs_more(&lane.group));
            for lane in lanes {
                seen.count += 1.0;
                seen.tlr += lane.tlr;
                seen.loss += lane.loss;
                seen.rate += lane.rate_bytes_per_s as f64;
            }
        }
    }
    Ok(seen)
}

fn needs_more(group: &GroupStats) -> bool {
    (group.delivered as usize) < needed(group.msr, group.messages as usize)
}

/// The smallest of twenty round-trip times of one-byte UDP datagrams.
fn idle_rtt_us(testbed: &Testbed) -> Result<f64> {
    let sender: &Host = testbed.senders().first().context("no sender")?;
    let receiver = testbed.receiver();
    let at = receiver.ipv4;
    let server = receiver.namespace.enter(|| Ok(std::net::UdpSocket::bind((at, 0))?))?;
    server.set_read_timeout(Some(Duration::from_secs(1)))?;
    let client = sender.namespace.enter(|| {
        let socket = std::net::UdpSocket::bind((sender.ipv4, 0))?;
        socket.connect(server.local_addr()?)?;
        Ok(socket)
    })?;
    client.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut least_us = f64::INFINITY;
    let mut byte = [0];
    for _ in 0..20 {
        let sent = Instant::now();
        client.send(&[1])?;
        let (_, from) = server.recv_from(&mut byte)?;
        server.send_to(&byte, from)?;
        client.recv(&mut byte)?;
        least_us = least_us.min(sent.elapsed().as_secs_f64() * 1e6);
    }
    Ok(least_us)
}
