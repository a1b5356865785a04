//! The thread that owns this host's network state: attached programs, qdiscs and classes.
//!
//! Nearly all of its system calls wait for a kernel lock (rtnl) that others can hold for seconds.
//! So the control loop makes none of them: it says what it wants, and this thread does it. The
//! thread also watches the interfaces, and repairs what is ATP's.

mod device;
mod events;
mod worker;

use super::{
    RateChange,
    attach::{AttachKind, Programs, XdpMode},
    error::DatapathError,
    pacing::{Backend, LaneClass},
};
use atp_common::units::Rate;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::JoinHandle,
};
use tokio::sync::{Notify, oneshot};

/// The thread's handle. Dropping it detaches everything and restores the default qdiscs.
#[derive(Debug)]
pub struct Network {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The generation of the lane added last.
    generation: u64,
}

/// State that the control loop and the thread share. Neither holds the lock during a system call.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: EventFd,
    /// Notified when the state of an interface changed.
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// The classes that should exist: one entry per lane, however fast its rate changes.
    lanes: BTreeMap<u16, LaneClass>,
    /// Lanes that changed since the thread looked.
    dirty: BTreeSet<u16>,
    requests: Vec<Request>,
    /// The error of the thread's last attempt to change classes.
    class_error: Option<String>,
    /// The interfaces, as of the thread's last look.
    devices: Vec<DeviceState>,
}

#[derive(Debug)]
enum Request {
    Attach {
        interface: String,
        mode: XdpMode,
        reply: mpsc::Sender<Attached>,
    },
    /// Replies once everything before it is done.
    Settle(oneshot::Sender<Option<String>>),
    Stop,
}

type Attached = Result<AttachKind, DatapathError>;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeviceState {
    name: String,
    /// `native`, `tc`, `gone`, or `not covered`.
    status: &'static str,
    /// The interface's index, while it is there with programs and qdisc.
    covered_ifindex: Option<u32>,
    speed: Option<Rate>,
    /// Whether the interface has reported its speed.
    is_speed_known: bool,
}

