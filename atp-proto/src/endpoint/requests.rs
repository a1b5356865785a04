//! Requests of the application to senders.

use super::{Endpoint, Lanes};
use atp_common::units::Msr;

/// A request to the sender of a job: another sampling rate, or the end.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The run that it goes to, from an [`Event`](super::Event).
    pub run: u64,
    /// A group's sampling rate; `None` asks for the end.
    pub rate: Option<(u8, Msr)>,
}

impl<L: Lanes> Endpoint<L> {
    /// Gives a request to its sender's transport, which repeats it until it is answered. A run that
    /// is unknown or has ended gets none.
    pub fn request(&mut self, now_ns: u64, request: &Request) {
        let of_run = self.sources.iter_mut().find(|source| source.run == request.run);
        let Some(source) = of_run.filter(|source| !source.transport.is_finished()) else { return };
        match request.rate {
            Some((group, msr)) => source.transport.request_msr(now_ns, group, msr),
            None => source.transport.request_end(now_ns),
        }
    }
}
