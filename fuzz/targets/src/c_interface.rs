//! Fuzzes the C interface: sequences of calls with hostile arguments, over the loopback.
//!
//! The arguments keep what C can't check: pointers are null, or lead to as much memory as their
//! structures say. Sizes, handles, numbers, texts and the order of calls are anything.

mod answers;
mod receiving;
mod step;
mod windows;

use arbitrary::{Arbitrary, Unstructured};
use atp_c::*;
use std::{
    ffi::{CStr, c_char, c_void},
    ptr::{null, null_mut},
    sync::atomic::{AtomicU64, Ordering},
};

use step::{Options, Size, Step, group_id, to_group};

/// Bounds the time of one input: each step may open sockets or wait.
const STEPS_MAX: usize = 32;
const OPEN_MAX: usize = 4;
/// Memory of a structure of the caller, with room behind it.
const WORDS: usize = 512;
/// How long a call waits for an event.
const WAIT_MS: i64 = 3;
/// Inputs that begin so have the calls of `answers` and `windows` too. Others keep the meaning that
/// they had before these were added.
const MORE: &[u8] = b"queries";
const GUARD: u64 = 0x5a5a_5a5a_5a5a_5a5a;

/// Runs `data` as a sequence of calls.
pub fn run(data: &[u8]) {
    let mut caller = Caller::default();
    let more = data.strip_prefix(MORE);
    let mut bytes = Unstructured::new(more.unwrap_or(data));
    // Most inputs begin with open handles, so that messages arrive.
    if u8::arbitrary(&mut bytes).is_ok_and(|byte| byte % 8 != 7) {
        caller.open();
    }
    for _ in 0..STEPS_MAX {
        if bytes.is_empty() {
            break;
        }
        if more.is_some() {
            let Ok(kind) = u8::arbitrary(&mut bytes) else { break };
            if kind % 4 < 2 {
                let Ok(step) = answers::Step::arbitrary(&mut bytes) else { break };
                caller.answer(&step);
                continue;
            } else if kind % 4 == 2 {
                let Ok(step) = windows::Step::arbitrary(&mut bytes) else { break };
                caller.window(&step);
                continue;
            }
        }
        let Ok(step) = Step::arbitrary(&mut bytes) else { break };
        caller.step(&step);
    }
    caller.end();
}

/// A C program: the handles that it has seen, and those that are open.
#[derive(Default)]
struct Caller {
    seen: Vec<u64>,
    jobs: Vec<u64>,
    receivers: Vec<u64>,
    /// Events by their memory, also freed ones.
    events: Vec<u64>,
    open_events: Vec<u64>,
    /// The address and the job of each event whose structure has them.
    runs: Vec<u64>,
    answered: answers::Seen,
    address: Option<Vec<u8>>,
    lent: u64,
    returned: Box<AtomicU64>,
}

unsafe extern "C" fn release(context: *mut c_void, data: *const c_void, len: usize) {
    // SAFETY: the context is the counter of the caller that lent the memory, and outlives it.
    let returned = unsafe { &*context.cast::<AtomicU64>() };
    returned.fetch_add(1, Ordering::Relaxed);
    if !data.is_null() {
        // SAFETY: it is the boxed slice of that length that `lend` leaked.
        drop(unsafe {
            Box::from_raw(std::ptr::slice_from_raw_parts_mut(data.cast_mut().cast::<u8>(), len))
        });
    }
}

/// A structure that begins with its size, in memory that a wrong call would overrun.
struct Memory(Box<[u64; WORDS + 1]>);

impl Memory {
    fn new(size: Size, right: usize) -> Self {
        let mut words = Box::new([0; WORDS + 1]);
        words[WORDS] = GUARD;
        words[0] = match size {
            Size::Right => right,
            Size::Longer | Size::LongerWithUnknownField => right + 16,
            // More than 4,096 bytes are refused whatever they are.
            Size::Any(bytes) => bytes,
        } as u64;
        if matches!(size, Size::LongerWithUnknownField) {
            words[right / 8 + 1] = 1;
        }
        Self(words)
    }

