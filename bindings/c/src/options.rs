//! The options of jobs and receivers.

use crate::{
    sized::{self, SizeFirst},
    status::{
        Failure, Outcome, atp_status,
        atp_status::{ATP_ERROR_ARGUMENT, ATP_ERROR_SIZE},
        call_once,
    },
    text,
};
use approxlib::{
    AddressError, Group, JobBuilder, Order, RateLaw, ReceiverBuilder, Requests, Rule, Rules,
    ScopedIp,
};
use std::{ffi::c_char, mem::offset_of, ptr::null, time::Duration};

/// A sampling rate of 0 in options, where the number 0 is the default. Computed rates take
/// ATP_MSR(rate), which may be 0.
pub const ATP_MSR_ZERO: f64 = -1.0;

/// Bits of the field `flags`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum atp_flag {
    /// Jobs and receivers: use no daemon.
    ATP_NO_DAEMON = 1,
    /// Jobs: send every message once before the job is complete.
    ATP_TRY_EVERY_MESSAGE = 2,
    /// Jobs: send messages in order, not the one with the minimal remaining data first (MRDF).
    ATP_NO_MRDF = 4,
    /// Jobs: MRDF compares messages by bytes instead of by packets.
    ATP_RANK_BY_BYTES = 8,
    /// Jobs: short messages don't share packets.
    ATP_NO_PACKING = 16,
    /// Jobs: the report names the messages that were not delivered: see atp_job_report_lost.
    ATP_NAME_LOST = 32,
    /// Jobs: a window may begin while the last one ends: see atp_job_next_window. At most two
    /// windows are open. A receiver of a version that can't follow gets them one after the other.
    /// Includes ATP_WINDOWS.
    ATP_OVERLAP_WINDOWS = 64,
    /// Jobs: several windows may end although every group announces its messages. Without the flag
    /// such a job ends with its first window, and atp_job_end_window is ATP_ERROR_OPTIONS. Jobs in
    /// which a group announces none don't need it.
    ATP_WINDOWS = 128,
}

use atp_flag::*;

/// What a job does with requests of its receiver: atp_receiver_request_msr and
/// atp_receiver_request_end.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum atp_requests {
    /// It obeys.
    ATP_REQUESTS_OBEY = 0,
    /// It refuses all.
    ATP_REQUESTS_REFUSE = 1,
    /// It obeys within the bounds of its options. A rate beyond a bound sets the bound.
    ATP_REQUESTS_WITHIN = 2,
}

use atp_requests::*;

/// Messages with a minimal sampling rate of their own.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_group {
    /// The size of the structure.
    pub struct_size: usize,
    /// The group's id, 0 to 255.
    pub group: u32,
    /// The number of messages, if it is known; 0 if not.
    pub messages: u32,
    /// The share of the messages that must arrive, above 0 to 1, or ATP_MSR_ZERO. At 1 the group is
    /// exact: in order. Default 1.
    pub msr: f64,
    /// A name for people, which the receiver gets: at most 32 bytes. Null: none.
    pub name: *const c_char,
    /// A number of atp_order: the order in which the messages are sent, for the receiver.
    pub order: u32,
    /// With ATP_ORDER_SHUFFLED: the messages among which each one was drawn. 0: all of them.
    pub shuffle_buffer: u32,
}

/// The order in which the messages of a group are sent. Of an incomplete group whose messages
/// aren't shuffled, answers have a warning. The library doesn't change the order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum atp_order {
    /// The sender doesn't say.
    ATP_ORDER_UNKNOWN = 0,
    /// The order of the data, such as time.
    ATP_ORDER_OF_DATA = 1,
    /// An order without meaning.
    ATP_ORDER_SHUFFLED = 2,
}

use atp_order::*;

