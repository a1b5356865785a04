//! Attaches the programs to an interface.

use super::{
    error::{DatapathError, error_chain},
    interface::EthernetInterface,
    pacing::{Backend, Pacer},
};
use aya::{
    Ebpf,
    programs::{
        LinkOrder, ProgramError, SchedClassifier, TcAttachType, Xdp,
        tc::{SchedClassifierLink, TcAttachOptions},
        xdp::{XdpLink, XdpMode as Mode},
    },
};

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
/// | driver | function in Linux 6.12 | what it does |
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
/// /// | `mana` | newer kernels build its receive queues again (`mana_xdp_set`) |
/// | `ixgbe` | the link goes down (github.com/highpps/xdpcookie/issues/5) |
/// | `mlx5_core` | builds its channels again (github.com/cilium/cilium/pull/18636) |
/// | `igc` | stops its queues; it reset the link before (commit "igc: Avoid unnecessary link down event in XDP_SETUP_PROG process") |
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

/// The programs and the qdisc of one interface. Dropping it removes them, with all packets that
/// wait in the qdisc.
#[derive(Debug)]
pub struct Attachment {
    /// The interface.
    pub interface: String,
    /// The hook that consumes ACKs.
    pub kind: AttachKind,
    _egress: SchedClassifierLink,
    _ingress: SchedClassifierLink,
    _xdp: Option<XdpLink>,
    /// Its qdisc. Last, so that the programs are detached before it is removed.
    pub pacer: Pacer,
}

impl Attachment {
    /// Installs the qdisc, then attaches the programs, egress last: pacing needs the qdisc, and
    /// ACKs arrive only after packets left.
    pub fn new(
        ebpf: &mut Ebpf,
        interface: &str,
        mode: XdpMode,
        backend: Backend,
        guard_ns: u64,
    ) -> Result<Self, DatapathError> {
        let known = EthernetInterface::inspect(interface)?;
        refuse_second_daemon(interface)?;
        let pacer = Pacer::install(backend, interface, guard_ns)?;
        let driver = known.driver.as_deref();
        let (wanted, why) = mode.choose(driver);
        let xdp = match wanted {
            false => None,
            true => match attach_xdp(ebpf, interface) {
                Err(error) if mode == XdpMode::Auto => {
                    tracing::info!(interface, %error, "no XDP: tc ingress consumes ACKs");
                    None
                }
                attached => Some(attached?),
            },
        };
        let hook = if xdp.is_some() { AttachKind::Native } else { AttachKind::Tc };
        let driver = driver.unwrap_or("unknown");
        tracing::info!(interface, driver, hook = hook.name(), why, "chose the hook for ACKs");
        let ingress = attach_tc(ebpf, INGRESS, interface, TcAttachType::Ingress)?;
        let egress = attach_tc(ebpf, EGRESS, interface, TcAttachType::Egress)?;
        Ok(Self {
            interface: interface.into(),
            kind: hook,
            pacer,
            _egress: egress,
            _ingress: ingress,
            _xdp: xdp,
        })
    }
}

/// Two daemons on one interface would pace every packet twice.
fn refuse_second_daemon(interface: &str) -> Result<(), DatapathError> {
    match has_daemon(interface)? {
        true => Err(DatapathError::InUse(interface.into())),
        false => Ok(()),
    }
}

/// Whether a daemon's programs are attached to an interface. The kernel detaches them when their
/// daemon ends, even by a crash.
pub fn has_daemon(interface: &str) -> Result<bool, DatapathError> {
    let (_, programs) = SchedClassifier::query_tcx(interface, TcAttachType::Egress)
        .map_err(|error| failed(interface, "tc egress", &error))?;
    Ok(programs.iter().any(|program| program.name_as_str() == Some(EGRESS)))
}

/// Attaches a program before all others of the hook. A program ahead of it could end the chain with
/// its verdict, as Cilium's do for packets that they let pass.
fn attach_tc(
    ebpf: &mut Ebpf,
    name: &'static str,
    interface: &str,
    at: TcAttachType,
) -> Result<SchedClassifierLink, DatapathError> {
    let hook = if at == TcAttachType::Egress { "tc egress" } else { "tc ingress" };
    let program: &mut SchedClassifier = super::program(ebpf, name)?;
    program
        .attach_with_options(interface, at, TcAttachOptions::TcxOrder(LinkOrder::first()))
        .and_then(|id| program.take_link(id))
        .map_err(|error| failed(interface, hook, &error))
}

fn attach_xdp(ebpf: &mut Ebpf, interface: &str) -> Result<XdpLink, DatapathError> {
    let program: &mut Xdp = super::program(ebpf, XDP)?;
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
