//! Capabilities of a place where tests run, and whether a skip was needed there.
//!
//! A test that can't run gives the reason `needs CAPABILITY[: more words]`. The runner checks the
//! place itself: a skip is excused only if the place lacks the capability.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kernel;
use crate::setup::{self, Machine, version};

/// Where tests ran.
#[derive(Clone, Debug)]
pub enum Place {
    Host {
        /// The tests were given the eBPF programs.
        programs: bool,
        /// The pacing backend that they were told to use.
        backend: Option<&'static str>,
    },
    Guest {
        release: String,
        modules: PathBuf,
        emulated: bool,
    },
}

/// The capabilities, as skips name them. Where the name ends with an underscore, a value follows.
const NAMES: [&str; 29] = [
    "root",        // uid 0 in the first user namespace
    "ebpf_object", // the compiled programs
    "atp_user",    // the daemon's binary
    "cgroup2",     // a mounted cgroup v2 hierarchy
    "userns",      // user namespaces for the user who runs the tests
    "userfaultfd", // page faults that a process handles itself
    "tshark",      // Wireshark's command line
    "cc",          // compilers, for programs that use libatp
    "c++",
    "go",
    "pkg-config",
    "node", // interpreters and installers, for programs under atp-run
    "npm",
    "python3",
    "jdk",                 // a JDK that runs the Java library, and Maven
    "maven_central",       // its files can be downloaded
    "librdkafka",          // the requirements of its build
    "kafka_jars",          // Kafka's brokers
    "registries",          // the registries of their packages can be reached
    "sanitizers",          // the libraries of the address and the undefined-behavior sanitizer
    "sch_",                // a queueing discipline
    "tcp_",                // a congestion control of TCP
    "published_",          // a paper's data beside the clone, which can't be downloaded
    "kernel_",             // that Linux or a newer one
    "flights_table",       // the table of the main job
    "samplics",            // the package from PyPI, in our environment
    "collective_packages", // the wheels, beside Debian's PyTorch
    "pypi_torch",          // PyPI's PyTorch, which has FSDP2
    "pyflink",             // PyPI's PyFlink, and a Python for it
];

impl Place {
    pub fn host() -> Place {
        Place::Host { programs: false, backend: None }
    }

    pub fn describe(&self) -> String {
        match self {
            Place::Host { backend: None, .. } => "this machine".to_owned(),
            Place::Host { backend: Some(backend), .. } => format!("this machine, {backend}"),
            Place::Guest { release, emulated, .. } => {
                let emulated = if *emulated { ", emulated" } else { "" };
                format!("guest, Linux {release}, fq{emulated}")
            }
        }
    }

    /// `Ok` if a test had to be skipped here for that reason, else the objection.
    pub fn excuses(&self, reason: &str) -> Result<(), String> {
        let Some((name, value)) = parse(reason) else {
            return Err(format!("its reason {reason:?} names no capability that is known"));
        };
        if self.has(name, value) {
            return Err(format!("{reason:?}, and {} has that", self.describe()));
        }
        Ok(())
    }

    fn has(&self, name: &str, value: &str) -> bool {
        match (name, self) {
            ("tshark" | "cc" | "c++" | "go" | "pkg-config" | "node" | "npm" | "python3", _) => {
                setup::find_command(name).is_some()
            }
            ("registries", _) => {
                setup::output(Command::new("npm").args(["view", "statsd", "version"])).is_ok()
                    && setup::output(Command::new("python3").args(["-m", "pip", "--version"]))
                        .is_ok()
            }
            ("sanitizers", _) => has_sanitizers(),
            ("published_", _) => has_published(value),
            ("flights_table", _) => setup::obtainable(&[&setup::Dataset]).is_ok(),
            ("jdk", _) => setup::obtainable(&[&setup::Jdk]).is_ok(),
            ("maven_central", _) => setup::reaches_maven_central(),
            ("librdkafka", _) => setup::obtainable(&[&setup::LIBRDKAFKA]).is_ok(),
            ("kafka_jars", _) => setup::obtainable(&[&setup::KAFKA_JARS]).is_ok(),
            ("samplics", _) => setup::obtainable(&[&setup::SAMPLICS]).is_ok(),
            ("collective_packages", Place::Host { .. }) => {
                setup::obtainable(&[&setup::MATURIN, &setup::Torch]).is_ok()
            }
            // An emulated machine is too slow for Python.
            ("collective_packages", Place::Guest { .. }) => false,
            // With `--torch pypi`, a pinned version has it: no test asks then.
            ("pypi_torch", _) => false,
            ("pyflink", _) => setup::PYFLINK.check().is_ok(),
            ("kernel_", Place::Guest { release, .. }) => is_at_least(release, value),
            ("sch_" | "tcp_", Place::Guest { modules, .. }) => {
                has_module(modules, &format!("{name}{value}"))
            }
            // The virtual machine runs as root, only with programs, on a kernel that has control
            // groups and user namespaces.
            (_, Place::Guest { .. }) => true,
            ("ebpf_object", Place::Host { programs, .. }) => *programs,
            ("kernel_", _) => {
                kernel::host_release().is_ok_and(|release| is_at_least(&release, value))
            }
            ("root", _) => Machine::this().is_root(),
            ("sch_", _) => can_add_qdisc(value),
            ("tcp_", _) => has_tcp(value),
            ("userfaultfd", _) => Path::new("/proc/sys/vm/unprivileged_userfaultfd").exists(),
            ("cgroup2", _) => has_cgroup2(),
            ("userns", _) => setup::output(Command::new("unshare").args(["-Ur", "true"])).is_ok(),
            _ => true,
        }
    }
}

