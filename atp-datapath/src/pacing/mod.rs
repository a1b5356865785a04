//! Paces packets: by the fq qdisc if the kernel has it, else by HTB.

mod error;
mod fq;
mod htb;
mod modules;
pub(super) mod netlink;
mod qdisc;

pub use error::PacingError;
pub use fq::PACKETS_PER_FLOW;
pub use htb::class_of_lane;
pub use qdisc::{OWN_MAJOR, options_of};

use atp_common::maps::{BACKEND_FQ, BACKEND_HTB};
use netlink::Netlink;
use netlink_packet_route::tc::TcHandle;
use qdisc::{Interface, Options, Qdisc};
use std::collections::BTreeMap;

/// A pacing backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The fq qdisc, by departure time.
    Fq,
    /// The HTB qdisc, by class.
    Htb,
}

/// The requested backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacingRequest {
    /// fq if the kernel has it, else HTB.
    #[default]
    Auto,
    /// fq only.
    Fq,
    /// HTB only.
    Htb,
}

impl Backend {
    /// The first requested backend that this kernel has.
    pub fn choose(request: PacingRequest) -> Result<Self, PacingError> {
        let wanted: &[Self] = match request {
            PacingRequest::Auto => &[Self::Fq, Self::Htb],
            PacingRequest::Fq => &[Self::Fq],
            PacingRequest::Htb => &[Self::Htb],
        };
        let mut denied = None;
        for backend in wanted {
            let available = match backend.available() {
                // Without CAP_SYS_ADMIN there is no probing: the kernel's package has to say it. A
                // backend that was named is tried, whatever the package says.
                Err(error @ PacingError::NotPrivileged { .. }) => {
                    denied = Some(error);
                    wanted.len() == 1 || modules::has(backend.module())
                }
                tried => tried?,
            };
            if available {
                return Ok(*backend);
            }
        }
        if let Some(denied) = denied {
            return Err(denied);
        }
        Err(PacingError::NoBackend {
            wanted: wanted.iter().map(|backend| backend.name()).collect(),
        })
    }

    /// Whether this kernel has the backend. Tries it in a temporary network namespace, which also
    /// loads its module.
    pub fn available(self) -> Result<bool, PacingError> {
        // Only the new thread enters the namespace, which ends with the thread.
        let probe = std::thread::spawn(move || self.try_on_own_loopback());
        probe.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn try_on_own_loopback(self) -> Result<bool, PacingError> {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).map_err(|errno| {
            PacingError::kernel("create a network namespace to probe for qdiscs", errno.into())
        })?;
        let mut netlink = open()?;
        let loopback = Interface::named("lo")?;
        let added = match self {
            Self::Fq => {
                qdisc::add(&mut netlink, &loopback, TcHandle::ROOT, OWN_MAJOR, "fq", Options::None)
            }
            Self::Htb => htb::install(&mut netlink, &loopback),
        };
        match added {
            Ok(()) => Ok(true),
            Err(PacingError::Kernel { source, .. })
                if matches!(source.raw_os_error(), Some(libc::ENOENT | libc::EOPNOTSUPP)) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// `fq` or `htb`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fq => "fq",
            Self::Htb => "htb",
        }
    }

    /// The kernel module of the qdisc.
    const fn module(self) -> &'static str {
        match self {
            Self::Fq => "sch_fq",
            Self::Htb => "sch_htb",
        }
    }

    /// The backend's number in the programs' `Config`.
    pub const fn in_config(self) -> u32 {
        match self {
            Self::Fq => BACKEND_FQ,
            Self::Htb => BACKEND_HTB,
        }
    }
}

fn open() -> Result<Netlink, PacingError> {
    Netlink::open().map_err(|error| PacingError::kernel("open a netlink socket", error))
}

/// Interfaces of this network namespace with a daemon's root qdisc, of a running or crashed daemon.
pub fn own_qdiscs() -> Result<Vec<String>, PacingError> {
    let known = nix::net::if_::if_nameindex()
        .map_err(|errno| PacingError::kernel("list the interfaces", errno.into()))?;
    let mut netlink = open()?;
    let mut own = Vec::new();
    for interface in known.iter().map(|known| known.name().to_string_lossy()) {
        let root = qdisc::root(&mut netlink, &Interface::named(&interface)?)?;
        if root.is_some_and(|root| root.major == OWN_MAJOR) {
            own.push(interface.into_owned());
        }
    }
    Ok(own)
}

