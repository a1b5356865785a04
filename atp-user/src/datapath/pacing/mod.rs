//! Paces packets: by the fq qdisc if the kernel has it, else by HTB.

mod error;
mod fq;
mod htb;
mod netlink;
mod qdisc;

pub use error::PacingError;
pub(crate) use fq::PACKETS_PER_FLOW;
pub use htb::class_of_lane;
pub(crate) use qdisc::OWN_MAJOR;

use atp_common::maps::{BACKEND_FQ, BACKEND_HTB};
use netlink::Netlink;
use netlink_packet_route::tc::TcHandle;
use qdisc::{Interface, Options, RootQdisc};

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
        for backend in wanted {
            if backend.available()? {
                return Ok(*backend);
            }
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

    /// Its number in the programs' `Config`.
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

/// Removes a daemon's qdisc from an interface; the kernel restores the default.
pub fn remove_own_qdisc(interface: &str) -> Result<(), PacingError> {
    qdisc::remove_own_root(&mut open()?, &Interface::named(interface)?)
}

/// The qdisc of one interface. Dropping it restores the system's default.
#[derive(Debug)]
pub struct Pacer {
    backend: Backend,
    interface: Interface,
    netlink: Netlink,
    /// Whether this pacer installed the root qdisc.
    installed: bool,
}

impl Pacer {
    /// Takes over the root qdisc of an interface. Replaces the system's default and the qdisc of a
    /// crashed daemon, never a configured one. `guard_ns` is the latest departure that egress
    /// allows.
    ///
    /// Installs fq at once, but HTB only with the first lane. A host that only receives needs none,
    /// and HTB would slow its ACKs. A sender on the same processor would lose 6 to 8 % of the
    /// processor.
    pub fn install(backend: Backend, interface: &str, guard_ns: u64) -> Result<Self, PacingError> {
        let interface = Interface::named(interface)?;
        let mut netlink = open()?;
        qdisc::remove_own_root(&mut netlink, &interface)?;
        let root = qdisc::root(&mut netlink, &interface)?;
        let multi_queue = refuse_foreign(&interface, root)?;
        let mut pacer = Self { backend, interface, netlink, installed: false };
        if backend == Backend::Fq {
            pacer.installed = true;
            fq::install(&mut pacer.netlink, &pacer.interface, multi_queue, guard_ns)?;
        }
        Ok(pacer)
    }

    fn install_htb(&mut self) -> Result<(), PacingError> {
        if !self.installed {
            htb::install(&mut self.netlink, &self.interface)?;
            self.installed = true;
        }
        Ok(())
    }

    /// Adds a lane.
    pub fn add_lane(&mut self, lane: u16, rate_bytes_per_s: u64) -> Result<(), PacingError> {
        match self.backend {
            Backend::Fq => Ok(()),
            Backend::Htb => {
                self.install_htb()?;
                htb::add_class(&mut self.netlink, &self.interface, lane, rate_bytes_per_s)
            }
        }
    }

    /// Removes a lane.
    pub fn remove_lane(&mut self, lane: u16) -> Result<(), PacingError> {
        match self.backend {
            Backend::Fq => Ok(()),
            Backend::Htb => htb::remove_class(&mut self.netlink, &self.interface, lane),
        }
    }

    /// Changes rates (lane, bytes per second), if the backend needs to know them.
    pub fn set_rates(&mut self, rates: &[(u16, u64)]) -> Result<(), PacingError> {
        match self.backend {
            Backend::Fq => Ok(()),
            Backend::Htb => htb::set_rates(&mut self.netlink, &self.interface, rates),
        }
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        if !self.installed {
            return;
        }
        // Fails if the interface is gone, together with its qdisc.
        if let Err(error) = qdisc::remove_own_root(&mut self.netlink, &self.interface) {
            tracing::debug!(%error, "can't restore the default qdisc");
        }
    }
}

/// Refuses a configured root qdisc; returns whether the default one has several queues.
fn refuse_foreign(interface: &Interface, root: Option<RootQdisc>) -> Result<bool, PacingError> {
    match root {
        Some(RootQdisc { kind, major }) if major != 0 => Err(PacingError::ForeignQdisc {
            interface: interface.name.clone(),
            kind,
            handle: major,
        }),
        root => Ok(root.is_some_and(|root| root.kind == "mq")),
    }
}