/// The order with the number `order` of atp_order.
pub fn order(order: u32, shuffle_buffer: u32) -> Outcome<Order> {
    const UNKNOWN: u32 = ATP_ORDER_UNKNOWN as u32;
    const OF_DATA: u32 = ATP_ORDER_OF_DATA as u32;
    const SHUFFLED: u32 = ATP_ORDER_SHUFFLED as u32;
    match (order, shuffle_buffer) {
        (UNKNOWN, 0) => Ok(Order::Unknown),
        (OF_DATA, 0) => Ok(Order::Ordered),
        (SHUFFLED, buffer) => {
            Ok(Order::Shuffled { buffer: Some(buffer).filter(|buffer| *buffer > 0) })
        }
        _ => {
            let text = format!(
                "an order of {order} with a shuffle_buffer of {shuffle_buffer} can't be: give a \
                 number of atp_order, and a buffer with ATP_ORDER_SHUFFLED only"
            );
            Err(Failure::new(ATP_ERROR_ARGUMENT, text))
        }
    }
}

/// An order as C has it: a number of atp_order, and the buffer.
pub fn order_to_c(order: Order) -> (u32, u32) {
    match order {
        Order::Unknown => (ATP_ORDER_UNKNOWN as u32, 0),
        Order::Ordered => (ATP_ORDER_OF_DATA as u32, 0),
        Order::Shuffled { buffer } => (ATP_ORDER_SHUFFLED as u32, buffer.unwrap_or(0)),
    }
}

/// Options of a job. A number of 0 is the default: begin with atp_job_options_init or
/// ATP_INIT.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_job_options {
    /// The size of the structure.
    pub struct_size: usize,
    /// The job's id: a decimal number, or a name. Null: the job of the process's cgroup if a daemon
    /// knows one, else a random id.
    pub id: *const c_char,
    /// The share of group 0 that must arrive, above 0 to 1, or ATP_MSR_ZERO. Default: group 0 is
    /// exact, or isn't there if `groups` has others.
    pub msr: f64,
    /// The number of messages of group 0 (in each window), if it is known. Default: counted at the
    /// end.
    pub messages: u32,
    /// Bits of atp_flag.
    pub flags: u32,
    /// The groups; the size of the first one is the distance from one to the next. Default: group 0
    /// only.
    pub groups: *const atp_group,
    /// The number of groups.
    pub groups_len: usize,
    /// How long a window, or a job without windows, may take from its first message, milliseconds.
    /// If N isn't announced, the deadline takes effect at atp_job_end_window or atp_job_finish.
    /// Default: no limit.
    pub window_deadline_ms: u64,
    /// The socket of the daemon to use. Null: the default daemon if it takes the job, else none.
    pub control_socket: *const c_char,
    /// Without a daemon: the rate of the host's port. Default: 125,000,000 (1 Gbit/s).
    pub rate_max_bytes_per_s: u64,
    /// How long the receiver may be silent, milliseconds. Default: 10 s.
    pub peer_timeout_ms: u64,
    /// Assumed timer granularity of the hosts, microseconds. Default: 1 ms.
    pub timer_granularity_us: u64,
    /// Bytes of messages in the library before sending blocks. Default: 4 MiB.
    pub buffer_bytes: u64,
    /// Message bytes of a packet, 1 to 8,900. Default: as many as the path's MTU allows.
    pub payload_bytes: u32,
    /// The longest message, bytes. Default: 64 MiB.
    pub message_bytes_max: u32,
    /// The most packets in flight until the peer has answered; a few more are until the first
    /// advice. UINT32_MAX: without limit. Default: 16.
    pub initial_window_packets: u32,
    /// A number of atp_order: the order of the messages of group 0. Default: unknown.
    pub order: u32,
    /// Without a daemon: the rate law, such as "paper" on a network with the queues of a profile.
    /// Default: the law "yield".
    pub law: *const c_char,
    /// Without a daemon: rules of the law that are off, divided by commas. Null: none.
    pub rules_off: *const c_char,
    /// A number of atp_requests. The next three fields count with ATP_REQUESTS_WITHIN only.
    /// Default: obey.
    pub requests: u32,
    /// 1 if a request may end the job.
    pub requests_may_end: u32,
    /// The lowest sampling rate that a request may set, 0 to 1.
    pub requests_msr_min: f64,
    /// The highest sampling rate that a request may set, above 0 to 1, or ATP_MSR_ZERO. Default 1.
    pub requests_msr_max: f64,
}

