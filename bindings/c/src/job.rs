//! Jobs.

use crate::{
    calls,
    event::atp_range,
    memory::{atp_bytes, atp_release},
    options::atp_job_options,
    report::{atp_group_report, atp_progress, atp_report, atp_sample, atp_shortfall},
    sender::Sender,
    sized::put,
    status::{atp_status, call_once},
    table::Table,
};
use approxlib::Job;
use std::ffi::{c_char, c_int, c_void};

pub(crate) static JOBS: Table<Sender<Job>> = Table::new("job");

/// A job: messages to one receiver, of which a share must arrive. Free it with atp_job_free.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_job {
    /// 0 is no job. Numbers aren't used twice.
    pub handle: u64,
}

/// Opens a job to the receiver at `peer`, an address or a host name with a port. Sends nothing yet.
/// `options` may be null: all defaults. Blocks while a name is resolved.
///
/// # Safety
/// Pointers are null or as they say, with all that they point to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_connect(
    peer: *const c_char,
    options: *const atp_job_options,
    job: *mut atp_job,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe {
        calls::open(&JOBS, peer, options, job.is_null(), |handle| put(job, atp_job { handle }))
    }
}

/// The job's id, and its datapath: "ebpf" or "userspace". Either may be null. The text is valid
/// for ever.
///
/// # Safety
/// Pointers are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_id(
    job: atp_job,
    id: *mut u32,
    datapath: *mut *const c_char,
) -> atp_status {
    call_once(|| {
        JOBS.find(job.handle)?.with(|job| {
            let name = if job.datapath() == "ebpf" { c"ebpf" } else { c"userspace" };
            // SAFETY: the caller promises it.
            unsafe {
                put(id, job.id());
                put(datapath, name.as_ptr());
            }
            Ok(())
        })
    })
}

/// Queues a copy of a message. Blocks while the buffer is full. The message's id, if it is wanted,
/// counts from 0 in each group.
///
/// Calls for this job in other threads wait for it, but for atp_job_progress and the calls that end
/// the job: after those it returns ATP_ERROR_ENDED, and its message isn't sent.
///
/// # Safety
/// `data` is null or has `len` readable bytes; `message` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_send(
    job: atp_job,
    group: u32,
    data: *const c_void,
    len: usize,
    message: *mut u32,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::send(&JOBS, job.handle, group, data, len, message) }
}

/// As atp_job_send, but returns ATP_AGAIN instead of blocking. atp_job_changed_fd shows when to try
/// again.
///
/// # Safety
/// As atp_job_send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_try_send(
    job: atp_job,
    group: u32,
    data: *const c_void,
    len: usize,
    message: *mut u32,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::try_send(&JOBS, job.handle, group, data, len, message) }
}

/// Queues copies of several messages, which costs less for short ones. Blocks while the buffer is
/// full. `first` gets the first one's id; the others follow. After ATP_ERROR_TOO_LARGE no message
/// is queued; after other errors, the first ones may be.
///
/// # Safety
/// `messages` is null or has `len` elements, each readable; `first` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_send_many(
    job: atp_job,
    group: u32,
    messages: *const atp_bytes,
    len: usize,
    first: *mut u32,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::send_many(&JOBS, job.handle, group, messages, len, first) }
}

/// Queues a message without a copy. Blocks while the buffer is full. The memory must stay as it is
/// until `release` is called: once, also if this call fails, in this call or in another thread.
/// Only with ATP_ERROR_NULL for `release` and with ATP_ERROR_CALLBACK it isn't called.
///
/// # Safety
/// `message` is readable as long as that; `id` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_send_owned(
    job: atp_job,
    group: u32,
    message: atp_bytes,
    release: atp_release,
    context: *mut c_void,
    id: *mut u32,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::send_owned(&JOBS, job.handle, group, message, release, context, id) }
}

/// Changes the minimal sampling rate of a group. An exact group stays exact. After
/// atp_job_begin_finish the rate may only fall.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_set_msr(job: atp_job, group: u32, msr: f64) -> atp_status {
    calls::set_msr(&JOBS, job.handle, group, msr)
}

/// The job's progress, at most 50 ms old, also after its end. It waits for no other call.
///
/// # Safety
/// `progress` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_progress(job: atp_job, progress: *mut atp_progress) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::progress(&JOBS, job.handle, progress) }
}

/// A descriptor for poll, epoll and their like. It is readable when atp_job_try_send or
/// atp_job_try_outcome may do more than ATP_AGAIN. It belongs to the job: don't read or close it,
/// and don't use it after the job's end.
///
/// # Safety
/// `fd` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_changed_fd(job: atp_job, fd: *mut c_int) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::changed_fd(&JOBS, job.handle, fd) }
}

/// Ends the input without waiting, neither for the receiver nor for other calls:
/// atp_job_try_outcome or atp_job_finish tells the outcome.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_begin_finish(job: atp_job) -> atp_status {
    calls::begin_finish(&JOBS, job.handle)
}

/// Ends the job without waiting, neither for the receiver nor for other calls:
/// atp_job_try_outcome or atp_job_cancel tells the outcome. A thread that waits in atp_job_finish
/// returns as for atp_job_cancel. ATP_ERROR_STATE once the job has ended.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_begin_cancel(job: atp_job) -> atp_status {
    calls::begin_cancel(&JOBS, job.handle)
}

/// The outcome of a job that has ended: ATP_OK with the report, or an error as of atp_job_finish.
/// ATP_AGAIN before the end. `report` may be null.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_try_outcome(job: atp_job, report: *mut atp_report) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::try_outcome(&JOBS, job.handle, report) }
}

/// Ends the input, and waits until the receiver confirms ceil(MSR * N) messages of every group.
/// ATP_ERROR_SHORT if the job ends below that; its report and atp_job_shortfall say why.
/// ATP_ERROR_ENDED if another call cancels it meanwhile: atp_job_report says what was delivered.
/// `report` may be null. The handle stays until atp_job_free.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_finish(job: atp_job, report: *mut atp_report) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::finish(&JOBS, job.handle, report) }
}

/// Ends the job now, and waits for the receiver's confirmation: for the peer timeout at most, after
/// which it is ATP_ERROR_SHORT. A call of another thread that waits for room returns
/// ATP_ERROR_ENDED at once, and atp_job_finish with this call. `report` may be null.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_cancel(job: atp_job, report: *mut atp_report) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::cancel(&JOBS, job.handle, report) }
}

/// The report of a job that has ended, also below its rate.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_report(job: atp_job, report: *mut atp_report) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::report(&JOBS, job.handle, report) }
}

/// The group at `index` of the job's report.
///
/// # Safety
/// `group` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_report_group(
    job: atp_job,
    index: usize,
    group: *mut atp_group_report,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::report_group(&JOBS, job.handle, index, group) }
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
    // SAFETY: the caller promises the same.
    unsafe { calls::report_lost(&JOBS, job.handle, index, ranges, len, found) }
}

/// The sample at `index` of the job's report.
///
/// # Safety
/// `sample` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_report_sample(
    job: atp_job,
    index: usize,
    sample: *mut atp_sample,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::report_sample(&JOBS, job.handle, index, sample) }
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
    // SAFETY: the caller promises the same.
    unsafe { calls::shortfall(&JOBS, job.handle, shortfall) }
}

/// Frees the handle. A job that has not ended is abandoned: messages that were not delivered are
/// lost. A call of another thread that waits, for room or for an end, returns ATP_ERROR_ENDED at
/// once. Doesn't wait for the receiver.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_free(job: atp_job) -> atp_status {
    calls::free(&JOBS, job.handle)
}
