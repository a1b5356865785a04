//! The functions that jobs and streams have in common, for a handle of either.

use crate::{
    event::atp_range,
    memory::{Lent, atp_bytes, atp_release},
    options::{self, atp_job_options},
    report::{atp_group_report, atp_progress, atp_report, atp_sample, atp_shortfall},
    sender::{Sender, Sending, element},
    sized::{Out, put},
    status::{
        Failure, atp_status,
        atp_status::{ATP_AGAIN, ATP_ERROR_LOST_UNKNOWN, ATP_OK},
        call, call_once, in_release,
    },
    table::Table,
    text,
};
use approxlib::LostIds;
use std::{
    ffi::{c_char, c_int, c_void},
    os::fd::AsRawFd,
};

type Senders<S> = Table<Sender<S>>;

/// Opens a job or stream, and hands its handle to `write`.
///
/// # Safety
/// As the C functions: pointers are null or as they say.
pub unsafe fn open<S: Sending>(
    table: &Senders<S>,
    peer: *const c_char,
    options: *const atp_job_options,
    handle_is_null: bool,
    write: impl FnOnce(u64),
) -> atp_status {
    call_once(|| {
        if handle_is_null {
            return Err(Failure::null(S::KIND));
        }
        // SAFETY: the caller promises a text and options.
        let (peer, builder) =
            unsafe { (text::text(peer, "peer")?, options::job_builder(options)?) };
        write(Sender::open(table, builder, peer)?);
        Ok(())
    })
}

/// # Safety
/// `data` is null or has `len` readable bytes; `message` is null or writable.
pub unsafe fn send<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    group: u32,
    data: *const c_void,
    len: usize,
    message: *mut u32,
) -> atp_status {
    call_once(|| {
        let group = options::group_id(group)?;
        // SAFETY: the caller promises the bytes.
        let bytes = unsafe { text::list(data.cast::<u8>(), len, "data") }?;
        let id = table.find(handle)?.with(|sending| sending.send_in(group, bytes))?;
        // SAFETY: the caller promises it.
        unsafe { put(message, id) };
        Ok(())
    })
}

/// # Safety
/// As [`send`].
pub unsafe fn try_send<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    group: u32,
    data: *const c_void,
    len: usize,
    message: *mut u32,
) -> atp_status {
    call(|| {
        let group = options::group_id(group)?;
        // SAFETY: the caller promises the bytes.
        let bytes = unsafe { text::list(data.cast::<u8>(), len, "data") }?;
        let sent = table.find(handle)?.with(|sending| sending.try_send_in(group, bytes))?;
        let Some(id) = sent else { return Ok(ATP_AGAIN) };
        // SAFETY: the caller promises it.
        unsafe { put(message, id) };
        Ok(ATP_OK)
    })
}

/// # Safety
/// `messages` is null or has `len` elements, each readable; `first` is null or writable.
pub unsafe fn send_many<S: Sending>(
    table: &Senders<S>,
    handle: u64,
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
        let ids = table.find(handle)?.with(|sending| sending.send_all(group, messages))?;
        // SAFETY: the caller promises it.
        unsafe { put(first, ids.start) };
        Ok(())
    })
}

/// # Safety
/// `bytes` are readable until `release` is called; `message` is null or writable.
pub unsafe fn send_owned<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    group: u32,
    bytes: atp_bytes,
    release: atp_release,
    context: *mut c_void,
    message: *mut u32,
) -> atp_status {
    // Without a callback, or inside of one, the memory stays the caller's: a callback that sends
    // again would be called again without an end.
    let takes = release.is_some() && !in_release();
    let lent = takes.then(|| Lent::new(bytes, release, context));
    call_once(|| {
        let lent = lent.ok_or_else(|| Failure::null("release"))?;
        lent.check()?;
        let group = options::group_id(group)?;
        let id = table.find(handle)?.with(|sending| sending.send_lent(group, lent))?;
        // SAFETY: the caller promises it.
        unsafe { put(message, id) };
        Ok(())
    })
}