/// The name and the value in `needs CAPABILITY[: more words]`.
fn parse(reason: &str) -> Option<(&'static str, &str)> {
    let word = reason.strip_prefix("needs ")?.split([':', ' ', ',']).next()?;
    let named = |name: &'static str| {
        let value = word.strip_prefix(name)?;
        (value.is_empty() != name.ends_with('_')).then_some((name, value))
    };
    let is_valid = |(name, value): &(&str, &str)| *name != "kernel_" || version(value).is_some();
    NAMES.into_iter().find_map(named).filter(is_valid)
}

/// Whether a paper's data is in the folder where the tests look for it.
fn has_published(name: &str) -> bool {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(name).exists()
}

/// Adds the qdisc to the loopback of a network namespace that ends with the command.
pub fn can_add_qdisc(name: &str) -> bool {
    let Some(tc) = setup::find_command("tc") else { return false };
    let namespace = if Machine::this().is_root() { "-n" } else { "-Urn" };
    let mut add = Command::new("unshare");
    add.arg(namespace).arg(tc).args(["qdisc", "add", "dev", "lo", "root", name]);
    add.args(match name {
        "red" => "limit 400000 avpkt 1500".split(' ').collect(),
        "tbf" => "rate 1mbit burst 10k latency 10ms".split(' ').collect(),
        "ets" => vec!["bands", "8"],
        _ => Vec::new(),
    });
    setup::output(&mut add).is_ok()
}

/// Setting a congestion control loads its module if there is one.
fn has_tcp(name: &str) -> bool {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    socket.is_ok_and(|socket| socket.set_tcp_congestion(name.as_bytes()).is_ok())
}

/// Links an empty library with the sanitizers.
fn has_sanitizers() -> bool {
    let mut link = Command::new("cc");
    link.args("-shared -fsanitize=address,undefined -x c /dev/null -o /dev/null".split(' '));
    setup::output(&mut link).is_ok()
}

fn has_cgroup2() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(2) == Some("cgroup2"))
}

/// Looks for the module among those of an unpacked kernel.
fn has_module(modules: &std::path::Path, name: &str) -> bool {
    let is_module = |line: &str| {
        let path = line.split(':').next().unwrap_or_default();
        path.rsplit('/').next().and_then(|file| file.split('.').next()) == Some(name)
    };
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        std::fs::read_to_string(modules.join(list)).is_ok_and(|text| text.lines().any(is_module))
    })
}

fn is_at_least(release: &str, wanted: &str) -> bool {
    version(release).is_some_and(|found| Some(found) >= version(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(modules: &std::path::Path) -> Place {
        let release = "6.12.117+deb12-amd64".to_owned();
        Place::Guest { release, modules: modules.to_path_buf(), emulated: true }
    }

    #[test]
    fn parse_knows_each_capability_and_nothing_else() {
        for (reason, expected) in [
            ("needs root", ("root", "")),
            ("needs sch_fq: this kernel has none", ("sch_", "fq")),
            ("needs tcp_bbr", ("tcp_", "bbr")),
            ("needs kernel_6.12", ("kernel_", "6.12")),
            ("needs published_sizes-1.txt: not here", ("published_", "sizes-1.txt")),
        ] {
            assert_eq!(parse(reason), Some(expected));
        }
        for unknown in ["needs luck", "needs roots", "needs sch_", "needs kernel_six", "today", ""]
        {
            assert_eq!(parse(unknown), None);
        }
        assert!(!has_published("no such data"));
    }

    #[test]
    fn excuses_only_what_the_guest_lacks() {
        let modules = tempfile::tempdir().unwrap();
        let dep = "kernel/net/sched/sch_fq.ko.xz: kernel/x.ko.xz\n";
        std::fs::write(modules.path().join("modules.dep"), dep).unwrap();
        let guest = guest(modules.path());
        for (reason, is_excused) in [
            ("needs sch_fq", false),
            ("needs sch_fqx", true),
            ("needs root", false),
            ("needs kernel_6.13", true),
            ("needs kernel_6.6", false),
            ("because", false),
        ] {
            assert_eq!(guest.excuses(reason).is_ok(), is_excused, "{reason}");
        }
    }

    #[test]
    fn describe_says_what_was_emulated() {
        let modules = std::path::Path::new("modules");
        assert_eq!(guest(modules).describe(), "guest, Linux 6.12.117+deb12-amd64, fq, emulated");
    }

    #[test]
    fn excuses_nothing_that_the_tests_were_given() {
        let host = |programs| Place::Host { programs, backend: Some("htb") };
        assert!(host(true).excuses("needs ebpf_object").is_err());
        assert!(host(false).excuses("needs ebpf_object").is_ok());
        assert!(host(true).excuses("needs pypi_torch: FSDP2 is in PyPI's torch").is_ok());
    }
}