/// Options of a receiver. A number of 0 is the default: begin with atp_receiver_options_init or
/// ATP_INIT.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_receiver_options {
    /// The size of the structure.
    pub struct_size: usize,
    /// The jobs to accept, as decimal numbers or names.
    pub jobs: *const *const c_char,
    /// The number of `jobs`. 0: any job.
    pub jobs_len: usize,
    /// The addresses of senders to accept, without ports.
    pub peers: *const *const c_char,
    /// The number of `peers`. 0: any address.
    pub peers_len: usize,
    /// The socket of the daemon to use. Null: the default daemon, if it runs.
    pub control_socket: *const c_char,
    /// Bits of atp_flag.
    pub flags: u32,
    /// The most senders at once. Default 256.
    pub sources_max: u32,
    /// The longest message, bytes. Default 64 MiB.
    pub message_bytes_max: u32,
    /// Without a daemon, on a network with priority queues: the packets that each approximate queue
    /// holds at the switch's port to this host; the profile `default` has 96. Default 0: one queue.
    pub queue_depth_packets: u32,
    /// Bytes of incomplete messages of each sender. Default 64 MiB.
    pub incomplete_bytes_max: u64,
    /// Bytes of incomplete and waiting messages of all senders. Default 256 MiB.
    pub memory_bytes_max: u64,
    /// Bytes of complete messages that wait for the application. Default 64 MiB.
    pub buffer_bytes: u64,
    /// How long closing waits for a sender that may not know of its job's end. Default 2,000.
    pub linger_ms: u64,
    /// Without a daemon: the rate of this host's line, bytes per second on the wire, of which
    /// senders are advised their share. Default: unknown, and no advice.
    pub line_rate_bytes_per_s: u64,
}

// SAFETY: repr(C), begins with its size, and holds numbers and a pointer only.
unsafe impl SizeFirst for atp_group {
    const NAME: &'static str = "atp_group";
    /// The first version ended here.
    const BYTES_MIN: usize = offset_of!(Self, name);

    fn initial() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            group: 0,
            messages: 0,
            msr: 0.0,
            name: null(),
            order: 0,
            shuffle_buffer: 0,
        }
    }
}

// SAFETY: repr(C), begins with its size, and holds numbers and pointers only.
unsafe impl SizeFirst for atp_job_options {
    const NAME: &'static str = "atp_job_options";

    fn initial() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            id: null(),
            msr: 0.0,
            messages: 0,
            flags: 0,
            groups: null(),
            groups_len: 0,
            window_deadline_ms: 0,
            control_socket: null(),
            rate_max_bytes_per_s: 0,
            peer_timeout_ms: 0,
            timer_granularity_us: 0,
            buffer_bytes: 0,
            payload_bytes: 0,
            message_bytes_max: 0,
            initial_window_packets: 0,
            order: 0,
            law: null(),
            rules_off: null(),
            requests: ATP_REQUESTS_OBEY as u32,
            requests_may_end: 0,
            requests_msr_min: 0.0,
            requests_msr_max: 0.0,
        }
    }
}

// SAFETY: repr(C), begins with its size, and holds numbers and pointers only.
unsafe impl SizeFirst for atp_receiver_options {
    const NAME: &'static str = "atp_receiver_options";

    fn initial() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            jobs: null(),
            jobs_len: 0,
            peers: null(),
            peers_len: 0,
            control_socket: null(),
            flags: 0,
            sources_max: 0,
            message_bytes_max: 0,
            queue_depth_packets: 0,
            incomplete_bytes_max: 0,
            memory_bytes_max: 0,
            buffer_bytes: 0,
            linger_ms: 0,
            line_rate_bytes_per_s: 0,
        }
    }
}

