//! Takes in the receiver's requests: other sampling rates, or the end of the job.

use super::{PacketRefused, Sender};
use atp_common::{
    units::Msr,
    wire::{Header, RequestBody},
};

/// What the receiver may change. Default [`RequestPolicy::OBEY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPolicy {
    /// The lowest and the highest sampling rate that the receiver may set. Requests beyond them set
    /// the nearer one. `None`: it may set none.
    pub msr: Option<(Msr, Msr)>,
    /// It may end the job.
    pub may_end: bool,
}

impl RequestPolicy {
    /// The receiver may change everything.
    pub const OBEY: Self = Self { msr: Some((Msr::NONE, Msr::EXACT)), may_end: true };
    /// It may change nothing.
    pub const REFUSE: Self = Self { msr: None, may_end: false };
}

impl Sender {
    /// Takes in a REQUEST. Rates of exact groups stay, and after a FIN rates may only fall. TERMS
    /// answer with the rates that hold from now on. Between two windows only the end is taken: the
    /// receiver repeats the rest, so that the next window gets it.
    pub(super) fn on_request(
        &mut self,
        header: &Header,
        request: &RequestBody<'_>,
    ) -> Result<(), PacketRefused> {
        if !self.config.announce_terms {
            return Err(PacketRefused::Kind);
        }
        self.silence.end();
        let ends = request.end && self.config.requests.may_end;
        let is_between = self.has_ended() && !ends;
        if self.is_job_over() || is_between || !self.announcement.is_new_request(header.time()) {
            return Ok(());
        }
        self.report.requests += 1;
        if let Some((least, most)) = self.config.requests.msr.filter(|_| !ends) {
            for (group, msr) in request.groups() {
                // A group that keeps its rate: the answer says so.
                let _ = self.set_msr(group, msr.clamp(least, most.max(least)));
            }
        }
        self.announcement.answer(header.time());
        if ends {
            self.end_for_receiver();
        }
        Ok(())
    }

    /// Whether no window follows the present one, and that has ended.
    fn is_job_over(&self) -> bool {
        self.has_ended() && self.is_last_window()
    }

    /// Ends the job because the receiver has enough: no further message is needed. The counts of a
    /// window that has ended stay.
    fn end_for_receiver(&mut self) {
        if std::mem::replace(&mut self.report.ended_by_receiver, true) {
            return;
        }
        self.in_each_window(Self::need_nothing);
        for group in &mut self.config.groups {
            group.msr = Msr::NONE;
        }
        self.cancel();
    }

    /// Makes the window need no more messages, unless its end is forced already: its receiver has
    /// decided by what it needed, or will.
    fn need_nothing(&mut self) {
        if !(self.window.is_over() || self.sends_only_fin()) {
            for group in &mut self.window.groups {
                group.set_msr(Msr::NONE, self.config.complete_at);
            }
        }
    }
}
