//! Tests that wrong input gives an error of one line and leaves nothing behind.

use anyhow::{Context, Result, ensure};
use atp_common::wire::{Fields, FinBody, FinGroup, Kind};
use std::{
    fs,
    net::{SocketAddrV4, UdpSocket},
    path::Path,
    process::Command,
};
use testbed::{
    Daemon, Family, Finished, Host, Load, PORT, Pair, Process, Receiving, Sending, Snapshot, Star,
    TIMEOUT, wait_for, wire,
};

crate::trials! {
    run__second_daemon_with_the_same_state,
    run__second_daemon_with_another_state,
    run__socket_in_use,
    run__socket_is_a_file,
    run__interface_twice,
    run__unknown_interface,
    run__foreign_qdisc,
    run__malformed_profile,
    run__no_such_profile,
    run__no_such_object,
    run__object_that_is_none,
    recv__nothing_comes,
    recv__a_fin_without_a_message,
    recv__a_sender_that_is_not_named,
    recv__success_reports_refused_packets,
    recv__port_in_use,
    recv__no_daemon,
    send__silent_peer,
    send__nobody_listens,
    send__path_narrows,
    send__empty_input,
    send__no_such_file,
    send__msr_out_of_range,
    send__no_daemon,
    job__unknown_id,
    job__id_in_use,
    job__no_such_cgroup,
    stop__no_daemon,
}

fn run__second_daemon_with_the_same_state() -> Result<()> {
    let pair = Pair::new()?;
    let daemon = pair.a.daemon(&[])?;
    let socket = pair.a.folder().join("second.sock");
    second_daemon_is_refused(&pair.a, &daemon, &socket, daemon.state())
}

fn run__second_daemon_with_another_state() -> Result<()> {
    let pair = Pair::new()?;
    let daemon = pair.a.daemon(&[])?;
    let (socket, state) = (pair.a.folder().join("second.sock"), pair.a.folder().join("second"));
    second_daemon_is_refused(&pair.a, &daemon, &socket, &state)?;
    ensure!(is_empty(&state)?, "the second daemon left a lock");
    Ok(())
}

fn second_daemon_is_refused(
    host: &Host,
    daemon: &Daemon,
    socket: &Path,
    state: &Path,
) -> Result<()> {
    let before = Snapshot::take(host)?;
    let second = end(Daemon::command(host, socket, state, &[])?)?;
    expect_refusal(&second, &["eth0", "stop"])?;
    ensure!(!socket.exists(), "the second daemon left its socket");
    before.expect_same(host)?;
    daemon.stats().context("the first daemon should go on").map(drop)
}

fn run__socket_in_use() -> Result<()> {
    let pair = Pair::new()?;
    let daemon = pair.a.daemon(&[])?;
    // The second daemon runs on another host, and shares only the socket.
    let before = Snapshot::take(&pair.b)?;
    let state = pair.b.folder().join("state");
    let second = end(Daemon::command(&pair.b, daemon.socket(), &state, &[])?)?;
    expect_refusal(&second, &["already listens", "--socket"])?;
    before.expect_same(&pair.b)?;
    ensure!(is_empty(&state)?, "the second daemon left a lock");
    daemon.stats().context("the first daemon should go on").map(drop)
}

/// A file that is not a socket cannot be a crashed daemon's.
fn run__socket_is_a_file() -> Result<()> {
    let pair = Pair::new()?;
    let before = Snapshot::take(&pair.a)?;
    let (file, state) = (pair.a.folder().join("precious"), pair.a.folder().join("state"));
    fs::write(&file, "precious")?;
    let finished = end(Daemon::command(&pair.a, &file, &state, &[])?)?;
    expect_refusal(&finished, &["precious", "not a socket", "--socket"])?;
    ensure!(fs::read_to_string(&file)? == "precious", "the file was changed");
    before.expect_same(&pair.a)?;
    ensure!(is_empty(&state)?, "the daemon left a lock");
    Ok(())
}

fn run__interface_twice() -> Result<()> {
    let pair = Pair::new()?;
    daemon_is_refused(&pair.a, &["--iface", "eth0"], &["eth0", "twice"])
}

fn run__unknown_interface() -> Result<()> {
    let pair = Pair::new()?;
    daemon_is_refused(&pair.a, &["--iface", "nowhere7"], &["nowhere7"])
}

/// The daemon does not replace a configured qdisc.
fn run__foreign_qdisc() -> Result<()> {
    let pair = Pair::new()?;
    pair.a.namespace.run("tc qdisc add dev eth0 root handle 5: pfifo limit 77")?;
    daemon_is_refused(&pair.a, &[], &["eth0", "pfifo"])
}

