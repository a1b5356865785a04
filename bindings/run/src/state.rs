//! The state of a process: the rules, the sockets, and counts for the report.

use crate::{
    datagram::RESERVED_PORTS,
    descriptors::{self, FDS_MAX},
    destinations::Destinations,
    ender::Ender,
    framing::Framing,
    holders::Holders,
    incoming::Incoming,
    leaving,
    map::{self, Rule, Rules},
    names, next,
    outgoing::Verdict,
    secret::Secret,
    shared::{Counts, Shared, calls_pass, canonical, enter, lock, pass_calls_of_this_thread, warn},
    tcp::{
        client::{self, Client},
        life::Life,
        places::Places,
        server::Listening,
    },
    threads::Threads,
};
use std::{
    collections::{HashMap, HashSet},
    io::Write,
    net::{IpAddr, SocketAddr},
    os::fd::RawFd,
    ptr::null_mut,
    sync::{
        Arc, Mutex, Once, OnceLock,
        atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU16, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How long the end of the process waits for the windows that are being sent, and for replies.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// The variable with other seconds: a test isn't to fail because its machine is busy.
const EXIT_TIMEOUT_VARIABLE: &str = "ATP_RUN_EXIT_TIMEOUT";
/// How long it waits for the receivers, after senders that took all of that.
const RECEIVERS_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the rest of the end may take, on a busy machine.
const REPORT_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of this process. A forked child begins with another one: it has none of the threads.
pub struct State {
    rules: Rules,
    exit_timeout: Duration,
    /// By which this process, and its children of `fork`, claim the ports of their sockets.
    pub holder: Secret,
    destinations: Destinations,
    /// The receivers beside the program's sockets. Copies of a descriptor share one.
    bound: Mutex<HashMap<RawFd, Arc<Beside>>>,
    /// Receivers of listening sockets that were closed, while connections remain.
    closing: Mutex<Vec<Listening>>,
    pub client: Client,
    pub places: Places,
    pub shared: Shared,
    /// Ends all of that with the process; `None` inside if there is no room for its thread.
    ender: OnceLock<Option<&'static Ender>>,
    pub holders: Holders,
    pub threads: Threads,
}

/// The receiver beside a socket of the program.
pub enum Beside {
    Udp(Incoming),
    Tcp(Listening),
}

impl Beside {
    fn end(&self) {
        match self {
            Self::Udp(incoming) => incoming.end(),
            Self::Tcp(listening) => listening.end(),
        }
    }

    /// Ends the receiver and waits for that, until `deadline`: the senders learn of it.
    fn end_now(self, deadline: Instant) {
        match self {
            Self::Udp(incoming) => incoming.wait_for_end(deadline),
            Self::Tcp(listening) => listening.end_now(deadline),
        }
    }
}

static STATE: AtomicPtr<State> = AtomicPtr::new(null_mut());
static START: Once = Once::new();
/// The process of the state. A child of `vfork` has the parent's memory for a while.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The port to which a UDP socket is connected, if it has a rule.
static CONNECTED: [AtomicU16; FDS_MAX] = [const { AtomicU16::new(0) }; FDS_MAX];
/// The kernel holds the beginning of a datagram for the socket.
static CORKED: [AtomicBool; FDS_MAX] = [const { AtomicBool::new(false) }; FDS_MAX];

/// The state, unless there are no rules or the thread is the library's.
pub fn state() -> Option<&'static State> {
    if calls_pass() {
        return None;
    }
    START.call_once(start);
    current()
}

/// The state, also for the library's threads.
pub fn current() -> Option<&'static State> {
    // SAFETY: states are leaked, so they live as long as the process.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

fn start() {
    let text = std::env::var(map::VARIABLE).unwrap_or_default();
    let parsed = map::parse(&text).and_then(|rules| Ok((rules, Secret::draw()?)));
    match parsed {
        Ok((rules, _)) if rules.is_empty() => {}
        Ok((rules, holder)) => {
            let named =
                std::env::var(EXIT_TIMEOUT_VARIABLE).ok().and_then(|text| text.parse().ok());
            begin(rules, named.map_or(EXIT_TIMEOUT, Duration::from_secs), holder);
            // SAFETY: the functions are part of this library, which is never unloaded.
            unsafe {
                libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(begin_child));
                // The first of these functions runs last.
                at_quick_exit(at_quick_end);
            };
        }
        Err(error) => warn(format_args!("{error:#}; datagrams stay as they are")),
    }
}