    fn of<T: Copy>(value: T, size: Size) -> Self {
        let mut memory = Self::new(size, size_of::<T>());
        let stated = memory.0[0];
        // SAFETY: it has room for every structure of the interface.
        unsafe { memory.at::<T>().write(value) };
        memory.0[0] = stated;
        memory
    }

    fn at<T>(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        assert_eq!(self.0[WORDS], GUARD, "a call wrote behind the caller's memory");
    }
}

fn text(bytes: &Option<Vec<u8>>) -> Option<Vec<u8>> {
    let bytes = bytes.as_ref()?;
    let mut text: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).take(64).collect();
    text.push(0);
    Some(text)
}

fn pointer(text: &Option<Vec<u8>>) -> *const c_char {
    text.as_ref().map_or(null(), |text| text.as_ptr().cast())
}

/// Checks what holds for every call.
fn check(status: atp_status) -> atp_status {
    if (status as i32) < 0 {
        // SAFETY: the text is valid until this thread's next error.
        let text = unsafe { CStr::from_ptr(atp_last_error()) }.to_string_lossy();
        let is_fault =
            matches!(status, atp_status::ATP_ERROR_INTERNAL | atp_status::ATP_ERROR_THREAD);
        assert!(!is_fault, "{text}");
        assert!(text.len() > 10 && !text.contains('\n'), "no sentence: {text:?}");
    }
    status
}

/// Calls a function of the interface.
macro_rules! call {
    ($($call:tt)+) => {
        check({
            #[allow(unused_unsafe, reason = "functions without pointers are safe")]
            // SAFETY: the pointers are null or lead to as much memory as the arguments say.
            let status = unsafe { $($call)+ };
            status
        })
    };
}

use call;

impl Caller {
    /// Any number that may be a handle: open, freed, of another kind, or none.
    fn handle(&self, on: u8) -> u64 {
        match on {
            0 => 0,
            u8::MAX => u64::MAX,
            _ => self.seen.get(usize::from(on) % self.seen.len().max(1)).copied().unwrap_or(7),
        }
    }

    /// A call on a handle that isn't open must fail.
    fn expect(&self, open: &[u64], handle: u64, status: atp_status) {
        assert!(open.contains(&handle) || (status as i32) < 0, "{handle} is not open: {status:?}");
    }

