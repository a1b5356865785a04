//! Requests of the application to senders, and its confirmations of windows.

use super::{Endpoint, Lanes};
use atp_common::units::Msr;

/// A request to the sender of a job.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The run that it goes to, from an [`Event`](super::Event).
    pub run: u64,
    /// The request.
    pub kind: RequestKind,
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug)]
pub enum RequestKind {
    /// Another sampling rate of a group.
    Rate(u8, Msr),
    /// The end of the job.
    End,
    /// None: the application has confirmed this window, so its sender may know of the end.
    ConfirmWindow(u32),
    /// None: the application doesn't want the run. Its sender's job fails.
    Refuse,
}

impl<L: Lanes> Endpoint<L> {
    /// Gives a request to its sender's transport, which repeats it until it is answered. The end of
    /// a confirmed window is stated at once, and in each answer to a FIN from then on. A run that
    /// is unknown or has ended gets none.
    pub fn request(&mut self, now_ns: u64, request: &Request) {
        let of_run = self.sources.iter_mut().find(|source| source.run == request.run);
        let Some(source) = of_run.filter(|source| !source.transport.is_finished()) else { return };
        match request.kind {
            RequestKind::Refuse => self.sources.forget(now_ns, request.run),
            RequestKind::Rate(group, msr) => source.transport.request_msr(now_ns, group, msr),
            RequestKind::End => source.transport.request_end(now_ns),
            RequestKind::ConfirmWindow(window) => {
                let ends = source.ends();
                if let Some(end) = source.transport.confirm_window(window) {
                    self.replies.state_end(ends, end);
                }
            }
        }
    }
}
