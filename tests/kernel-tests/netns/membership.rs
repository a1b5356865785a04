//! Tests that only sockets of a job's cgroup may send for the job.

use anyhow::{Context, Result, bail, ensure};
use approxlib::control::{Client, ClientError, GroupOpen, JobInfo, RefusalKind};
use atp_common::wire::{Header, Kind};
use std::{
    net::UdpSocket,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};
use testbed::{
    Daemon, Family, Load, PORT, Pair, Process, Receiving, Sending, TIMEOUT, TestCgroup, Transfer,
    privilege::as_user,
    wire::{self, Capture},
};

crate::trials! { if missing_for_cgroups:
    membership__sender_in_the_cgroup_sends_for_its_job,
    membership__sender_below_the_cgroup_sends_for_its_job,
    membership__cgroup_by_a_relative_path,
    membership__outsider_that_names_the_job_is_kept_out,
    membership__member_can_not_send_for_another_job,
    membership__impersonator_of_a_cgroups_job_is_dropped,
    membership__fragments_hide_no_job,
    membership__gso_buffers_hide_no_job,
    membership__routing_headers_hide_no_job,
    membership__job_ended_under_its_sender,
    membership__job_attached_under_its_senders,
}

const LOAD: Load = Load::lines(1_000, 300);

fn membership__sender_in_the_cgroup_sends_for_its_job() -> Result<()> {
    let cgroup = TestCgroup::new()?;
    member_sends(&cgroup, &cgroup)
}

fn membership__sender_below_the_cgroup_sends_for_its_job() -> Result<()> {
    let cgroup = TestCgroup::new()?;
    let below = cgroup.below("worker")?;
    member_sends(&cgroup, &below)
}

/// The daemon and the command run in different folders.
fn membership__cgroup_by_a_relative_path() -> Result<()> {
    let cgroup = TestCgroup::new()?;
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let (tree, name) = (cgroup.path().parent(), cgroup.path().file_name());
    let mut command = pair.a.atp()?;
    command.args(["job", "create", "--json", "--socket"]).arg(a.socket());
    command.arg("--cgroup").arg(name.context("no name")?).current_dir(tree.context("no tree")?);
    let finished = Process::captured("atp-user job create", command)?.end(TIMEOUT)?;
    ensure!(finished.status.success(), "{}", finished.stderr);
    let job: JobInfo = serde_json::from_str(&finished.stdout)?;
    ensure!(job.cgroup.as_deref() == Some(cgroup.path()), "{job:?}");
    Ok(())
}

/// A sender in `home` names no job and gets the job of `bound`.
fn member_sends(bound: &TestCgroup, home: &TestCgroup) -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let job = create_job(&a, bound)?;
    let receiving = Receiving::start(&pair.b, &b, Family::V4, LOAD)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let mut command = Sending::command(&pair.a, &a, to, LOAD, &["--msr", "0.8"])?;
    home.adopt(&mut command)?;
    let report = Sending::start_with(command)?.finish()?;
    ensure!(report.job == job.id, "it sent for job {} instead of {}", report.job, job.id);
    ensure!(receiving.finish()?.messages >= 800, "too few messages");
    ensure!(a.counter("impersonation")? == 0, "members were counted as impersonators");
    let jobs: Vec<JobInfo> = serde_json::from_str(&a.ask("job list --json")?)?;
    ensure!(jobs == [job.clone()], "the job should outlive its sender: {jobs:?}");
    a.ask(&format!("job end {}", job.id))?;
    ensure!(a.stats()?.jobs.is_empty(), "the job has not ended");
    Ok(())
}

fn membership__outsider_that_names_the_job_is_kept_out() -> Result<()> {
    let cgroup = TestCgroup::new()?;
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let job = create_job(&a, &cgroup)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let options = ["--job", &job.id.to_string(), "--timeout", "2s"];
    let finished = Sending::start(&pair.a, &a, to, LOAD, &options)?.end()?;
    ensure!(!finished.status.success(), "an outsider sent for the job: {}", finished.stdout);
    let refused = finished.stderr.contains("refused");
    let dropped = a.counter("impersonation")?;
    ensure!(refused || dropped > 0, "neither refused nor dropped: {}", finished.stderr);
    ensure!(b.counter("data_arrived")? == 0, "DATA of the outsider arrived");
    Ok(())
}

