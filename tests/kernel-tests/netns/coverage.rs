//! Tests that a daemon's programs see the traffic that they control, and that flows and receivers
//! do without them where they don't.

use anyhow::{Context, Result, ensure};
use approxlib::{Event, Job, Receiver, Report, Summary};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};
use testbed::{
    DEVICE, Daemon, Family, Host, Load, PORT, Pair, Receiving, Sending, TIMEOUT, check_promise,
    wait_for,
};

crate::trials! {
    coverage__traffic_over_another_interface,
    coverage__traffic_over_the_loopback,
    coverage__a_changed_route_and_back,
    coverage__a_restarted_daemon,
    coverage__an_ended_job_stays_in_userspace,
    coverage__a_receiver_of_both_interfaces,
    coverage__an_unreachable_neighbor_is_no_loss_of_coverage,
    coverage__a_router_s_answer_hides_no_loss_of_coverage,
}

const LOAD: Load = Load::lines(20_000, 500);

/// The second interface of each host. No daemon is attached to it.
const SECOND: &str = "eth1";
const SECOND_OF_A: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
const SECOND_OF_B: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);

/// Two hosts on two cables. Either takes packets for any of its addresses from both.
fn two_cables() -> Result<Pair> {
    let pair = Pair::new()?;
    let there = pair.b.namespace.path();
    pair.a
        .namespace
        .run(&format!("ip link add {SECOND} type veth peer name {SECOND} netns {there}"))?;
    for (host, address) in [(&pair.a, SECOND_OF_A), (&pair.b, SECOND_OF_B)] {
        for interface in ["all", "default", DEVICE, SECOND] {
            host.namespace.set(&format!("net/ipv4/conf/{interface}/rp_filter"), "0")?;
        }
        host.namespace.run(&format!("ip address add {address}/24 dev {SECOND}"))?;
        host.namespace.run(&format!("ip link set {SECOND} up"))?;
    }
    for host in [&pair.a, &pair.b] {
        wait_for("the second interface to be up", || {
            let link = host.namespace.run(&format!("ip link show dev {SECOND}"))?;
            Ok(link.contains(" state UP ").then_some(()))
        })?;
    }
    Ok(pair)
}

/// Sends to `to` and expects the job to run in userspace, with acknowledgments and without the
/// daemon's lanes.
fn expect_userspace(from: &Host, a: &Daemon, to: &Host, b: &Daemon, at: SocketAddr) -> Result<()> {
    let receiving = Receiving::start_at(to, b, at, LOAD, &[])?;
    let report = Sending::start(from, a, at, LOAD, &["--msr", "0.8"])?.finish()?;
    check_promise(&report, &receiving.finish()?, LOAD, 0.8)?;
    ensure!(report.datapath == "userspace", "the datapath is {}", report.datapath);
    // Without ACKs there would be no RTT, and a lane in queue 0 is not of an approximate group.
    let last = report.timeline.last().context("no samples")?;
    ensure!(last.queue > 0, "an approximate lane in queue 0: {last:?}");
    ensure!(report.timeline.iter().any(|sample| sample.rtt_us.is_some()), "no ACK: {report:?}");
    let stats = a.stats()?;
    ensure!(stats.counters["paced"] == 0, "packets passed the programs: {stats:?}");
    ensure!(stats.coverage.refused_flows == 1, "{:?}", stats.coverage);
    Ok(())
}

fn coverage__traffic_over_another_interface() -> Result<()> {
    let pair = two_cables()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let at = SocketAddr::new(SECOND_OF_B.into(), PORT);
    expect_userspace(&pair.a, &a, &pair.b, &b, at)?;
    let reason = a.stats()?.coverage.last_reason.context("no reason")?;
    ensure!(reason.contains("leave by eth1") && reason.contains("--iface eth1"), "{reason}");
    ensure!(b.counter("data_arrived")? == 0, "programs saw packets of another interface");
    ensure!(a.ask("stats --once")?.contains("coverage: 1 flows refused"), "the text hides it");
    Ok(())
}