/// Whether an interface has a daemon's root qdisc.
pub fn has_own_qdisc(interface: &str) -> Result<bool, PacingError> {
    let root = qdisc::root(&mut open()?, &Interface::named(interface)?)?;
    Ok(root.is_some_and(|root| root.major == OWN_MAJOR))
}

/// Removes a daemon's qdisc from an interface; the kernel restores the default.
pub fn remove_own_qdisc(interface: &str) -> Result<(), PacingError> {
    qdisc::remove_own_root(&mut open()?, &Interface::named(interface)?)
}

/// A lane's class, as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneClass {
    /// Another number than that of the lane that had this index before.
    pub generation: u64,
    /// The rate of the lane.
    pub rate_bytes_per_s: u64,
    /// The longest burst with which it makes up for a late timer; two packets, if this is less.
    pub burst_bytes_max: u64,
}

/// The root qdisc of an interface, as a check found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Lanes are paced, or need no qdisc yet.
    Good,
    /// The qdisc was missing, and is there again.
    Repaired,
    /// A qdisc that someone else configured took its place.
    Foreign(String),
}

/// The pacer's relation to the root qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    /// Nothing: the backend is HTB, and there was no lane yet.
    Untouched,
    /// Installed it. The pacer removes it at its end.
    Installed,
    /// Found an fq, and uses it.
    Adopted,
    /// Lost it to another qdisc.
    Lost,
}

/// The qdisc of one interface. Dropping it restores the system's default.
#[derive(Debug)]
pub struct Pacer {
    backend: Backend,
    interface: Interface,
    guard_ns: u64,
    netlink: Netlink,
    root: Root,
    /// The classes in the qdisc.
    classes: BTreeMap<u16, LaneClass>,
}

impl Pacer {
    /// Takes over the root qdisc of an interface. Replaces the system's default and the qdisc of a
    /// crashed daemon. Uses a configured fq, or mq with fq below it, as it is; refuses any other
    /// configured qdisc. `guard_ns` is the latest departure that egress allows.
    ///
    /// Installs fq at once, but HTB only with the first lane. A host that only receives needs none,
    /// and HTB would slow its ACKs. A sender on the same processor would lose 6 to 8 % of the
    /// processor.
    pub fn install(backend: Backend, interface: &str, guard_ns: u64) -> Result<Self, PacingError> {
        let interface = Interface::named(interface)?;
        let mut netlink = open()?;
        qdisc::remove_own_root(&mut netlink, &interface)?;
        let classes = BTreeMap::new();
        let mut pacer =
            Self { backend, interface, guard_ns, netlink, root: Root::Untouched, classes };
        let (root, all) = pacer.look()?;
        match root {
            Some(root) if root.major != 0 => pacer.adopt(&root, &all)?,
            _ if backend == Backend::Fq => pacer.install_root()?,
            _ => {}
        }
        Ok(pacer)
    }

    /// The number of the interface.
    pub const fn ifindex(&self) -> u32 {
        self.interface.index
    }

    fn look(&mut self) -> Result<(Option<Qdisc>, Vec<Qdisc>), PacingError> {
        let all = qdisc::all(&mut self.netlink, &self.interface)?;
        let root = all.iter().find(|qdisc| qdisc.parent == TcHandle::ROOT).cloned();
        Ok((root, all))
    }

    /// Uses a configured root qdisc. It stays when the daemon ends.
    fn adopt(&mut self, root: &Qdisc, all: &[Qdisc]) -> Result<(), PacingError> {
        if self.backend != Backend::Fq || !fq::is_complete(root, all) {
            return Err(PacingError::ForeignQdisc {
                interface: self.interface.name.clone(),
                kind: root.kind.clone(),
                handle: root.major,
            });
        }
        self.root = Root::Adopted;
        let (interface, kind) = (&self.interface.name, &root.kind);
        tracing::info!(interface, kind, "using the fq that is configured here");
        for complaint in fq::complaints(all, self.guard_ns) {
            tracing::warn!(interface, "the fq that is configured here is too small: {complaint}");
        }
        Ok(())
    }