/// A socket of one job's cgroup can't send for another job, which is bound to no cgroup.
fn membership__member_can_not_send_for_another_job() -> Result<()> {
    let cgroup = TestCgroup::new()?;
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    create_job(&a, &cgroup)?;
    let other: JobInfo = serde_json::from_str(&a.ask("job create --json")?)?;
    let arrived = listen(&pair)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let options = ["--job", &other.id.to_string(), "--timeout", "2s"];
    let mut command = Sending::command(&pair.a, &a, to, LOAD, &options)?;
    cgroup.adopt(&mut command)?;
    let finished = Sending::start_with(command)?.end()?;
    ensure!(!finished.status.success(), "a member sent for another job: {}", finished.stdout);
    ensure!(
        finished.stderr.contains("refused") || a.counter("impersonation")? > 0,
        "neither refused nor dropped: {}",
        finished.stderr
    );
    expect_no_data(&arrived)
}

fn membership__impersonator_of_a_cgroups_job_is_dropped() -> Result<()> {
    let cgroup = TestCgroup::new()?;
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let job = create_job(&a, &cgroup)?;
    let arrived = listen(&pair)?;
    let socket = pair.a.namespace.enter(|| {
        let socket = UdpSocket::bind(pair.a.endpoint(Family::V4, 0))?;
        socket.connect(pair.b.endpoint(Family::V4, PORT))?;
        Ok(socket)
    })?;
    for message in 0..10 {
        let fields = wire::data(job.id, 0x0bad_c0de, message);
        // The kernel may report a drop at egress to the sender.
        socket.send(&wire::payload(&fields, b"not yours")).ok();
    }
    let dropped = a.counter("impersonation")?;
    ensure!(dropped == 10, "{dropped} of 10 packets were counted as impersonation");
    // Packets for a job that this host does not know pass.
    socket.send(&wire::payload(&wire::data(job.id ^ 1, 7, 7), b"hello"))?;
    let mut buffer = [0; 2048];
    let len = arrived.recv(&mut buffer).context("a packet of an unknown job was dropped")?;
    ensure!(buffer[..len].ends_with(b"hello"), "a packet of the impersonator arrived");
    Ok(())
}

/// A user who isn't root, outside of the cgroup.
const OUTSIDER: u32 = 1_001;

/// A datagram longer than the MTU leaves in fragments.
fn membership__fragments_hide_no_job() -> Result<()> {
    for family in [Family::V4, Family::V6] {
        hides_no_job(family, &|socket, payload| {
            let (level, option) = match family {
                Family::V4 => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
                Family::V6 => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
            };
            set_option(socket, level, option, &libc::IP_PMTUDISC_DONT.to_ne_bytes())?;
            send(socket, &[payload, &[7; 3_000]].concat())
        })?;
    }
    Ok(())
}

/// The buffer's first and last packet aren't ATP's.
fn membership__gso_buffers_hide_no_job() -> Result<()> {
    for family in [Family::V4, Family::V6] {
        hides_no_job(family, &|socket, payload| {
            let segment_len = i32::try_from(payload.len())?;
            let option = (libc::SOL_UDP, libc::UDP_SEGMENT);
            set_option(socket, option.0, option.1, &segment_len.to_ne_bytes())?;
            let other = vec![0; payload.len()];
            send(socket, &[&other, payload, &other].concat())
        })?;
    }
    Ok(())
}

/// Any user may put a segment routing header (RFC 8754) before its datagrams.
fn membership__routing_headers_hide_no_job() -> Result<()> {
    hides_no_job(Family::V6, &|socket, payload| {
        let std::net::IpAddr::V6(to) = socket.peer_addr()?.ip() else { bail!("not IPv6") };
        // Next header, length in eights, type 4, segments left, last entry, flags, tag.
        let header = [&[0, 2, 4, 0, 0, 0, 0, 0], &to.octets()[..]].concat();
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RTHDR, &header)?;
        send(socket, payload)
    })
}

