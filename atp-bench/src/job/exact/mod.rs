//! The exact traffic beside the job. Every sending host sends requests of ten full packets to the
//! receiving host over persistent TCP connections, and gets a small response to each.
//!
//! The load is an open loop: a Poisson process decides when requests are due, even if earlier ones
//! are unanswered. A request's time counts from its due time. Otherwise a slow network would lower
//! its own load and so hide its delay.

mod client;
mod latency;
mod server;

pub use client::{Client, Load, Requests};
pub use latency::{Latency, Window, latency, times_ms};
pub use server::serve;

/// Ten segments of 1,448 bytes, the payload of an MTU of 1,500 with TCP timestamps.
pub const REQUEST_BYTES: usize = 14_480;
const RESPONSE_BYTES: usize = 32;
/// Ten packets with the headers of Ethernet, IPv4 and TCP.
const REQUEST_WIRE_BYTES: f64 = 10.0 * 1_514.0;

/// The number of requests per second that load a port of this rate by `load` (0 to 1).
pub fn requests_per_s(load: f64, rate_bytes_per_s: u64) -> f64 {
    load * rate_bytes_per_s as f64 / REQUEST_WIRE_BYTES
}

/// Raises this process's scheduling priority, if the kernel allows it. All hosts share this
/// machine's processors, and a request's time would otherwise be the wait for one. The priority is
/// the same under every scheme and alone.
pub fn go_first() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the struct lives through the call. Without privileges the call fails: longer times.
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
