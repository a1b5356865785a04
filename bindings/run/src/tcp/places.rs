//! The places of the connections that other hosts open.

use crate::{hosts, limit, shared::lock};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The places of a process's connections.
#[derive(Default)]
pub struct Places {
    /// Carried connections, by the client's host.
    taken: Mutex<HashMap<IpAddr, usize>>,
    /// Ports at which other libraries connect.
    doors: AtomicUsize,
}

/// The place of a carried connection, until it ends.
pub struct Place {
    places: &'static Places,
    host: IpAddr,
}

impl Places {
    /// Takes a place for a client of this host, unless all are taken or its share is.
    pub fn take(&'static self, host: IpAddr) -> Option<Place> {
        let max = limit::carried();
        let mut taken = lock(&self.taken);
        let all: usize = taken.values().sum();
        let own = taken.entry(host).or_default();
        let is_free = all < max && *own < hosts::share(max);
        *own += usize::from(is_free);
        taken.retain(|_, own| *own > 0);
        is_free.then(|| Place { places: self, host })
    }

    /// Another port divides the places of connections that haven't agreed.
    pub fn add_door(&self) {
        self.doors.fetch_add(1, Ordering::Relaxed);
    }

    pub fn remove_door(&self) {
        self.doors.fetch_sub(1, Ordering::Relaxed);
    }

    /// Connections that may wait at each port.
    pub fn waiting_max(&self) -> usize {
        (limit::waiting() / self.doors.load(Ordering::Relaxed).max(1)).max(1)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.places.taken);
        if let Some(own) = taken.get_mut(&self.host) {
            *own -= 1;
        }
        taken.retain(|_, own| *own > 0);
    }
}
