//! Checks the kernel's features, by trying them.

use super::outcome::{Finding, Group};
use crate::daemon::{
    cgroup_mount_point,
    socket_addresses::{NetworkNamespace, inspect},
};
use anyhow::Result;
use atp_common::maps::Config;
use atp_datapath::{
    Datapath, DatapathError, KERNEL_NEEDED, Object, PacingRequest, PacketLog, ProgramStats,
    UdpSockets, bpf, has_daemon,
    mapped::MappedArray,
    pacing::{Backend, PacingError},
};
use aya::util::KernelVersion;
use bytemuck::Zeroable;
use nix::time::{ClockId, clock_getres};
use std::{
    fs, io,
    net::{Ipv4Addr, UdpSocket},
    os::fd::AsFd,
    path::Path,
    time::Duration,
};

const GROUP: Group = Group::Kernel;
/// Capabilities of the daemon (linux/capability.h).
const CAPABILITIES: [(u32, &str); 4] =
    [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN"), (38, "CAP_PERFMON"), (39, "CAP_BPF")];
const JIT_SETTING: &str = "/proc/sys/net/core/bpf_jit_enable";
const AS_ROOT: &str = "this needs privileges: run as root";
/// The resolution of a kernel without high-resolution timers is a tick, 1 ms or longer.
const RESOLUTION_MAX: Duration = Duration::from_micros(1);

/// All checks of the kernel. `object` replaces the embedded eBPF programs.
pub fn findings(object: Option<&Path>) -> Vec<Finding> {
    let (fq, htb) = (Backend::Fq.available(), Backend::Htb.available());
    let has_fq = matches!(fq, Ok(true));
    let missing = missing_capabilities();
    let loaded = load(object);
    vec![
        version(),
        privileges(&missing),
        tcx(has_daemon("lo"), missing.is_empty()),
        programs(&loaded),
        mappable_array(),
        qdisc_fq(&fq),
        qdisc_htb(&htb, has_fq),
        timers(),
        cgroup2(),
        closed_sockets(lists_udp_socket()),
        btf(),
        jit(&loaded, fs::read_to_string(JIT_SETTING).ok().as_deref()),
        statistics(),
    ]
}

fn version() -> Finding {
    let (major, minor, needed) = KERNEL_NEEDED;
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    match KernelVersion::current() {
        Ok(current) if current < KernelVersion::new(major, minor, 0) => GROUP.missing(
            "version",
            release,
            format!("use Linux {needed} or newer, or the library without a daemon"),
        ),
        _ => GROUP.fine("version", format!("Linux {release}, {needed} or newer needed")),
    }
}

fn tcx(queried: Result<bool, DatapathError>, is_privileged: bool) -> Finding {
    let check = "TCX";
    match queried {
        Ok(_) => GROUP.fine(check, "the kernel lists the TCX programs of lo"),
        Err(_) if !is_privileged => GROUP.not_checked(check, AS_ROOT),
        Err(error) => GROUP.missing(
            check,
            error.to_string(),
            "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_XGRESS",
        ),
    }
}

/// Loads the daemon's programs without attaching them: the verifier sees every one.
fn load(object: Option<&Path>) -> Result<Vec<ProgramStats>, DatapathError> {
    let object = match object {
        Some(path) => Object::from_file(path),
        None => Object::embedded(),
    };
    let config = Config { ack_mark: 1, ..Config::zeroed() };
    Datapath::load(&object?, config, PacingRequest::Auto, PacketLog::Off)?.program_stats()
}

fn programs(loaded: &Result<Vec<ProgramStats>, DatapathError>) -> Finding {
    let check = "eBPF programs";
    match loaded {
        Ok(programs) => {
            let instructions: u64 =
                programs.iter().map(|program| u64::from(program.verified_instructions)).sum();
            let count = programs.len();
            GROUP.fine(check, format!("the kernel accepts {count} ({instructions} instructions)"))
        }
        Err(DatapathError::NoObject) => GROUP.not_checked(
            check,
            "this build carries none: build with `cargo xtask build`, or name them with --object",
        ),
        Err(error) if is_refused(error) => GROUP.not_checked(check, AS_ROOT),
        Err(error @ DatapathError::ObjectFile { .. }) => {
            GROUP.not_checked(check, error.to_string())
        }
        Err(error) => GROUP.missing(
            check,
            error.to_string(),
            "do as the message says; the library works without them",
        ),
    }
}

fn is_refused(error: &DatapathError) -> bool {
    matches!(
        error,
        DatapathError::NotPrivileged { .. }
            | DatapathError::Pacing(PacingError::NotPrivileged { .. })
    )
}

fn mappable_array() -> Finding {
    let check = "mappable arrays";
    let mapped = bpf::create_array("atp_doctor", size_of::<u64>(), 1)
        .and_then(|array| MappedArray::new(array.as_fd(), size_of::<u64>(), 1));
    match mapped {
        Ok(_) => GROUP.fine(check, "made and mapped one"),
        Err(error) if is_permission(&error) => GROUP.not_checked(check, AS_ROOT),
        Err(error) => GROUP.missing(
            check,
            error.to_string(),
            "use a kernel with CONFIG_BPF_SYSCALL, and check the memory limit of this cgroup",
        ),
    }
}

fn is_permission(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn qdisc_fq(available: &Result<bool, PacingError>) -> Finding {
    let check = "qdisc fq";
    match available {
        Ok(true) => GROUP.fine(check, "the kernel has sch_fq"),
        Ok(false) => GROUP.degraded(
            check,
            "the kernel has no sch_fq",
            "HTB paces instead, with a system call for each change of a rate",
            "load the module sch_fq, or use a kernel that has it",
        ),
        Err(error) => untried(check, error),
    }
}

fn qdisc_htb(available: &Result<bool, PacingError>, has_fq: bool) -> Finding {
    let check = "qdisc HTB";
    match available {
        Ok(true) => GROUP.fine(check, "the kernel has sch_htb"),
        Ok(false) if has_fq => GROUP.fine(check, "the kernel has no sch_htb; fq paces"),
        Ok(false) => GROUP.missing(
            check,
            "the kernel has neither sch_fq nor sch_htb",
            "load the module sch_fq or sch_htb, or use the library without a daemon",
        ),
        Err(error) => untried(check, error),
    }
}

fn untried(check: &str, error: &PacingError) -> Finding {
    match error {
        PacingError::NotPrivileged { .. } => GROUP.not_checked(check, AS_ROOT),
        error => GROUP.not_checked(check, error.to_string()),
    }
}

fn timers() -> Finding {
    let check = "timers";
    match clock_getres(ClockId::CLOCK_MONOTONIC).map(Duration::from) {
        Ok(resolution) if resolution <= RESOLUTION_MAX => {
            GROUP.fine(check, format!("a resolution of {resolution:?}"))
        }
        Ok(resolution) => GROUP.degraded(
            check,
            format!("a resolution of {resolution:?}"),
            "packets leave in bursts instead of at their times",
            "use a kernel with CONFIG_HIGH_RES_TIMERS, and boot without highres=off",
        ),
        Err(error) => GROUP.not_checked(check, error.to_string()),
    }
}

fn cgroup2() -> Finding {
    let check = "cgroup v2";
    match cgroup_mount_point() {
        Ok(path) => GROUP.fine(check, format!("mounted at {}", path.display())),
        Err(_) => GROUP.degraded(
            check,
            "not mounted",
            "a job can't be bound to a cgroup",
            "run `mount -t cgroup2 none /sys/fs/cgroup`",
        ),
    }
}

/// Whether the kernel lists a socket of this process, as the daemon asks it.
fn lists_udp_socket() -> Result<bool> {
    let socket = [UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?.into()];
    let endpoints = inspect(&socket, NetworkNamespace::own()?)
        .map_err(|refusal| anyhow::Error::msg(refusal.message))?;
    Ok(UdpSockets::open()?.are_on_port(&endpoints.id())?)
}

fn closed_sockets(listed: Result<bool>) -> Finding {
    let check = "closed sockets";
    let observed = match listed {
        Ok(true) => return GROUP.fine(check, "the kernel lists UDP sockets (udp_diag)"),
        Ok(false) => "the kernel's list of UDP sockets lacks one of this process".to_owned(),
        Err(error) => format!("the kernel doesn't list UDP sockets: {error}"),
    };
    GROUP.degraded(
        check,
        observed,
        "ports of closed sockets stay registered as long as their clients are connected",
        "load the module udp_diag, or use a kernel with CONFIG_INET_UDP_DIAG",
    )
}

fn btf() -> Finding {
    let path = "/sys/kernel/btf/vmlinux";
    if Path::new(path).exists() {
        return GROUP.fine("BTF", path);
    }
    GROUP.degraded(
        "BTF",
        format!("{path} is missing"),
        "tools can't show the types of the programs and maps",
        "use a kernel with CONFIG_DEBUG_INFO_BTF",
    )
}

/// Loaded programs show whether the kernel compiles them. The setting shows it only in the host's
/// own network namespace.
fn jit(loaded: &Result<Vec<ProgramStats>, DatapathError>, setting: Option<&str>) -> Finding {
    let check = "eBPF compiler";
    let compiled_bytes = loaded.as_ref().ok().map(|programs| {
        let sizes = programs.iter().map(|program| program.jited_bytes);
        sizes.min().unwrap_or(0)
    });
    let interpreted = |observed: &str| {
        GROUP.degraded(
            check,
            observed,
            "the kernel interprets the programs, for every packet",
            "run `sysctl net.core.bpf_jit_enable=1`, on a kernel with CONFIG_BPF_JIT",
        )
    };
    match (compiled_bytes, setting.map(str::trim)) {
        (Some(0), _) => interpreted("the kernel didn't compile the programs"),
        (Some(_), _) => GROUP.fine(check, "the kernel compiled the programs"),
        (None, Some("0")) => interpreted("net.core.bpf_jit_enable = 0"),
        (None, Some(value)) => GROUP.fine(check, format!("net.core.bpf_jit_enable = {value}")),
        (None, None) => GROUP.not_checked(check, "net.core.bpf_jit_enable is not readable here"),
    }
}

fn statistics() -> Finding {
    match read("/proc/sys/kernel/bpf_stats_enabled").as_deref() {
        Some("1") => GROUP.degraded(
            "eBPF statistics",
            "kernel.bpf_stats_enabled = 1",
            "measuring every run costs up to a quarter of the packet rate",
            "run `sysctl kernel.bpf_stats_enabled=0`",
        ),
        Some(_) => GROUP.fine("eBPF statistics", "kernel.bpf_stats_enabled = 0"),
        None => GROUP.not_checked("eBPF statistics", "kernel.bpf_stats_enabled is not readable"),
    }
}

/// The capabilities of this process that the daemon needs. Checks that lack one are left out.
fn privileges(missing: &[&str]) -> Finding {
    match missing {
        [] => GROUP.fine("privileges", CAPABILITIES.map(|(_, name)| name).join(", ")),
        missing => GROUP.not_checked(
            "privileges",
            format!(
                "this process lacks {}: checks that need them are left out",
                missing.join(", ")
            ),
        ),
    }
}

/// Capabilities that this process lacks.
fn missing_capabilities() -> Vec<&'static str> {
    let status = read("/proc/self/status").unwrap_or_default();
    let set = effective_capabilities(&status).unwrap_or_default();
    let missing = CAPABILITIES.into_iter().filter(|(bit, _)| set >> bit & 1 == 0);
    missing.map(|(_, name)| name).collect()
}

/// The set `CapEff` of `/proc/PID/status`.
fn effective_capabilities(status: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// The content of a file below /proc, without its line break.
fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_capabilities__of_a_status() {
        let status = "Name:\tcat\nCapPrm:\t0000000000000000\nCapEff:\t0000000000001000\n";
        assert_eq!(effective_capabilities(status), Some(1 << 12));
        assert_eq!(effective_capabilities("Name:\tcat\n"), None);
    }

    #[test]
    fn jit__programs_are_better_proof_than_the_setting() {
        let loaded = |jited_bytes| {
            let stats = ProgramStats {
                name: "p".into(),
                verified_instructions: 1,
                jited_bytes,
                tag: String::new(),
            };
            Ok(vec![stats])
        };
        let word = |loaded, setting| jit(&loaded, setting).outcome.word();
        assert_eq!(word(loaded(100), Some("0")), "fine");
        assert_eq!(word(loaded(0), Some("1")), "degraded");
        assert_eq!(word(Err(DatapathError::NoObject), Some("0\n")), "degraded");
        assert_eq!(word(Err(DatapathError::NoObject), Some("1\n")), "fine");
        assert_eq!(word(Err(DatapathError::NoObject), None), "not checked");
    }

    #[test]
    fn privileges__names_what_is_missing() {
        assert_eq!(privileges(&[]).outcome.word(), "fine");
        let lacking = privileges(&["CAP_BPF"]);
        assert!(lacking.detail().contains("lacks CAP_BPF"), "{lacking:?}");
        assert_eq!(lacking.outcome.word(), "not checked");
    }

    #[test]
    fn qdisc_htb__is_missing_only_without_fq() {
        assert_eq!(qdisc_htb(&Ok(false), true).outcome.word(), "fine");
        assert!(qdisc_htb(&Ok(false), false).is_missing());
        assert_eq!(qdisc_fq(&Ok(false)).outcome.word(), "degraded");
        let refused = Err(PacingError::NotPrivileged { action: "probe".into() });
        assert_eq!(qdisc_fq(&refused).outcome.word(), "not checked");
    }

    #[test]
    fn closed_sockets__need_udp_diag() {
        assert_eq!(closed_sockets(lists_udp_socket()).outcome.word(), "fine");
        assert_eq!(closed_sockets(Ok(false)).outcome.word(), "degraded");
        // The kernel's answer without the module.
        let missing = Err(io::Error::from_raw_os_error(libc::ENOENT).into());
        let finding = closed_sockets(missing);
        assert_eq!(finding.outcome.word(), "degraded");
        assert!(finding.advice().unwrap().contains("udp_diag"), "{finding:?}");
    }

    #[test]
    fn programs__a_missing_file_is_not_the_kernels_fault() {
        let finding = programs(&load(Some(Path::new("no/such/object"))));
        assert_eq!(finding.outcome.word(), "not checked");
        assert!(finding.detail().contains("no/such/object"), "{finding:?}");
    }
}
