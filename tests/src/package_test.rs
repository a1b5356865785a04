//! `package-test FILE.deb`: installs the package in a new Debian 12, booted by systemd-nspawn, and
//! uses it as an operator would. Needs root, mmdebstrap, systemd-nspawn and Debian's mirror.

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// What an operator does, in this order: a name, and commands of which each must succeed. None
/// pipes into `grep --quiet`, which ends early: that would fail the command before it.
///
/// The container has no list of kernel modules, so the daemon can't learn which qdiscs there are:
/// the options name one.
const STEPS: &[(&str, &str)] = &[
    (
        "install__starts_nothing",
        "dpkg --install /srv/atp.deb
        test $(systemctl is-active atp.socket) = inactive
        atp-user --version",
    ),
    (
        "units__are_valid",
        "systemd-analyze verify --man=no atp.service atp.socket",
    ),
    (
        "pages_and_completions__are_there",
        "for page in atp-user atp-user-run atp-user-send; do test -f /usr/share/man/man1/$page.1*; done
        grep --quiet -- --iface /usr/share/bash-completion/completions/atp-user
        grep --quiet -- --iface /usr/share/zsh/vendor-completions/_atp-user
        grep --quiet iface /usr/share/fish/vendor_completions.d/atp-user.fish",
    ),
    (
        "binary__needs_only_libraries_of_debian_12",
        "! ldd /usr/bin/atp-user | grep 'not found'",
    ),
    (
        "socket__starts_the_daemon_without_root",
        "ip netns add peer
        ip link add v0 type veth peer name v1 netns peer
        ip addr add 10.0.0.1/24 dev v0
        ip -n peer addr add 10.0.0.2/24 dev v1
        ip link set v0 up
        ip -n peer link set v1 up
        echo 'ATP_OPTIONS=\"--iface v0 --pacing htb --law frugal --metrics\"' > /etc/default/atp
        systemctl start atp.socket
        test $(systemctl is-active atp.service) = inactive
        atp-user job list
        test $(systemctl is-active atp.service) = active
        test $(stat --format=%U /proc/$(systemctl show --property=MainPID --value atp)) != root
        systemctl status atp --no-pager | grep 'Status: \"v0, paced by htb\"'",
    ),
    (
        "job__of_another_user_uses_the_programs",
        "seq 2000 > /tmp/lines
        chmod 644 /tmp/lines
        ip netns exec peer atp-user recv 10.0.0.2:4747 --out /tmp/received --timeout 20s &
        receiver=$!
        sleep 1
        setpriv --reuid=65534 --regid=65534 --clear-groups \
            atp-user send 10.0.0.2:4747 --msr 0.9 --file /tmp/lines --json > /tmp/report
        wait $receiver
        cat /tmp/report
        grep --quiet '\"datapath\":\"ebpf\"' /tmp/report
        test $(wc --lines < /tmp/received) -ge 1800",
    ),
    (
        "journal__has_fields",
        "journalctl --unit=atp --output=json | grep '\"F_INTERFACE\":\"v0\"' > /dev/null",
    ),
    (
        "metrics__are_read_by_prometheus",
        "cd /usr/share/doc/atp/monitoring
        promtool check rules alerts.yml
        promtool test rules alerts-test.yml
        echo 'rule_files: [/usr/share/doc/atp/monitoring/alerts.yml]' > /etc/prometheus/prometheus.yml
        echo 'scrape_configs: [{job_name: atp, scrape_interval: 1s, static_configs: [{targets: [\"127.0.0.1:9747\"]}]}]' \
            >> /etc/prometheus/prometheus.yml
        promtool check config /etc/prometheus/prometheus.yml
        systemctl restart prometheus
        ask='promtool query instant http://127.0.0.1:9090'
        for try in $(seq 30); do
            if $ask 'up{job=\"atp\"} == 1' 2> /dev/null | grep .; then break; fi
            sleep 1
        done
        $ask 'atp_datapath_events_total{event=\"paced\"} > 1800' | grep .
        $ask 'atp_daemon_interfaces{state=\"tc\"} == 1' | grep .
        sed --quiet 's/^ *\"expr\": \"\\(.*\\)\",$/\\1/p' grafana.json \
            | sed 's/\\\\\"/\"/g; s/\\$__rate_interval/1m/g; s/\\$instance/.*/g' > /tmp/expressions
        test $(wc --lines < /tmp/expressions) -ge 12
        while read -r expression; do $ask \"$expression\" > /dev/null; done < /tmp/expressions
        ip netns exec peer atp-user recv 10.0.0.2:4748 --out /tmp/received-2 &
        (seq 100; sleep 10) | atp-user send 10.0.0.2:4748 --msr 0.5 &
        for try in $(seq 9); do
            if $ask 'count by (job_id, group) (atp_group_lanes)' | grep job_id=; then break; fi
            sleep 1
        done
        $ask 'count by (job_id, group) (atp_group_lanes)' | grep job_id=
        wait
        systemctl stop prometheus",
    ),
    (
        "watchdog__is_kept_quiet",
        "sleep 12
        test $(systemctl show --property=NRestarts --value atp) = 0",
    ),
    (
        "crash__is_repaired",
        "killed=$(systemctl show --property=MainPID --value atp)
        kill -KILL $killed
        sleep 5
        test $(systemctl is-active atp.service) = active
        test $(systemctl show --property=MainPID --value atp) != $killed
        atp-user job list",
    ),
    (
        "stop__is_left_to_systemd",
        "(atp-user stop 2>&1 || true) | grep 'systemctl stop'
        systemctl stop atp.socket atp.service
        test $(systemctl show --property=Result --value atp) = success
        ! tc qdisc show dev v0 | grep htb",
    ),
    (
        "purge__leaves_nothing",
        "dpkg --purge atp
        test ! -e /etc/default/atp -a ! -e /run/atp/atp.sock -a ! -e /usr/bin/atp-user
        ! systemctl cat atp.service",
    ),
];