fn run__malformed_profile() -> Result<()> {
    let pair = Pair::new()?;
    let path = pair.a.folder().join("profile.toml");
    let good = include_str!("../../../switch-profiles/default.toml");
    fs::write(&path, good.replace("dscp = [27]", "dscp = [99]"))?;
    let line = 1 + good.lines().position(|line| line == "dscp = [27]").context("no such line")?;
    let file = path.to_str().context("an odd name")?;
    let position = format!("profile.toml, line {line}: ");
    daemon_is_refused(&pair.a, &["--profile", file], &[&position, "99"])?;
    fs::write(&path, "mtu_bytes = 1500\nqueue = maybe\n")?;
    daemon_is_refused(&pair.a, &["--profile", file], &["profile.toml, line 2: "])
}

fn run__no_such_profile() -> Result<()> {
    let pair = Pair::new()?;
    daemon_is_refused(&pair.a, &["--profile", "/nowhere/p.toml"], &["/nowhere/p.toml"])
}

fn run__no_such_object() -> Result<()> {
    let pair = Pair::new()?;
    object_is_refused(&pair.a, Path::new("/nowhere/o.o"), &["/nowhere/o.o"])
}

fn run__object_that_is_none() -> Result<()> {
    let pair = Pair::new()?;
    let path = pair.a.folder().join("object");
    fs::write(&path, "not an object")?;
    object_is_refused(&pair.a, &path, &["object"])
}

fn recv__nothing_comes() -> Result<()> {
    let pair = Pair::new()?;
    let daemon = pair.b.daemon(&[])?;
    let before = Snapshot::take(&pair.b)?;
    let finished = end(recv(&pair.b, daemon.socket(), &["--timeout", "300ms"])?)?;
    expect_refusal(&finished, &["0 messages"])?;
    ensure!(daemon.stats()?.jobs.is_empty(), "a job is left");
    before.expect_same(&pair.b)
}

/// Any host can send a FIN. It must not make a receiver that got nothing report success.
fn recv__a_fin_without_a_message() -> Result<()> {
    let mut body = [0; 20];
    let group = FinGroup { group: 0, messages: 1, needed: 0, delivered: 0 };
    let len = FinBody::write(&mut body, 0, &[group]).context("a FIN that is too long")?;
    let fields = Fields { kind: Kind::Fin, message: 1, index: 1, ..wire::data(7, 7, 0) };
    let finished = recv_from_stranger(&[], &wire::payload(&fields, &body[..len]))?;
    expect_refusal(&finished, &["0 messages", "0 of 1 senders"])
}

fn recv__a_sender_that_is_not_named() -> Result<()> {
    let packet = wire::payload(&wire::data(7, 7, 0), b"not wanted");
    let finished = recv_from_stranger(&["--from", "10.9.9.9"], &packet)?;
    ensure!(finished.stdout.is_empty(), "a message of another address: {}", finished.stdout);
    ensure!(finished.stderr.contains("not of --job or --from"), "{}", finished.stderr);
    expect_refusal(&finished, &["0 messages"])?;
    let finished = recv_from_stranger(&["--job", "8"], &packet)?;
    ensure!(finished.stdout.is_empty(), "a message of another job: {}", finished.stdout);
    expect_refusal(&finished, &["0 messages"])
}

/// The report of a receiver that succeeds says what it refused, and what to do.
fn recv__success_reports_refused_packets() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let stranger = [wire::payload(&wire::data(8, 8, 0), b"not wanted"), b"no header".to_vec()];
    for is_json in [true, false] {
        let mut command = recv(&pair.b, b.socket(), &["--job", "7", "--out", "/dev/null"])?;
        command.args(is_json.then_some("--json"));
        let mut receiver = Process::captured("atp-user", command)?;
        receiver.wait_until_it_says("receiving")?;
        let address = |host: &Host, port| SocketAddrV4::new(host.ipv4, port);
        pair.a
            .namespace
            .enter(|| wire::spoof_v4(address(&pair.a, 999), address(&pair.b, PORT), &stranger))?;
        let to = pair.b.endpoint(Family::V4, PORT);
        Sending::start(&pair.a, &a, to, Load::lines(10, 100), &["--job", "7"])?.finish()?;
        let stdout = receiver.success()?.stdout;
        if is_json {
            let reports: serde_json::Value = serde_json::from_str(&stdout)?;
            let refused = &reports[0]["refused"];
            ensure!(refused["unwanted"] == 1 && refused["malformed"] == 1, "{refused}");
        } else {
            let words = "refused packets: 1 not of --job or --from (";
            ensure!(stdout.contains(words) && stdout.contains(", 1 malformed ("), "{stdout}");
        }
    }
    Ok(())
}

