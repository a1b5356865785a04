//! Requests of the application to senders.

use super::{Endpoint, Lanes, canonical};
use atp_common::units::Msr;
use std::net::SocketAddr;

/// A request to the sender of a job: another sampling rate, or the end.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The sender's address, from an [`Event`](super::Event).
    pub source: SocketAddr,
    /// The job's id.
    pub job: u32,
    /// A group's sampling rate; `None` asks for the end.
    pub rate: Option<(u8, Msr)>,
}

impl<L: Lanes> Endpoint<L> {
    /// Gives a request to its sender's transport, which repeats it until it is answered. A job that
    /// was restarted at the same address has several runs; the one whose packet came last gets it.
    /// A sender that is unknown or has ended gets none.
    pub fn request(&mut self, now_ns: u64, request: &Request) {
        let &Request { source, job, rate } = request;
        let of_request = self
            .sources
            .iter_mut()
            .filter(|s| s.key.job == job && canonical(s.key.address) == source)
            .filter(|s| !s.transport.is_finished());
        let Some(source) = of_request.max_by_key(|s| s.transport.received_ns()) else { return };
        match rate {
            Some((group, msr)) => source.transport.request_msr(now_ns, group, msr),
            None => source.transport.request_end(now_ns),
        }
    }
}
