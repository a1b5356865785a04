//! Calls on jobs that don't wait, and windows that overlap.

use super::{
    Caller, Memory, call, check,
    step::{Size, group_id},
};
use arbitrary::Arbitrary;
use atp_c::*;

#[derive(Arbitrary, Debug)]
pub enum Step {
    TrySend { on: u8, group: u16, len: u16 },
    BeginEnd { on: u8 },
    Window { on: u8, size: Size, waits: bool },
    Begin { on: u8, cancel: bool },
    TryOutcome { on: u8, size: Size },
    Look { on: u8 },
}

impl Caller {
    pub(super) fn window(&mut self, step: &Step) {
        let (Step::TrySend { on, .. }
        | Step::BeginEnd { on }
        | Step::Window { on, .. }
        | Step::Begin { on, .. }
        | Step::TryOutcome { on, .. }
        | Step::Look { on }) = step;
        let handle = self.handle(*on);
        let job = atp_job { handle };
        let status = match step {
            Step::TrySend { group, len, .. } => {
                let (data, mut id) = (vec![7; usize::from(*len)], 0);
                let at = data.as_ptr().cast();
                let (group, len) = (group_id(*group), data.len());
                call!(atp_job_try_send(job, group, at, len, &raw mut id))
            }
            Step::BeginEnd { on } => match on % 2 {
                0 => call!(atp_job_begin_end_window(job)),
                _ => call!(atp_job_try_begin_end_window(job)),
            },
            Step::Window { size, waits, .. } => {
                let mut memory = Memory::new(*size, size_of::<atp_report>());
                match waits {
                    true => call!(atp_job_next_window(job, memory.at())),
                    false => call!(atp_job_try_window(job, memory.at())),
                }
            }
            Step::Begin { cancel, .. } => match cancel {
                true => call!(atp_job_begin_cancel(job)),
                false => call!(atp_job_begin_finish(job)),
            },
            Step::TryOutcome { size, .. } => {
                let mut memory = Memory::new(*size, size_of::<atp_report>());
                call!(atp_job_try_outcome(job, memory.at()))
            }
            Step::Look { .. } => {
                let mut fd = -1;
                call!(atp_job_changed_fd(job, &raw mut fd))
            }
        };
        self.expect(&self.jobs, handle, status);
    }
}