/// An outsider sends for the job of a cgroup with `send`, and for a job that its host doesn't know,
/// whose packets arrive.
fn hides_no_job(
    family: Family,
    send: &(dyn Fn(&UdpSocket, &[u8]) -> Result<()> + Sync),
) -> Result<()> {
    const ATTEMPTS: u32 = 5;
    let cgroup = TestCgroup::new()?;
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let job = create_job(&a, &cgroup)?;
    for name in ["all", testbed::DEVICE] {
        pair.b.namespace.set(&format!("net/ipv6/conf/{name}/seg6_enabled"), "1")?;
    }
    let to = pair.b.endpoint(family, PORT);
    let arriving = pair.b.namespace.enter(|| Ok(UdpSocket::bind(to)?))?;
    arriving.set_read_timeout(Some(TIMEOUT))?;
    let outsider = |job: u32, body: &[u8]| {
        pair.a.namespace.enter(|| {
            as_user(OUTSIDER, || {
                let socket = UdpSocket::bind(pair.a.endpoint(family, 0))?;
                socket.connect(to)?;
                send(&socket, &wire::payload(&wire::data(job, 7, 7), body))
            })
        })
    };
    for _ in 0..ATTEMPTS {
        outsider(job.id, b"not yours")?;
    }
    outsider(job.id ^ 1, b"your own!")?;
    let mut buffer = [0; 4_096];
    loop {
        let len = arriving.recv(&mut buffer).context("the packet of another job was dropped")?;
        let Ok((header, _)) = Header::parse(&buffer[..len]) else { continue };
        ensure!(header.job() != job.id, "a packet of the outsider arrived, over {family:?}");
        if header.job() == job.id ^ 1 {
            break;
        }
    }
    let dropped = a.counter("impersonation")?;
    ensure!(dropped == u64::from(ATTEMPTS), "{dropped} of {ATTEMPTS} were counted");
    Ok(())
}

/// The kernel may report a drop at egress to the sender.
fn send(socket: &UdpSocket, payload: &[u8]) -> Result<()> {
    match socket.send(payload) {
        Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => Err(error.into()),
        _ => Ok(()),
    }
}

fn set_option(socket: &UdpSocket, level: i32, option: i32, value: &[u8]) -> Result<()> {
    let (at, len) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: the kernel reads `len` bytes at `at`, which are there.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, len) };
    ensure!(set == 0, "option {option}: {}", std::io::Error::last_os_error());
    Ok(())
}

/// The member registers again and goes on. The outsider, which sent for the job before, is dropped.
fn membership__job_attached_under_its_senders() -> Result<()> {
    let cgroup = TestCgroup::new()?;
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&["--rate-max", "10mbit"])?, pair.b.daemon(&[])?);
    let load = Load::lines(5_000, 1_000);
    let receiving = Receiving::start(&pair.b, &b, Family::V4, load)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let options = ["--job", "7", "--msr", "0.8", "--timeout", "60s"];
    let mut command = Sending::command(&pair.a, &a, to, load, &options)?;
    cgroup.adopt(&mut command)?;
    let mut member = Sending::start_with(command)?;
    testbed::wait_for("the first packets", || Ok((b.counter("data_arrived")? > 50).then_some(())))?;
    ensure!(member.is_running()?, "the sender was faster than its rate");
    let outsider = Client::connect(a.socket())?;
    let socket = pair.a.namespace.enter(|| {
        let socket = UdpSocket::bind(pair.a.endpoint(Family::V4, 0))?;
        socket.connect(to)?;
        Ok(socket)
    })?;
    let group = GroupOpen { msr_parts_per_billion: 500_000_000, messages: 1, ..Default::default() };
    outsider.sender_open(Some(7), &[group], socket.as_fd())?;
    a.ask(&format!("job attach 7 --cgroup {}", cgroup.path().display()))?;
    let again = Client::connect(a.socket())?.sender_open(Some(7), &[group], socket.as_fd());
    let refused = matches!(&again, Err(ClientError::Refused(refusal))
        if refusal.kind == RefusalKind::BadRequest && refusal.message.contains("bound to a cgroup"));
    ensure!(refused, "the outsider still sends for the job: {again:?}");
    let report = member.finish()?;
    ensure!(report.job == 7, "{report:?}");
    ensure!(receiving.finish()?.messages >= report.groups[0].needed, "too few messages");
    let jobs = a.stats()?.jobs;
    ensure!(jobs.len() == 1 && jobs[0].cgroup.as_deref() == Some(cgroup.path()), "{jobs:?}");
    ensure!(a.counter("impersonation")? == 0, "packets of the member were dropped");
    Ok(())
}