impl Network {
    /// Starts the thread in the network namespace of the calling one.
    pub fn start(
        programs: Programs,
        backend: Backend,
        guard_ns: u64,
    ) -> Result<Self, DatapathError> {
        let failed = |error| DatapathError::map("start the thread for the network", error);
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|errno| failed(errno.into()))?;
        let shared = Arc::new(Shared { state: Mutex::default(), wake, changed: Arc::default() });
        let mut worker = worker::Worker::new(shared.clone(), programs, backend, guard_ns)?;
        let builder = std::thread::Builder::new().name("atp-network".into());
        let thread = Some(builder.spawn(move || worker.run()).map_err(failed)?);
        Ok(Self { shared, thread, generation: 0 })
    }

    /// Attaches qdisc and programs to an interface, and watches it from then on. Waits for the
    /// kernel, so this is for the start only.
    pub fn attach(&self, interface: &str, mode: XdpMode) -> Attached {
        let (reply, attached) = mpsc::channel();
        self.request(Request::Attach { interface: interface.into(), mode, reply });
        attached.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Adds a lane. [`Self::settled`] tells when its class is there.
    pub fn add_lane(&mut self, lane: u16, rate_bytes_per_s: u64, burst_bytes_max: u64) {
        self.generation += 1;
        let class = LaneClass { generation: self.generation, rate_bytes_per_s, burst_bytes_max };
        self.change(|state| {
            state.lanes.insert(lane, class);
            state.dirty.insert(lane);
        });
    }

    /// Removes a lane.
    pub fn remove_lane(&self, lane: u16) {
        self.change(|state| {
            state.lanes.remove(&lane);
            state.dirty.insert(lane);
        });
    }

    /// Changes rates. Returns the error of an earlier change, as long as it persists.
    pub fn change_rates(&self, changes: &[RateChange]) -> Result<(), DatapathError> {
        let mut error = None;
        self.change(|state| {
            for change in changes {
                if let Some(class) = state.lanes.get_mut(&change.lane) {
                    class.rate_bytes_per_s = change.rate_bytes_per_s;
                    state.dirty.insert(change.lane);
                }
            }
            error = state.class_error.clone();
        });
        error.map_or(Ok(()), |error| Err(DatapathError::Classes(error)))
    }

    /// Waits until all lanes added so far have their classes.
    pub fn settled(&self) -> impl Future<Output = Result<(), DatapathError>> + use<> {
        let (reply, settled) = oneshot::channel();
        self.request(Request::Settle(reply));
        async {
            match settled.await {
                Ok(None) => Ok(()),
                Ok(Some(error)) => Err(DatapathError::Classes(error)),
                Err(_) => Err(ended()),
            }
        }
    }

    /// The interfaces, and the hook that consumes ACKs on each.
    pub fn interfaces(&self) -> BTreeMap<String, String> {
        let state = self.shared.lock();
        state.devices.iter().map(|one| (one.name.clone(), one.status.to_owned())).collect()
    }

    /// The numbers of the interfaces on which programs and qdisc are in place.
    pub fn covered_ifindexes(&self) -> BTreeSet<u32> {
        self.shared.lock().devices.iter().filter_map(|one| one.covered_ifindex).collect()
    }

    /// Notified when the state of an interface changed.
    pub fn changed(&self) -> Arc<Notify> {
        self.shared.changed.clone()
    }

    /// The speed of the slowest interface that is there.
    pub fn speed(&self) -> Option<Rate> {
        self.shared.lock().devices.iter().filter_map(|one| one.speed).min()
    }

    /// The speeds that interfaces with programs and qdisc in place report.
    pub fn reported_speeds(&self) -> BTreeMap<u32, Rate> {
        let state = self.shared.lock();
        let known = state.devices.iter().filter(|one| one.is_speed_known);
        known.filter_map(|one| Some((one.covered_ifindex?, one.speed?))).collect()
    }

    fn request(&self, request: Request) {
        self.change(|state| state.requests.push(request));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.lock());
        // Fails only if the counter is full: the thread will wake up then too.
        self.shared.wake.write(1).ok();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.request(Request::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread for the network panicked");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ended() -> DatapathError {
    DatapathError::Classes("the thread for the network has ended".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_a_thread() -> Network {
        let wake = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        let shared = Arc::new(Shared { state: Mutex::default(), wake, changed: Arc::default() });
        Network { shared, thread: None, generation: 0 }
    }

    #[test]
    fn change_rates__keeps_the_latest_of_each_lane() {
        let mut network = without_a_thread();
        network.add_lane(3, 1, 0);
        network.add_lane(4, 1, 0);
        for rate_bytes_per_s in 2..1_000 {
            network.change_rates(&[RateChange { lane: 3, rate_bytes_per_s }]).unwrap();
        }
        // A lane that was removed has no class to change.
        network.remove_lane(4);
        network.change_rates(&[RateChange { lane: 4, rate_bytes_per_s: 9 }]).unwrap();
        let state = network.shared.lock();
        assert_eq!(state.dirty, [3, 4].into());
        let classes: Vec<_> =
            state.lanes.iter().map(|(at, to)| (*at, to.rate_bytes_per_s)).collect();
        assert_eq!(classes, [(3, 999)]);
    }

    #[test]
    fn add_lane__of_a_reused_index_is_another_class() {
        let mut network = without_a_thread();
        network.add_lane(3, 1, 0);
        let first = network.shared.lock().lanes[&3];
        network.remove_lane(3);
        network.add_lane(3, 1, 0);
        assert_ne!(network.shared.lock().lanes[&3], first);
    }

    #[test]
    fn change_rates__repeats_the_error_of_the_thread() {
        let network = without_a_thread();
        network.shared.lock().class_error = Some("can't".into());
        assert_eq!(network.change_rates(&[]).unwrap_err().to_string(), "can't");
        network.shared.lock().class_error = None;
        assert!(network.change_rates(&[]).is_ok());
    }
}
