//! Tests the permissions of users other than root: they may send, receive and end their own jobs.

use anyhow::{Context, Result, ensure};
use approxlib::control::{Client, ClientError, GroupOpen, JobInfo, RefusalKind};
use atp_common::maps::LANES;
use nix::sys::{
    resource::{Resource, getrlimit, setrlimit},
    socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket},
};
use std::{
    fs,
    net::UdpSocket,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::{PermissionsExt, chown},
    },
    path::Path,
};
use testbed::{
    Daemon, Family, Finished, Host, Load, NOBODY, PORT, Pair, Process, Receiving, Sending, TIMEOUT,
    TestCgroup, privilege::as_user, wait_for,
};

crate::trials! { if missing_for_cgroups:
    unprivileged__may_send_and_receive,
    unprivileged__may_not_stop_the_daemon,
    unprivileged__may_not_touch_jobs_of_others,
    unprivileged__takes_no_id_from_others,
    unprivileged__may_not_bind_a_cgroup,
    unprivileged__may_not_look_at_paths_as_root,
    unprivileged__may_not_take_all_jobs,
    unprivileged__may_not_take_all_connections,
    unprivileged__may_not_take_all_ports_and_lanes,
    unprivileged__may_not_run_a_daemon,
    unprivileged__sees_no_addresses_and_names,
}

const LOAD: Load = Load::lines(1_000, 300);

fn unprivileged__may_send_and_receive() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let mut command = pair.b.atp_of_nobody()?;
    let to = pair.b.endpoint(Family::V4, PORT);
    command.args(["recv", &to.to_string(), "--socket"]).arg(b.socket());
    let mut receiver = Process::captured("nobody's receiver", command)?;
    receiver.wait_until_it_says("receiving")?;
    let file = pair.a.folder().join("messages");
    LOAD.write(&file)?;
    let mut command = pair.a.atp_of_nobody()?;
    command.args(["send", &to.to_string(), "--json", "--msr", "0.8", "--socket"]).arg(a.socket());
    command.arg("--file").arg(file);
    let report = Sending::start_with(command)?.finish()?;
    ensure!(report.datapath == "ebpf", "the datapath is {}", report.datapath);
    let messages = LOAD.count(receiver.success()?.stdout.as_bytes())?;
    ensure!(messages >= report.groups[0].needed, "{messages} arrived, {report:?}");
    let answered = b.counter("probe_answered")? > 0;
    ensure!(
        answered || b.counter("ack_sent")? >= u64::from(messages),
        "the kernel made too few ACKs"
    );
    Ok(())
}

fn unprivileged__may_not_stop_the_daemon() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    refused(&pair.a, &a, "stop")?;
    a.stats().map(drop)
}

fn unprivileged__may_not_touch_jobs_of_others() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let job: JobInfo = serde_json::from_str(&a.ask("job create --json")?)?;
    refused(&pair.a, &a, &format!("job end {}", job.id))?;
    refused(&pair.a, &a, &format!("job end {} --user 0", job.id))?;
    ensure!(a.stats()?.jobs == [job], "the job should be as it was");
    Ok(())
}

/// A job id is a name in public: `job list` and the metrics show it. Whoever takes it first must
/// not keep it from others.
fn unprivileged__takes_no_id_from_others() -> Result<()> {
    const SQUATTER: libc::uid_t = 1_001;
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let squatted = with_socket_as(SQUATTER, a.socket(), |path| {
        Ok(Client::connect(path)?.job_create(Some(7), None, None)?)
    })?;
    let receiving = Receiving::start(&pair.b, &b, Family::V4, LOAD)?;
    let file = pair.a.folder().join("messages");
    LOAD.write(&file)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let mut command = pair.a.atp_of_nobody()?;
    command.args(["send", &to.to_string(), "--json", "--job", "7", "--msr", "0.8", "--socket"]);
    command.arg(a.socket()).arg("--file").arg(file);
    let report = Sending::start_with(command)?.finish()?;
    ensure!((report.job, &report.datapath[..]) == (7, "ebpf"), "{report:?}");
    ensure!(receiving.finish()?.messages >= report.groups[0].needed, "too few messages");
    ensure!(a.counter("impersonation")? == 0, "packets of the second job were dropped");
    // The sender's job ended with it. One that stays is in the list beside the first.
    let own = as_nobody(&a, |path| Ok(Client::connect(path)?.job_create(Some(7), None, None)?))?;
    let jobs: Vec<JobInfo> = serde_json::from_str(&a.ask("job list --json")?)?;
    ensure!(jobs == [squatted.clone(), own], "{jobs:?}");
    let ambiguous = a.ask("job end 7").map_err(|error| format!("{error:#}"));
    let told = ambiguous.as_ref().err().is_some_and(|error| error.contains("1001, 65534"));
    ensure!(told, "root should say whose job ends: {ambiguous:?}");
    a.ask("job end 7 --user nobody")?;
    ensure!(a.stats()?.jobs == [squatted], "the other user's job should be as it was");
    Ok(())
}