/// Sets the options of a job to their defaults: atp_job_options_init(&options, sizeof options).
///
/// # Safety
/// `options` is null or has `struct_size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_options_init(
    options: *mut atp_job_options,
    struct_size: usize,
) -> atp_status {
    // SAFETY: the caller promises the same.
    call_once(|| unsafe { sized::init(options, struct_size) })
}

/// Sets the options of a receiver to their defaults:
/// atp_receiver_options_init(&options, sizeof options).
///
/// # Safety
/// `options` is null or has `struct_size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_receiver_options_init(
    options: *mut atp_receiver_options,
    struct_size: usize,
) -> atp_status {
    // SAFETY: the caller promises the same.
    call_once(|| unsafe { sized::init(options, struct_size) })
}

type Setter = fn(JobBuilder) -> JobBuilder;

/// The flags of jobs, and the option that each one sets.
const JOB_FLAGS: [(atp_flag, Setter); 8] = [
    (ATP_NO_DAEMON, |builder| builder.control_socket(None)),
    (ATP_TRY_EVERY_MESSAGE, |builder| builder.try_every_message(true)),
    (ATP_NO_MRDF, |builder| builder.mrdf(false)),
    (ATP_RANK_BY_BYTES, |builder| builder.rank_by_bytes(true)),
    (ATP_NO_PACKING, |builder| builder.packing(false)),
    (ATP_NAME_LOST, |builder| builder.name_lost(true)),
    (ATP_OVERLAP_WINDOWS, |builder| builder.overlap_windows(true)),
    (ATP_WINDOWS, |builder| builder.windows(true)),
];

/// The options as approxlib has them. Null is all defaults.
///
/// # Safety
/// `options` is null, or readable with all that it points to.
pub unsafe fn job_builder(options: *const atp_job_options) -> Outcome<JobBuilder> {
    if options.is_null() {
        return Ok(JobBuilder::default());
    }
    // SAFETY: the caller promises readable options.
    let options = unsafe { sized::read(options) }?;
    // Every field: the compiler warns of an option that isn't used below.
    let atp_job_options {
        struct_size: _,
        id,
        msr,
        messages,
        flags,
        groups: first_group,
        groups_len,
        window_deadline_ms,
        control_socket,
        rate_max_bytes_per_s,
        peer_timeout_ms,
        timer_granularity_us,
        buffer_bytes,
        payload_bytes,
        message_bytes_max,
        initial_window_packets,
        order: order_number,
        law,
        rules_off,
        // `requests` reads these four.
        requests: _,
        requests_may_end: _,
        requests_msr_min: _,
        requests_msr_max: _,
    } = options;
    check_flags(flags, &JOB_FLAGS.map(|(flag, _)| flag))?;
    let mut builder = JobBuilder::default().requests(requests(&options)?);
    // SAFETY: the caller promises readable groups and texts.
    unsafe {
        builder = builder.groups(groups(first_group, groups_len)?);
        if let Some(id) = text::optional_text(id, "id")? {
            builder = builder.id(id);
        }
        if let Some(path) = text::optional_path(control_socket) {
            builder = builder.control_socket(Some(path));
        }
        if let Some(rules) = rules(law, rules_off)? {
            builder = builder.rules(rules);
        }
    }
    // After the texts: ATP_NO_DAEMON overrides a socket.
    let set_flags = JOB_FLAGS.into_iter().filter(|(flag, _)| flags & *flag as u32 != 0);
    builder = set_flags.fold(builder, |builder, (_, apply)| apply(builder));
    if order_number != 0 {
        builder = builder.order(order(order_number, 0)?);
    }
    if let Some(msr) = rate(msr) {
        builder = builder.msr(msr);
    }
    let ms = Duration::from_millis;
    builder = set(builder, messages, JobBuilder::messages);
    builder = set(builder, window_deadline_ms, |b, time| b.window_deadline(ms(time)));
    builder = set(builder, rate_max_bytes_per_s, JobBuilder::rate_max_bytes_per_s);
    builder = set(builder, peer_timeout_ms, |b, time| b.peer_timeout(ms(time)));
    builder = set(builder, timer_granularity_us, |b, time| {
        b.timer_granularity(Duration::from_micros(time))
    });
    builder = set(builder, buffer_bytes, JobBuilder::buffer_bytes);
    builder = set(builder, payload_bytes, JobBuilder::payload_bytes);
    builder = set(builder, message_bytes_max, JobBuilder::message_bytes_max);
    let packets = |packets| if packets == u32::MAX { 0 } else { packets };
    Ok(set(builder, initial_window_packets, |b, n| b.initial_window_packets(packets(n))))
}