fn coverage__traffic_over_the_loopback() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    // The host's own address is reached over the loopback too.
    let at = pair.a.endpoint(Family::V4, PORT);
    expect_userspace(&pair.a, &a, &pair.a, &a, at)?;
    let reason = a.stats()?.coverage.last_reason.context("no reason")?;
    ensure!(reason.contains("leave by lo"), "{reason}");
    Ok(())
}

/// A job that sends a message each millisecond until it is told to end.
struct Running<'a> {
    from: &'a Host,
    /// The socket of its daemon.
    socket: PathBuf,
    to: SocketAddr,
    msr: f64,
}

impl Running<'_> {
    /// Runs the job while `meanwhile` runs; returns its report and the receiver's summary.
    fn during(
        &self,
        receiver: Receiver,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<(Report, Summary)> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let receiving = scope.spawn(|| receive(receiver));
            let sending = scope.spawn(|| {
                self.from.namespace.enter(|| {
                    let socket = Some(self.socket.clone());
                    let builder = Job::builder().msr(self.msr).control_socket(socket);
                    let mut job = builder.connect(self.to)?;
                    ensure!(job.datapath() == "ebpf", "it began in {}", job.datapath());
                    while !stop.load(Relaxed) {
                        job.send(&[7; 1_000])?;
                        thread::sleep(Duration::from_millis(1));
                    }
                    Ok(job.finish()?)
                })
            });
            let done = meanwhile();
            stop.store(true, Relaxed);
            let report = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // A failure of the job is the cause of failures in `meanwhile`.
            let report = report?;
            done?;
            let received =
                receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((report, received?))
        })
    }
}

fn receiver(host: &Host, daemon: &Daemon, at: SocketAddr) -> Result<Receiver> {
    host.namespace.enter(|| {
        let socket = Some(daemon.socket().to_owned());
        Ok(Receiver::builder().control_socket(socket).bind(at)?)
    })
}

/// Receives one run to its end. No message of it arrives twice.
fn receive(mut receiver: Receiver) -> Result<Summary> {
    let mut seen = std::collections::BTreeSet::new();
    loop {
        match receiver.recv(Some(TIMEOUT))?.context("no event in time")? {
            Event::Message { message, .. } => ensure!(seen.insert(message), "{message} twice"),
            Event::Finished { summary, .. } => {
                ensure!(seen.len() == summary.delivered as usize, "{} {summary:?}", seen.len());
                return Ok(summary);
            }
            Event::Started { .. } | Event::TermsChanged { .. } => {}
            event @ Event::WindowEnded { .. } => anyhow::bail!("{event:?}"),
        }
    }
}

fn expect_one_run(report: &Report, summary: &Summary) -> Result<()> {
    let group = &report.groups[0];
    ensure!(group.delivered >= group.needed && group.needed > 0, "{group:?}");
    ensure!(summary.delivered >= group.delivered, "{summary:?}, {group:?}");
    ensure!(report.datapath == "ebpf", "it ended in {}", report.datapath);
    Ok(())
}

/// Waits until a flow lost its coverage. Returns the daemon's line in its log: the statistics name
/// the last reason only.
fn loss_of_coverage(daemon: &Daemon) -> Result<String> {
    wait_for("the loss of coverage", || {
        let log = daemon.log();
        Ok(log.lines().find(|line| line.contains("lost coverage of a flow")).map(str::to_owned))
    })
}

/// How long the library took to notice, in that line.
fn noticed_after_us(line: &str) -> Result<u64> {
    let after_us = line.split("after_us=").nth(1).and_then(|rest| rest.split(' ').next());
    Ok(after_us.context("no time")?.parse()?)
}