fn begin(rules: Rules, exit_timeout: Duration, holder: Secret) {
    names::begin();
    let state = State {
        rules,
        exit_timeout,
        holder,
        destinations: Destinations::default(),
        bound: Mutex::default(),
        closing: Mutex::default(),
        client: Client::default(),
        places: Places::default(),
        shared: Shared::default(),
        ender: OnceLock::new(),
        holders: Holders::none_yet(),
        threads: Threads::default(),
    };
    OWNER.store(own_pid(), Ordering::Relaxed);
    STATE.store(Box::into_raw(Box::new(state)), Ordering::Release);
}

fn own_pid() -> i32 {
    // SAFETY: it has no arguments and always succeeds.
    unsafe { libc::getpid() }
}

unsafe extern "C" {
    fn at_quick_exit(run: extern "C" fn()) -> libc::c_int;
    /// Writes what the program's streams hold, as `exit` will soon.
    fn fcloseall() -> libc::c_int;
}

extern "C" fn before_fork() {
    if let Some(state) = current() {
        state.holders.note_fork();
    }
    descriptors::before_fork();
}

extern "C" fn after_fork() {
    descriptors::after_fork_in_parent();
}

/// In a forked child: a lock of the parent's state may never be released there.
extern "C" fn begin_child() {
    let _inside = descriptors::after_fork_in_child();
    if let Some(state) = current() {
        begin(state.rules.clone(), state.exit_timeout, state.holder);
    }
}

impl State {
    /// The rule of a UDP port.
    pub fn udp_rule(&self, port: u16) -> Option<Rule> {
        self.rule(port).filter(|rule| rule.framing.is_none())
    }

    /// The rule of a TCP port, and its framing.
    pub fn tcp_rule(&self, port: u16) -> Option<(Rule, Framing)> {
        let rule = self.rule(port)?;
        Some((rule, rule.framing?))
    }

    /// A child of `vfork` or `_Fork` has none: the threads aren't there.
    fn rule(&self, port: u16) -> Option<Rule> {
        let rule = self.rules.get(&port).copied();
        rule.filter(|_| own_pid() == OWNER.load(Ordering::Relaxed))
    }

    pub fn has_beside(&self, fd: RawFd) -> bool {
        lock(&self.bound).contains_key(&fd)
    }

    /// Keeps the receiver beside `fd` until the program closes that and all copies.
    pub fn keep_beside(&self, fd: RawFd, beside: Beside) {
        self.begin_ender();
        lock(&self.bound).insert(fd, Arc::new(beside));
    }

    /// From now on the end of the process has something to do.
    fn begin_ender(&self) {
        self.threads.open();
        self.ender.get_or_init(|| Ender::start(end_work, exit_after_last).ok());
    }

    /// The receiver of an earlier socket that listened at `local`.
    pub fn take_closing(&self, local: SocketAddr) -> Option<Listening> {
        let mut closing = lock(&self.closing);
        let index = closing.iter().position(|listening| listening.revive(local))?;
        Some(closing.swap_remove(index))
    }

    /// Ends the receiver beside a socket that is connected now: the kernel takes datagrams of its
    /// peer alone, so the library can't hand messages over.
    pub fn end_datagrams_beside(&self, fd: RawFd) {
        let _inside = enter();
        let mut bound = lock(&self.bound);
        let Some(beside) = bound.get(&fd).filter(|beside| matches!(***beside, Beside::Udp(_)))
        else {
            return;
        };
        let beside = beside.clone();
        beside.end();
        bound.retain(|_, other| !Arc::ptr_eq(other, &beside));
    }

