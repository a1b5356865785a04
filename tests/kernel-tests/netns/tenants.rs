//! Tests that budgets and rights go by the owner of a client, whatever its user id: subordinate
//! ids, user namespaces, PID namespaces.

use crate::unprivileged::{expect_refusal, kind, with_socket_as};
use anyhow::{Context, Result, ensure};
use approxlib::control::{Client, JobInfo, RefusalKind};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::Signal,
    },
};
use std::{
    fs::{self, File},
    io::Write,
    net::UdpSocket,
    os::{fd::AsFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use testbed::{Daemon, Family, PORT, Pair, Process, TIMEOUT, wait_for};

crate::trials! { if missing_for_cgroups:
    tenants__subordinate_ids_have_the_budget_of_their_user,
    tenants__four_owners_leave_room_for_a_fifth_and_root,
    tenants__user_namespaces_have_the_budget_of_their_user,
    tenants__root_of_a_pid_namespace_is_not_root,
    tenants__users_of_a_pid_namespace_are_not_those_of_the_host,
    tenants__many_users_make_few_threads,
}

/// A quarter of a host's jobs.
const JOBS_OF_OWNER: usize = 256;
/// A user whose id is in no range.
const OTHER: libc::uid_t = 1_002;
/// The user who makes the tests' user namespaces.
const OF_NAMESPACES: libc::uid_t = 1_003;
/// The first of the ids that the tests take for containers.
pub const SUBORDINATE: libc::uid_t = 3_000_000;

/// Creates jobs until the daemon refuses; returns how many there were.
fn create_all(uid: libc::uid_t, socket: &Path) -> Result<usize> {
    with_socket_as(uid, socket, |path| {
        let client = Client::connect(path)?;
        for created in 0.. {
            let job = client.job_create(None, None, None);
            match kind(&job) {
                Some(RefusalKind::NoRoom) => return Ok(created),
                _ => drop(job?),
            }
        }
        unreachable!("the numbers have ended")
    })
}

/// A user that holds nothing, and root, still get a job.
fn expect_room(socket: &Path) -> Result<()> {
    for uid in [OTHER, 0] {
        let create = |path: &Path| Ok(Client::connect(path)?.job_create(None, None, None)?);
        with_socket_as(uid, socket, create).with_context(|| format!("a job of user {uid}"))?;
    }
    Ok(())
}

/// A daemon with an /etc/subuid of its own, in a mount namespace, and its socket. The file gives
/// ids from [`SUBORDINATE`] on to nobody.
pub fn daemon_with_subordinate_ids(pair: &Pair, options: &[&str]) -> Result<(Process, PathBuf)> {
    let file = pair.a.folder().join("subuid");
    fs::write(&file, format!("nobody:{SUBORDINATE}:65536\n"))?;
    let (socket, state) = (pair.a.folder().join("atp.sock"), pair.a.folder().join("state"));
    let mut command = Daemon::command(&pair.a, &socket, &state, options)?;
    // SAFETY: between fork and exec the closure makes system calls only: these paths are shorter
    // than those for which nix allocates.
    unsafe {
        command.pre_exec(move || {
            const NONE: Option<&str> = None;
            unshare(CloneFlags::CLONE_NEWNS)?;
            mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
            mount(Some(&file), "/etc/subuid", NONE, MsFlags::MS_BIND, NONE)?;
            Ok(())
        });
    }
    let daemon = Process::captured("the daemon", command)?;
    wait_for("the daemon to answer", || Ok(Client::connect(&socket).ok().map(drop)))?;
    Ok((daemon, socket))
}

fn tenants__subordinate_ids_have_the_budget_of_their_user() -> Result<()> {
    let pair = Pair::new()?;
    let (_daemon, socket) = daemon_with_subordinate_ids(&pair, &[])?;
    let created: Result<Vec<_>> =
        (SUBORDINATE..SUBORDINATE + 4).map(|uid| create_all(uid, &socket)).collect();
    ensure!(created? == [JOBS_OF_OWNER, 0, 0, 0], "four ids of one user are several owners");
    expect_room(&socket)
}

fn tenants__four_owners_leave_room_for_a_fifth_and_root() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let created: Result<Vec<_>> = (2_001..2_005).map(|uid| create_all(uid, a.socket())).collect();
    let created = created?;
    expect_room(a.socket()).with_context(|| format!("after {created:?} jobs of others"))?;
    let fifth = create_all(OTHER, a.socket())?;
    ensure!(fifth >= 20, "after {created:?} jobs of others, the fifth owner got {fifth}");
    Ok(())
}

/// As containers have them whose manager writes no /etc/subuid: also with several ranges, a user
/// has the budget of one.
fn tenants__user_namespaces_have_the_budget_of_their_user() -> Result<()> {
    const AS: &str = "setpriv --clear-groups --reuid";
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let socket = a.socket().display();
    let program = pair.a.atp_of_nobody()?.get_program().display().to_string();
    let ask = format!("{program} job create --json --socket {socket}");
    // Root inside is an ordinary user outside.
    let roots = in_user_namespace(
        &pair,
        SUBORDINATE,
        &format!("{AS} 0 {ask} && {AS} 0 {program} stop --socket {socket}"),
    )?;
    let job: JobInfo = serde_json::from_slice(&roots.stdout)?;
    ensure!(job.uid == SUBORDINATE, "{job:?}");
    let told = String::from_utf8_lossy(&roots.stderr);
    ensure!(!roots.status.success() && told.contains("or root may stop"), "{told}");
    a.stats().context("the daemon should run on")?;
    let all = JOBS_OF_OWNER - 1;
    let loops = format!("i=0; while [ $i -lt {all} ]; do {AS} 5 {ask} || exit 7; i=$((i+1)); done");
    let created = in_user_namespace(&pair, SUBORDINATE, &loops)?;
    ensure!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    for first in [SUBORDINATE, SUBORDINATE + 100_000] {
        let refused = in_user_namespace(&pair, first, &format!("{AS} 6 {ask}"))?;
        let told = String::from_utf8_lossy(&refused.stderr);
        ensure!(!refused.status.success(), "the ids from {first} on are another owner");
        let owner = format!("user {OF_NAMESPACES} has 256 jobs, the limit");
        ensure!(told.contains(&owner), "{told}");
    }
    ensure!(create_all(OF_NAMESPACES, a.socket())? == 0, "their user is another owner");
    expect_room(a.socket())
}

/// Runs a shell's line in a user namespace of [`OF_NAMESPACES`] with 65,536 ids.
fn in_user_namespace(pair: &Pair, first: libc::uid_t, line: &str) -> Result<Output> {
    let mut command = pair.a.namespace.command("setpriv");
    command.args(["--clear-groups", "--reuid", &OF_NAMESPACES.to_string()]);
    command.args(["unshare", "--user", "--keep-caps", "sh", "-c", &format!("read go; {line}")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let file = |name: &str| PathBuf::from(format!("/proc/{}/{name}", child.id()));
    let own = fs::read_link("/proc/self/ns/user")?;
    wait_for("the user namespace", || Ok((fs::read_link(file("ns/user"))? != own).then_some(())))?;
    for name in ["uid_map", "gid_map"] {
        fs::write(file(name), format!("0 {first} 65536"))?;
    }
    child.stdin.take().context("no input")?.write_all(b"go\n")?;
    Ok(child.wait_with_output()?)
}

/// As in a container without a user namespace: its uid 0 is root's.
fn tenants__root_of_a_pid_namespace_is_not_root() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let job = with_socket_as(OTHER, a.socket(), |path| {
        Ok(Client::connect(path)?.job_create(None, None, None)?)
    })?;
    for request in ["stop".to_owned(), format!("job end {}", job.id)] {
        let command = in_pid_namespace(&pair, &a, 0, &request)?;
        let finished = Process::captured(&request, command)?.end(TIMEOUT)?;
        expect_refusal(&finished, "refused").with_context(|| format!("`{request}` of uid 0"))?;
    }
    ensure!(a.stats()?.jobs == [job.clone()], "the job should be as it was");
    // Root of the daemon's own namespaces may do both.
    a.ask(&format!("job end {}", job.id))?;
    a.stop()
}

/// They have jobs of their own, and neither end nor join those of the same user ids outside.
fn tenants__users_of_a_pid_namespace_are_not_those_of_the_host() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    for uid in [0, OTHER] {
        let own: JobInfo = with_socket_as(uid, a.socket(), |path| {
            Ok(Client::connect(path)?.job_create(Some(7), None, None)?)
        })?;
        for request in ["job end 7".to_owned(), format!("job end 7 --user {uid}")] {
            let command = in_pid_namespace(&pair, &a, uid, &request)?;
            let finished = Process::captured(&request, command)?.end(TIMEOUT)?;
            expect_refusal(&finished, "belongs to user")
                .with_context(|| format!("`{request}` of uid {uid}"))?;
        }
        let to = pair.b.endpoint(Family::V4, PORT);
        let send = format!("send {to} --msr 0 --job 7 --file -");
        let mut command = in_pid_namespace(&pair, &a, uid, &send)?;
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut sender = Process::spawn(command, Signal::SIGKILL)?;
        let mut input = sender.child().stdin.take().context("no input")?;
        writeln!(input, "one line, and the file isn't over")?;
        let inside = wait_for("the job of the sender", || {
            let jobs = a.stats()?.jobs;
            ensure!(jobs.contains(&own), "the sender is in the job of uid {uid} outside: {jobs:?}");
            Ok(jobs.into_iter().find(|job| job.id == 7 && job.flows == 1))
        })?;
        ensure!(inside.uid == uid && inside.container.is_some(), "{inside:?}");
        let lanes = a.stats()?.lanes;
        ensure!(lanes.iter().all(|lane| lane.is_of(&inside) && !lane.is_of(&own)), "{lanes:?}");
        // Root names each, as the list has it.
        let list = a.ask("job list")?;
        ensure!(list.contains(&format!("user {} ", inside.user())), "{list}");
        a.ask(&format!("job end 7 --user {}", inside.user()))?;
        ensure!(a.stats()?.jobs == [own], "{:?}", a.stats()?.jobs);
        a.ask("job end 7")?;
    }
    Ok(())
}

/// A command of this user in a PID namespace of its own, with the daemon's socket.
fn in_pid_namespace(pair: &Pair, daemon: &Daemon, uid: u32, line: &str) -> Result<Command> {
    // Also sees to it that every user may run the program.
    let program = pair.a.atp_of_nobody()?;
    let mut command = pair.a.namespace.command("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["setpriv", "--clear-groups", "--reuid", &uid.to_string()]);
    command.arg(program.get_program()).args(line.split_whitespace());
    command.arg("--socket").arg(daemon.socket());
    Ok(command)
}

fn tenants__many_users_make_few_threads() -> Result<()> {
    const USERS: libc::uid_t = 2_000;
    const THREADS_MAX: usize = 100;
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let no_socket = File::open("/dev/null")?;
    let mut clients = Vec::new();
    for uid in 10_000..10_000 + USERS {
        clients.push(with_socket_as(uid, a.socket(), |path| {
            let client = Client::connect(path)?;
            // A thread looks at the descriptor, and closes it.
            let refused = client.receiver_open(no_socket.as_fd());
            ensure!(kind(&refused) == Some(RefusalKind::BadRequest), "{refused:?}");
            Ok(client)
        })?);
    }
    let status = fs::read_to_string(format!("/proc/{}/status", a.process_id()))?;
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    let threads: usize = threads.context("no count of threads")?.trim().parse()?;
    ensure!(threads <= THREADS_MAX, "{USERS} users make {threads} threads");
    // All of them are connected, and root is served.
    let socket = pair.a.namespace.enter(|| Ok(UdpSocket::bind("0.0.0.0:0")?))?;
    let root = Client::connect(a.socket()).context("root's connection")?;
    root.receiver_open(socket.as_fd()).context("root's receiver")?;
    root.job_create(None, None, None).context("root's job")?;
    drop(clients);
    a.stop()
}
