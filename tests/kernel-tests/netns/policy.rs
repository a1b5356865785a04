//! Tests the operator's policy: who may create jobs, and how much the jobs of each may use.

use crate::unprivileged::{expect_refusal, kind, with_socket_as};
use anyhow::{Context, Result, ensure};
use approxlib::control::{Client, GroupOpen, LaneStats, PolicyRefusals, RefusalKind, Request};
use nix::sys::signal::Signal;
use std::{
    fs,
    net::UdpSocket,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::Command,
};
use testbed::{
    Daemon, Family, Load, NOBODY, PORT, Pair, Process, Sending, TIMEOUT, TestCgroup, wait_for,
};

crate::trials! { if missing_for_cgroups:
    policy__decides_who_creates_jobs,
    policy__limits_the_lanes_of_a_user,
    policy__is_read_again_on_sighup,
    policy__limits_the_traffic_of_a_user,
}

const ANN: u32 = 1_001;
const BEN: u32 = 1_002;
const ML: u32 = 4_242;
/// 800 Mbit/s.
const LINE_BYTES_PER_S: u64 = 100_000_000;

/// A daemon with a policy. The law `paper` begins at the highest rate.
fn daemon(pair: &Pair, policy: &str) -> Result<(Daemon, PathBuf)> {
    let file = pair.a.folder().join("policy.toml");
    fs::write(&file, policy)?;
    let path = file.to_str().context("a path that isn't UTF-8")?;
    let options = ["--policy", path, "--law", "paper", "--rate-max", "800mbit"];
    Ok((pair.a.daemon(&options)?, file))
}

/// The refusal of a new job of a user, if it is refused.
fn refusal_of_job(uid: u32, socket: &Path) -> Result<Option<RefusalKind>> {
    let create = |path: &Path| Ok(kind(&Client::connect(path)?.job_create(None, None, None)));
    with_socket_as(uid, socket, create)
}

fn policy__decides_who_creates_jobs() -> Result<()> {
    let cgroup = TestCgroup::new()?;
    let pair = Pair::new()?;
    let policy = format!(
        "[[rule]]\nusers = [{ANN}]\njobs_max = 2\n[[rule]]\ngroups = [{ML}]\njobs_max = 1\n\
         [[rule]]\ncgroups = [\"{}\"]\njobs_max = 1\n[others]\njobs_max = 0\n",
        cgroup.path().display()
    );
    let (a, _) = daemon(&pair, &policy)?;
    let of_ann = (0..3).map(|_| refusal_of_job(ANN, a.socket())).collect::<Result<Vec<_>>>()?;
    ensure!(of_ann == [None, None, Some(RefusalKind::BadRequest)], "{of_ann:?}");
    ensure!(refusal_of_job(BEN, a.socket())? == Some(RefusalKind::BadRequest), "Ben isn't named");
    ensure!(refusal_of_job(0, a.socket())?.is_none(), "root isn't limited");
    // Two users of a group, and two of a cgroup, share one job.
    let program = pair.a.atp_of_nobody()?.get_program().to_owned();
    let ask = |uid: u32, groups: &str, joins: bool| -> Result<_> {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &uid.to_string(), "--regid", &uid.to_string(), groups]);
        command.arg(&program).args(["job", "create", "--socket"]).arg(a.socket());
        if joins {
            cgroup.adopt(&mut command)?;
        }
        Process::captured("setpriv", command)?.end(TIMEOUT)
    };
    for (groups, joins) in [("--groups=4242", false), ("--clear-groups", true)] {
        let first = ask(BEN, groups, joins)?;
        ensure!(first.status.success(), "{first:?}");
        expect_refusal(&ask(BEN + 1, groups, joins)?, "as many jobs as this host's policy allows")?;
    }
    ensure!(a.stats()?.policy_refusals == refusals(4, 0, 0), "{:?}", a.stats()?.policy_refusals);
    // A job that sends in userspace asks again after NoRoom, and isn't counted: Ann may end a job.
    // Ben may have none.
    for (uid, expected) in [(ANN, RefusalKind::NoRoom), (BEN, RefusalKind::BadRequest)] {
        let refused = sender_of(&pair, a.socket(), uid, 0.9, 1, Some(7))?.refusal;
        ensure!(refused == Some(expected), "a job of {uid} that continues: {refused:?}");
    }
    ensure!(a.stats()?.policy_refusals == refusals(5, 0, 0), "{:?}", a.stats()?.policy_refusals);
    Ok(())
}