/// Runs `recv` for a second, and sends it a packet of another host.
fn recv_from_stranger(options: &[&str], packet: &[u8]) -> Result<Finished> {
    let pair = Pair::new()?;
    let daemon = pair.b.daemon(&[])?;
    let mut command = recv(&pair.b, daemon.socket(), &["--timeout", "1s"])?;
    command.args(options);
    let receiver = Process::captured("atp-user", command)?;
    wait_for("the receiver to listen", || {
        Ok(receiver.stderr()?.contains("receiving").then_some(()))
    })?;
    let address = |host: &Host, port| SocketAddrV4::new(host.ipv4, port);
    pair.a.namespace.enter(|| {
        wire::spoof_v4(address(&pair.a, 999), address(&pair.b, PORT), &[packet.to_vec()])
    })?;
    receiver.end(TIMEOUT)
}

fn recv__port_in_use() -> Result<()> {
    let pair = Pair::new()?;
    let daemon = pair.b.daemon(&[])?;
    let address = pair.b.endpoint(Family::V4, PORT);
    let _holder = pair.b.namespace.enter(|| Ok(UdpSocket::bind(address)?))?;
    let finished = end(recv(&pair.b, daemon.socket(), &[])?)?;
    expect_refusal(&finished, &[&address.to_string()])
}

fn recv__no_daemon() -> Result<()> {
    let pair = Pair::new()?;
    let finished = end(recv(&pair.b, Path::new("/nowhere/atp.sock"), &[])?)?;
    expect_refusal(&finished, &["/nowhere/atp.sock", "atp-user run"])
}

/// A socket that receives packets and answers none.
fn send__silent_peer() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let address = pair.b.endpoint(Family::V4, PORT);
    let _silent = pair.b.namespace.enter(|| Ok(UdpSocket::bind(address)?))?;
    unanswered(&pair, &a, &[&address.to_string(), "0 of 8"])
}

fn send__nobody_listens() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    unanswered(&pair, &a, &["0 of 8", "nothing listens"])
}

/// A router further on has a smaller MTU. The job must succeed with shorter packets, or end with an
/// error in time.
fn send__path_narrows() -> Result<()> {
    let star = Star::new(2)?;
    star.router.run("ip link set port1 mtu 1300")?;
    let (a, b) = (star.hosts[0].daemon(&[])?, star.hosts[1].daemon(&[])?);
    let load = Load::pieces(10, 20_000);
    let receiving = Receiving::start(&star.hosts[1], &b, Family::V4, load)?;
    let to = star.hosts[1].endpoint(Family::V4, PORT);
    let options = ["--timeout", "2s", "--msr", "0.8"];
    let finished = Sending::start(&star.hosts[0], &a, to, load, &options)?.end()?;
    if finished.status.success() {
        return receiving.finish().map(drop);
    }
    expect_refusal(&finished, &["0 of 8", "1300"])
}

/// Sends ten messages, of which eight are needed, and expects `words` in the error.
fn unanswered(pair: &Pair, a: &Daemon, words: &[&str]) -> Result<()> {
    let to = pair.b.endpoint(Family::V4, PORT);
    let options = ["--timeout", "1s", "--msr", "0.8"];
    let finished = Sending::start(&pair.a, a, to, Load::lines(10, 100), &options)?.end()?;
    expect_refusal(&finished, words)?;
    let stats = a.stats()?;
    ensure!(stats.jobs.is_empty() && stats.lanes.is_empty(), "left over: {stats:?}");
    Ok(())
}

fn send__empty_input() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let to = pair.b.endpoint(Family::V4, PORT);
    let sending = Sending::start(&pair.a, &a, to, Load::lines(0, 8), &[])?;
    expect_refusal(&sending.end()?, &["no message", "nothing was sent"])?;
    ensure!(a.counter("paced")? == 0, "packets were sent");
    Ok(())
}

fn send__no_such_file() -> Result<()> {
    let pair = Pair::new()?;
    let finished = end(send(&pair, &["--file", "/nowhere/messages"])?)?;
    expect_refusal(&finished, &["/nowhere/messages"])
}

fn send__msr_out_of_range() -> Result<()> {
    let pair = Pair::new()?;
    for msr in ["1.5", "-0.1", "most"] {
        let finished = end(send(&pair, &[&format!("--msr={msr}")])?)?;
        ensure!(!finished.status.success(), "an MSR of {msr} was accepted");
        ensure!(finished.stderr.contains(msr), "{}", finished.stderr);
        ensure!(finished.stderr.contains("between 0 and 1"), "{}", finished.stderr);
    }
    Ok(())
}