    /// The receivers beside the listening sockets, and beside those that were closed.
    fn lives(&self) -> Vec<Arc<Life>> {
        let mut lives: Vec<_> = {
            let bound = lock(&self.bound);
            let listening = bound.values().filter_map(|beside| match &**beside {
                Beside::Tcp(listening) => Some(listening.life()),
                Beside::Udp(_) => None,
            });
            listening.collect()
        };
        lives.extend(lock(&self.closing).iter().map(Listening::life));
        lives
    }

    /// The library's addresses of the connections that this process carries.
    fn carried(&self, lives: &[Arc<Life>], deadline: Instant) -> HashSet<SocketAddr> {
        let connections = lives.iter().flat_map(|life| life.all_connections(deadline));
        let mut carried = self.client.links.open();
        carried.extend(connections.map(|connection| connection.far()));
        carried
    }

    /// Connects a socket of TCP to the library, if the other end's library answers: as `connect`
    /// does, or with its errno. `None`: the kernel connects it.
    pub fn carry(
        &'static self,
        fd: RawFd,
        to: SocketAddr,
        rule: Rule,
        framing: Framing,
    ) -> Option<Result<(), i32>> {
        self.begin_ender();
        let connected = client::connect(&self.client, &self.shared, fd, to, rule, framing);
        let counts = &self.shared.counts;
        let counter = match connected {
            Some(_) => &counts.connections_carried,
            None => &counts.connections_plain,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        connected
    }

    /// Whether datagrams of a socket become messages. No message claims a reserved port. A socket
    /// that is bound to a mapped port and not connected is a server's. It answers to the addresses
    /// from which datagrams seem to come, so a stranger would choose its destinations.
    pub fn may_carry(&self, fd: RawFd, own: Option<SocketAddr>) -> bool {
        own.is_none_or(|own| {
            let is_servers = self.udp_rule(own.port()).is_some() && connected(fd) == 0;
            !is_servers && !RESERVED_PORTS.contains(&own.port())
        })
    }

    /// Counts a datagram of a socket that may carry none.
    pub fn note_plain(&self) {
        let _inside = enter();
        self.begin_ender();
        self.shared.counts.sent_plainly.fetch_add(1, Ordering::Relaxed);
    }

    /// Hands the message of a datagram to the stream to `to`, if there is one. `from`: the address
    /// of the program's socket.
    pub fn offer(
        &'static self,
        from: Option<IpAddr>,
        to: SocketAddr,
        rule: Rule,
        message: Vec<u8>,
        waits: bool,
    ) -> Verdict {
        self.begin_ender();
        let verdict =
            self.destinations.offer(&self.shared, from, canonical(to), rule, message, waits);
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

/// Whether the kernel holds the beginning of a datagram for the socket.
pub fn is_corked(fd: RawFd) -> bool {
    let place = usize::try_from(fd).ok().and_then(|fd| CORKED.get(fd));
    place.is_some_and(|place| place.load(Ordering::Relaxed))
}

pub fn set_corked(fd: RawFd, is_corked: bool) {
    if let Some(place) = usize::try_from(fd).ok().and_then(|fd| CORKED.get(fd)) {
        place.store(is_corked, Ordering::Relaxed);
    }
}

/// Runs when the library is loaded. A first call may come from a child of `vfork`, which shares
/// the state but isn't the process of it, or while another thread forks.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    next::look_up_all();
    state();
}

/// Runs when the process exits, unless a signal, `_exit` or `quick_exit` ends it.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    end_process(true);
}

extern "C" fn at_quick_end() {
    end_process(false);
}

/// Brings to its end what the process has begun. Without `streams`, what the program's streams hold
/// is lost, as always. A signal handler may call it then.
pub fn end_process(streams: bool) {
    let Some(state) = own_state() else { return };
    let Some(ender) = state.ender.get() else { return };
    if streams {
        // SAFETY: this is the end of `exit`, which does the same without locks.
        unsafe { fcloseall() };
    }
    match ender {
        Some(ender) => ender.end(state.exit_timeout + RECEIVERS_TIMEOUT + REPORT_TIMEOUT),
        None if streams => end_work(),
        // A signal handler can't.
        None => {}
    }
}

fn exit_after_last() -> bool {
    current().is_some_and(|state| state.threads.exit_after_last())
}

/// Ends the work of the process's state.
fn end_work() {
    let Some(state) = current() else { return };
    pass_calls_of_this_thread();
    let deadline = Instant::now() + state.exit_timeout;
    state.client.links.end();
    let lives = state.lives();
    lives.iter().for_each(|life| life.leave());
    leaving::leave(&state.carried(&lives, deadline), &state.holders);
    state.destinations.end_all(deadline);
    state.client.links.wait_for_end(deadline);
    let deadline = deadline.max(Instant::now() + RECEIVERS_TIMEOUT);
    lives.iter().for_each(|life| life.end_after_connections(deadline));
    let bound = std::mem::take(&mut *lock(&state.bound));
    let closing = std::mem::take(&mut *lock(&state.closing));
    bound.values().for_each(|beside| beside.end());
    let bound = bound.into_values().filter_map(Arc::into_inner);
    let all = bound.chain(closing.into_iter().map(Beside::Tcp));
    all.for_each(|beside| beside.end_now(deadline));
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
         \"received\":{},\"refused\":{},\"connections_carried\":{},\"connections_plain\":{},\
         \"connections_refused\":{},\"destinations_evicted\":{},\
         \"senders_evicted\":{},\"senders_unnamed\":{},\"claims_refused\":{}}}\n",
        std::process::id(),
        number(&counts.sent_as_messages),
        number(&counts.sent_plainly),
        number(&counts.delivered),
        number(&counts.lost),
        number(&counts.received),
        number(&counts.refused),
        number(&counts.connections_carried),
        number(&counts.connections_plain),
        number(&counts.connections_refused),
        number(&counts.destinations_evicted),
        number(&counts.senders_evicted),
        number(&counts.senders_unnamed),
        number(&counts.claims_refused),
    );
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(line.as_bytes())
}