const fn refusals(jobs_max: u64, msr_min: u64, queue_highest: u64) -> PolicyRefusals {
    PolicyRefusals { jobs_max, msr_min, queue_highest }
}

/// A sending socket of `groups` groups, which stays open as long as the client.
fn sender(pair: &Pair, socket: &Path, uid: u32, msr: f64, groups: u8) -> Result<Sender> {
    sender_of(pair, socket, uid, msr, groups, None)
}

/// The same; with a cookie it has sent in userspace before.
fn sender_of(
    pair: &Pair,
    socket: &Path,
    uid: u32,
    msr: f64,
    groups: u8,
    cookie: Option<u32>,
) -> Result<Sender> {
    let sends = pair.a.namespace.enter(|| {
        let sends = UdpSocket::bind(pair.a.endpoint(Family::V4, 0))?;
        sends.connect(pair.b.endpoint(Family::V4, PORT))?;
        Ok(sends)
    })?;
    let msr_parts_per_billion = (msr * 1e9) as u32;
    let group =
        |group| GroupOpen { group, msr_parts_per_billion, messages: 9, ..GroupOpen::default() };
    let groups: Vec<_> = (0..groups).map(group).collect();
    with_socket_as(uid, socket, |path| {
        let client = Client::connect(path)?;
        let request = Request::SenderOpen { id: None, cookie, groups };
        let refusal = kind(&client.request(&request, &[sends.as_fd()]));
        Ok(Sender { _client: client, _socket: sends, refusal })
    })
}

struct Sender {
    _client: Client,
    _socket: UdpSocket,
    refusal: Option<RefusalKind>,
}

/// All lanes of the daemon, once its control loop has run with `enough` of them.
fn lanes(daemon: &Daemon, enough: impl Fn(&[LaneStats]) -> bool) -> Result<Vec<LaneStats>> {
    let mut seen = Vec::new();
    let looked = wait_for("lanes within their limits", || {
        seen = daemon.stats()?.lanes;
        Ok(enough(&seen).then_some(()))
    });
    looked.with_context(|| format!("{seen:?}"))?;
    Ok(seen)
}

fn sum(lanes: &[LaneStats]) -> u64 {
    lanes.iter().map(|lane| lane.rate_bytes_per_s).sum()
}

/// The part of the line that all lanes have together, in hundredths.
fn takes(percent: u64) -> impl Fn(&[LaneStats]) -> bool {
    move |lanes| {
        let most = LINE_BYTES_PER_S * percent / 100;
        (most * 9 / 10..=most).contains(&sum(lanes))
    }
}

fn policy__limits_the_lanes_of_a_user() -> Result<()> {
    let pair = Pair::new()?;
    let (a, _) = daemon(
        &pair,
        &format!(
            "[[rule]]\nusers = [{ANN}]\nmsr_min = 0.5\nqueue_highest = 4\nrate_max = \"200mbit\"\n\
             [[rule]]\nusers = [{BEN}]\nport_share_max = 0.25\n[others]\n"
        ),
    )?;
    for msr in [0.4, 1.0] {
        let refused = sender(&pair, a.socket(), ANN, msr, 1)?.refusal;
        ensure!(refused == Some(RefusalKind::BadRequest), "an MSR of {msr}: {refused:?}");
    }
    ensure!(a.stats()?.policy_refusals == refusals(0, 1, 1), "{:?}", a.stats()?.policy_refusals);
    let of_ann = sender(&pair, a.socket(), ANN, 0.9, 1)?;
    ensure!(of_ann.refusal.is_none(), "{:?}", of_ann.refusal);
    let found = lanes(&a, |lanes| lanes.len() == 1)?;
    ensure!((found[0].rate_bytes_per_s, found[0].queue) == (25_000_000, 4), "{found:?}");
    drop(of_ann);
    lanes(&a, <[_]>::is_empty)?;
    // Two sockets with three lanes each share a quarter of the line.
    let of_ben = [(); 2].map(|()| sender(&pair, a.socket(), BEN, 0.9, 3));
    for sender in &of_ben {
        let refusal = sender.as_ref().ok().and_then(|sender| sender.refusal);
        ensure!(sender.is_ok() && refusal.is_none(), "{refusal:?}");
    }
    let found = lanes(&a, |lanes| lanes.len() == 6 && takes(25)(lanes))?;
    ensure!(found.iter().all(|lane| lane.queue == 1), "{found:?}");
    // A user without limits has the rest of the line and more.
    let _other = sender(&pair, a.socket(), BEN + 1, 0.9, 1)?;
    let unlimited = |lane: &LaneStats| lane.rate_bytes_per_s == LINE_BYTES_PER_S;
    lanes(&a, |lanes| lanes.len() == 7 && lanes.iter().any(unlimited))?;
    Ok(())
}

