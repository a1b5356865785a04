//! Attaches the programs to an interface, ahead of those of others.

use super::{
    bpf,
    error::{DatapathError, error_chain},
    interface::EthernetInterface,
    pacing::has_own_qdisc,
};
use aya::{
    Ebpf,
    programs::{
        LinkOrder, ProgramError, SchedClassifier, TcAttachType, Xdp,
        tc::{SchedClassifierLink, TcAttachOptions},
        xdp::{XdpLink, XdpMode as Mode},
    },
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names of the programs in the object.
pub const EGRESS: &str = "atp_egress";
/// See [`EGRESS`].
pub const INGRESS: &str = "atp_ingress";
/// See [`EGRESS`].
pub const XDP: &str = "atp_xdp";

/// The requested hook for consuming ACKs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum XdpMode {
    /// In drivers that are known not to reset the device, else at tc ingress
    #[default]
    Auto,
    /// In the driver; fails if the driver has no XDP
    Native,
    /// At tc ingress
    Off,
}

/// Drivers whose XDP setup only exchanges a pointer. Most others stop the device or build its rings
/// again, and the link can be down for seconds.
///
/// | driver | function in the kernel's source | what it does |
/// |---|---|---|
/// | `sfc` | `efx_xdp_setup_prog` | `rcu_assign_pointer` |
/// | `tun` | `tun_xdp_set` | `rcu_assign_pointer`, and a flag of each queue's socket |
///
/// Left out on purpose:
///
/// | driver | why |
/// |---|---|
/// | `veth` | its peer loses segmentation offload, and XDP is no faster there |
/// | `virtio_net` | switches off the guest's receive offloads (`virtnet_xdp_set`) |
/// | `mana` | newer kernels build its receive queues again (`mana_xdp_set`) |
/// | `ixgbe` | the link goes down (github.com/highpps/xdpcookie/issues/5) |
/// | `mlx5_core` | builds its channels again (github.com/cilium/cilium/pull/18636) |
/// | `igc` | stops its queues; it reset the link before ("igc: Avoid unnecessary link down event") |
const DRIVERS_WITHOUT_RESET: [&str; 2] = ["sfc", "tun"];

impl XdpMode {
    /// Whether to attach in the driver of this name, and the reason.
    fn choose(self, driver: Option<&str>) -> (bool, &'static str) {
        match (self, driver) {
            (Self::Native, _) => (true, "--xdp native"),
            (Self::Off, _) => (false, "--xdp off"),
            (Self::Auto, Some(driver)) if DRIVERS_WITHOUT_RESET.contains(&driver) => {
                (true, "the driver doesn't reset the device")
            }
            (Self::Auto, Some("veth")) => {
                (false, "on veth the peer would lose segmentation offload")
            }
            (Self::Auto, _) => (false, "the driver may reset the device; --xdp native attaches it"),
        }
    }
}

/// The hook that consumes ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachKind {
    /// In the driver.
    Native,
    /// At tc ingress.
    Tc,
}

impl AttachKind {
    /// `native` or `tc`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Tc => "tc",
        }
    }
}

/// The loaded object, shared with the thread that attaches its programs. The control loop never
/// waits for it: that thread holds it for as long as the kernel takes to attach.
#[derive(Clone, Debug)]
pub struct Programs(Arc<Mutex<Ebpf>>);

impl Programs {
    /// The programs of an object.
    pub fn new(ebpf: Ebpf) -> Self {
        Self(Arc::new(Mutex::new(ebpf)))
    }

    /// The object.
    pub fn lock(&self) -> MutexGuard<'_, Ebpf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hook of tc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    Ingress,
    Egress,
}

impl Hook {
    const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "tc ingress",
            Self::Egress => "tc egress",
        }
    }

    /// The name of its program in the object.
    const fn program(self) -> &'static str {
        match self {
            Self::Ingress => INGRESS,
            Self::Egress => EGRESS,
        }
    }

    const fn in_aya(self) -> TcAttachType {
        match self {
            Self::Ingress => TcAttachType::Ingress,
            Self::Egress => TcAttachType::Egress,
        }
    }
}

/// The programs on one interface. Dropping it removes them.
#[derive(Debug)]
pub struct Attachment {
    /// The hook that consumes ACKs.
    pub kind: AttachKind,
    interface: String,
    egress: Option<SchedClassifierLink>,
    ingress: Option<SchedClassifierLink>,
    _xdp: Option<XdpLink>,
}

/// The programs of a hook, as a check found them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// ATP's is the first.
    First,
    /// Another one was put ahead, or ATP's was removed.
    Wrong,
}

impl Attachment {
    /// Attaches the programs, egress last: ACKs arrive only after packets left. The qdisc must be
    /// there already.
    pub fn new(programs: &Programs, interface: &str, mode: XdpMode) -> Result<Self, DatapathError> {
        let known = EthernetInterface::inspect(interface)?;
        let driver = known.driver.as_deref();
        let (wanted, why) = mode.choose(driver);
        let xdp = match wanted {
            false => None,
            true => match attach_xdp(programs, interface) {
                Err(error) if mode == XdpMode::Auto => {
                    tracing::info!(interface, %error, "no XDP: tc ingress consumes ACKs");
                    None
                }
                attached => Some(attached?),
            },
        };
        let kind = if xdp.is_some() { AttachKind::Native } else { AttachKind::Tc };
        let driver = driver.unwrap_or("unknown");
        tracing::info!(interface, driver, hook = kind.name(), why, "chose the hook for ACKs");
        let ingress = Some(attach_tc(programs, Hook::Ingress, interface)?);
        let egress = Some(attach_tc(programs, Hook::Egress, interface)?);
        Ok(Self { kind, interface: interface.into(), egress, ingress, _xdp: xdp })
    }

