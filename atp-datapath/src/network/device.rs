//! One interface: its programs and its qdisc, and the look at both.

use super::{
    super::{
        attach::{AttachKind, Attachment, Order, Programs, XdpMode, refuse_second_daemon},
        error::DatapathError,
        interface::{self, EthernetInterface},
        pacing::{Backend, Condition, LaneClass, Pacer},
    },
    DeviceState,
};
use atp_common::units::Rate;
use std::collections::BTreeMap;

/// An interface that the daemon was told to use.
#[derive(Debug)]
pub struct Device {
    name: String,
    mode: XdpMode,
    backend: Backend,
    guard_ns: u64,
    /// `None` while the interface is gone, or can't be used.
    live: Option<Live>,
    /// The problem that was logged last, so that each is logged once.
    problem: Option<String>,
}

/// Programs and qdisc, in the order in which they go.
#[derive(Debug)]
struct Live {
    attachment: Attachment,
    pacer: Pacer,
    mtu_bytes: Option<u32>,
    speed: Rate,
    /// Whether the interface has reported a speed.
    is_speed_known: bool,
    /// Programs and qdisc are as they should be.
    is_covered: bool,
}

impl Live {
    /// Installs the qdisc, then attaches the programs: pacing needs the qdisc.
    fn new(
        programs: &Programs,
        name: &str,
        mode: XdpMode,
        backend: Backend,
        guard_ns: u64,
    ) -> Result<Self, DatapathError> {
        EthernetInterface::inspect(name)?;
        refuse_second_daemon(name)?;
        let pacer = Pacer::install(backend, name, guard_ns)?;
        let attachment = Attachment::new(programs, name, mode)?;
        let (speed, mtu_bytes) = (interface::interface_speed(name)?, interface::mtu_bytes(name));
        let is_speed_known = interface::reported_speed(name).is_some();
        Ok(Self { attachment, pacer, mtu_bytes, speed, is_speed_known, is_covered: true })
    }

    fn check(&mut self, programs: &Programs, name: &str) -> Result<(), DatapathError> {
        if self.attachment.put_first(programs)? == Order::Wrong {
            tracing::warn!(
                interface = name,
                "ATP's programs were removed or not the first: attached them first again"
            );
        }
        match self.pacer.check()? {
            Condition::Good => {}
            Condition::Repaired => {
                tracing::warn!(interface = name, "the qdisc was removed: installed it again");
            }
            Condition::Foreign(qdisc) => return Err(DatapathError::QdiscReplaced(qdisc)),
        }
        // A link that is down keeps its last speed.
        let reported = interface::reported_speed(name);
        self.is_speed_known |= reported.is_some();
        let speed = reported.unwrap_or(self.speed);
        if speed != self.speed {
            let speed_mbit_per_s = speed.bytes_per_s() / 125_000;
            tracing::info!(interface = name, speed_mbit_per_s, "the speed changed");
            self.speed = speed;
        }
        let mtu_bytes = interface::mtu_bytes(name);
        if mtu_bytes != self.mtu_bytes {
            tracing::info!(interface = name, mtu_bytes, "the MTU changed");
            self.mtu_bytes = mtu_bytes;
        }
        Ok(())
    }
}

impl Device {
    /// Attaches qdisc and programs for the first time.
    pub fn attach(
        programs: &Programs,
        name: String,
        mode: XdpMode,
        backend: Backend,
        guard_ns: u64,
    ) -> Result<Self, DatapathError> {
        let live = Some(Live::new(programs, &name, mode, backend, guard_ns)?);
        Ok(Self { name, mode, backend, guard_ns, live, problem: None })
    }

    /// The hook that consumes ACKs.
    pub fn kind(&self) -> Option<AttachKind> {
        self.live.as_ref().map(|live| live.attachment.kind)
    }

    /// Whether a notification about this interface concerns the device. One that is gone may return
    /// under any number.
    pub fn is_concerned(&self, ifindex: u32) -> bool {
        self.live.as_ref().is_none_or(|live| live.pacer.ifindex() == ifindex)
    }

    /// Looks at the interface and repairs what is ATP's. Logs every problem once.
    pub fn check(&mut self, programs: &Programs, wanted: &BTreeMap<u16, LaneClass>) {
        let problem = self.try_check(programs, wanted).err().map(|error| error.to_string());
        if let Some(live) = &mut self.live {
            live.is_covered = problem.is_none();
        }
        if problem == self.problem {
            return;
        }
        let interface = &self.name;
        match &problem {
            Some(problem) => tracing::warn!(interface, problem, "this interface is not covered"),
            None => tracing::info!(interface, "this interface is covered again"),
        }
        self.problem = problem;
    }

    fn try_check(
        &mut self,
        programs: &Programs,
        wanted: &BTreeMap<u16, LaneClass>,
    ) -> Result<(), DatapathError> {
        let present = nix::net::if_::if_nametoindex(self.name.as_str()).ok();
        if self.live.as_ref().is_some_and(|live| present != Some(live.pacer.ifindex())) {
            // The kernel has detached the programs.
            self.live = None;
        }
        if present.is_none() {
            return Err(DatapathError::NoSuchInterface(self.name.clone()));
        }
        match &mut self.live {
            Some(live) => live.check(programs, &self.name)?,
            none => {
                let (name, guard_ns) = (&self.name, self.guard_ns);
                *none = Some(Live::new(programs, name, self.mode, self.backend, guard_ns)?);
                tracing::info!(interface = name, "attached again");
            }
        }
        self.apply_all(wanted)
    }

    /// Makes the classes of lanes as given; `None` removes a lane's class.
    pub fn apply(
        &mut self,
        changes: &BTreeMap<u16, Option<LaneClass>>,
    ) -> Result<(), DatapathError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        Ok(live.pacer.apply(changes)?)
    }

    fn apply_all(&mut self, wanted: &BTreeMap<u16, LaneClass>) -> Result<(), DatapathError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        Ok(live.pacer.apply_all(wanted)?)
    }

    /// The interface's state for the control loop.
    pub fn state(&self) -> DeviceState {
        let live = self.live.as_ref();
        let covered = live.filter(|live| live.is_covered && live.pacer.is_in_place());
        let status = match (live, covered) {
            (None, _) if nix::net::if_::if_nametoindex(self.name.as_str()).is_err() => "gone",
            (None, _) => "not covered",
            (Some(_), None) => "not covered",
            (Some(_), Some(live)) => live.attachment.kind.name(),
        };
        DeviceState {
            name: self.name.clone(),
            status,
            covered_ifindex: covered.map(|live| live.pacer.ifindex()),
            speed: live.map(|live| live.speed),
            is_speed_known: live.is_some_and(|live| live.is_speed_known),
        }
    }
}
