//! Events of a receiver, as structures of C, and the memory behind them.

use crate::{
    address::atp_address,
    inbox::Inbox,
    options::order_to_c,
    sender::element,
    sized::{self, Out, SizeFirst},
    status::{Outcome, atp_status, call_once},
    table::Table,
};
use approxlib::{Event, GroupSummary, GroupTerms, Summary, Terms};
use std::{
    ffi::{CString, c_char, c_void},
    ptr::null,
    sync::{Arc, Mutex, PoisonError, Weak},
};

static MEMORY: Table<Memory> = Table::new("event");

/// The kind of an event. Later versions have more: free those that the program doesn't know, and
/// skip them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum atp_event_kind {
    /// A complete message.
    ATP_EVENT_MESSAGE = 1,
    /// A window of a job has ended, and another one follows.
    ATP_EVENT_WINDOW_ENDED = 2,
    /// A job has ended.
    ATP_EVENT_FINISHED = 3,
    /// A sender has told the terms of its job, or of the job's next window.
    ATP_EVENT_STARTED = 4,
    /// The terms have changed.
    ATP_EVENT_TERMS_CHANGED = 5,
}

use atp_event_kind::*;

/// An event, from atp_receiver_recv. Free it with atp_event_free.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_event {
    /// The size of the structure.
    pub struct_size: usize,
    /// The memory behind the event, which atp_event_free frees. 0: none.
    pub memory: u64,
    /// A number of atp_event_kind.
    pub kind: u32,
    /// The job's id.
    pub job: u32,
    /// The sender's address.
    pub source: atp_address,
    /// The window, counted from 0; 0 for a job without windows.
    pub window: u32,
    /// A message's group.
    pub group: u32,
    /// A message's id, counted from 0 in each group and window.
    pub message: u32,
    /// At an end: 1 if every group has the messages that it needs.
    pub complete: u32,
    /// A message's bytes, valid until atp_event_free.
    pub data: *const c_void,
    /// The number of bytes.
    pub len: usize,
    /// At an end: N, the number of messages of all groups. 0 for other events: atp_event_terms has
    /// the N that terms announce for each group.
    pub messages: u32,
    /// At an end: messages delivered, of all groups.
    pub delivered: u32,
    /// The number of groups. At an end, atp_event_group reads them; of terms, atp_event_terms.
    pub groups_len: usize,
    /// The run of the job, a number from 1 on that the receiver gives to no other run. Only the
    /// number tells a sender from a restarted one, and from a host that forges its address and job.
    pub run: u64,
}

/// Ids from `start` to before `end`. Its layout never changes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_range {
    /// The first id.
    pub start: u32,
    /// The id after the last.
    pub end: u32,
}

/// The outcome of one group of a job or window, at the receiver.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_group_summary {
    /// The size of the structure.
    pub struct_size: usize,
    /// The group's id.
    pub group: u32,
    /// N, the number of messages.
    pub messages: u32,
    /// ceil(MSR * N), as stated by the sender.
    pub needed: u32,
    /// Messages delivered.
    pub delivered: u32,
    /// The ids of the messages that were not delivered, in ascending order. Valid until
    /// atp_event_free.
    pub lost: *const atp_range,
    /// The number of ranges.
    pub lost_len: usize,
}

/// The terms of one group of a job or window.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_group_terms {
    /// The size of the structure.
    pub struct_size: usize,
    /// The group's id.
    pub group: u32,
    /// 1 if its messages are delivered in order, and all of them.
    pub exact: u32,
    /// 1 if the sender knows N already.
    pub messages_known: u32,
    /// N, the number of messages; 0 if it isn't known.
    pub messages: u32,
    /// The minimal sampling rate, 0 to 1.
    pub msr: f64,
    /// The group's name, which may be empty. Valid until atp_event_free.
    pub name: *const c_char,
    /// A number of atp_order, as the sender states it.
    pub order: u32,
    /// With ATP_ORDER_SHUFFLED: the messages among which each one was drawn. 0: all of them.
    pub shuffle_buffer: u32,
    /// 1 if short messages come first and the messages differ in length: no fair sample arrives.
    pub shortest_first: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: repr(C), begins with its size, and holds numbers and a pointer only.