pub fn set_msr<S: Sending>(table: &Senders<S>, handle: u64, group: u32, msr: f64) -> atp_status {
    call_once(|| {
        let group = options::group_id(group)?;
        table.find(handle)?.with(|sending| sending.set_msr(group, msr))
    })
}

/// # Safety
/// `progress` is null or as it says.
pub unsafe fn progress<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    progress: *mut atp_progress,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(progress) }?;
        out.write(&table.find(handle)?.handle().progress().into());
        Ok(())
    })
}

/// # Safety
/// `fd` is null or writable.
pub unsafe fn changed_fd<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    fd: *mut c_int,
) -> atp_status {
    call_once(|| {
        if fd.is_null() {
            return Err(Failure::null("fd"));
        }
        let own = |sending: &mut S| Ok(sending.job().changed_fd()?.as_raw_fd());
        let number = table.find(handle)?.with(own)?;
        // SAFETY: the caller promises it.
        unsafe { put(fd, number) };
        Ok(())
    })
}

pub fn begin_finish<S: Sending>(table: &Senders<S>, handle: u64) -> atp_status {
    call_once(|| table.find(handle)?.begin_finish())
}

pub fn begin_cancel<S: Sending>(table: &Senders<S>, handle: u64) -> atp_status {
    call_once(|| table.find(handle)?.begin_cancel())
}

/// # Safety
/// `report` is null or as it says.
pub unsafe fn try_outcome<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    report: *mut atp_report,
) -> atp_status {
    call(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::optional(report) }?;
        let ended = table.find(handle)?.end_if(out.as_ref())?;
        Ok(if ended.is_some() { ATP_OK } else { ATP_AGAIN })
    })
}

/// # Safety
/// `report` is null or as it says.
pub unsafe fn cancel<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    report: *mut atp_report,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::optional(report) }?;
        table.find(handle)?.cancel(out.as_ref())
    })
}

/// # Safety
/// `report` is null or as it says.
pub unsafe fn finish<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    report: *mut atp_report,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::optional(report) }?;
        table.find(handle)?.finish(out.as_ref())
    })
}

/// # Safety
/// `group` is null or as it says.
pub unsafe fn report_group<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    index: usize,
    group: *mut atp_group_report,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(group) }?;
        table.find(handle)?.report(|report| {
            out.write(&element(&report.groups, index, "group")?.into());
            Ok(())
        })
    })
}

/// Copies the ranges of ids that a group's report names.
///
/// # Safety
/// `ranges` is null or has `len` writable elements; `found` is null or writable.
pub unsafe fn report_lost<S: Sending>(
    table: &Senders<S>,
    handle: u64,
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
        table.find(handle)?.report(|report| {
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

/// # Safety
/// `sample` is null or as it says.
pub unsafe fn report_sample<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    index: usize,
    sample: *mut atp_sample,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(sample) }?;
        table.find(handle)?.report(|report| {
            out.write(&element(&report.timeline, index, "sample")?.into());
            Ok(())
        })
    })
}

/// # Safety
/// `report` is null or as it says.
pub unsafe fn report<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    report: *mut atp_report,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(report) }?;
        table.find(handle)?.report(|report| {
            out.write(&report.into());
            Ok(())
        })
    })
}

/// # Safety
/// `shortfall` is null or as it says.
pub unsafe fn shortfall<S: Sending>(
    table: &Senders<S>,
    handle: u64,
    shortfall: *mut atp_shortfall,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(shortfall) }?;
        out.write(&table.find(handle)?.shortfall());
        Ok(())
    })
}

pub fn free<S: Sending>(table: &Senders<S>, handle: u64) -> atp_status {
    call_once(|| {
        // A call of another thread may still use it. Its messages are abandoned now all the same.
        table.remove(handle)?.abandon();
        Ok(())
    })
}
