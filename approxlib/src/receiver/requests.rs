//! Requests of the application to senders: another sampling rate, or the end of a job.

use super::Receiver;
use crate::{error::Error, job::parse_msr};
use atp_proto::endpoint::{Request, RequestKind};

/// Asks for another sampling rate: see [`Receiver::request_msr`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateRequest {
    /// The run of the sender's job, from an [`Event`](crate::Event).
    pub run: u64,
    /// The group's id.
    pub group: u8,
    /// The asked minimal sampling rate, 0 to 1.
    pub msr: f64,
}

/// The most requests that wait for the receiver thread. It takes them with every batch.
pub const REQUESTS_MAX: usize = 1 << 16;

impl Receiver {
    /// Asks a sender to set the minimal sampling rate (MSR) of a group: higher if the answer's
    /// error is larger than thought, lower if it is smaller. The library repeats the request until
    /// the sender answers with [`Event::TermsChanged`](crate::Event::TermsChanged), which says what
    /// holds from then on. A later request for the same group replaces this one.
    ///
    /// The sender's [policy](crate::JobBuilder::requests) decides. The rates of exact groups stay.
    /// Once a sender has asked for the end of its job or window, rates may only fall. A request to
    /// a sender that is unknown, has ended or is of an older version has no effect. A rate of 0
    /// makes the sender try every message once, which takes longer than a small rate.
    ///
    /// # Errors
    /// [`Error::Msr`] if the rate isn't between 0 and 1.
    pub fn request_msr(&self, request: &RateRequest) -> Result<(), Error> {
        let &RateRequest { run, group, msr } = request;
        let kind = RequestKind::Rate(group, parse_msr(msr)?);
        self.queue.request(Request { run, kind });
        Ok(())
    }

    /// Asks the sender of a run to end its job now, because the answer is good enough. If it obeys,
    /// the job ends with the messages delivered so far: no group needs more. N of a group whose
    /// number was not announced is then the number of messages that the sender had queued.
    ///
    /// Wait for [`Event::Finished`](crate::Event::Finished) before you drop the receiver: a sender
    /// whose receiver has gone fails.
    pub fn request_end(&self, run: u64) {
        self.queue.request(Request { run, kind: RequestKind::End });
    }

    /// Confirms an ended window, after [`Event::WindowEnded`](crate::Event::WindowEnded), to its
    /// sender: the application has stored what it needs of it. Needs
    /// [`ReceiverBuilder::confirm_windows`](crate::ReceiverBuilder::confirm_windows). A window that
    /// is unknown or was confirmed before needs none.
    pub fn confirm_window(&self, run: u64, window: u32) {
        self.queue.request(Request { run, kind: RequestKind::ConfirmWindow(window) });
    }

    /// Refuses a run whose job has not ended: no further event of it comes, and its sender's job
    /// fails with [`ShortCause::Refused`](crate::ShortCause::Refused). Events that are on their way
    /// still come.
    pub fn refuse(&self, run: u64) {
        self.queue.request(Request { run, kind: RequestKind::Refuse });
    }
}
