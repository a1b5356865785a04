//! What users other than root may do: send and receive, and end what is theirs.

use anyhow::{Result, ensure};
use approxlib::control::JobInfo;
use atp_tests::hosts::{
    Daemon, Family, Finished, Host, Load, PATIENCE, PORT, Pair, Process, Sending, TestCgroup,
};
use std::{fs, os::unix::fs::PermissionsExt};

crate::trials! { if missing_for_cgroups:
    unprivileged__may_send_and_receive,
    unprivileged__may_not_stop_the_daemon,
    unprivileged__may_not_touch_jobs_of_others,
    unprivileged__may_not_bind_a_cgroup,
    unprivileged__may_not_run_a_daemon,
}

const LOAD: Load = Load::lines(1_000, 300);

fn unprivileged__may_send_and_receive() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&[])?, pair.b.daemon(&[])?);
    let mut command = pair.b.atp_of_nobody()?;
    let to = pair.b.endpoint(Family::V4, PORT);
    command.args(["recv", &to.to_string(), "--socket"]).arg(b.socket());
    let mut receiver = Process::spawn("nobody's receiver", command)?;
    receiver.wait_until_it_says("receiving")?;
    let file = pair.a.folder().join("messages");
    LOAD.write(&file)?;
    let mut command = pair.a.atp_of_nobody()?;
    command.args(["send", &to.to_string(), "--json", "--socket"]).arg(a.socket());
    command.arg("--file").arg(file);
    let report = Sending::start_with(command)?.finish()?;
    ensure!(report.datapath == "ebpf", "the datapath is {}", report.datapath);
    let messages = LOAD.count(receiver.success()?.stdout.as_bytes())?;
    ensure!(messages >= report.groups[0].needed, "{messages} arrived, {report:?}");
    ensure!(b.counter("ack_sent")? >= u64::from(messages), "the kernel made too few ACKs");
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
    let file = pair.a.folder().join("messages");
    LOAD.write(&file)?;
    let to = pair.b.endpoint(Family::V4, PORT);
    refused(&pair.a, &a, &format!("send {to} --job {} --file {}", job.id, file.display()))?;
    ensure!(a.stats()?.jobs == [job], "the job should be as it was");
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

fn unprivileged__may_not_run_a_daemon() -> Result<()> {
    let pair = Pair::new()?;
    let state = pair.a.folder().join("state");
    fs::create_dir(&state)?;
    let mut command = pair.a.atp_of_nobody()?;
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777))?;
    let object = pair.a.folder().join("object");
    fs::copy(atp_tests::hosts::object()?, &object)?;
    command.args(["run", "--iface", "eth0", "--socket"]).arg(state.join("atp.sock"));
    command.arg("--state-dir").arg(&state).arg("--object").arg(object);
    expect_refusal(&Process::spawn("nobody's daemon", command)?.end(PATIENCE)?, "root")?;
    ensure!(Daemon::leftovers(&pair.a)?.is_empty(), "files are left");
    Ok(())
}

fn refused(host: &Host, daemon: &Daemon<'_>, line: &str) -> Result<()> {
    let mut command = host.atp_of_nobody()?;
    command.args(line.split_whitespace()).arg("--socket").arg(daemon.socket());
    expect_refusal(&Process::spawn(line, command)?.end(PATIENCE)?, "refused")
}

fn expect_refusal(finished: &Finished, word: &str) -> Result<()> {
    ensure!(finished.status.code() == Some(1), "{finished:?}");
    let error = finished.stderr.lines().find(|line| line.starts_with("error: "));
    ensure!(
        error.is_some_and(|error| error.contains(word)),
        "{:?} without {word:?}",
        finished.stderr
    );
    Ok(())
}