/// The options as approxlib has them. Null is all defaults.
///
/// # Safety
/// `options` is null, or readable with all that it points to.
pub unsafe fn receiver_builder(options: *const atp_receiver_options) -> Outcome<ReceiverBuilder> {
    let mut builder = ReceiverBuilder::default();
    if options.is_null() {
        return Ok(builder);
    }
    // SAFETY: the caller promises readable options, lists and texts.
    let options = unsafe {
        let options = sized::read(options)?;
        for &job in text::list(options.jobs, options.jobs_len, "jobs")? {
            builder = builder.job(text::text(job, "an element of jobs")?);
        }
        for &peer in text::list(options.peers, options.peers_len, "peers")? {
            builder = builder.peer(ip_address(text::text(peer, "an element of peers")?)?);
        }
        if let Some(path) = text::optional_path(options.control_socket) {
            builder = builder.control_socket(Some(path));
        }
        options
    };
    check_flags(options.flags, &[ATP_NO_DAEMON])?;
    if options.flags & ATP_NO_DAEMON as u32 != 0 {
        builder = builder.control_socket(None);
    }
    builder = set(builder, options.sources_max, |b, n| b.sources_max(n as usize));
    builder = set(builder, options.message_bytes_max, ReceiverBuilder::message_bytes_max);
    builder = set(builder, options.incomplete_bytes_max, ReceiverBuilder::incomplete_bytes_max);
    builder = set(builder, options.memory_bytes_max, ReceiverBuilder::memory_bytes_max);
    builder = set(builder, options.buffer_bytes, ReceiverBuilder::buffer_bytes);
    builder = set(builder, options.linger_ms, |b, ms| b.linger(Duration::from_millis(ms)));
    builder = set(builder, options.queue_depth_packets, ReceiverBuilder::queue_depth_packets);
    Ok(set(builder, options.line_rate_bytes_per_s, ReceiverBuilder::line_rate_bytes_per_s))
}

fn requests(options: &atp_job_options) -> Outcome<Requests> {
    const OBEY: u32 = ATP_REQUESTS_OBEY as u32;
    const REFUSE: u32 = ATP_REQUESTS_REFUSE as u32;
    const WITHIN: u32 = ATP_REQUESTS_WITHIN as u32;
    match options.requests {
        OBEY => Ok(Requests::Obey),
        REFUSE => Ok(Requests::Refuse),
        WITHIN => Ok(Requests::Within {
            msr_min: options.requests_msr_min,
            msr_max: rate(options.requests_msr_max).unwrap_or(1.0),
            may_end: options.requests_may_end != 0,
        }),
        other => {
            let text = format!("requests {other} means nothing: give a number of atp_requests");
            Err(Failure::new(ATP_ERROR_ARGUMENT, text))
        }
    }
}

/// A sampling rate of options; `None` is the default.
fn rate(msr: f64) -> Option<f64> {
    const ZERO: f64 = ATP_MSR_ZERO;
    match msr {
        0.0 => None,
        ZERO => Some(0.0),
        // Also one that is no number: approxlib refuses it.
        msr => Some(msr),
    }
}

/// Applies an option whose 0 is the default.
fn set<B, N: Default + PartialEq>(builder: B, value: N, apply: impl FnOnce(B, N) -> B) -> B {
    if value == N::default() { builder } else { apply(builder, value) }
}