/// The daemon closes the sender's lanes and tells the library. The library continues by itself,
/// with the same promise, pacing and marking.
fn membership__job_ended_under_its_sender() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&["--rate-max", "10mbit"])?, pair.b.daemon(&[])?);
    let job: JobInfo = serde_json::from_str(&a.ask("job create --json")?)?;
    let load = Load::lines(5_000, 1_000);
    let receiving = Receiving::start(&pair.b, &b, Family::V4, load)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let tap = Capture::start(&pair.a)?;
    let options = ["--job", &job.id.to_string(), "--msr", "0.8", "--timeout", "10s"];
    let mut sending = Sending::start(&pair.a, &a, to, load, &options)?;
    testbed::wait_for("the first packets", || Ok((b.counter("data_arrived")? > 50).then_some(())))?;
    ensure!(sending.is_running()?, "the sender was faster than its rate");
    a.ask(&format!("job end {}", job.id))?;
    let stats = a.stats()?;
    ensure!(stats.jobs.is_empty() && stats.lanes.is_empty(), "left over: {stats:?}");
    let finished = sending.end()?;
    ensure!(finished.status.success(), "the sender gave up: {finished:?}");
    ensure!(
        finished.stderr.contains("pacing in userspace"),
        "the sender did not notice: {finished:?}"
    );
    let received = receiving.finish()?;
    ensure!(received.messages >= 4_000, "{} of 4000 messages arrived", received.messages);
    let data: Vec<_> = tap.finish()?.into_iter().filter(|frame| frame.kind == Kind::Data).collect();
    let unmarked = data.iter().filter(|frame| frame.dscp == 0).count();
    // Packets between the daemon's message and the library's next check are unmarked.
    ensure!(unmarked * 20 <= data.len(), "{unmarked} of {} packets were unmarked", data.len());
    // The daemon serves the next job.
    let next = Transfer {
        from: &pair.a,
        from_daemon: &a,
        to: &pair.b,
        to_daemon: &b,
        family: Family::V4,
        load: LOAD,
        msr: 0.8,
    };
    next.run().map(drop)
}

fn create_job(daemon: &Daemon, cgroup: &TestCgroup) -> Result<JobInfo> {
    let line = format!("job create --name test --cgroup {} --json", cgroup.path().display());
    let job: JobInfo = serde_json::from_str(&daemon.ask(&line)?)?;
    ensure!(job.cgroup.as_deref() == Some(cgroup.path()), "{job:?}");
    Ok(job)
}

/// A plain UDP socket where a receiver would be.
fn listen(pair: &Pair) -> Result<UdpSocket> {
    let socket =
        pair.b.namespace.enter(|| Ok(UdpSocket::bind(pair.b.endpoint(Family::V4, PORT))?))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(socket)
}

fn expect_no_data(socket: &UdpSocket) -> Result<()> {
    socket.set_nonblocking(true)?;
    let mut buffer = [0; 2048];
    while let Ok(len) = socket.recv(&mut buffer) {
        let kind = atp_common::wire::Header::parse(&buffer[..len]).map(|(_, kind)| kind);
        ensure!(kind != Ok(atp_common::wire::Kind::Data), "DATA arrived");
    }
    Ok(())
}