/// The state, if this process has one. A child of `vfork` has none: its descriptors are others.
pub fn own_state() -> Option<&'static State> {
    current().filter(|_| !calls_pass() && own_pid() == OWNER.load(Ordering::Relaxed))
}

/// Notes that a descriptor is a copy of another one. It may have been another socket's before.
pub fn copied(fd: RawFd, copy: RawFd) {
    if copy < 0 || fd == copy {
        return;
    }
    let Some(state) = own_state() else { return };
    closed(copy);
    set_connected(copy, connected(fd));
    let _inside = enter();
    let mut bound = lock(&state.bound);
    if let Some(beside) = bound.get(&fd).cloned() {
        bound.insert(copy, beside);
    }
}

/// Ends what belongs to a descriptor that the program closes.
pub fn closed(fd: RawFd) {
    if let Some(state) = own_state() {
        set_connected(fd, 0);
        set_corked(fd, false);
        let _inside = enter();
        let beside = lock(&state.bound).remove(&fd);
        if let Some(beside) = beside.and_then(Arc::into_inner) {
            beside.end();
            if let Beside::Tcp(listening) = beside {
                let mut closing = lock(&state.closing);
                closing.retain(|listening| !listening.has_ended());
                closing.push(listening);
            }
        }
    }
}

/// Ends what belongs to descriptors that the program closes, both ends included.
pub fn closed_range(first: u32, last: u32) {
    let Some(state) = own_state() else { return };
    let last = last.min(FDS_MAX as u32);
    for fd in first..=last {
        set_connected(fd as RawFd, 0);
        set_corked(fd as RawFd, false);
    }
    let kept: Vec<RawFd> = {
        let _inside = enter();
        lock(&state.bound).keys().copied().collect()
    };
    kept.into_iter().filter(|fd| (first..=last).contains(&(*fd as u32))).for_each(closed);
}