fn unprivileged__may_not_bind_a_cgroup() -> Result<()> {
    let cgroup = TestCgroup::new()?;
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    refused(&pair.a, &a, &format!("job create --cgroup {}", cgroup.path().display()))?;
    ensure!(a.stats()?.jobs.is_empty(), "a job is left");
    Ok(())
}

/// The daemon must not reveal whether a path exists, nor wait for the file system of another user.
fn unprivileged__may_not_look_at_paths_as_root() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    as_nobody(&a, |socket| {
        let refused = Client::connect(socket)?.job_create(None, None, Some("/no/where".into()));
        ensure!(kind(&refused) == Some(RefusalKind::NotYours), "{refused:?}");
        Ok(())
    })
}

fn unprivileged__may_not_take_all_jobs() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    as_nobody(&a, |socket| {
        let client = Client::connect(socket)?;
        for _ in 0..JOBS_OF_A_USER {
            client.job_create(None, None, None)?;
        }
        let refused = client.job_create(None, None, None);
        ensure!(kind(&refused) == Some(RefusalKind::NoRoom), "{refused:?}");
        Ok(())
    })?;
    a.ask("job create --name roots")?;
    ensure!(a.stats()?.jobs.len() == JOBS_OF_A_USER + 1, "{:?}", a.stats()?.jobs);
    Ok(())
}

fn unprivileged__may_not_take_all_connections() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let silent = |path: &Path| -> Result<OwnedFd> {
        let kind = (AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
        let client = socket(kind.0, kind.1, kind.2, None)?;
        connect(client.as_raw_fd(), &UnixAddr::new(path)?)?;
        Ok(client)
    };
    let all = as_nobody(&a, |path| {
        let all = (0..CONNECTIONS_OF_A_USER).map(|_| silent(path)).collect::<Result<Vec<_>>>()?;
        let refused = Client::connect(path);
        ensure!(kind(&refused) == Some(RefusalKind::NoRoom), "{refused:?}");
        let many_more = (0..200).map(|_| silent(path)).collect::<Result<Vec<_>>>()?;
        Ok((all, many_more))
    })?;
    a.stats().context("with all connections of another user taken")?;
    drop(all);
    as_nobody(&a, |path| wait_for("room again", || Ok(Client::connect(path).ok().map(drop))))
}

fn unprivileged__may_not_take_all_ports_and_lanes() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let bind = || UdpSocket::bind(pair.a.endpoint(Family::V4, 0));
    let as_nobody = |work: &(dyn Fn(&Client) -> Result<usize> + Sync)| {
        let work = |path: &Path| work(&Client::connect(path)?);
        pair.a.namespace.enter(|| as_nobody(&a, work))
    };
    let ports = as_nobody(&|client| {
        count_granted("receiving ports", || {
            let socket = bind()?;
            Ok(client.receiver_open(socket.as_fd()).map(|_| socket.into()))
        })
    })?;
    ensure!(ports == RECEIVER_PORTS / 4, "{ports} ports");
    let groups: Vec<_> = (0..=u8::MAX)
        .map(|group| GroupOpen {
            group,
            msr_parts_per_billion: 500_000_000,
            messages: 1,
            ..GroupOpen::default()
        })
        .collect();
    let flows = as_nobody(&|client| {
        count_granted("lanes", || {
            let socket = bind()?;
            socket.connect(to)?;
            Ok(client.sender_open(None, &groups, socket.as_fd()).map(|_| socket.into()))
        })
    })?;
    ensure!(flows == LANES as usize / 4 / groups.len(), "{flows} flows of 256 lanes");
    wait_for("the flows to end", || Ok(a.stats()?.lanes.is_empty().then_some(())))?;
    a.stop()
}

