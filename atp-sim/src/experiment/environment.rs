//! The part of a point that schemes depend on.

use super::Point;
use crate::{
    net::HostId,
    scheme::{Environment, Network},
};

impl Point {
    /// The part of the point that schemes depend on.
    pub fn environment(&self) -> Environment<'_> {
        Environment {
            network: self,
            bits_per_s: self.rate.bits_per_s(),
            buffer_bytes: self.buffer_bytes,
            profile: self.profile(),
            unit: self.unit,
            msr: self.msr,
            timer_granularity_ns: self.timer_granularity_ns,
            receipt_delay_ns: self.receipt_delay_ns,
            seed: self.seed,
        }
    }
}

impl Network for Point {
    fn round_trip_ps(&self, there_bytes: u32, back_bytes: u32) -> u64 {
        self.network_spec.round_trip_ps(self.rate, there_bytes, back_bytes)
    }

    fn paths(&self, from: HostId, to: HostId) -> Vec<u32> {
        self.network_spec.paths(from, to)
    }
}