fn send__no_daemon() -> Result<()> {
    let pair = Pair::new()?;
    let file = pair.a.folder().join("messages");
    Load::lines(1, 8).write(&file)?;
    let mut command = send(&pair, &["--socket", "/nowhere/atp.sock", "--file"])?;
    command.arg(file);
    expect_refusal(&end(command)?, &["/nowhere/atp.sock", "atp-user run"])
}

fn job__unknown_id() -> Result<()> {
    refused_by_a_daemon(&["job", "end", "4711"], &["4711"])
}

fn job__id_in_use() -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    a.ask("job create --id 4711")?;
    let mut command = pair.a.atp()?;
    command.args(["job", "create", "--id", "4711", "--socket"]).arg(a.socket());
    expect_refusal(&end(command)?, &["4711", "already"])
}

fn job__no_such_cgroup() -> Result<()> {
    refused_by_a_daemon(&["job", "create", "--cgroup", "/nowhere/group"], &["/nowhere/group"])?;
    refused_by_a_daemon(&["job", "create", "--cgroup", "/tmp"], &["/tmp", "not a cgroup"])
}

fn stop__no_daemon() -> Result<()> {
    let pair = Pair::new()?;
    let mut command = pair.a.atp()?;
    command.args(["stop", "--socket", "/nowhere/atp.sock"]);
    expect_refusal(&end(command)?, &["/nowhere/atp.sock"])
}

/// Starts a daemon that must fail and leave the host unchanged.
fn daemon_is_refused(host: &Host, options: &[&str], words: &[&str]) -> Result<()> {
    let (socket, state) = (host.folder().join("atp.sock"), host.folder().join("state"));
    refused(host, Daemon::command(host, &socket, &state, options)?, words)
}

fn object_is_refused(host: &Host, object: &Path, words: &[&str]) -> Result<()> {
    let (socket, state) = (host.folder().join("atp.sock"), host.folder().join("state"));
    let mut command = host.atp()?;
    command.args(["run", "--iface", "eth0", "--socket"]).arg(socket);
    command.arg("--state-dir").arg(state).arg("--object").arg(object);
    refused(host, command, words)
}

fn refused(host: &Host, command: Command, words: &[&str]) -> Result<()> {
    let before = Snapshot::take(host)?;
    expect_refusal(&end(command)?, words)?;
    before.expect_same(host)?;
    let left = Daemon::leftovers(host)?;
    ensure!(left.is_empty(), "files are left: {left:?}");
    Ok(())
}

fn refused_by_a_daemon(arguments: &[&str], words: &[&str]) -> Result<()> {
    let pair = Pair::new()?;
    let a = pair.a.daemon(&[])?;
    let mut command = pair.a.atp()?;
    command.args(arguments).arg("--socket").arg(a.socket());
    expect_refusal(&end(command)?, words)?;
    ensure!(a.stats()?.jobs.is_empty(), "a job is left");
    Ok(())
}

fn recv(host: &Host, socket: &Path, options: &[&str]) -> Result<Command> {
    let mut command = host.atp()?;
    command.args(["recv", &host.endpoint(Family::V4, PORT).to_string(), "--socket"]).arg(socket);
    command.args(options);
    Ok(command)
}

fn send(pair: &Pair, options: &[&str]) -> Result<Command> {
    let mut command = pair.a.atp()?;
    command.args(["send", &pair.b.endpoint(Family::V4, PORT).to_string()]).args(options);
    Ok(command)
}

fn end(command: Command) -> Result<Finished> {
    Process::captured("atp-user", command)?.end(TIMEOUT)
}

/// Checks that a program failed with an error of one line that contains all `words`.
fn expect_refusal(finished: &Finished, words: &[&str]) -> Result<()> {
    let Finished { status, stderr, .. } = finished;
    ensure!(status.code() == Some(1), "ended with {status}: {stderr}");
    let is_log =
        |line: &&str| [" INFO ", " WARN ", " DEBUG "].iter().any(|level| line.contains(level));
    let errors: Vec<_> = stderr.lines().filter(|line| !is_log(line)).collect();
    let [error] = errors[..] else { anyhow::bail!("not one line: {errors:?}") };
    ensure!(error.starts_with("error: "), "{error}");
    for word in words {
        ensure!(error.contains(word), "{word:?} is not in: {error}");
    }
    Ok(())
}

fn is_empty(folder: &Path) -> Result<bool> {
    Ok(!folder.exists() || fs::read_dir(folder)?.next().is_none())
}
