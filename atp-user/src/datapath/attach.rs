//! Attaches the programs to an interface.

use super::{
    error::{DatapathError, error_chain},
    interface::EthernetInterface,
    pacing::{Backend, Pacer},
};
use aya::{
    Ebpf,
    programs::{
        ProgramError, SchedClassifier, TcAttachType, Xdp,
        tc::SchedClassifierLink,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, except on veth: its peer would lose segmentation offload, and XDP is no
    /// faster there.
    #[default]
    Auto,
    /// In the driver; attaching fails if the driver has no XDP.
    Native,
    /// At tc ingress.
    Off,
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
    /// Its index. An interface of the same name that replaces it has another one.
    pub index: u32,
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
        let index = nix::net::if_::if_nametoindex(interface)
            .map_err(|_| DatapathError::NoSuchInterface(interface.into()))?;
        refuse_second_daemon(interface)?;
        let pacer = Pacer::install(backend, interface, guard_ns)?;
        let xdp = match mode {
            XdpMode::Off => None,
            XdpMode::Auto if known.driver.as_deref() == Some("veth") => None,
            XdpMode::Auto => attach_xdp(ebpf, interface)
                .inspect_err(
                    |error| tracing::info!(interface, %error, "no XDP: tc ingress consumes ACKs"),
                )
                .ok(),
            XdpMode::Native => Some(attach_xdp(ebpf, interface)?),
        };
        let ingress = attach_tc(ebpf, INGRESS, interface, TcAttachType::Ingress)?;
        let egress = attach_tc(ebpf, EGRESS, interface, TcAttachType::Egress)?;
        Ok(Self {
            interface: interface.into(),
            index,
            kind: if xdp.is_some() { AttachKind::Native } else { AttachKind::Tc },
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

fn attach_tc(
    ebpf: &mut Ebpf,
    name: &'static str,
    interface: &str,
    at: TcAttachType,
) -> Result<SchedClassifierLink, DatapathError> {
    let hook = if at == TcAttachType::Egress { "tc egress" } else { "tc ingress" };
    let program: &mut SchedClassifier = super::program(ebpf, name)?;
    program
        .attach(interface, at)
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