fn main() -> ExitCode {
    let Some(deb) = std::env::args().nth(1) else {
        eprintln!("error: name the Debian package: package-test FILE.deb");
        return ExitCode::FAILURE;
    };
    match run(Path::new(&deb)) {
        Ok(()) => {
            println!("{} passed, 0 failed", STEPS.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(deb: &Path) -> Result<()> {
    let folder = tempfile::tempdir_in("/var/tmp")?;
    let root = folder.path().join("root");
    println!("making a Debian 12 in {}, up to a minute", root.display());
    output(
        Command::new("mmdebstrap")
            .args(["--variant=minbase", "--mode=root", "--quiet"])
            .arg("--include=systemd,systemd-sysv,dbus,iproute2,prometheus")
            .arg("bookworm")
            .arg(&root),
    )?;
    fs::copy(deb, root.join("srv/atp.deb"))
        .with_context(|| format!("can't copy {}", deb.display()))?;
    let container = Container::boot(&root)?;
    for (name, script) in STEPS {
        let said = container.run(script).with_context(|| format!("failed: {name}"))?;
        print!("{said}");
        println!("test {name} ... ok");
    }
    Ok(())
}

/// A booted system. Dropping it ends all of its processes.
struct Container {
    nspawn: Child,
    init: Pid,
}

impl Container {
    /// Boots the system of a folder, with a network of its own, and waits until it has started.
    fn boot(root: &Path) -> Result<Self> {
        let mut boot = Command::new("systemd-nspawn");
        boot.arg("--directory").arg(root);
        boot.args(["--boot", "--quiet", "--register=no", "--keep-unit", "--private-network"]);
        boot.args(["--console=pipe", "--system-call-filter=bpf perf_event_open"]);
        boot.arg("--capability=CAP_NET_ADMIN,CAP_BPF,CAP_PERFMON");
        boot.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let nspawn = boot.spawn().context("can't start systemd-nspawn")?;
        let mut container = Self { nspawn, init: Pid::from_raw(0) };
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            ensure!(container.nspawn.try_wait()?.is_none(), "systemd-nspawn ended");
            ensure!(Instant::now() < deadline, "the system didn't start within two minutes");
            sleep(Duration::from_millis(500));
            let Some(init) = only_child(container.nspawn.id())? else { continue };
            container.init = Pid::from_raw(init);
            let state = container.run("systemctl is-system-running --wait || true");
            if state.is_ok_and(|state| ["running", "degraded"].contains(&state.trim())) {
                return Ok(container);
            }
        }
    }

    /// Runs commands in the system. Each must succeed.
    fn run(&self, script: &str) -> Result<String> {
        let mut enter = Command::new("nsenter");
        enter.arg("--target").arg(self.init.to_string());
        enter.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--"]);
        enter.args(["/bin/bash", "-euo", "pipefail", "-xc", script]);
        output(enter.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Never zero: that would be this process's group.
        let init =
            if self.init.as_raw() > 0 { self.init } else { Pid::from_raw(self.nspawn.id() as i32) };
        kill(init, Signal::SIGKILL).ok();
        self.nspawn.wait().ok();
        // Where systemd doesn't run, systemd-nspawn leaves its control groups behind. The kernel
        // keeps those in use.
        for hierarchy in ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"] {
            for group in ["payload", "supervisor"] {
                remove_control_group(&Path::new(hierarchy).join(group));
            }
        }
    }
}

/// Removes a control group and those below it, if they are empty.
fn remove_control_group(path: &Path) {
    let Ok(files) = fs::read_dir(path) else { return };
    for below in files.flatten().filter(|file| file.path().is_dir()) {
        remove_control_group(&below.path());
    }
    fs::remove_dir(path).ok();
}

/// The only child of a process, if it has one already.
fn only_child(parent: u32) -> Result<Option<i32>> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(&path).with_context(|| format!("can't read {path}"))?;
    Ok(children.split_whitespace().next().and_then(|child| child.parse().ok()))
}

/// Runs a command and returns its standard output.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| {
        format!("can't start {name}: run `cargo xtask package --test` as root, which installs it")
    })?;
    if !output.status.success() {
        bail!("{name}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
