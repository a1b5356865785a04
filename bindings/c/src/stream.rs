//! Streams.

use crate::{
    calls,
    event::atp_range,
    memory::{atp_bytes, atp_release},
    options::{self, atp_job_options},
    report::{atp_group_report, atp_progress, atp_report, atp_sample, atp_shortfall},
    sender::Sender,
    sized::{Out, put},
    status::{
        atp_status,
        atp_status::{ATP_AGAIN, ATP_OK},
        call, call_once,
    },
    table::Table,
};
use approxlib::{Error, Stream, WindowReport};
use std::ffi::{c_char, c_int, c_void};

static STREAMS: Table<Sender<Stream>> = Table::new("stream");

/// A stream: a job of windows, each with messages and an end of its own. Free it with
/// atp_stream_free.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_stream {
    /// 0 is no stream. Numbers aren't used twice.
    pub handle: u64,
}

/// Opens a stream, as atp_job_connect opens a job.
///
/// # Safety
/// Pointers are null or as they say, with all that they point to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_connect(
    peer: *const c_char,
    options: *const atp_job_options,
    stream: *mut atp_stream,
) -> atp_status {
    let write = |handle| {
        // SAFETY: the caller promises it.
        unsafe { put(stream, atp_stream { handle }) }
    };
    // SAFETY: the caller promises the same.
    unsafe { calls::open(&STREAMS, peer, options, stream.is_null(), write) }
}

/// Queues a copy of a message in the present window, as atp_job_send. The first message after
/// atp_stream_end_window begins the next window.
///
/// # Safety
/// As atp_job_send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_send(
    stream: atp_stream,
    group: u32,
    data: *const c_void,
    len: usize,
    message: *mut u32,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::send(&STREAMS, stream.handle, group, data, len, message) }
}

/// As atp_stream_send, but returns ATP_AGAIN instead of blocking while the buffer is full, and
/// ATP_ERROR_WINDOW_ENDING while the next window can't begin. atp_stream_changed_fd shows when to
/// try again.
///
/// # Safety
/// As atp_job_send.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_try_send(
    stream: atp_stream,
    group: u32,
    data: *const c_void,
    len: usize,
    message: *mut u32,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::try_send(&STREAMS, stream.handle, group, data, len, message) }
}

/// Queues copies of several messages in the present window, as atp_job_send_many.
///
/// # Safety
/// As atp_job_send_many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_send_many(
    stream: atp_stream,
    group: u32,
    messages: *const atp_bytes,
    len: usize,
    first: *mut u32,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::send_many(&STREAMS, stream.handle, group, messages, len, first) }
}

/// Queues a message in the present window without a copy, as atp_job_send_owned.
///
/// # Safety
/// As atp_job_send_owned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_send_owned(
    stream: atp_stream,
    group: u32,
    message: atp_bytes,
    release: atp_release,
    context: *mut c_void,
    id: *mut u32,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::send_owned(&STREAMS, stream.handle, group, message, release, context, id) }
}

/// Changes the minimal sampling rate of a group, from the present window on.
#[unsafe(no_mangle)]
pub extern "C" fn atp_stream_set_msr(stream: atp_stream, group: u32, msr: f64) -> atp_status {
    calls::set_msr(&STREAMS, stream.handle, group, msr)
}

/// Announces the number of messages of a group for the next window and those after it.
#[unsafe(no_mangle)]
pub extern "C" fn atp_stream_set_messages(
    stream: atp_stream,
    group: u32,
    messages: u32,
) -> atp_status {
    call_once(|| {
        let group = options::group_id(group)?;
        STREAMS.find(stream.handle)?.with(|stream| {
            stream.set_messages(group, messages);
            Ok(())
        })
    })
}

/// The stream's progress, at most 50 ms old, also after its end. It waits for no other call.
///
/// # Safety
/// `progress` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_progress(
    stream: atp_stream,
    progress: *mut atp_progress,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::progress(&STREAMS, stream.handle, progress) }
}

/// Ends the present window, and waits for its end: every group has its messages, or the deadline
/// has passed (`complete` is 0 then, which is no error). `report` may be null.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_end_window(
    stream: atp_stream,
    report: *mut atp_report,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::optional(report) }?;
        let end = |stream: &mut Stream| stream.end_window().map(Some);
        STREAMS.find(stream.handle)?.end_window(end, out.as_ref())?;
        Ok(())
    })
}

/// Ends the input of the present window without waiting for its end: atp_stream_next_window or
/// atp_stream_try_window is the second step. Further calls before that change nothing.
///
/// With ATP_OVERLAP_WINDOWS messages of the next window may follow at once, and each call ends a
/// window. It then waits while two windows have not ended.
#[unsafe(no_mangle)]
pub extern "C" fn atp_stream_begin_end_window(stream: atp_stream) -> atp_status {
    call_once(|| {
        STREAMS.find(stream.handle)?.with(|stream| {
            stream.begin_end_window();
            Ok(())
        })
    })
}