/// Opens sockets until the daemon has no room for another one; returns how many there were.
fn count_granted(
    what: &str,
    mut open: impl FnMut() -> Result<Result<OwnedFd, ClientError>>,
) -> Result<usize> {
    let mut granted: Vec<OwnedFd> = Vec::new();
    loop {
        match open()? {
            Ok(socket) => granted.push(socket),
            Err(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::NoRoom => {
                ensure!(refusal.message.contains(&format!(" {what}, the limit")), "{refusal:?}");
                return Ok(granted.len());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Numbers of lanes and jobs are for every user; whose they are is not.
fn unprivileged__sees_no_addresses_and_names() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let job: JobInfo = serde_json::from_str(&a.ask("job create --name secret --json")?)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let socket = pair.a.namespace.enter(|| {
        let socket = UdpSocket::bind(pair.a.endpoint(Family::V4, 0))?;
        socket.connect(to)?;
        Ok(socket)
    })?;
    let client = Client::connect(a.socket())?;
    let group =
        GroupOpen { msr_parts_per_billion: 500_000_000, messages: 1, ..GroupOpen::default() };
    client.sender_open(Some(job.id), &[group], socket.as_fd())?;
    let (stats, jobs) = as_nobody(&a, |path| {
        let theirs = Client::connect(path)?;
        Ok((theirs.stats()?, theirs.job_list()?))
    })?;
    ensure!(stats.lanes.len() == 1 && stats.lanes[0].identity.is_none(), "{:?}", stats.lanes);
    for jobs in [stats.jobs, jobs] {
        ensure!(jobs.len() == 1 && jobs[0].id == job.id && jobs[0].name.is_none(), "{jobs:?}");
    }
    let text = serde_json::to_string(&stats.lanes)?;
    ensure!(!text.contains(&to.ip().to_string()), "the receiver's address is in {text}");
    ensure!(client.stats()?.lanes[0].identity.is_some(), "root sees no identity");
    Ok(())
}

fn unprivileged__may_not_run_a_daemon() -> Result<()> {
    let pair = Pair::new()?;
    let state = pair.a.folder().join("state");
    fs::create_dir(&state)?;
    let mut command = pair.a.atp_of_nobody()?;
    chown(&state, Some(NOBODY), Some(NOBODY))?;
    let object = pair.a.folder().join("object");
    fs::copy(testbed::object()?, &object)?;
    command.args(["run", "--iface", "eth0", "--socket"]).arg(state.join("atp.sock"));
    command.arg("--state-dir").arg(&state).arg("--object").arg(object);
    expect_refusal(&Process::captured("nobody's daemon", command)?.end(TIMEOUT)?, "root")?;
    ensure!(Daemon::leftovers(&pair.a)?.is_empty(), "files are left");
    Ok(())
}

/// The daemon's limit of jobs per user.
const JOBS_OF_A_USER: usize = 256;
/// The ports that the daemon registers for receiving.
const RECEIVER_PORTS: usize = 1_024;
/// The daemon's limit of connections per user.
const CONNECTIONS_OF_A_USER: usize = 832;

/// Runs `work` as the user `nobody`, who may reach the daemon's socket.
fn as_nobody<T: Send>(daemon: &Daemon, work: impl FnOnce(&Path) -> Result<T> + Send) -> Result<T> {
    with_socket_as(NOBODY, daemon.socket(), work)
}

/// Runs `work` with a daemon's socket on a thread with this user id.
pub fn with_socket_as<T: Send>(
    uid: u32,
    socket: &Path,
    work: impl FnOnce(&Path) -> Result<T> + Send,
) -> Result<T> {
    let folder = socket.parent().context("a socket without a folder")?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    as_user(uid, || work(socket))
}

pub fn kind<T>(refused: &Result<T, ClientError>) -> Option<RefusalKind> {
    match refused {
        Err(ClientError::Refused(refusal)) => Some(refusal.kind),
        _ => None,
    }
}

fn refused(host: &Host, daemon: &Daemon, line: &str) -> Result<()> {
    let mut command = host.atp_of_nobody()?;
    command.args(line.split_whitespace()).arg("--socket").arg(daemon.socket());
    expect_refusal(&Process::captured(line, command)?.end(TIMEOUT)?, "refused")
}

pub fn expect_refusal(finished: &Finished, word: &str) -> Result<()> {
    ensure!(finished.status.code() == Some(1), "{finished:?}");
    let error = finished.stderr.lines().find(|line| line.starts_with("error: "));
    ensure!(
        error.is_some_and(|error| error.contains(word)),
        "{:?} lacks {word:?}",
        finished.stderr
    );
    Ok(())
}