unsafe impl SizeFirst for atp_group_terms {
    const NAME: &'static str = "atp_group_terms";

    fn initial() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            group: 0,
            exact: 0,
            messages_known: 0,
            messages: 0,
            msr: 0.0,
            name: c"".as_ptr(),
            order: 0,
            shuffle_buffer: 0,
            shortest_first: 0,
            reserved: 0,
        }
    }
}

// SAFETY: repr(C), begins with its size, and holds numbers and a pointer only.
unsafe impl SizeFirst for atp_event {
    const NAME: &'static str = "atp_event";
    /// Without `memory` nobody could free the event.
    const BYTES_MIN: usize = 16;

    fn initial() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            memory: 0,
            kind: 0,
            job: 0,
            source: atp_address::default(),
            window: 0,
            group: 0,
            message: 0,
            complete: 0,
            data: null(),
            len: 0,
            messages: 0,
            delivered: 0,
            groups_len: 0,
            run: 0,
        }
    }
}

// SAFETY: repr(C), begins with its size, and holds numbers and a pointer only.
unsafe impl SizeFirst for atp_group_summary {
    const NAME: &'static str = "atp_group_summary";

    fn initial() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            group: 0,
            messages: 0,
            needed: 0,
            delivered: 0,
            lost: null(),
            lost_len: 0,
        }
    }
}

/// What an event points to.
enum Memory {
    /// A message, which goes back to its receiver.
    Message {
        data: Mutex<Vec<u8>>,
        from: Weak<Inbox>,
    },
    Groups(Vec<Group>),
    Terms(Vec<Named>),
}

/// A group's terms, with the name as a text of C.
struct Named {
    terms: GroupTerms,
    name: CString,
}

/// A group's summary, with the lost ids in C's layout.
struct Group {
    summary: GroupSummary,
    lost: Vec<atp_range>,
}

/// The event as C has it. Further kinds of events are added here.
pub fn to_c(event: Event, from: &Arc<Inbox>) -> atp_event {
    match event {
        Event::Message { source, job, run, window, group, message, data } => {
            let (at, len) = (data.as_ptr().cast(), data.len());
            let memory = Memory::Message { data: Mutex::new(data), from: Arc::downgrade(from) };
            atp_event {
                memory: MEMORY.add(memory),
                kind: ATP_EVENT_MESSAGE as u32,
                job,
                run,
                source: source.into(),
                window,
                group: group.into(),
                message,
                data: at,
                len,
                ..atp_event::initial()
            }
        }
        Event::Started { source, job, run, terms } => {
            let event = atp_event { source: source.into(), job, run, ..told(terms) };
            atp_event { kind: ATP_EVENT_STARTED as u32, ..event }
        }
        Event::TermsChanged { source, job, run, terms } => {
            let event = atp_event { source: source.into(), job, run, ..told(terms) };
            atp_event { kind: ATP_EVENT_TERMS_CHANGED as u32, ..event }
        }
        Event::WindowEnded { source, job, run, summary } => {
            let event = atp_event { source: source.into(), job, run, ..ended(summary) };
            atp_event { kind: ATP_EVENT_WINDOW_ENDED as u32, ..event }
        }
        Event::Finished { source, job, run, summary } => {
            let event = atp_event { source: source.into(), job, run, ..ended(summary) };
            atp_event { kind: ATP_EVENT_FINISHED as u32, ..event }
        }
    }
}

/// The window of the terms.
fn told(terms: Terms) -> atp_event {
    let Terms { window, groups } = terms;
    let groups_len = groups.len();
    let named = |terms: GroupTerms| {
        // A name has no control characters, and so no 0.
        let name = CString::new(terms.name.as_str()).unwrap_or_default();
        Named { terms, name }
    };
    let memory = MEMORY.add(Memory::Terms(groups.into_iter().map(named).collect()));
    atp_event { memory, window, groups_len, ..atp_event::initial() }
}