/// Waits for the end of the oldest window that atp_stream_begin_end_window has ended and whose
/// report was not read: ATP_OK with the report, which is that of the window. ATP_AGAIN if there is
/// no such window. `report` may be null.
///
/// With ATP_OVERLAP_WINDOWS a program sends the next window first, and then takes this one's end.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_next_window(
    stream: atp_stream,
    report: *mut atp_report,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { window(stream, Stream::next_window, report) }
}

/// As atp_stream_next_window, but returns ATP_AGAIN instead of waiting. atp_stream_changed_fd shows
/// when to try again.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_try_window(
    stream: atp_stream,
    report: *mut atp_report,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { window(stream, Stream::try_window, report) }
}

/// # Safety
/// `report` is null or as it says.
unsafe fn window(
    stream: atp_stream,
    end: impl FnOnce(&mut Stream) -> Result<Option<WindowReport>, Error>,
    report: *mut atp_report,
) -> atp_status {
    call(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::optional(report) }?;
        let ended = STREAMS.find(stream.handle)?.end_window(end, out.as_ref())?;
        Ok(if ended.is_some() { ATP_OK } else { ATP_AGAIN })
    })
}

/// A descriptor as that of atp_job_changed_fd, for atp_stream_try_send, atp_stream_try_window and
/// atp_stream_try_outcome.
///
/// # Safety
/// `fd` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_changed_fd(stream: atp_stream, fd: *mut c_int) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::changed_fd(&STREAMS, stream.handle, fd) }
}

/// Ends the stream with the present window without waiting: atp_stream_try_outcome or
/// atp_stream_finish tells the outcome.
#[unsafe(no_mangle)]
pub extern "C" fn atp_stream_begin_finish(stream: atp_stream) -> atp_status {
    calls::begin_finish(&STREAMS, stream.handle)
}

/// Ends the stream now without waiting, as atp_job_begin_cancel.
#[unsafe(no_mangle)]
pub extern "C" fn atp_stream_begin_cancel(stream: atp_stream) -> atp_status {
    calls::begin_cancel(&STREAMS, stream.handle)
}

/// The outcome of a stream that has ended, as atp_job_try_outcome.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_try_outcome(
    stream: atp_stream,
    report: *mut atp_report,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::try_outcome(&STREAMS, stream.handle, report) }
}

/// Ends the stream with the present window, as atp_job_finish. After atp_stream_end_window an empty
/// window ends the stream; the report is that window's.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_finish(
    stream: atp_stream,
    report: *mut atp_report,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::finish(&STREAMS, stream.handle, report) }
}

/// Ends the stream now, as atp_job_cancel.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_cancel(
    stream: atp_stream,
    report: *mut atp_report,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::cancel(&STREAMS, stream.handle, report) }
}

/// The report of the stream's end, or before that of its last window.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_report(
    stream: atp_stream,
    report: *mut atp_report,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::report(&STREAMS, stream.handle, report) }
}

/// The group at `index` of that report.
///
/// # Safety
/// `group` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_report_group(
    stream: atp_stream,
    index: usize,
    group: *mut atp_group_report,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::report_group(&STREAMS, stream.handle, index, group) }
}

/// Copies the lost ids of the group at `index` of that report, as atp_job_report_lost, with its
/// ATP_ERROR_LOST_UNKNOWN.
///
/// # Safety
/// `ranges` is null or has `len` writable elements; `found` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_report_lost(
    stream: atp_stream,
    index: usize,
    ranges: *mut atp_range,
    len: usize,
    found: *mut usize,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::report_lost(&STREAMS, stream.handle, index, ranges, len, found) }
}

/// The sample at `index` of that report.
///
/// # Safety
/// `sample` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_report_sample(
    stream: atp_stream,
    index: usize,
    sample: *mut atp_sample,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::report_sample(&STREAMS, stream.handle, index, sample) }
}

/// Why the stream ended short; the cause ATP_SHORT_NONE if it didn't.
///
/// # Safety
/// `shortfall` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_stream_shortfall(
    stream: atp_stream,
    shortfall: *mut atp_shortfall,
) -> atp_status {
    // SAFETY: the caller promises the same.
    unsafe { calls::shortfall(&STREAMS, stream.handle, shortfall) }
}

/// Frees the handle. A stream that has not ended is abandoned, as by atp_job_free.
#[unsafe(no_mangle)]
pub extern "C" fn atp_stream_free(stream: atp_stream) -> atp_status {
    calls::free(&STREAMS, stream.handle)
}