/// The route leaves the attached interface while a job runs, and returns to it.
fn coverage__a_changed_route_and_back() -> Result<()> {
    let pair = two_cables()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let to = pair.b.endpoint(Family::V4, PORT);
    let receiver = receiver(&pair.b, &b, SocketAddr::new(IpAddr::from([0, 0, 0, 0]), PORT))?;
    let job = Running { from: &pair.a, socket: a.socket().to_owned(), to, msr: 0.9 };
    let (report, summary) = job.during(receiver, || {
        wait_for("packets to pass the programs", || Ok((a.counter("paced")? > 50).then_some(())))?;
        let elsewhere = format!("{}/32 via {SECOND_OF_B} dev {SECOND}", pair.b.ipv4);
        pair.a.namespace.run(&format!("ip route add {elsewhere}"))?;
        let loss = loss_of_coverage(&a)?;
        ensure!(loss.contains("by eth1"), "{loss}");
        // 20 ms of grace, and looks that a busy machine delays by 10 ms on average: an exponential
        // delay exceeds the rest of this second with probability e^-98.
        ensure!((20_000..1_000_000).contains(&noticed_after_us(&loss)?), "{loss}");
        let (paced, sent) = (a.counter("paced")?, pair.a.sent_bytes()?);
        // It stays there while the route does, and asks for its return in vain.
        thread::sleep(Duration::from_millis(1_500));
        ensure!(a.stats()?.lanes.is_empty(), "a lane without traffic");
        ensure!(
            a.counter("paced")? == paced && pair.a.sent_bytes()? < sent + 100_000,
            "it came back"
        );
        pair.a.namespace.run(&format!("ip route delete {elsewhere}"))?;
        wait_for("the flow to return", || {
            Ok((a.stats()?.coverage.returned_flows == 1).then_some(()))
        })?;
        wait_for("packets to pass the programs again", || {
            Ok((a.counter("paced")? > paced + 50).then_some(()))
        })
    })?;
    expect_one_run(&report, &summary)?;
    let coverage = a.stats()?.coverage;
    ensure!((coverage.refused_flows, coverage.lost_flows) == (0, 1), "{coverage:?}");
    Ok(())
}

fn coverage__a_restarted_daemon() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let to = pair.b.endpoint(Family::V4, PORT);
    let receiver = receiver(&pair.b, &b, to)?;
    let job = Running { from: &pair.a, socket: a.socket().to_owned(), to, msr: 0.9 };
    let mut daemon = None;
    let (report, summary) = job.during(receiver, || {
        wait_for("packets to pass the programs", || Ok((a.counter("paced")? > 50).then_some(())))?;
        a.stop()?;
        thread::sleep(Duration::from_millis(500));
        let a = pair.a.daemon(&[])?;
        wait_for("the flow to return", || {
            Ok((a.stats()?.coverage.returned_flows == 1).then_some(()))
        })?;
        wait_for("packets to pass the programs again", || {
            Ok((a.counter("paced")? > 50).then_some(()))
        })?;
        // The job must end at a daemon that runs.
        daemon = Some(a);
        Ok(())
    })?;
    drop(daemon);
    expect_one_run(&report, &summary)
}

/// An operator ended the job at the daemon: the flow doesn't register again.
fn coverage__an_ended_job_stays_in_userspace() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let to = pair.b.endpoint(Family::V4, PORT);
    let receiver = receiver(&pair.b, &b, to)?;
    let job = Running { from: &pair.a, socket: a.socket().to_owned(), to, msr: 0.9 };
    let (report, summary) = job.during(receiver, || {
        wait_for("packets to pass the programs", || Ok((a.counter("paced")? > 50).then_some(())))?;
        let id = a.stats()?.jobs.first().context("no job")?.id;
        a.ask(&format!("job end {id}"))?;
        thread::sleep(Duration::from_millis(1_000));
        let stats = a.stats()?;
        ensure!(stats.jobs.is_empty() && stats.coverage.returned_flows == 0, "{stats:?}");
        Ok(())
    })?;
    ensure!(report.datapath == "userspace", "it ended in {}", report.datapath);
    ensure!(summary.delivered >= report.groups[0].delivered, "{summary:?}");
    Ok(())
}