    /// Puts the programs first again where they aren't. The kernel sends no notification when
    /// programs change, so this is called from time to time.
    ///
    /// The program is off its hook for a moment: the kernel takes a program once per hook.
    pub fn put_first(&mut self, programs: &Programs) -> Result<Order, DatapathError> {
        let mut order = Order::First;
        for hook in [Hook::Ingress, Hook::Egress] {
            if self.is_first(programs, hook)? {
                continue;
            }
            order = Order::Wrong;
            let link = match hook {
                Hook::Ingress => &mut self.ingress,
                Hook::Egress => &mut self.egress,
            };
            *link = None;
            *link = Some(attach_tc(programs, hook, &self.interface)?);
        }
        Ok(order)
    }

    fn is_first(&self, programs: &Programs, hook: Hook) -> Result<bool, DatapathError> {
        let mut ebpf = programs.lock();
        let program: &mut SchedClassifier = super::program(&mut ebpf, hook.program())?;
        let info = program.info().map_err(|error| failed(&self.interface, hook.name(), &error))?;
        Ok(first_program(&self.interface, hook)? == Some(info.id()))
    }
}

/// The number of the first program of a hook.
fn first_program(interface: &str, hook: Hook) -> Result<Option<u32>, DatapathError> {
    let index = nix::net::if_::if_nametoindex(interface)
        .map_err(|_| DatapathError::NoSuchInterface(interface.into()))?;
    bpf::tcx_programs(index, hook == Hook::Egress).map(|ids| ids.first().copied()).map_err(
        |error| {
            let reason = format!("its programs can't be listed: {error}");
            DatapathError::Attach { interface: interface.into(), hook: hook.name(), reason }
        },
    )
}

/// Two daemons on one interface would pace every packet twice.
pub fn refuse_second_daemon(interface: &str) -> Result<(), DatapathError> {
    match has_daemon(interface)? {
        true => Err(DatapathError::InUse(interface.into())),
        false => Ok(()),
    }
}

/// Whether a daemon's programs are attached to an interface. The kernel detaches them when their
/// daemon ends, even by a crash.
///
/// Only CAP_SYS_ADMIN may read the names of programs. Without it, programs beside a daemon's qdisc
/// count as a daemon's: a crash leaves the qdisc alone.
pub fn has_daemon(interface: &str) -> Result<bool, DatapathError> {
    if first_program(interface, Hook::Egress)?.is_none() {
        return Ok(false);
    }
    let (_, programs) = match SchedClassifier::query_tcx(interface, TcAttachType::Egress) {
        Err(error) if error_number(&error) == Some(libc::EPERM) => {
            return Ok(has_own_qdisc(interface)?);
        }
        known => known.map_err(|error| failed(interface, "tc egress", &error))?,
    };
    Ok(programs.iter().any(|program| program.name_as_str() == Some(EGRESS)))
}

/// Attaches a program before all others of the hook. A program ahead of it could end the chain with
/// its verdict, as Cilium's do for packets that they let pass.
fn attach_tc(
    programs: &Programs,
    hook: Hook,
    interface: &str,
) -> Result<SchedClassifierLink, DatapathError> {
    let mut ebpf = programs.lock();
    let program: &mut SchedClassifier = super::program(&mut ebpf, hook.program())?;
    program
        .attach_with_options(
            interface,
            hook.in_aya(),
            TcAttachOptions::TcxOrder(LinkOrder::first()),
        )
        .and_then(|id| program.take_link(id))
        .map_err(|error| failed(interface, hook.name(), &error))
}

fn attach_xdp(programs: &Programs, interface: &str) -> Result<XdpLink, DatapathError> {
    let mut ebpf = programs.lock();
    let program: &mut Xdp = super::program(&mut ebpf, XDP)?;
    program.attach(interface, Mode::Driver).and_then(|id| program.take_link(id)).map_err(|error| {
        DatapathError::Attach {
            interface: interface.into(),
            hook: "XDP in the driver",
            reason: why_no_xdp(&error),
        }
    })
}

/// Translates the error numbers of common XDP failures.
fn why_no_xdp(error: &ProgramError) -> String {
    let reason = match error_number(error) {
        Some(libc::EOPNOTSUPP) => "the driver has no XDP",
        Some(libc::EBUSY) => "another XDP program is already attached",
        Some(libc::ENOSPC) => {
            "the interface has fewer receive queues than its peer has transmit queues"
        }
        Some(libc::ERANGE | libc::EINVAL) => {
            "the driver refuses XDP with this MTU or these offloads"
        }
        _ => return error_chain(error),
    };
    reason.into()
}

fn error_number(error: &ProgramError) -> Option<i32> {
    match error {
        ProgramError::SyscallError(call) => call.io_error.raw_os_error(),
        _ => None,
    }
}

fn failed(interface: &str, hook: &'static str, error: &ProgramError) -> DatapathError {
    DatapathError::Attach { interface: interface.into(), hook, reason: error_chain(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choose__attaches_only_on_request_or_without_a_reset() {
        let attaches = |mode: XdpMode, driver| mode.choose(driver).0;
        for driver in ["ixgbe", "mlx5_core", "virtio_net", "veth"] {
            assert!(!attaches(XdpMode::Auto, Some(driver)), "{driver}");
            assert!(attaches(XdpMode::Native, Some(driver)), "{driver}");
        }
        assert!(attaches(XdpMode::Auto, Some("sfc")) && !attaches(XdpMode::Auto, None));
        assert!(!attaches(XdpMode::Off, Some("sfc")));
    }
}