fn policy__is_read_again_on_sighup() -> Result<()> {
    let pair = Pair::new()?;
    let share = |share: f64| format!("[[rule]]\nusers = [{BEN}]\nport_share_max = {share}\n");
    let (a, file) = daemon(&pair, &(share(0.5) + "[others]\n"))?;
    let sender = sender(&pair, a.socket(), BEN, 0.9, 2)?;
    ensure!(sender.refusal.is_none(), "{:?}", sender.refusal);
    lanes(&a, takes(50))?;
    fs::write(&file, share(0.25))?;
    a.signal(Signal::SIGHUP)?;
    wait_for("the complaint", || {
        let told = "line 4: [others] is missing";
        Ok((a.log().contains(told) && a.log().contains("stays in force")).then_some(()))
    })?;
    lanes(&a, takes(50)).context("after a bad file")?;
    let others = "[others]\njobs_max = 0\n";
    let hidden = format!("[[rule]]\nusers = [{BEN}]\n");
    fs::write(&file, share(0.25) + "queue_highest = 6\n" + &hidden + others)?;
    a.signal(Signal::SIGHUP)?;
    let follow = |lanes: &[LaneStats]| takes(25)(lanes) && lanes.iter().all(|lane| lane.queue == 6);
    lanes(&a, follow).context("lanes that are open")?;
    wait_for("the warning", || {
        let told = format!("line 5: the rule of line 1 already holds for user {BEN}");
        Ok(a.log().contains(&told).then_some(()))
    })?;
    ensure!(refusal_of_job(ANN, a.socket())? == Some(RefusalKind::BadRequest), "not read");
    fs::write(&file, "")?;
    a.signal(Signal::SIGHUP)?;
    wait_for("everybody to have jobs", || {
        Ok(refusal_of_job(ANN, a.socket())?.is_none().then_some(()))
    })?;
    a.stop()
}

/// Two jobs of a user share a hundredth of the line. They can't be faster, however fast the machine
/// is.
fn policy__limits_the_traffic_of_a_user() -> Result<()> {
    const LOAD: Load = Load::lines(500, 900);
    let pair = Pair::new()?;
    let b = pair.b.daemon(&[])?;
    let policy = format!("[[rule]]\nusers = [{NOBODY}]\nport_share_max = 0.01\n[others]\n");
    let (a, _) = daemon(&pair, &policy)?;
    let file = pair.a.folder().join("messages");
    LOAD.write(&file)?;
    let ports = [PORT, PORT + 1];
    let receivers = ports.map(|port| {
        let mut command = pair.b.atp()?;
        let at = pair.b.endpoint(Family::V4, port).to_string();
        command.args(["recv", &at, "--socket"]).arg(b.socket());
        let mut receiver = Process::captured("the receiver", command)?;
        receiver.wait_until_it_says("receiving")?;
        Ok(receiver)
    });
    let receivers = receivers.into_iter().collect::<Result<Vec<_>>>()?;
    let senders = ports.map(|port| {
        let mut command = pair.a.atp_of_nobody()?;
        let to = pair.b.endpoint(Family::V4, port).to_string();
        command.args(["send", &to, "--json", "--msr", "0.9", "--socket"]).arg(a.socket());
        command.arg("--file").arg(&file);
        Sending::start_with(command)
    });
    let mut bytes = 0;
    let mut longest_s = 0.0f64;
    for sender in senders {
        let report = sender?.finish()?;
        ensure!(report.datapath == "ebpf", "{report:?}");
        bytes += report.bytes_sent;
        longest_s = longest_s.max(report.elapsed_s);
    }
    for receiver in receivers {
        receiver.success()?;
    }
    let rate = bytes as f64 / longest_s;
    ensure!(rate < LINE_BYTES_PER_S as f64 * 0.015, "{bytes} bytes took {longest_s} s");
    Ok(())
}