/// The programs acknowledge what arrives over their interface, and the receiver the rest.
fn coverage__a_receiver_of_both_interfaces() -> Result<()> {
    let pair = two_cables()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let everywhere = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), PORT);
    let both = Load { messages: 2 * LOAD.messages, ..LOAD };
    let receiving = Receiving::start_at(&pair.b, &b, everywhere, both, &["--senders", "2"])?;
    let (covered, uncovered) = (pair.b.endpoint(Family::V4, PORT), (SECOND_OF_B, PORT).into());
    let second = Load { first: LOAD.messages, ..LOAD };
    let options = ["--msr", "0.8"];
    let [first, second] = [
        Sending::start(&pair.a, &a, covered, LOAD, &options)?.finish()?,
        Sending::start(&pair.a, &a, uncovered, second, &options)?.finish()?,
    ];
    receiving.finish()?;
    ensure!((&*first.datapath, &*second.datapath) == ("ebpf", "userspace"), "{first:?} {second:?}");
    // The library of the second job got its ACKs from the receiver: the programs saw none of it.
    ensure!(second.timeline.iter().any(|sample| sample.rtt_us.is_some()), "no ACK: {second:?}");
    ensure!(second.packets_retransmitted * 10 < second.packets_sent, "{second:?}");
    let (sender, receiver) = (a.stats()?.counters, b.stats()?.counters);
    ensure!(receiver["data_arrived"] == first.packets_sent, "{receiver:?} {first:?}");
    // The receiver acknowledged no packet of the first job a second time.
    let stale = sender["ack_stale"] + sender["probe_stale"];
    ensure!(stale == 0 && sender["ack_news"] + sender["probe_news"] > 0, "{sender:?}");
    Ok(())
}

/// Packets that wait for their neighbor's address, and are dropped in the end, are not counted by
/// any program. That is no reason to leave the datapath.
fn coverage__an_unreachable_neighbor_is_no_loss_of_coverage() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let nobody: SocketAddr = "10.99.0.77:4747".parse()?;
    let load = Load::lines(50, 500);
    let sending = Sending::start(&pair.a, &a, nobody, load, &["--timeout", "8s"])?;
    let finished = sending.end()?;
    ensure!(!finished.status.success(), "{finished:?}");
    let coverage = a.stats()?.coverage;
    ensure!((coverage.lost_flows, coverage.refused_flows) == (0, 0), "{coverage:?}");
    Ok(())
}

/// A router says of each packet that its TTL has expired. So the packet has left, and the programs
/// should have counted it.
fn coverage__a_router_s_answer_hides_no_loss_of_coverage() -> Result<()> {
    const BEHIND: &str = "10.97.0.1";
    let pair = two_cables()?;
    let (from, to) = (&pair.a.namespace, &pair.b.namespace);
    to.run(&format!("ip address add {BEHIND}/32 dev lo"))?;
    from.run(&format!("ip route add {BEHIND} via {}", pair.b.ipv4))?;
    from.set("net/ipv4/ip_default_ttl", "1")?;
    // Without it, a router answers few of the packets.
    to.set("net/ipv4/icmp_ratelimit", "0")?;
    to.set("net/ipv4/ip_forward", "1")?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let receiver = receiver(&pair.b, &b, SocketAddr::new(IpAddr::from([0, 0, 0, 0]), PORT))?;
    let at = SocketAddr::new(BEHIND.parse()?, PORT);
    let job = Running { from: &pair.a, socket: a.socket().to_owned(), to: at, msr: 0.9 };
    let (report, summary) = job.during(receiver, || {
        wait_for("packets to pass the programs", || Ok((a.counter("paced")? > 50).then_some(())))?;
        to.run(&format!("ip address delete {BEHIND}/32 dev lo"))?;
        to.run(&format!("ip route add {BEHIND} via {SECOND_OF_A}"))?;
        from.run(&format!("ip route replace {BEHIND} via {SECOND_OF_B}"))?;
        // The answers stop by themselves when the sender gives up its silent path.
        let loss = loss_of_coverage(&a)?;
        // As above.
        ensure!((20_000..1_000_000).contains(&noticed_after_us(&loss)?), "{loss}");
        from.run(&format!("ip route replace {BEHIND} via {}", pair.b.ipv4))?;
        to.run(&format!("ip route delete {BEHIND}"))?;
        to.run(&format!("ip address add {BEHIND}/32 dev lo"))?;
        wait_for("the flow to return", || {
            Ok((a.stats()?.coverage.returned_flows == 1).then_some(()))
        })
    })?;
    expect_one_run(&report, &summary)
}
