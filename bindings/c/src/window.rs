//! Ends the windows of jobs: each has messages and an end of its own.

use crate::{
    job::{JOBS, atp_job},
    options,
    report::atp_report,
    sized::Out,
    status::{
        atp_status,
        atp_status::{ATP_AGAIN, ATP_OK},
        call, call_once,
    },
};
use approxlib::{Error, Job, WindowReport};

/// Announces the number of messages of a group for the windows that begin after this call. The
/// first one began when the job was opened: its number is in the options.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_set_messages(job: atp_job, group: u32, messages: u32) -> atp_status {
    call_once(|| {
        let group = options::group_id(group)?;
        JOBS.find(job.handle)?.with(|job| {
            job.set_messages(group, messages);
            Ok(())
        })
    })
}

/// Ends the current window, and waits for its end: every group has its messages, or the deadline
/// has passed (`complete` is 0 then, which is no error). `report` may be null. The next message
/// begins the next window. ATP_ERROR_OPTIONS if the number of messages was announced without
/// ATP_WINDOWS.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_end_window(job: atp_job, report: *mut atp_report) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::optional(report) }?;
        let end = |job: &mut Job| job.end_window().map(Some);
        JOBS.find(job.handle)?.end_window(end, out.as_ref())?;
        Ok(())
    })
}

/// Ends the input of the current window without waiting for its end: atp_job_next_window or
/// atp_job_try_window is the second step. Further calls before that change nothing.
///
/// With ATP_OVERLAP_WINDOWS messages of the next window may follow at once, and each call ends a
/// window. If nothing was sent since the last call, that window is empty, and the call waits while
/// two windows have not ended. ATP_ERROR_OPTIONS as of atp_job_end_window.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_begin_end_window(job: atp_job) -> atp_status {
    call_once(|| JOBS.find(job.handle)?.with(Job::begin_end_window))
}

/// As atp_job_begin_end_window, but returns ATP_AGAIN instead of waiting while two windows have not
/// ended. atp_job_changed_fd shows when to try again.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_try_begin_end_window(job: atp_job) -> atp_status {
    call(|| {
        let has_begun = JOBS.find(job.handle)?.with(Job::try_begin_end_window)?;
        Ok(if has_begun { ATP_OK } else { ATP_AGAIN })
    })
}

/// Waits for the end of the oldest window that atp_job_begin_end_window has ended and whose
/// report was not read: ATP_OK with the report, which is that of the window. ATP_AGAIN if there is
/// no such window. `report` may be null.
///
/// With ATP_OVERLAP_WINDOWS a program sends the next window first, and then takes this one's end.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_next_window(job: atp_job, report: *mut atp_report) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { window(job, Job::next_window, report) }
}

/// As atp_job_next_window, but returns ATP_AGAIN instead of waiting. atp_job_changed_fd shows
/// when to try again.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_try_window(job: atp_job, report: *mut atp_report) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { window(job, Job::try_window, report) }
}

/// # Safety
/// `report` is null or as it says.
unsafe fn window(
    job: atp_job,
    end: impl FnOnce(&mut Job) -> Result<Option<WindowReport>, Error>,
    report: *mut atp_report,
) -> atp_status {
    call(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::optional(report) }?;
        let ended = JOBS.find(job.handle)?.end_window(end, out.as_ref())?;
        Ok(if ended.is_some() { ATP_OK } else { ATP_AGAIN })
    })
}
