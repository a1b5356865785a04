//! Capabilities of a place where tests run, and whether a skip was needed there.
//!
//! A test that can't run gives the reason `needs CAPABILITY[: more words]`. The runner checks the
//! place itself: a skip is excused only if the place lacks the capability.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::kernel;
use crate::setup::{self, Machine};

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

/// A capability, as a skip names it.
#[derive(Debug, PartialEq, Eq)]
enum Capability {
    /// `root`: uid 0 in the first user namespace.
    Root,
    /// `ebpf_object`: the compiled programs.
    EbpfObject,
    /// `atp_user`: the daemon's binary.
    AtpUser,
    /// `sch_NAME`: a queueing discipline.
    Qdisc(String),
    /// `tcp_NAME`: a congestion control of TCP.
    Tcp(String),
    /// `cgroup2`: a mounted cgroup v2 hierarchy.
    Cgroup2,
    /// `userns`: user namespaces for the user who runs the tests.
    UserNamespaces,
    /// `published_FILE`: a paper's data beside the clone. It can't be downloaded.
    Published(String),
    /// `tshark`: Wireshark's command line.
    Tshark,
    /// `kernel_X.Y`: that Linux or a newer one.
    Kernel(u32, u32),
}

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
        let Some(capability) = parse(reason) else {
            return Err(format!("its reason {reason:?} names no capability that is known"));
        };
        if self.has(&capability) {
            return Err(format!("{reason:?}, and {} has that", self.describe()));
        }
        Ok(())
    }

    fn has(&self, capability: &Capability) -> bool {
        match self {
            Place::Host { programs, .. } => match capability {
                Capability::EbpfObject => *programs,
                _ => host_has(capability),
            },
            Place::Guest { release, modules, .. } => match capability {
                // The virtual machine runs as root, only with programs, on a kernel that has
                // control groups and user namespaces.
                Capability::Root
                | Capability::EbpfObject
                | Capability::AtpUser
                | Capability::Cgroup2
                | Capability::UserNamespaces => true,
                Capability::Published(name) => has_published(name),
                Capability::Tshark => host_has(capability),
                Capability::Qdisc(name) => has_module(modules, &format!("sch_{name}")),
                Capability::Tcp(name) => has_module(modules, &format!("tcp_{name}")),
                Capability::Kernel(major, minor) => is_at_least(release, *major, *minor),
            },
        }
    }
}

/// `needs CAPABILITY[: more words]`
fn parse(reason: &str) -> Option<Capability> {
    let named = reason.strip_prefix("needs ")?;
    let word = named.split([':', ' ', ',']).next()?;
    Some(match word {
        "root" => Capability::Root,
        "ebpf_object" => Capability::EbpfObject,
        "atp_user" => Capability::AtpUser,
        "cgroup2" => Capability::Cgroup2,
        "tshark" => Capability::Tshark,
        "userns" => Capability::UserNamespaces,
        _ => {
            if let Some(name) = word.strip_prefix("sch_") {
                Capability::Qdisc(name.to_owned())
            } else if let Some(name) = word.strip_prefix("published_") {
                Capability::Published(name.to_owned())
            } else if let Some(name) = word.strip_prefix("tcp_") {
                Capability::Tcp(name.to_owned())
            } else {
                let (major, minor) = version(word.strip_prefix("kernel_")?)?;
                Capability::Kernel(major, minor)
            }
        }
    })
}

fn host_has(capability: &Capability) -> bool {
    match capability {
        Capability::Root => Machine::this().is_root(),
        Capability::EbpfObject | Capability::AtpUser => true,
        Capability::Qdisc(name) => can_add_qdisc(name),
        Capability::Tcp(name) => has_tcp(name),
        Capability::Published(name) => has_published(name),
        Capability::Cgroup2 => has_cgroup2(),
        Capability::UserNamespaces => succeeds(Command::new("unshare").args(["-Ur", "true"])),
        Capability::Tshark => setup::find_command("tshark").is_some(),
        Capability::Kernel(major, minor) => {
            kernel::host_release().is_ok_and(|release| is_at_least(&release, *major, *minor))
        }
    }
}

/// The tests look in the same folder.
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
    succeeds(&mut add)
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Setting a congestion control loads its module if there is one.
fn has_tcp(name: &str) -> bool {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    socket.is_ok_and(|socket| socket.set_tcp_congestion(name.as_bytes()).is_ok())
}

fn has_cgroup2() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(2) == Some("cgroup2"))
}

/// Looks for the module among those of an unpacked kernel.
fn has_module(modules: &std::path::Path, name: &str) -> bool {
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        let text = std::fs::read_to_string(modules.join(list)).unwrap_or_default();
        text.lines().any(|line| {
            let path = line.split(':').next().unwrap_or_default();
            let file = path.rsplit('/').next().unwrap_or_default();
            file.split('.').next() == Some(name)
        })
    })
}

fn is_at_least(release: &str, major: u32, minor: u32) -> bool {
    version(release).is_some_and(|found| found >= (major, minor))
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
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
        assert_eq!(parse("needs root"), Some(Capability::Root));
        assert_eq!(
            parse("needs sch_fq: this kernel has none"),
            Some(Capability::Qdisc("fq".to_owned()))
        );
        assert_eq!(parse("needs tcp_bbr"), Some(Capability::Tcp("bbr".to_owned())));
        assert_eq!(parse("needs kernel_6.12"), Some(Capability::Kernel(6, 12)));
        assert_eq!(
            parse("needs published_sizes-1.txt: not beside this clone"),
            Some(Capability::Published("sizes-1.txt".to_owned()))
        );
        assert!(!has_published("no such data"));
        assert_eq!(parse("needs luck"), None);
        assert_eq!(parse("not today"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn excuses_only_what_the_guest_lacks() {
        let modules = tempfile::tempdir().unwrap();
        let dep = "kernel/net/sched/sch_fq.ko.xz: kernel/x.ko.xz\n";
        std::fs::write(modules.path().join("modules.dep"), dep).unwrap();
        let guest = guest(modules.path());
        assert!(guest.excuses("needs sch_fq").is_err());
        assert!(guest.excuses("needs sch_fqx").is_ok());
        assert!(guest.excuses("needs root").is_err());
        assert!(guest.excuses("needs kernel_6.13").is_ok());
        assert!(guest.excuses("needs kernel_6.6").is_err());
        assert!(guest.excuses("because").is_err());
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
    }

    #[test]
    fn version_reads_releases() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("six"), None);
    }
}