    fn install_root(&mut self) -> Result<(), PacingError> {
        // Before the first change: what is there after a failure must be removed too.
        self.root = Root::Installed;
        match self.backend {
            Backend::Fq => fq::install(&mut self.netlink, &self.interface, self.guard_ns)?,
            Backend::Htb => htb::install(&mut self.netlink, &self.interface)?,
        }
        self.classes.clear();
        Ok(())
    }

    /// Looks at the root qdisc. Installs it again if the kernel's default took its place, and uses
    /// an fq that did. Leaves any other qdisc alone.
    pub fn check(&mut self) -> Result<Condition, PacingError> {
        let (root, all) = self.look()?;
        let Some(root) = root.filter(|root| root.major != 0) else {
            if self.backend == Backend::Htb && self.classes.is_empty() {
                self.root = Root::Untouched;
                return Ok(Condition::Good);
            }
            self.install_root()?;
            return Ok(Condition::Repaired);
        };
        if root.major == OWN_MAJOR && (self.backend == Backend::Htb || fq::is_complete(&root, &all))
        {
            self.root = Root::Installed;
            return Ok(Condition::Good);
        }
        if self.backend == Backend::Fq && fq::is_complete(&root, &all) {
            if self.root != Root::Adopted {
                self.adopt(&root, &all)?;
            }
            return Ok(Condition::Good);
        }
        self.root = Root::Lost;
        Ok(Condition::Foreign(format!("{} {:x}:", root.kind, root.major)))
    }

    /// Whether lanes of the interface are paced, or will be once they have a class.
    pub fn is_in_place(&self) -> bool {
        self.root != Root::Lost
    }

    /// Makes the classes of lanes as given; `None` removes a lane's class. Tries all and returns
    /// the first error.
    pub fn apply(&mut self, changes: &BTreeMap<u16, Option<LaneClass>>) -> Result<(), PacingError> {
        if self.backend == Backend::Fq || self.root == Root::Lost {
            return Ok(());
        }
        let (mut outcome, mut rates) = (Ok(()), Vec::new());
        for (&lane, to) in changes {
            match (self.classes.get(&lane), to) {
                (Some(own), Some(to)) if own == to => {}
                (Some(own), Some(to)) if own.generation == to.generation => {
                    rates.push((lane, *to));
                }
                (own, to) => {
                    let had = own.is_some();
                    outcome = outcome.and(self.replace(lane, had, *to));
                }
            }
        }
        outcome.and(self.set_rates(&rates))
    }

    /// Removes the classes of lanes that aren't wanted, and makes all others.
    pub fn apply_all(&mut self, wanted: &BTreeMap<u16, LaneClass>) -> Result<(), PacingError> {
        let gone = self.classes.keys().map(|lane| (*lane, None));
        let mut changes: BTreeMap<u16, Option<LaneClass>> = gone.collect();
        changes.extend(wanted.iter().map(|(lane, class)| (*lane, Some(*class))));
        self.apply(&changes)
    }

    fn replace(&mut self, lane: u16, had: bool, to: Option<LaneClass>) -> Result<(), PacingError> {
        if had {
            self.classes.remove(&lane);
            htb::remove_class(&mut self.netlink, &self.interface, lane)?;
        }
        let Some(to) = to else { return Ok(()) };
        if self.root == Root::Untouched {
            self.install_root()?;
        }
        htb::add_class(&mut self.netlink, &self.interface, lane, to)?;
        self.classes.insert(lane, to);
        Ok(())
    }

    fn set_rates(&mut self, changes: &[(u16, LaneClass)]) -> Result<(), PacingError> {
        if changes.is_empty() {
            return Ok(());
        }
        htb::change_classes(&mut self.netlink, &self.interface, changes)?;
        self.classes.extend(changes.iter().copied());
        Ok(())
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        // Of a lost qdisc parts may be left. Qdiscs of others stay.
        if self.root == Root::Adopted {
            return;
        }
        // Fails if the interface is gone, together with its qdisc.
        if let Err(error) = qdisc::remove_own_root(&mut self.netlink, &self.interface) {
            tracing::debug!(%error, "can't restore the default qdisc");
        }
    }
}
