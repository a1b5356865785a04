//! Receivers.

use crate::{
    address::atp_address,
    event::{self, atp_event},
    forks,
    inbox::Inbox,
    options::{self, atp_receiver_options},
    sized::{Out, SizeFirst, put},
    status::{
        Failure, atp_status,
        atp_status::{ATP_AGAIN, ATP_ERROR_ARGUMENT, ATP_OK},
        call, call_once,
    },
    table::Table,
    text,
};
use std::{
    ffi::{c_char, c_int},
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) static RECEIVERS: Table<Arc<Inbox>> = Table::new("receiver");

/// A receiver of messages of any number of jobs, at one UDP port. Close it with
/// atp_receiver_close.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_receiver {
    /// 0 is no receiver. Numbers aren't used twice.
    pub handle: u64,
}

/// Counters of a receiver, since its start.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_receiver_stats {
    /// The size of the structure.
    pub struct_size: usize,
    /// Packets with data of accepted jobs, duplicates included.
    pub packets_received: u64,
    /// Bytes behind their headers.
    pub bytes: u64,
    /// Acknowledgments sent by this process.
    pub acks_sent: u64,
    /// Packets refused. The fields `refused_...` divide them by reason.
    pub refused: u64,
    /// Complete messages.
    pub messages: u64,
    /// Silent senders that made room for others.
    pub evicted: u64,
    /// Bytes of incomplete and waiting messages and of records at present.
    pub memory_bytes: u64,
    /// Senders known at present.
    pub sources: u32,
    /// 0.
    pub reserved: u32,
    /// Not ATP's, damaged, or in contradiction to earlier packets of their message.
    pub refused_malformed: u64,
    /// Packets of jobs or addresses that the receiver doesn't admit.
    pub refused_unwanted: u64,
    /// Packets of messages or jobs beyond the receiver's limits.
    pub refused_too_large: u64,
    /// Beyond the limits of senders and memory. Their senders try again later.
    pub refused_no_room: u64,
    /// Packets of senders that were silent for too long.
    pub refused_forgotten: u64,
    /// Packets that mean nothing any more, or not yet: most are of jobs that have ended.
    pub ignored: u64,
}

// SAFETY: repr(C), begins with its size, and holds integers only.
unsafe impl SizeFirst for atp_receiver_stats {
    const NAME: &'static str = "atp_receiver_stats";

    fn initial() -> Self {
        // SAFETY: it holds integers only.
        Self { struct_size: size_of::<Self>(), ..unsafe { std::mem::zeroed() } }
    }
}

/// Starts to receive at `local`, an address or a host name with a port. With port 0 the kernel
/// chooses one. `[::]:4747` receives over IPv4 too. `options` may be null: all defaults.
///
/// # Safety
/// Pointers are null or as they say, with all that they point to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_receiver_bind(
    local: *const c_char,
    options: *const atp_receiver_options,
    receiver: *mut atp_receiver,
) -> atp_status {
    call_once(|| {
        if receiver.is_null() {
            return Err(Failure::null("receiver"));
        }
        // SAFETY: the caller promises a text and options.
        let (local, builder) =
            unsafe { (text::text(local, "local")?, options::receiver_builder(options)?) };
        forks::count()?;
        let handle = RECEIVERS.add(Arc::new(Inbox::new(builder.bind(local)?)?));
        // SAFETY: the caller promises it.
        unsafe { put(receiver, atp_receiver { handle }) };
        Ok(())
    })
}

/// The address that the receiver is bound to, with the port that the kernel chose.
///
/// # Safety
/// `address` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_receiver_address(
    receiver: atp_receiver,
    address: *mut atp_address,
) -> atp_status {
    call_once(|| {
        if address.is_null() {
            return Err(Failure::null("address"));
        }
        let local = RECEIVERS.find(receiver.handle)?.with(|receiver| Ok(receiver.local_addr()?))?;
        // SAFETY: the caller promises it.
        unsafe { put(address, local.into()) };
        Ok(())
    })
}

/// Waits for the next event for up to `timeout_ms`, or without limit if that is negative. ATP_AGAIN
/// if no event came; ATP_ERROR_CLOSED if another thread closed the receiver meanwhile.
///
/// A signal doesn't end the wait. A program that stops by a flag waits for a part of a second at a
/// time, or polls atp_receiver_readable_fd. `event` must be empty or freed.
///
/// # Safety
/// `event` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_receiver_recv(
    receiver: atp_receiver,
    event: *mut atp_event,
    timeout_ms: i64,
) -> atp_status {
    call(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(event) }?;
        let inbox = RECEIVERS.find(receiver.handle)?;
        let Some(event) = inbox.recv(deadline(timeout_ms))? else { return Ok(ATP_AGAIN) };
        out.write(&event::to_c(event, &inbox));
        Ok(ATP_OK)
    })
}