fn ended(summary: Summary) -> atp_event {
    let Summary { window, complete, messages, delivered, groups } = summary;
    let groups_len = groups.len();
    let to_group = |summary: GroupSummary| {
        let range = |range: &std::ops::Range<u32>| atp_range { start: range.start, end: range.end };
        let lost = summary.lost.iter().map(range).collect();
        Group { summary, lost }
    };
    let memory = MEMORY.add(Memory::Groups(groups.into_iter().map(to_group).collect()));
    let complete = complete.into();
    atp_event { memory, window, complete, messages, delivered, groups_len, ..atp_event::initial() }
}

/// The handle of the memory behind the caller's event.
///
/// # Safety
/// `event` is null or as it says.
unsafe fn memory_of(event: *const atp_event) -> Outcome<u64> {
    // SAFETY: the caller promises the structure.
    Ok(unsafe { sized::read(event) }?.memory)
}

/// The group at `index` of an event that ends a job or window. ATP_ERROR_ARGUMENT if there is none.
///
/// # Safety
/// Pointers are null or as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_event_group(
    event: *const atp_event,
    index: usize,
    summary: *mut atp_group_summary,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structures.
        let (out, memory) = unsafe { (Out::new(summary)?, memory_of(event)?) };
        let memory = MEMORY.find(memory)?;
        let groups = match &*memory {
            Memory::Groups(groups) => groups.as_slice(),
            Memory::Message { .. } | Memory::Terms(_) => &[],
        };
        let Group { summary, lost } = element(groups, index, "group")?;
        out.write(&atp_group_summary {
            group: summary.group.into(),
            messages: summary.messages,
            needed: summary.needed,
            delivered: summary.delivered,
            lost: lost.as_ptr(),
            lost_len: lost.len(),
            ..atp_group_summary::initial()
        });
        Ok(())
    })
}

/// The group at `index` of an event that tells terms: ATP_EVENT_STARTED and
/// ATP_EVENT_TERMS_CHANGED. ATP_ERROR_ARGUMENT if there is none.
///
/// # Safety
/// Pointers are null or as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_event_terms(
    event: *const atp_event,
    index: usize,
    terms: *mut atp_group_terms,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structures.
        let (out, memory) = unsafe { (Out::new(terms)?, memory_of(event)?) };
        let memory = MEMORY.find(memory)?;
        let groups = match &*memory {
            Memory::Terms(groups) => groups.as_slice(),
            Memory::Message { .. } | Memory::Groups(_) => &[],
        };
        let Named { terms, name } = element(groups, index, "group")?;
        let (order, shuffle_buffer) = order_to_c(terms.order);
        out.write(&atp_group_terms {
            group: terms.group.into(),
            exact: terms.exact.into(),
            messages_known: terms.messages.is_some().into(),
            messages: terms.messages.unwrap_or_default(),
            msr: terms.msr,
            name: name.as_ptr(),
            order,
            shuffle_buffer,
            shortest_first: terms.shortest_first.into(),
            ..atp_group_terms::initial()
        });
        Ok(())
    })
}

/// Frees the memory behind an event, and empties the event. Does nothing if it is empty. A copy of
/// a freed event gives ATP_ERROR_HANDLE.
///
/// # Safety
/// `event` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_event_free(event: *mut atp_event) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let (out, handle) = unsafe { (Out::new(event)?, memory_of(event)?) };
        if handle != 0 {
            free(handle)?;
        }
        out.write(&atp_event::initial());
        Ok(())
    })
}

fn free(handle: u64) -> Outcome {
    let memory = MEMORY.remove(handle)?;
    if let Memory::Message { data, from } = &*memory
        && let Some(inbox) = from.upgrade()
    {
        inbox.recycle(std::mem::take(&mut data.lock().unwrap_or_else(PoisonError::into_inner)));
    }
    Ok(())
}
