//! A receiver's requests to senders, and the progress on which a program bases them.

use crate::{
    address::atp_address,
    options,
    receiver::{RECEIVERS, atp_receiver},
    sized::{Out, SizeFirst, put},
    status::{Failure, atp_status, atp_status::ATP_ERROR_ARGUMENT, call_once},
};
use approxlib::RateRequest;

/// The messages of one group that have arrived, of the current window of one sender's job.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_group_arrivals {
    /// The size of the structure.
    pub struct_size: usize,
    /// The sender's address.
    pub source: atp_address,
    /// The job's id.
    pub job: u32,
    /// The window, counted from 0; 0 for a job without windows.
    pub window: u32,
    /// The group's id.
    pub group: u32,
    /// Complete messages, also those that atp_receiver_recv has not returned yet.
    pub delivered: u32,
    /// The run of the job, as atp_event has it.
    pub run: u64,
}

// SAFETY: repr(C), begins with its size, and holds integers only.
unsafe impl SizeFirst for atp_group_arrivals {
    const NAME: &'static str = "atp_group_arrivals";

    fn initial() -> Self {
        // SAFETY: it holds integers only.
        Self { struct_size: size_of::<Self>(), ..unsafe { std::mem::zeroed() } }
    }
}

/// Asks the sender of a run to set the minimal sampling rate of a group of its job. The library
/// repeats the request until the sender answers: ATP_EVENT_TERMS_CHANGED says what holds then. A
/// run that is unknown or has ended is no error. The sender's options decide: see atp_requests.
///
/// `run`: as atp_event has it.
#[unsafe(no_mangle)]
pub extern "C" fn atp_receiver_request_msr(
    receiver: atp_receiver,
    run: u64,
    group: u32,
    msr: f64,
) -> atp_status {
    call_once(|| {
        let request = RateRequest { run, group: options::group_id(group)?, msr };
        RECEIVERS.find(receiver.handle)?.with(|receiver| Ok(receiver.request_msr(&request)?))
    })
}

/// Asks the sender of a run to end its job now, with the messages delivered so far. Wait for
/// ATP_EVENT_FINISHED before you close the receiver.
///
/// `run`: as atp_event has it.
#[unsafe(no_mangle)]
pub extern "C" fn atp_receiver_request_end(receiver: atp_receiver, run: u64) -> atp_status {
    call_once(|| {
        RECEIVERS.find(receiver.handle)?.with(|receiver| {
            receiver.request_end(run);
            Ok(())
        })
    })
}

/// The progress of all running jobs of which a message has arrived: one structure for each group of
/// each job, in no particular order, up to `len`. The size of the first is the distance from one to
/// the next, and sets the size of all. `found` gets the number that there are, which may be larger
/// than `len`. The call waits for the receiver's thread: milliseconds, and a second at most.
///
/// # Safety
/// `arrivals` is null or has `len` structures; `found` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_receiver_progress(
    receiver: atp_receiver,
    arrivals: *mut atp_group_arrivals,
    len: usize,
    found: *mut usize,
) -> atp_status {
    call_once(|| {
        if found.is_null() {
            return Err(Failure::null("found"));
        }
        // SAFETY: the caller promises the first structure.
        let stride = unsafe {
            Out::new(arrivals)?;
            arrivals.cast::<usize>().read_unaligned()
        };
        if len == 0 || stride % align_of::<atp_group_arrivals>() != 0 {
            let text =
                format!("{len} structures of {stride} bytes can't be: give an array of 1 or more");
            return Err(Failure::new(ATP_ERROR_ARGUMENT, text));
        }
        let jobs = RECEIVERS.find(receiver.handle)?.with(|receiver| Ok(receiver.progress()?))?;
        let of_groups =
            jobs.iter().flat_map(|job| job.groups.iter().map(move |group| (job, group)));
        for (index, (job, group)) in of_groups.clone().take(len).enumerate() {
            // SAFETY: the caller promises `len` structures, `stride` apart.
            let out = unsafe {
                let to = arrivals.byte_add(index * stride);
                to.cast::<usize>().write_unaligned(stride);
                Out::new(to)?
            };
            out.write(&atp_group_arrivals {
                source: job.source.into(),
                job: job.job,
                run: job.run,
                window: job.window,
                group: group.group.into(),
                delivered: group.delivered,
                ..atp_group_arrivals::initial()
            });
        }
        // SAFETY: the caller promises it.
        unsafe { put(found, of_groups.count()) };
        Ok(())
    })
}