fn check_flags(flags: u32, known: &[atp_flag]) -> Outcome {
    let unknown = flags & !known.iter().fold(0, |bits, flag| bits | *flag as u32);
    if unknown == 0 {
        return Ok(());
    }
    let text =
        format!("flags {unknown:#x} mean nothing here: leave them out, or use a newer libatp");
    Err(Failure::new(ATP_ERROR_ARGUMENT, text))
}

/// # Safety
/// `groups` is null or has `len` readable groups.
unsafe fn groups(groups: *const atp_group, len: usize) -> Outcome<Vec<Group>> {
    if len == 0 {
        return Ok(Vec::new());
    }
    if len > 256 {
        let text = format!("a job can't have {len} groups: give 256 at most");
        return Err(Failure::new(ATP_ERROR_ARGUMENT, text));
    }
    // SAFETY: the caller promises the first one. Its size was checked by `read`.
    let stride = unsafe {
        sized::read(groups)?;
        groups.cast::<usize>().read_unaligned()
    };
    let each = (0..len).map(|index| {
        // SAFETY: the caller promises all groups, `stride` apart, and their names.
        let (group, name) = unsafe {
            let at = groups.byte_add(index * stride);
            // An element of another size might lie partly behind the array.
            let bytes = at.cast::<usize>().read_unaligned();
            if bytes != stride {
                let text =
                    format!("struct_size of group {index} is {bytes}, the first one's {stride}");
                return Err(Failure::new(ATP_ERROR_SIZE, format!("{text}: set the same in each")));
            }
            let group = sized::read(at)?;
            (group, text::optional_text(group.name, "name")?)
        };
        let order = order(group.order, group.shuffle_buffer)?;
        let atp_group { group, messages, msr, .. } = group;
        let msr = rate(msr).unwrap_or(1.0);
        let group =
            Group::new(group_id(group)?).msr(msr).name(name.unwrap_or_default()).order(order);
        Ok(if messages == 0 { group } else { group.messages(messages) })
    });
    each.collect()
}

/// The id of a group, which C passes as a larger number.
pub fn group_id(group: u32) -> Outcome<u8> {
    group.try_into().map_err(|_| {
        Failure::new(ATP_ERROR_ARGUMENT, format!("group {group} can't be: give 0 to 255"))
    })
}

fn ip_address(peer: &str) -> Outcome<ScopedIp> {
    peer.parse().map_err(|error| {
        let text = match error {
            AddressError::NoIp(_) => {
                format!("peer {peer:?} is no IP address: give one without a port")
            }
            error => format!("peer {error}"),
        };
        Failure::new(ATP_ERROR_ARGUMENT, text)
    })
}

/// The chosen law and its rules; `None` if both texts are null.
///
/// # Safety
/// Both are null or texts.
unsafe fn rules(law: *const c_char, off: *const c_char) -> Outcome<Option<Rules>> {
    // SAFETY: the caller promises the same.
    let (law, off) =
        unsafe { (text::optional_text(law, "law")?, text::optional_text(off, "rules_off")?) };
    if law.is_none() && off.is_none() {
        return Ok(None);
    }
    let law = law.map(|name| among(&RateLaw::ALL, "rate law", name)).transpose()?;
    let off = off.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
    let rules = off
        .map(|name| among(&Rule::ALL, "rule", name))
        .try_fold(Rules::new(law.unwrap_or(RateLaw::UNKNOWN_NETWORK)), |rules, rule| {
            Outcome::Ok(rules.without(rule?))
        })?;
    Ok(Some(rules))
}

fn among<T: Copy>(all: &[(T, &str)], kind: &str, name: &str) -> Outcome<T> {
    let found = all.iter().find(|(_, known)| *known == name);
    found.map(|(value, _)| *value).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|(_, name)| *name).collect();
        let text = format!("{name:?} is no {kind}: give one of {}", names.join(", "));
        Failure::new(ATP_ERROR_ARGUMENT, text)
    })
}

#[cfg(test)]
mod tests;