    fn opened(&self) -> usize {
        self.jobs.len() + self.receivers.len()
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Bind { size, sources_max, peer } => {
                self.bind(*size, sources_max.value(), &peer.0)
            }
            Step::Connect { deadline, peer, options } => self.connect(*deadline, &peer.0, options),
            Step::Recv { on, size } => self.recv(*on, *size),
            Step::RecvBatch { on, size, len } => self.recv_batch(*on, *size, *len),
            Step::EventGroup { event, index, size } => self.event_group(*event, *index, *size),
            Step::EventFree { event } => {
                if let Some(&memory) = self.events.get(usize::from(*event)) {
                    self.free_event(memory);
                }
            }
            Step::Close { on } => {
                let handle = self.handle(*on);
                let status = call!(atp_receiver_close(atp_receiver { handle }));
                self.expect(&self.receivers, handle, status);
                self.receivers.retain(|open| *open != handle);
            }
            Step::Look { on, size, len } => self.look(*on, *size, *len),
            Step::EventTerms { event, index, size } => self.event_terms(*event, *index, *size),
            Step::RequestMsr { on, event, run, group, msr } => {
                let (handle, group) = (self.handle(*on), group_id(*group));
                let run = run.0.map_or(self.run_of(*event), u64::from);
                let receiver = atp_receiver { handle };
                let status = call!(atp_receiver_request_msr(receiver, run, group, msr.0));
                self.expect(&self.receivers, handle, status);
            }
            Step::RequestEnd { on, event, run } => {
                let handle = self.handle(*on);
                let run = run.0.map_or(self.run_of(*event), u64::from);
                let status = call!(atp_receiver_request_end(atp_receiver { handle }, run));
                self.expect(&self.receivers, handle, status);
            }
            Step::Arrivals { on, size, len } => self.arrivals(*on, *size, *len),
            Step::Free { on } => self.free(self.handle(*on)),
            _ => self.send(step),
        }
    }

    /// Opens a receiver, and two jobs to it.
    fn open(&mut self) {
        self.bind(Size::Right, 0, &None);
        self.connect(false, &None, &Options::usual());
        self.connect(true, &None, &Options::usual());
    }

    fn bind(&mut self, size: Size, sources_max: u32, peer: &Option<Vec<u8>>) {
        if self.opened() >= OPEN_MAX || matches!(size, Size::Any(8..=4_096)) {
            return;
        }
        let peer = text(peer);
        let peers = [pointer(&peer)];
        let mut memory = Memory::new(Size::Right, size_of::<atp_receiver_options>());
        let options = memory.at::<atp_receiver_options>();
        call!(atp_receiver_options_init(options, size_of::<atp_receiver_options>()));
        // SAFETY: the call has initialized it.
        let mut options = unsafe { options.read() };
        options.flags = atp_flag::ATP_NO_DAEMON as u32;
        options.linger_ms = 1;
        options.sources_max = sources_max;
        options.peers = peers.as_ptr();
        options.peers_len = usize::from(peer.is_some());
        let mut memory = Memory::of(options, size);
        let mut receiver = atp_receiver { handle: 0 };
        let at = memory.at::<atp_receiver_options>();
        let status = call!(atp_receiver_bind(c"127.0.0.1:0".as_ptr(), at, &raw mut receiver));
        if status != atp_status::ATP_OK {
            return;
        }
        let (mut address, mut text) = (atp_address::default(), vec![0; 64]);
        call!(atp_receiver_address(receiver, &raw mut address));
        call!(atp_address_text(&raw const address, text.as_mut_ptr().cast(), text.len()));
        self.address = Some(text);
        self.seen.push(receiver.handle);
        self.receivers.push(receiver.handle);
    }

    fn connect(&mut self, deadline: bool, peer: &Option<Vec<u8>>, drawn: &Options) {
        // A smaller size leaves out the peer's timeout, which would be 10 s.
        if self.opened() >= OPEN_MAX || matches!(drawn.size, Size::Any(8..=4_096)) {
            return;
        }
        // No names: they would be looked up in the network.
        let peer = match peer {
            Some(bytes) if bytes.len() % 4 == 0 => {
                let number = |at: usize| bytes.get(at).copied().unwrap_or(0);
                Some(format!("127.0.0.{}:{}\0", number(0), u32::from(number(1)) * 300).into_bytes())
            }
            Some(bytes) if bytes.len() % 4 == 1 => None,
            _ => self.address.clone(),
        };
        let name = text(&drawn.name.0);
        let name = pointer(&name);
        let groups: Vec<atp_group> =
            drawn.groups.0.iter().flatten().take(4).map(|group| to_group(group, name)).collect();
        let (id, law) = (text(&drawn.id.0), drawn.law.0.map(|law| vec![b'a' + law % 26, 0]));
        let mut memory = Memory::new(Size::Right, size_of::<atp_job_options>());
        let options = memory.at::<atp_job_options>();
        call!(atp_job_options_init(options, size_of::<atp_job_options>()));
        // SAFETY: the call has initialized it.
        let mut options = unsafe { options.read() };
        options.id = pointer(&id);
        options.msr = drawn.msr.0;
        options.messages = drawn.messages.value();
        options.flags = u32::from(drawn.flags.value()) | atp_flag::ATP_NO_DAEMON as u32;
        options.groups = groups.as_ptr();
        options.groups_len = groups.len();
        options.peer_timeout_ms = u64::from(drawn.peer_timeout_ms % 20) + 2;
        options.timer_granularity_us = drawn.timer_granularity_us.value().into();
        options.buffer_bytes = drawn.buffer_bytes.value().into();
        options.payload_bytes = drawn.payload_bytes.value().into();
        options.message_bytes_max = drawn.message_bytes_max.value().into();
        if deadline {
            options.window_deadline_ms = u64::from(drawn.window_deadline_ms % 20) + 2;
        }
        options.law = pointer(&law);
        if let Some((requests, may_end, msr_min, msr_max)) = drawn.requests.0 {
            options.requests = u32::from(requests % 4);
            options.requests_may_end = may_end.into();
            (options.requests_msr_min, options.requests_msr_max) = (msr_min.0, msr_max.0);
        }
        let mut memory = Memory::of(options, drawn.size);
        let (at, peer) = (memory.at::<atp_job_options>(), pointer(&peer));
        let mut job = atp_job { handle: 0 };
        if call!(atp_job_connect(peer, at, &raw mut job)) == atp_status::ATP_OK {
            self.jobs.push(job.handle);
            self.seen.push(job.handle);
        }
    }

    fn send(&mut self, step: &Step) {
        let block = vec![7; usize::from(u16::MAX)];
        let none = null_mut::<u32>();
        let (handle, status) = match *step {
            Step::Send { on, group, len, null } => {
                let (handle, group) = (self.handle(on), group_id(group));
                let data = if null { std::ptr::null() } else { block.as_ptr().cast() };
                let (job, mut id) = (atp_job { handle }, 0);
                (handle, call!(atp_job_send(job, group, data, len.into(), &raw mut id)))
            }
            Step::TrySend { on, group, len } => {
                let (handle, data) = (self.handle(on), block.as_ptr().cast());
                let (job, group) = (atp_job { handle }, group_id(group));
                (handle, call!(atp_job_try_send(job, group, data, len.into(), none)))
            }
            Step::SendMany { on, group, ref lens, null } => {
                let (handle, group) = (self.handle(on), group_id(group));
                let bytes =
                    |len: &u8| atp_bytes { data: block.as_ptr().cast(), len: usize::from(*len) };
                let messages: Vec<atp_bytes> = lens.iter().map(bytes).collect();
                let at = if null { std::ptr::null() } else { messages.as_ptr() };
                let (job, len) = (atp_job { handle }, messages.len());
                (handle, call!(atp_job_send_many(job, group, at, len, none)))
            }
            Step::SendOwned { on, group, len, null } => {
                let (handle, group) = (self.handle(on), group_id(group));
                let data = match null {
                    true => std::ptr::null_mut(),
                    false => {
                        Box::into_raw(vec![7u8; usize::from(len)].into_boxed_slice()).cast::<u8>()
                    }
                };
                let bytes = atp_bytes { data: data.cast(), len: len.into() };
                let context = std::ptr::from_ref(&*self.returned).cast_mut().cast();
                self.lent += 1;
                let (job, back) = (atp_job { handle }, Some(release as _));
                (handle, call!(atp_job_send_owned(job, group, bytes, back, context, none)))
            }
            _ => return self.control(step),
        };
        self.expect(&self.jobs, handle, status);
    }

    fn control(&mut self, step: &Step) {
        let (handle, status) = match *step {
            Step::SetMsr { on, group, msr } => {
                let handle = self.handle(on);
                (handle, call!(atp_job_set_msr(atp_job { handle }, group_id(group), msr.0)))
            }
            Step::SetMessages { on, group, messages } => {
                let (handle, group) = (self.handle(on), group_id(group));
                (handle, call!(atp_job_set_messages(atp_job { handle }, group, messages)))
            }
            Step::Progress { on, size } => {
                let handle = self.handle(on);
                let mut memory = Memory::new(size, size_of::<atp_progress>());
                (handle, call!(atp_job_progress(atp_job { handle }, memory.at())))
            }
            Step::Begin { on, cancel } => {
                let handle = self.handle(on);
                let job = atp_job { handle };
                let status = match cancel {
                    true => call!(atp_job_begin_cancel(job)),
                    false => call!(atp_job_begin_finish(job)),
                };
                (handle, status)
            }
            Step::TryOutcome { on, size } => {
                let handle = self.handle(on);
                let mut memory = Memory::new(size, size_of::<atp_report>());
                (handle, call!(atp_job_try_outcome(atp_job { handle }, memory.at())))
            }
            Step::End { on, cancel, size } => {
                let handle = self.handle(on);
                let mut memory = Memory::new(size, size_of::<atp_report>());
                let job = atp_job { handle };
                let status = match cancel {
                    true => call!(atp_job_cancel(job, memory.at())),
                    false => call!(atp_job_finish(job, memory.at())),
                };
                (handle, status)
            }
            Step::EndWindow { on, size } => {
                let handle = self.handle(on);
                let mut memory = Memory::new(size, size_of::<atp_report>());
                (handle, call!(atp_job_end_window(atp_job { handle }, memory.at())))
            }
            Step::Report { on, index, size } => {
                let (handle, index) = (self.handle(on), usize::from(index));
                let job = atp_job { handle };
                let mut reports = [
                    size_of::<atp_report>(),
                    size_of::<atp_group_report>(),
                    size_of::<atp_sample>(),
                    size_of::<atp_shortfall>(),
                ]
                .map(|bytes| Memory::new(size, bytes));
                let [report, group, sample, shortfall] = &mut reports;
                call!(atp_job_report(job, report.at()));
                call!(atp_job_report_group(job, index, group.at()));
                call!(atp_job_report_sample(job, index, sample.at()));
                (handle, call!(atp_job_shortfall(job, shortfall.at())))
            }
            Step::ReportLost { on, index, len, null } => {
                let (handle, index) = (self.handle(on), usize::from(index));
                let mut ranges = vec![atp_range { start: 7, end: 7 }; usize::from(len) + 1];
                let at = if null { null_mut() } else { ranges.as_mut_ptr() };
                let (job, len, mut found) = (atp_job { handle }, usize::from(len), 0);
                let status = call!(atp_job_report_lost(job, index, at, len, &raw mut found));
                let behind = ranges[len];
                assert_eq!((behind.start, behind.end), (7, 7), "it wrote behind the ranges");
                (handle, status)
            }
            _ => unreachable!("{step:?} is handled before"),
        };
        self.expect(&self.jobs, handle, status);
    }

    fn free(&mut self, handle: u64) {
        let status = call!(atp_job_free(atp_job { handle }));
        assert_eq!(self.jobs.contains(&handle), status == atp_status::ATP_OK, "freeing {handle}");
        self.jobs.retain(|open| *open != handle);
    }

    /// Frees everything. All memory that was lent must come back.
    fn end(mut self) {
        self.end_answers();
        for handle in std::mem::take(&mut self.open_events) {
            self.open_events.push(handle);
            self.free_event(handle);
        }
        self.jobs.clone().into_iter().for_each(|handle| self.free(handle));
        for handle in std::mem::take(&mut self.receivers) {
            let status = call!(atp_receiver_close(atp_receiver { handle }));
            assert_eq!(status, atp_status::ATP_OK);
        }
        assert_eq!(self.returned.load(Ordering::Relaxed), self.lent, "memory that was lent");
    }
}

#[cfg(test)]
mod tests {
    use super::{
        step::{Rare, Share},
        *,
    };

    /// Without messages that arrive, the calls would test little.
    #[test]
    fn steps__can_exchange_a_message() {
        let mut caller = Caller::default();
        caller.open();
        // The handles 3, 4 and 5 of three are the receiver and the jobs.
        for on in [4, 5] {
            caller.step(&Step::Send { on, group: 0, len: 5, null: false });
        }
        for _ in 0..1_000 {
            if caller.events.len() < 2 {
                caller.step(&Step::Recv { on: 3, size: Size::Right });
            }
        }
        assert_eq!(caller.events.len(), 2);
        let (job, msr) = (Rare(None), Share(0.5));
        caller.step(&Step::RequestMsr { on: 3, event: 0, run: job, group: 0, msr });
        caller.step(&Step::Arrivals { on: 3, size: Size::Right, len: 3 });
        caller.step(&Step::RequestEnd { on: 3, event: 1, run: Rare(None) });
        (0..6).for_each(|event| {
            caller.step(&Step::EventTerms { event, index: 0, size: Size::Right });
        });
        caller.step(&Step::ReportLost { on: 4, index: 0, len: 3, null: false });
        caller.end();
    }
}
