//! What the library knows of its process: the rules, the sockets, and counts for the report.

use crate::{
    incoming::Incoming,
    map::{self, Rule, Rules},
    outgoing::{Destination, Verdict},
    shared::{Counts, Shared, calls_pass, lock, pass_calls_of_this_thread, warn},
};
use std::{
    collections::HashMap,
    io::Write,
    net::SocketAddr,
    os::fd::RawFd,
    ptr::null_mut,
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicI32, AtomicPtr, AtomicU16, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Descriptors above this are never mapped.
const FDS_MAX: usize = 65_536;
/// How long the end of the process waits for the windows that are being sent.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of this process. A forked child begins with another one: it has none of the threads.
pub struct State {
    rules: Rules,
    pub destinations: Mutex<HashMap<SocketAddr, Arc<Destination>>>,
    pub bound: Mutex<HashMap<RawFd, Incoming>>,
    pub shared: Shared,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(null_mut());
static START: Once = Once::new();
/// The process of the state. A child of `vfork` has the parent's memory for a while.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The port to which a UDP socket is connected, if it has a rule.
static CONNECTED: [AtomicU16; FDS_MAX] = [const { AtomicU16::new(0) }; FDS_MAX];

/// The state, unless there are no rules or the thread is the library's.
pub fn state() -> Option<&'static State> {
    if calls_pass() {
        return None;
    }
    START.call_once(start);
    // SAFETY: states are leaked, so they live as long as the process.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

fn start() {
    let text = std::env::var(map::VARIABLE).unwrap_or_default();
    match map::parse(&text) {
        Ok(rules) if rules.is_empty() => {}
        Ok(rules) => {
            begin(rules);
            // SAFETY: the function is part of this library, which is never unloaded.
            unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
        }
        Err(error) => warn(format_args!("{error:#}; datagrams stay as they are")),
    }
}

fn begin(rules: Rules) {
    let state = State {
        rules,
        destinations: Mutex::default(),
        bound: Mutex::default(),
        shared: Shared::default(),
    };
    OWNER.store(own_pid(), Ordering::Relaxed);
    STATE.store(Box::into_raw(Box::new(state)), Ordering::Release);
}

fn own_pid() -> i32 {
    // SAFETY: it has no arguments and always succeeds.
    unsafe { libc::getpid() }
}

/// In a forked child: a lock of the parent's state may never be released there.
extern "C" fn after_fork() {
    // SAFETY: the parent's state was leaked, and its rules never change.
    if let Some(state) = unsafe { STATE.load(Ordering::Acquire).as_ref() } {
        begin(state.rules.clone());
    }
}

impl State {
    pub fn rule(&self, port: u16) -> Option<Rule> {
        self.rules.get(&port).copied()
    }

    /// Hands a datagram for `to` to the destination's stream, if it has one.
    pub fn offer(
        &'static self,
        to: SocketAddr,
        rule: Rule,
        datagram: &[u8],
        waits: bool,
    ) -> Verdict {
        let destination = {
            let mut destinations = lock(&self.destinations);
            let new = || Destination::start(&self.shared, to, rule);
            destinations.entry(to).or_insert_with(new).clone()
        };
        let verdict = destination.offer(datagram, waits);
        let counter = match verdict {
            Verdict::Taken => &self.shared.counts.sent_as_messages,
            Verdict::Plain => &self.shared.counts.sent_plainly,
            Verdict::Again => return verdict,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        verdict
    }
}

/// Notes the port to which a socket is connected; 0 if it has no rule.
pub fn set_connected(fd: RawFd, port: u16) {
    if let Some(place) = usize::try_from(fd).ok().and_then(|fd| CONNECTED.get(fd)) {
        place.store(port, Ordering::Relaxed);
    }
}

pub fn connected(fd: RawFd) -> u16 {
    let place = usize::try_from(fd).ok().and_then(|fd| CONNECTED.get(fd));
    place.map_or(0, |place| place.load(Ordering::Relaxed))
}

/// Runs when the process exits, unless a signal or `_exit` ends it.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    // SAFETY: states are leaked, so they live as long as the process.
    let Some(state) = (unsafe { STATE.load(Ordering::Acquire).as_ref() }) else { return };
    pass_calls_of_this_thread();
    let destinations: Vec<_> = lock(&state.destinations).values().cloned().collect();
    let deadline = Instant::now() + EXIT_TIMEOUT;
    destinations.iter().for_each(|destination| destination.end());
    destinations.iter().for_each(|destination| destination.wait_for_end(deadline));
    let bound = std::mem::take(&mut *lock(&state.bound));
    bound.values().for_each(Incoming::end);
    bound.into_values().for_each(Incoming::wait_for_end);
    if state.shared.counts.are_there()
        && let Some(file) = std::env::var_os(map::REPORT_VARIABLE)
        && let Err(error) = append_report(&state.shared.counts, file.as_ref())
    {
        warn(format_args!("can't write the report {}: {error}", file.to_string_lossy()));
    }
}

fn append_report(counts: &Counts, file: &std::path::Path) -> std::io::Result<()> {
    let number = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let line = format!(
        "{{\"pid\":{},\"sent_as_messages\":{},\"sent_plainly\":{},\"delivered\":{},\"lost\":{},\
         \"received\":{}}}\n",
        std::process::id(),
        number(&counts.sent_as_messages),
        number(&counts.sent_plainly),
        number(&counts.delivered),
        number(&counts.lost),
        number(&counts.received),
    );
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(line.as_bytes())
}

/// Notes that a descriptor is a copy of another one.
pub fn copied(fd: RawFd, copy: RawFd) {
    if connected(fd) != connected(copy) && own_pid() == OWNER.load(Ordering::Relaxed) {
        set_connected(copy, connected(fd));
    }
}

/// Ends what belongs to a descriptor that the program closes.
pub fn closed(fd: RawFd) {
    let Some(state) = state() else { return };
    if own_pid() == OWNER.load(Ordering::Relaxed) {
        set_connected(fd, 0);
        let incoming = lock(&state.bound).remove(&fd);
        if let Some(incoming) = incoming {
            incoming.end();
        }
    }
}
