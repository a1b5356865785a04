//! The lanes that this receiver has admitted, in memory shared with the daemon, which counts their
//! arrivals and writes the advice to them.

use crate::datapath::ArrivingPage;
use atp_common::{
    maps::{ArrivingLane, RECEIVER_LANES},
    wire::{Advice, Header},
};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The lanes of all senders of a receiver.
#[derive(Clone)]
pub struct ArrivingLanes(Arc<Shared>);

struct Shared {
    page: ArrivingPage,
    /// Wakes the daemon.
    wake: OwnedFd,
    free: Mutex<Free>,
}

struct Free {
    elements: Vec<usize>,
    /// The number of the last lane.
    number: u32,
}

impl ArrivingLanes {
    /// Maps the memory that the daemon granted.
    pub fn new(map: &OwnedFd, wake: OwnedFd) -> io::Result<Self> {
        // Element 0 is none of a lane.
        let free = Free { elements: (1..RECEIVER_LANES).rev().collect(), number: 0 };
        let page = ArrivingPage::map(map)?;
        Ok(Self(Arc::new(Shared { page, wake, free: Mutex::new(free) })))
    }

    /// Asks the daemon to count arrivals of the lane to which a packet belongs; `None` if there is
    /// no room for it.
    pub fn open(&self, source: SocketAddr, header: &Header) -> Option<AdvisedLane> {
        let mut free = self.0.free();
        let element = free.elements.pop()?;
        free.number = free.number.wrapping_add(1).max(1);
        let number = free.number;
        drop(free);
        let IpAddr::V6(mapped) = mapped(source.ip()) else { return None };
        let lane = ArrivingLane {
            source: mapped.octets(),
            cookie: header.cookie(),
            source_port: source.port(),
            group: u16::from(header.group()),
            number,
            ..ArrivingLane::default()
        };
        self.0.page.write(element, &lane);
        Some(AdvisedLane { lanes: self.0.clone(), element, number, advice: Advice::NONE })
    }

    /// Wakes the daemon if it no longer looks at arrivals. Call after lanes arrived.
    pub fn wake_daemon(&self) {
        if self.0.page.is_asleep() {
            // Fails only if the daemon hasn't read earlier wakeups.
            nix::unistd::write(&self.0.wake, &1u64.to_ne_bytes()).ok();
        }
    }
}

impl Shared {
    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An address, IPv4 as `::ffff:a.b.c.d`.
fn mapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V6(v4.to_ipv6_mapped()),
        IpAddr::V6(_) => address,
    }
}

/// A lane whose arrivals the daemon counts, until it is dropped.
pub struct AdvisedLane {
    lanes: Arc<Shared>,
    element: usize,
    number: u32,
    /// The advice that was read last.
    advice: Advice,
}

impl AdvisedLane {
    /// The advice, if it has changed.
    pub fn take_advice(&mut self) -> Option<Advice> {
        let advice = self.lanes.page.advice(self.element, self.number)?;
        (std::mem::replace(&mut self.advice, advice) != advice).then_some(advice)
    }
}

impl Drop for AdvisedLane {
    fn drop(&mut self) {
        self.lanes.page.write(self.element, &ArrivingLane::default());
        self.lanes.free().elements.push(self.element);
    }
}
