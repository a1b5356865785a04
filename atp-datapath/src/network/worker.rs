//! The thread's loop.

use super::{
    super::{
        attach::{Programs, XdpMode},
        error::DatapathError,
        pacing::{Backend, LaneClass},
    },
    Attached, Request, Shared,
    device::Device,
    ended,
    events::Events,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    collections::BTreeMap,
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

/// The time between two looks at all interfaces. The kernel sends no notification when programs are
/// removed or put ahead.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The time between two looks with lanes in HTB, which sends no notifications here: their packets
/// leave unpaced while the qdisc is missing.
const LOOK_EVERY_WITH_CLASSES: Duration = Duration::from_millis(200);
/// The least time between two looks: notifications can come in great numbers.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(20);

pub struct Worker {
    shared: Arc<Shared>,
    programs: Programs,
    backend: Backend,
    guard_ns: u64,
    events: Events,
    devices: Vec<Device>,
    /// The next look at all interfaces.
    look_at: Instant,
    looked_at: Instant,
}

impl Worker {
    pub fn new(
        shared: Arc<Shared>,
        programs: Programs,
        backend: Backend,
        guard_ns: u64,
    ) -> Result<Self, DatapathError> {
        let events = Events::open(backend == Backend::Fq)
            .map_err(|error| DatapathError::map("listen for changes of the network", error))?;
        let now = Instant::now();
        let (devices, look_at, looked_at) = (Vec::new(), now + LOOK_EVERY, now);
        Ok(Self { shared, programs, backend, guard_ns, events, devices, look_at, looked_at })
    }

    /// Runs until the handle is dropped.
    pub fn run(&mut self) {
        while self.step() {}
        // The programs go before their qdiscs, each device by itself.
        self.devices.clear();
    }

    /// Waits for work and does it; false at the end.
    fn step(&mut self) -> bool {
        self.wait();
        self.shared.wake.read().ok();
        let (requests, changes) = {
            let mut state = self.shared.lock();
            let dirty = std::mem::take(&mut state.dirty);
            let change = |lane| (lane, state.lanes.get(&lane).copied());
            let changes: BTreeMap<_, _> = dirty.into_iter().map(change).collect();
            (std::mem::take(&mut state.requests), changes)
        };
        let mut settled = Vec::new();
        let mut goes_on = true;
        for request in requests {
            match request {
                Request::Attach { interface, mode, reply } => {
                    let attached = self.attach(interface, mode);
                    self.publish();
                    reply.send(attached).ok();
                }
                Request::Settle(reply) => settled.push(reply),
                Request::Stop => goes_on = false,
            }
        }
        if !goes_on {
            return false;
        }
        if !changes.is_empty() {
            self.apply(&changes);
            self.look_at = self.look_at.min(self.looked_at + LOOK_EVERY_WITH_CLASSES);
        }
        if !settled.is_empty() {
            let error = self.shared.lock().class_error.clone();
            settled.into_iter().for_each(|reply| drop(reply.send(error.clone())));
        }
        if self.events.drain(|ifindex| self.devices.iter().any(|one| one.is_concerned(ifindex))) {
            self.look_at = self.look_at.min(self.looked_at + LOOK_EVERY_MIN);
        }
        if Instant::now() >= self.look_at {
            let wanted = self.shared.lock().lanes.clone();
            self.devices.iter_mut().for_each(|one| one.check(&self.programs, &wanted));
            self.publish();
            self.looked_at = Instant::now();
            let has_classes = self.backend == Backend::Htb && !wanted.is_empty();
            let every = if has_classes { LOOK_EVERY_WITH_CLASSES } else { LOOK_EVERY };
            self.look_at = self.looked_at + every;
        }
        true
    }

    fn wait(&self) {
        let timeout = self.look_at.saturating_duration_since(Instant::now());
        // Rounded up, or the last millisecond would be a busy loop.
        let timeout = PollTimeout::try_from(timeout.as_millis() + 1).unwrap_or(PollTimeout::ZERO);
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = [readable(self.shared.wake.as_fd()), readable(self.events.as_fd())];
        // An interruption by a signal is a wake-up without work.
        poll(&mut fds, timeout).ok();
    }

    fn attach(&mut self, name: String, mode: XdpMode) -> Attached {
        let device = Device::attach(&self.programs, name, mode, self.backend, self.guard_ns)?;
        let kind = device.kind().ok_or_else(ended)?;
        self.devices.push(device);
        Ok(kind)
    }

    /// Changes classes on all interfaces. After an error, looks for its cause soon; that repeats
    /// the change.
    fn apply(&mut self, changes: &BTreeMap<u16, Option<LaneClass>>) {
        let mut outcome = Ok(());
        for device in &mut self.devices {
            outcome = outcome.and(device.apply(changes));
        }
        if outcome.is_err() {
            self.look_at = self.look_at.min(self.looked_at + LOOK_EVERY_MIN);
        }
        self.shared.lock().class_error = outcome.err().map(|error| error.to_string());
    }

    fn publish(&self) {
        let devices: Vec<_> = self.devices.iter().map(Device::state).collect();
        let present = std::mem::replace(&mut self.shared.lock().devices, devices.clone());
        if present != devices {
            self.shared.changed.notify_one();
        }
    }
}
