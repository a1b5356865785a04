//! The exact traffic beside the job: requests of ten full packets from every sending host to the
//! receiving one, each answered by a small response, over persistent TCP connections.
//!
//! The load is an open loop: a Poisson process decides when requests are due, whether earlier ones
//! are answered or not. A request's time counts from its due time, so that a slow network can't
//! hide by slowing its own load down.

mod client;
mod latency;
mod server;
mod traffic;

pub use client::{Client, Requests};
pub use latency::{Latency, Window, latency, times_ms};
pub use server::serve;
pub use traffic::Traffic;

/// Ten segments of 1,448 bytes, what fits an MTU of 1,500 beside TCP's headers and timestamps.
pub const REQUEST_BYTES: usize = 14_480;
const RESPONSE_BYTES: usize = 32;
/// Ten packets with the headers of Ethernet, IPv4 and TCP.
const REQUEST_WIRE_BYTES: f64 = 10.0 * 1_514.0;

/// How many requests a second, over all hosts, put `load` (0 to 1) on a port of this rate.
pub fn requests_per_s(load: f64, rate_bytes_per_s: u64) -> f64 {
    load * rate_bytes_per_s as f64 / REQUEST_WIRE_BYTES
}

/// Gives this process precedence on the processors, if the kernel allows it. Real hosts have their
/// own processors; here all hosts share a few, and a request's time would be the wait for one of
/// them. It is the same under every scheme and alone.
pub fn go_first() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the struct lives through the call. Refused without privileges: then times are longer.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_per_s__counts_headers() {
        let rate = requests_per_s(0.3, 25_000_000);
        assert!((rate - 495.4).abs() < 0.1, "{rate}");
        assert_eq!(requests_per_s(0.0, 25_000_000), 0.0);
    }
}
