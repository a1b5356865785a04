//! Ends jobs, and reads their reports.

use crate::{
    event::atp_range,
    job::{JOBS, atp_job},
    report::{atp_group_report, atp_report, atp_sample, atp_shortfall},
    sender::element,
    sized::{Out, put},
    status::{
        Failure, atp_status,
        atp_status::{ATP_AGAIN, ATP_ERROR_LOST_UNKNOWN, ATP_OK},
        call, call_once,
    },
    text,
};
use approxlib::LostIds;

/// Ends the input without waiting, neither for the receiver nor for other calls:
/// atp_job_try_outcome or atp_job_finish tells the outcome.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_begin_finish(job: atp_job) -> atp_status {
    call_once(|| JOBS.find(job.handle)?.begin_finish())
}

/// Ends the job without waiting, neither for the receiver nor for other calls:
/// atp_job_try_outcome or atp_job_cancel tells the outcome. A thread that waits in atp_job_finish
/// returns as for atp_job_cancel. ATP_ERROR_STATE once the job has ended.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_begin_cancel(job: atp_job) -> atp_status {
    call_once(|| JOBS.find(job.handle)?.begin_cancel())
}

/// The outcome of a job that has ended: ATP_OK with the report, or an error as of atp_job_finish.
/// ATP_AGAIN before the end. `report` may be null.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_try_outcome(job: atp_job, report: *mut atp_report) -> atp_status {
    call(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::optional(report) }?;
        let ended = JOBS.find(job.handle)?.end_if(out.as_ref())?;
        Ok(if ended.is_some() { ATP_OK } else { ATP_AGAIN })
    })
}

/// Ends the input, and waits until the receiver confirms ceil(MSR * N) messages of every group.
/// After atp_job_end_window an empty window ends the job, and the report has the groups of that
/// window. The report has fewer messages if the deadline of the last window has passed
/// (`canceled`), or the receiver has ended the job (`ended_by_receiver`).
///
/// ATP_ERROR_SHORT if the job ends below that; its report and atp_job_shortfall say why.
/// ATP_ERROR_ENDED if another call cancels it meanwhile: atp_job_report says what was delivered.
/// `report` may be null. The handle stays until atp_job_free.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_finish(job: atp_job, report: *mut atp_report) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::optional(report) }?;
        JOBS.find(job.handle)?.finish(out.as_ref())
    })
}

/// Ends the job now, and waits for the receiver's confirmation: for the peer timeout at most, after
/// which it is ATP_ERROR_SHORT. A call of another thread that waits for room returns
/// ATP_ERROR_ENDED at once, and atp_job_finish with this call. `report` may be null.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_cancel(job: atp_job, report: *mut atp_report) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::optional(report) }?;
        JOBS.find(job.handle)?.cancel(out.as_ref())
    })
}

/// The report of a job that has ended, also below its rate; before that, of its last window.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_report(job: atp_job, report: *mut atp_report) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(report) }?;
        JOBS.find(job.handle)?.report(|report| {
            out.write(&report.into());
            Ok(())
        })
    })
}

/// The group at `index` of that report.
///
/// # Safety
/// `group` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_report_group(
    job: atp_job,
    index: usize,
    group: *mut atp_group_report,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(group) }?;
        JOBS.find(job.handle)?.report(|report| {
            out.write(&element(&report.groups, index, "group")?.into());
            Ok(())
        })
    })
}

/// Copies the ids of the messages of the group at `index` that were not delivered, as ranges in
/// ascending order: the first `len` ranges. `found` gets the number of all; 0 ranges say that every
/// message was delivered. With `len` 0 it only counts them.
///
/// ATP_ERROR_LOST_UNKNOWN, and nothing written, if the ids aren't known: the job was opened without
/// ATP_NAME_LOST, its end isn't confirmed, or receipts didn't name all that the receiver has.
///
/// # Safety
/// `ranges` is null or has `len` writable elements; `found` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_report_lost(
    job: atp_job,
    index: usize,
    ranges: *mut atp_range,
    len: usize,
    found: *mut usize,
) -> atp_status {
    call_once(|| {
        if found.is_null() {
            return Err(Failure::null("found"));
        }
        // SAFETY: the slice isn't used.
        unsafe { text::list(ranges, len, "ranges") }?;
        JOBS.find(job.handle)?.report(|report| {
            let lost = match &element(&report.groups, index, "group")?.lost_ids {
                LostIds::Known(lost) => lost,
                LostIds::Unknown(why) => {
                    return Err(Failure::new(ATP_ERROR_LOST_UNKNOWN, why.to_string()));
                }
            };
            for (at, range) in lost.iter().take(len).enumerate() {
                let range = atp_range { start: range.start, end: range.end };
                // SAFETY: the caller promises `len` elements.
                unsafe { ranges.add(at).write(range) };
            }
            // SAFETY: the caller promises it.
            unsafe { put(found, lost.len()) };
            Ok(())
        })
    })
}

/// The sample at `index` of that report.
///
/// # Safety
/// `sample` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_report_sample(
    job: atp_job,
    index: usize,
    sample: *mut atp_sample,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(sample) }?;
        JOBS.find(job.handle)?.report(|report| {
            out.write(&element(&report.timeline, index, "sample")?.into());
            Ok(())
        })
    })
}

/// Why the job ended short; the cause ATP_SHORT_NONE if it didn't.
///
/// # Safety
/// `shortfall` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_shortfall(
    job: atp_job,
    shortfall: *mut atp_shortfall,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(shortfall) }?;
        out.write(&JOBS.find(job.handle)?.shortfall());
        Ok(())
    })
}

/// Frees the handle. A job that has not ended is abandoned: messages that were not delivered are
/// lost. A call of another thread that waits, for room or for an end, returns ATP_ERROR_ENDED at
/// once. Doesn't wait for the receiver.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_free(job: atp_job) -> atp_status {
    call_once(|| {
        // A call of another thread may still use it. Its messages are abandoned now all the same.
        JOBS.remove(job.handle)?.abandon();
        Ok(())
    })
}
