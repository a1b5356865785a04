//! An attacker in a container on its host's network: this program again, in a process of its own.

use crate::{
    attack::{Attack, Bursts, Ends},
    job::CLAIM,
    table::{ROWS, Row},
};
use anyhow::{Context, Result, ensure};
use std::{
    collections::HashSet,
    env,
    io::{BufRead, BufReader, Read, stdin},
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use testbed::{Process, Signal, TestCgroup};

/// The argument before those of an attack.
const ROLE: &str = "--in-a-container";
const PAUSE: Duration = Duration::from_millis(10);

/// Attacks from a PID namespace and a cgroup of their own, as root without capabilities. Returns
/// the packets.
pub fn attack(attack: &Attack<'_>) -> Result<HashSet<Vec<u8>>> {
    let cgroup = TestCgroup::new()?;
    let mut command = attack.star.hosts[0].namespace.command("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    command.args(["setpriv", "--bounding-set=-all", "--inh-caps=-all"]);
    command.arg(env::current_exe()?).args([ROLE, &attack.row.name()]);
    command.arg(attack.ends.receiver.to_string());
    command.args(attack.ends.senders.iter().map(ToString::to_string));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    cgroup.adopt(&mut command)?;
    let mut process = Process::spawn(command, Signal::SIGKILL)?;
    let input = process.child().stdin.take().context("no input")?;
    let output = BufReader::new(process.child().stdout.take().context("no output")?);
    let mut attempts = 0;
    thread::scope(|scope| {
        // The attack ends with its input.
        scope.spawn(move || {
            while !attack.is_over.load(Ordering::Relaxed) {
                thread::sleep(PAUSE);
            }
            drop(input);
        });
        for line in output.lines() {
            attempts = line?.parse().context("a number of attempts")?;
            attack.sent.store(attempts * attack.row.kinds.len() as u32, Ordering::Relaxed);
        }
        anyhow::Ok(())
    })?;
    ensure!(attack.is_over.load(Ordering::Relaxed), "the container's attack ended early");
    Bursts::of_attempts(attack.row, attack.ends.clone(), attempts)
}

/// Attacks, if this process is a container's.
pub fn attack_if_inside() -> Result<bool> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [role, name, receiver, senders @ ..] = &arguments[..] else { return Ok(false) };
    if role != ROLE {
        return Ok(false);
    }
    let all = ROWS.into_iter().flat_map(|row| row.of_each_kind().chain([row]));
    let row: Row = all.into_iter().find(|row| row.name() == *name).context("an unknown row")?;
    let senders = senders.iter().map(|sender| sender.parse()).collect::<Result<_, _>>()?;
    let ends = Ends { senders, receiver: receiver.parse()?, claim: CLAIM };
    ensure!(std::process::id() < 10, "not in a PID namespace");
    let (is_over, mut bursts) = (AtomicBool::new(false), Bursts::new(row, ends));
    thread::scope(|scope| {
        scope.spawn(|| {
            // An error is an end, too.
            stdin().read_to_end(&mut Vec::new()).ok();
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            bursts.send()?;
            println!("{}", bursts.attempts());
            thread::sleep(PAUSE);
        }
        Ok(true)
    })
}