/// Waits as atp_receiver_recv, and takes further events that are there, up to `len`. The size of
/// the first structure is the distance from one to the next, and sets the size of all. `received`
/// gets the number of events. Events that were there before must have been freed: the call writes
/// over them, and nobody could free their memory then.
///
/// # Safety
/// `events` is null or has `len` structures; `received` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_receiver_recv_batch(
    receiver: atp_receiver,
    events: *mut atp_event,
    len: usize,
    received: *mut usize,
    timeout_ms: i64,
) -> atp_status {
    call(|| {
        if received.is_null() {
            return Err(Failure::null("received"));
        }
        // SAFETY: the caller promises the first structure.
        let stride = unsafe {
            Out::new(events)?;
            events.cast::<usize>().read_unaligned()
        };
        if len == 0 || stride % align_of::<atp_event>() != 0 {
            let text =
                format!("{len} events of {stride} bytes can't be: give an array of 1 or more");
            return Err(Failure::new(ATP_ERROR_ARGUMENT, text));
        }
        let inbox = RECEIVERS.find(receiver.handle)?;
        let taken = inbox.recv_batch(len, deadline(timeout_ms))?;
        let number = taken.len();
        for (index, event) in taken.into_iter().enumerate() {
            // SAFETY: the caller promises `len` structures, `stride` apart.
            let out = unsafe {
                let to = events.cast::<u8>().add(index * stride).cast::<atp_event>();
                to.cast::<usize>().write_unaligned(stride);
                Out::new(to)?
            };
            out.write(&event::to_c(event, &inbox));
        }
        // SAFETY: the caller promises it.
        unsafe { put(received, number) };
        Ok(if number == 0 { ATP_AGAIN } else { ATP_OK })
    })
}

fn deadline(timeout_ms: i64) -> Option<Instant> {
    let timeout = Duration::from_millis(timeout_ms.try_into().ok()?);
    // A deadline beyond the clock's range is none.
    Instant::now().checked_add(timeout)
}

/// A descriptor for poll, epoll and their like. It is readable when atp_receiver_recv may return
/// something at once: call it with a timeout of 0 until ATP_AGAIN, which makes it unreadable again.
/// It belongs to the receiver: don't read or close it, and don't use it after
/// atp_receiver_close.
///
/// # Safety
/// `fd` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_receiver_readable_fd(
    receiver: atp_receiver,
    fd: *mut c_int,
) -> atp_status {
    call_once(|| {
        if fd.is_null() {
            return Err(Failure::null("fd"));
        }
        let number = RECEIVERS.find(receiver.handle)?.readable_fd();
        // SAFETY: the caller promises it.
        unsafe { put(fd, number) };
        Ok(())
    })
}

/// Counters of the receiver.
///
/// # Safety
/// `stats` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_receiver_get_stats(
    receiver: atp_receiver,
    stats: *mut atp_receiver_stats,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(stats) }?;
        let found = RECEIVERS.find(receiver.handle)?.with(|receiver| Ok(receiver.stats()))?;
        out.write(&atp_receiver_stats {
            packets_received: found.packets_received,
            bytes: found.bytes,
            acks_sent: found.acks_sent,
            refused: found.refused,
            messages: found.messages,
            evicted: found.evicted,
            memory_bytes: found.memory_bytes,
            sources: found.sources,
            refused_malformed: found.refusals.malformed,
            refused_unwanted: found.refusals.unwanted,
            refused_too_large: found.refusals.too_large,
            refused_no_room: found.refusals.no_room,
            refused_forgotten: found.refusals.forgotten,
            ignored: found.ignored,
            ..atp_receiver_stats::initial()
        });
        Ok(())
    })
}

/// Closes the receiver and frees its handle. Calls that wait for an event return ATP_ERROR_CLOSED.
/// Senders of unfinished jobs learn that the receiver is gone. It waits up to `linger_ms` for
/// senders that may not know of their job's end. Events that were received stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn atp_receiver_close(receiver: atp_receiver) -> atp_status {
    call_once(|| {
        RECEIVERS.remove(receiver.handle)?.close();
        Ok(())
    })
}
