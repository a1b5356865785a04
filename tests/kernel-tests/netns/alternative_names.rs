//! Tests that the alternative names of an interface stand for its own name.

use anyhow::{Context, Result, ensure};
use std::{fs, path::Path, process::Command};
use testbed::{DEVICE, Host, Pair, Process, Snapshot, TIMEOUT, wait_for};

crate::trials! {
    run__alternative_name,
    run__alternative_name_and_own_name,
    doctor__alternative_name,
}

/// One is longer than an interface's own name can be.
const ALTERNATIVES: [&str; 2] = ["eno7", "enp0s20f0u1u2u3i4lan"];

fn pair() -> Result<Pair> {
    let pair = Pair::new()?;
    for name in ALTERNATIVES {
        pair.a.namespace.run(&format!("ip link property add dev {DEVICE} altname {name}"))?;
    }
    Ok(pair)
}

fn daemon(host: &Host, names: &[&str], state: &Path) -> Result<Command> {
    let mut command = host.atp()?;
    command.arg("run").args(names.iter().flat_map(|name| ["--iface", name]));
    command.arg("--socket").arg(state.with_extension("sock")).arg("--state-dir").arg(state);
    command.arg("--object").arg(testbed::object()?);
    Ok(command)
}

/// Locks, logs and statistics have the interface's own name, so a daemon that is given another name
/// of it is refused.
fn run__alternative_name() -> Result<()> {
    let pair = pair()?;
    for (number, name) in ALTERNATIVES.into_iter().enumerate() {
        let before = Snapshot::take(&pair.a)?;
        let state = pair.a.folder().join(format!("state{number}"));
        let mut first = Process::captured("the daemon", daemon(&pair.a, &[name], &state)?)?;
        first.wait_until_it_says("ready")?;
        let locks = fs::read_dir(&state)?.collect::<std::io::Result<Vec<_>>>()?;
        let [lock] = &locks[..] else { anyhow::bail!("not one lock: {locks:?}") };
        let lock = lock.file_name();
        ensure!(lock.to_str().is_some_and(|lock| lock.ends_with("-eth0.lock")), "{lock:?}");
        let log = first.stderr()?;
        ensure!(log.contains("interface=\"eth0\"") && !log.contains(name), "{log}");
        let second = daemon(&pair.a, &[DEVICE], &pair.a.folder().join("second"))?;
        let second = Process::captured("a second daemon", second)?.end(TIMEOUT)?;
        ensure!(second.stderr.contains("eth0") && !second.status.success(), "{}", second.stderr);
        let mut stop = pair.a.atp()?;
        stop.arg("stop").arg("--socket").arg(state.with_extension("sock"));
        stop.arg("--state-dir").arg(&state);
        Process::captured("atp-user stop", stop)?.success()?;
        first.success()?;
        ensure!(fs::read_dir(&state)?.next().is_none(), "a lock is left");
        before.expect_same(&pair.a)?;
    }
    Ok(())
}

fn run__alternative_name_and_own_name() -> Result<()> {
    let pair = pair()?;
    let state = pair.a.folder().join("state");
    for (names, words) in [
        (["eth0", "eno7"], "--iface eth0 and --iface eno7 are one interface, eth0"),
        (ALTERNATIVES, "--iface eno7 and --iface enp0s20f0u1u2u3i4lan are one interface, eth0"),
        (
            ["eth0", "enp0s20f0u1u2u3i4wan"],
            "there is no network interface \"enp0s20f0u1u2u3i4wan\"",
        ),
    ] {
        let before = Snapshot::take(&pair.a)?;
        let refused = Process::captured("the daemon", daemon(&pair.a, &names, &state)?)?;
        let refused = refused.end(TIMEOUT)?;
        let errors: Vec<_> =
            refused.stderr.lines().filter(|line| !line.contains(" INFO ")).collect();
        let [error] = errors[..] else { anyhow::bail!("not one line: {errors:?}") };
        ensure!(error.contains(words) && refused.status.code() == Some(1), "{error}");
        before.expect_same(&pair.a)?;
    }
    Ok(())
}

/// All names give the same findings, under the interface's own name.
fn doctor__alternative_name() -> Result<()> {
    let pair = pair()?;
    let findings = |name: &str| -> Result<String> {
        let mut command = pair.a.atp()?;
        command.args(["doctor", "--json", "--iface", name]);
        command.args(["--to", &pair.b.ipv4.to_string(), "--object"]).arg(testbed::object()?);
        let text = Process::captured("the doctor", command)?.end(TIMEOUT)?.stdout;
        let all: Vec<serde_json::Value> = serde_json::from_str(&text).context(text)?;
        let of_host = |found: &&serde_json::Value| found["group"] != "kernel";
        Ok(format!("{:?}", all.iter().filter(of_host).collect::<Vec<_>>()))
    };
    let own = findings(DEVICE)?;
    ensure!(own.contains("\"eth0\"") && own.contains("where no daemon runs yet"), "{own}");
    for name in ALTERNATIVES {
        // The host's other numbers may change between two runs.
        wait_for("the same findings", || Ok((findings(name)? == own).then_some(())))
            .with_context(|| format!("{name}: {own}"))?;
    }
    Ok(())
}
