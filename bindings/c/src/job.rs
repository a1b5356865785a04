//! Opens jobs, and sends their messages.

use crate::{
    memory::{Lent, atp_bytes, atp_release},
    options::{self, atp_job_options},
    report::atp_progress,
    sender::Sender,
    sized::{Out, put},
    status::{
        Failure, atp_status,
        atp_status::{ATP_AGAIN, ATP_OK},
        call, call_once, in_release,
    },
    table::Table,
    text,
};
use std::{
    ffi::{c_char, c_int, c_void},
    os::fd::AsRawFd,
};

pub(crate) static JOBS: Table<Sender> = Table::new("job");

/// A job: messages to one receiver, of which a share must arrive. It may end windows before its own
/// end: see atp_job_end_window. Free it with atp_job_free.
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
    call_once(|| {
        if job.is_null() {
            return Err(Failure::null("job"));
        }
        // SAFETY: the caller promises a text and options.
        let (peer, builder) =
            unsafe { (text::text(peer, "peer")?, options::job_builder(options)?) };
        let handle = Sender::open(&JOBS, builder, peer)?;
        // SAFETY: the caller promises it.
        unsafe { put(job, atp_job { handle }) };
        Ok(())
    })
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
/// counts from 0 in each group and window. The first message after atp_job_end_window begins the
/// next window. After atp_job_begin_end_window it is ATP_ERROR_WINDOW_ENDING until the window's
/// report was read; with ATP_OVERLAP_WINDOWS it blocks instead while two windows have not ended.
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
    call_once(|| {
        let group = options::group_id(group)?;
        // SAFETY: the caller promises the bytes.
        let bytes = unsafe { text::list(data.cast::<u8>(), len, "data") }?;
        let id = JOBS.find(job.handle)?.with(|job| job.send_in(group, bytes))?;
        // SAFETY: the caller promises it.
        unsafe { put(message, id) };
        Ok(())
    })
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
    call(|| {
        let group = options::group_id(group)?;
        // SAFETY: the caller promises the bytes.
        let bytes = unsafe { text::list(data.cast::<u8>(), len, "data") }?;
        let sent = JOBS.find(job.handle)?.with(|job| job.try_send_in(group, bytes))?;
        let Some(id) = sent else { return Ok(ATP_AGAIN) };
        // SAFETY: the caller promises it.
        unsafe { put(message, id) };
        Ok(ATP_OK)
    })
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
    call_once(|| {
        let group = options::group_id(group)?;
        // SAFETY: the caller promises the elements.
        let messages = unsafe { text::list(messages, len, "messages") }?;
        messages.iter().try_for_each(atp_bytes::check)?;
        let ids = JOBS.find(job.handle)?.with(|job| job.send_all(group, messages))?;
        // SAFETY: the caller promises it.
        unsafe { put(first, ids.start) };
        Ok(())
    })
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
    // Without a callback, or inside of one, the memory stays the caller's: a callback that sends
    // again would be called again without an end.
    let takes = release.is_some() && !in_release();
    let lent = takes.then(|| Lent::new(message, release, context));
    call_once(|| {
        let lent = lent.ok_or_else(|| Failure::null("release"))?;
        lent.check()?;
        let group = options::group_id(group)?;
        let number = JOBS.find(job.handle)?.with(|job| job.send_owned(group, lent, drop))?;
        // SAFETY: the caller promises it.
        unsafe { put(id, number) };
        Ok(())
    })
}

/// Changes the minimal sampling rate of a group, from the current window on; after
/// atp_job_end_window, from the next one on. An exact group stays exact. Once the sender has asked
/// the receiver to confirm the end, the rate can only fall. A job with announced numbers of
/// messages asks by itself.
#[unsafe(no_mangle)]
pub extern "C" fn atp_job_set_msr(job: atp_job, group: u32, msr: f64) -> atp_status {
    call_once(|| {
        let group = options::group_id(group)?;
        JOBS.find(job.handle)?.with(|job| job.set_msr(group, msr))
    })
}

/// The job's progress, at most 50 ms old, also after its end. It waits for no other call.
///
/// # Safety
/// `progress` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_progress(job: atp_job, progress: *mut atp_progress) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(progress) }?;
        out.write(&JOBS.find(job.handle)?.handle().progress().into());
        Ok(())
    })
}

/// A descriptor for poll, epoll and their like. It is readable when a call that returned ATP_AGAIN
/// may do more, such as atp_job_try_send and atp_job_try_outcome. It belongs to the job: don't read
/// or close it, and don't use it after the job's end.
///
/// # Safety
/// `fd` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_changed_fd(job: atp_job, fd: *mut c_int) -> atp_status {
    call_once(|| {
        if fd.is_null() {
            return Err(Failure::null("fd"));
        }
        let own = |job: &mut approxlib::Job| Ok(job.changed_fd()?.as_raw_fd());
        let number = JOBS.find(job.handle)?.with(own)?;
        // SAFETY: the caller promises it.
        unsafe { put(fd, number) };
        Ok(())
    })
}
