//! A carried connection at the connecting end: frames become messages, and replies come back.

use super::{
    LOOK_INTERVAL, RESET_TIMEOUT,
    pace::Pace,
    record::{BYTES_MAX, Record},
    socket::{self, OnDrop, OnPanic, ToProgram, is_pause},
};
use crate::{
    address,
    cutter::Cutter,
    framing::Framing,
    map::Rule,
    names::{self, Protocol},
    secret::Secret,
    shared::{Shared, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Error, GroupReport, Job, ResetReason, ShortCause};
use std::{
    collections::HashSet,
    io::{self, ErrorKind, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long the server's library may be silent: its process may be stopped for a while.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a connection that has lost its pace, and has no room, waits for its end.
const PACE_TIMEOUT: Duration = Duration::from_secs(3);

/// The connections of this process whose bytes and end the other library hasn't confirmed yet.
#[derive(Default)]
pub struct Links {
    /// The addresses at which this library has taken the programs' connections.
    open: Mutex<HashSet<SocketAddr>>,
    changed: Condvar,
    is_ending: AtomicBool,
}

impl Links {
    /// The process ends: new connections are plain.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    pub fn are_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    pub fn open(&self) -> HashSet<SocketAddr> {
        lock(&self.open).clone()
    }

    /// Waits until all connections have ended, or `deadline`.
    pub fn wait_for_end(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let are_open = |open: &mut HashSet<_>| !open.is_empty();
        drop(self.changed.wait_timeout_while(lock(&self.open), left, are_open));
    }

    fn forget(&self, far: SocketAddr) {
        lock(&self.open).remove(&far);
        self.changed.notify_all();
    }
}

/// The two connections of which a carried one consists.
pub struct Pair {
    program: ToProgram,
    /// The connection to the other library.
    private: TcpStream,
    replies: Mutex<Replies>,
    changed: Condvar,
}

/// The other library's records so far.
#[derive(Clone, Copy, Default)]
struct Replies {
    /// The program is shown their end.
    have_ended: bool,
    /// It has the program's end, and all before it.
    is_confirmed: bool,
    /// No more comes.
    are_over: bool,
}

impl Pair {
    pub fn new(program: ToProgram, private: TcpStream) -> Self {
        Self { program, private, replies: Mutex::default(), changed: Condvar::new() }
    }

    /// Resets the connections, and wakes the threads that wait for them. A program that was shown
    /// the end of the replies may still read them: the kernel then refuses what it sends.
    fn abort(&self) {
        self.note(|replies| replies.are_over = true);
        if !self.replies().have_ended {
            self.program.abort();
        }
        socket::abort(&self.private);
    }

    fn note(&self, change: impl FnOnce(&mut Replies)) {
        change(&mut lock(&self.replies));
        self.changed.notify_all();
    }

    fn replies(&self) -> Replies {
        *lock(&self.replies)
    }

    fn wait_for_confirmation(&self) {
        let waits = |replies: &mut Replies| !replies.is_confirmed && !replies.are_over;
        let waited = self.changed.wait_while(lock(&self.replies), waits);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until the program is shown the end of the replies or no more come, for `timeout` at
    /// most; whether that is so.
    fn wait_for_replies(&self, timeout: Duration) -> bool {
        self.wait_until(|replies| replies.have_ended || replies.are_over, timeout)
    }

    fn wait_until(&self, is_so: impl Fn(&Replies) -> bool, timeout: Duration) -> bool {
        let waits = |replies: &mut Replies| !is_so(replies);
        let waited = self.changed.wait_timeout_while(lock(&self.replies), timeout, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Hands replies to the program, until their end. Anything else than a told end is a reset.
    fn pass_replies(&self) {
        if self.copy_replies().is_err() {
            self.abort();
        }
        self.note(|replies| replies.are_over = true);
    }

    fn copy_replies(&self) -> io::Result<()> {
        let mut takes = true;
        loop {
            match Record::read(&self.private) {
                // A program that has closed its socket takes no reply. Its own bytes go on.
                Ok(Record::Bytes(bytes)) => takes = takes && self.program.write_all(&bytes).is_ok(),
                Ok(Record::End) => {
                    // From now on no thread resets the program's connection.
                    self.note(|replies| replies.have_ended = true);
                    takes = takes && self.program.end().is_ok();
                }
                Ok(Record::Reset) => {
                    self.program.drain(RESET_TIMEOUT);
                    return Err(ErrorKind::ConnectionReset.into());
                }
                Ok(Record::Confirmed) => self.note(|replies| replies.is_confirmed = true),
                // The program has seen the end. If it sends more, that fails by itself.
                Err(_) if self.replies().have_ended => return Ok(()),
                Err(error) => return Err(error),
            }
            match self.replies() {
                Replies { is_confirmed: true, have_ended: true, .. } => return Ok(()),
                // The server program learns that nobody takes its replies, as from a kernel.
                Replies { is_confirmed: true, .. } if !takes => {
                    return Err(ErrorKind::BrokenPipe.into());
                }
                _ => {}
            }
        }
    }
}

/// How the server's library knows the messages of a connection, and tells its pace.
pub struct Agreement {
    pub job: u32,
    pub secret: Secret,
    /// It takes messages from this address alone.
    pub source: IpAddr,
    pub pace: Pace,
}

/// The way of frames from a program's connection.
pub struct Link {
    shared: &'static Shared,
    pair: Arc<Pair>,
    agreement: Agreement,
    atp: SocketAddr,
    to: SocketAddr,
    rule: Rule,
    framing: Framing,
    /// Messages delivered.
    delivered: u64,
    /// When the window ends that has begun.
    window_end: Option<Instant>,
}

/// Why no more frames come.
enum Stop {
    End,
    /// The program has reset its connection.
    Reset,
    /// The stream has another framing, or its job would be refused.
    Unframed(String),
}

impl Link {
    pub fn new(
        shared: &'static Shared,
        pair: Arc<Pair>,
        agreement: Agreement,
        atp: SocketAddr,
        to: SocketAddr,
        rule: Rule,
        framing: Framing,
    ) -> Self {
        let (delivered, window_end) = (0, None);
        Self { shared, pair, agreement, atp, to, rule, framing, delivered, window_end }
    }

    /// Starts the connection's threads. `far`: the address at which this library has taken it.
    pub fn start(self, links: &'static Links, far: SocketAddr) -> io::Result<()> {
        let pair = self.pair.clone();
        let run = {
            let pair = pair.clone();
            move || {
                pass_calls_of_this_thread();
                let _guard = OnPanic(|| pair.abort());
                pair.pass_replies();
            }
        };
        let replies = thread::Builder::new().name("atp-run-replies".to_owned()).spawn(run)?;
        lock(&links.open).insert(far);
        let run = {
            let pair = pair.clone();
            move || {
                pass_calls_of_this_thread();
                let open = OnDrop(|| links.forget(far));
                let _guard = OnPanic(|| pair.abort());
                self.run();
                drop(open);
                drop(replies.join());
                names::forget(Protocol::Tcp, far);
            }
        };
        let frames = thread::Builder::new().name("atp-run-frames".to_owned()).spawn(run);
        frames.map(drop).inspect_err(|_| {
            links.forget(far);
            pair.abort();
        })
    }

    fn run(mut self) {
        match self.send_all() {
            Ok(()) => self.pair.wait_for_confirmation(),
            Err(error) => {
                // The other end's program has gone, or its host.
                let is_gone = [
                    ErrorKind::ConnectionReset,
                    ErrorKind::BrokenPipe,
                    ErrorKind::NotConnected,
                    ErrorKind::ConnectionAborted,
                ];
                if is_gone.contains(&error.kind()) {
                    self.wait_for_replies();
                } else {
                    warn(format_args!("the connection to {} is reset: {error}", self.to));
                }
                self.pair.program.drain(RESET_TIMEOUT);
                self.pair.abort();
            }
        }
    }

    /// Waits for the replies that the other end's program had written, and for their end. A program
    /// that sends more is reset soon: it may not read before that was sent.
    fn wait_for_replies(&self) {
        let (mut bytes, mut deadline) = (vec![0; BYTES_MAX], None);
        while !self.pair.wait_for_replies(LOOK_INTERVAL) {
            match self.read(&mut bytes, Duration::ZERO) {
                Ok(Got::Bytes(0) | Got::Nothing) => {}
                Ok(Got::Bytes(_)) => {
                    deadline.get_or_insert_with(|| Instant::now() + RESET_TIMEOUT);
                }
                Ok(Got::Reset) | Err(_) => break,
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
        }
    }

    /// Sends all that the program writes, and how it ended. An error is told by resets alone.
    fn send_all(&mut self) -> io::Result<()> {
        let pair = self.pair.clone();
        let mut private = &pair.private;
        let mut cutter = Cutter::new(self.framing);
        let stop = self.send_frames(&mut cutter)?;
        private.write_all(&self.delivered.to_be_bytes())?;
        for rest in cutter.rest().chunks(BYTES_MAX) {
            Record::Bytes(rest.to_vec()).write(private)?;
        }
        let end = match stop {
            Stop::End => Record::End,
            Stop::Reset => Record::Reset,
            Stop::Unframed(why) => {
                let to = self.to;
                warn(format_args!("the connection to {to} goes on over TCP alone: {why}"));
                self.copy_rest()?
            }
        };
        socket::keep_bytes(private)?;
        end.write(private)?;
        socket::end(private)
    }

    fn copy_rest(&self) -> io::Result<Record> {
        let mut bytes = vec![0; BYTES_MAX];
        loop {
            match self.read(&mut bytes, LOOK_INTERVAL)? {
                Got::Bytes(0) => return Ok(Record::End),
                Got::Bytes(len) => {
                    Record::Bytes(bytes[..len].to_vec()).write(&self.pair.private)?;
                }
                Got::Reset => return Ok(Record::Reset),
                Got::Nothing => {}
            }
        }
    }

    /// Reads what the program has written, for `timeout` at most.
    fn read(&self, bytes: &mut [u8], timeout: Duration) -> io::Result<Got> {
        // It may be reset already.
        drop(self.pair.program.set_read_timeout(timeout));
        match self.pair.program.read(bytes) {
            Ok(len) => Ok(Got::Bytes(len)),
            Err(error) if is_pause(&error) => Ok(Got::Nothing),
            // This library made the reset, since the other end's program or host has gone.
            Err(error) if self.pair.replies().are_over => Err(error),
            Err(_) => Ok(Got::Reset),
        }
    }

    /// Sends frames in windows until the stream ends or has another framing.
    fn send_frames(&mut self, cutter: &mut Cutter) -> io::Result<Stop> {
        let mut bytes = vec![0; BYTES_MAX];
        let mut job: Option<Job> = None;
        let stop = loop {
            let left = self.window_end.map(|end| end.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(LOOK_INTERVAL, |left| left.min(LOOK_INTERVAL));
            match self.read(&mut bytes, timeout)? {
                Got::Bytes(0) => break Stop::End,
                Got::Bytes(len) => {
                    cutter.push(&bytes[..len]);
                    if job.is_none() && !self.sends_from_source() {
                        break Stop::Unframed("this host's address has changed".to_owned());
                    }
                }
                Got::Reset => break Stop::Reset,
                Got::Nothing => {}
            }
            match self.send_whole(cutter, &mut job) {
                Ok(()) => {}
                Err(Fault::Framing(why)) => break Stop::Unframed(why),
                Err(Fault::Atp(error)) => return Err(self.broken(error)),
                Err(Fault::Io(error)) => return Err(error),
            }
            if let Some(job) = &mut job
                && self.window_end.is_some_and(|end| Instant::now() >= end)
            {
                self.end_window(job)?;
            }
        };
        if let Some(job) = job {
            let report = job.finish().map_err(|error| self.broken(error))?;
            if report.ended_by_receiver {
                return Err(ErrorKind::ConnectionReset.into());
            }
            self.count(&report.groups)?;
        }
        Ok(stop)
    }

    fn end_window(&mut self, job: &mut Job) -> io::Result<()> {
        self.window_end = None;
        let report = job.end_window().map_err(|error| self.broken(error))?;
        self.count(&report.groups)?;
        self.agreement.pace.room.note_end(self.delivered);
        Ok(())
    }

    /// Whether a job would send from the address of the connection to the other library.
    fn sends_from_source(&self) -> bool {
        let source = address::source_to(self.atp);
        source.is_some_and(|source| source.to_canonical() == self.agreement.source)
    }

    /// Sends the whole frames that have arrived.
    fn send_whole(&mut self, cutter: &mut Cutter, job: &mut Option<Job>) -> Result<(), Fault> {
        let mut message = Vec::new();
        // The loss of the pace is an error once there is no room.
        drop(self.agreement.pace.read_reports());
        while let Some(frame) = cutter.next_frame().map_err(Fault::Framing)? {
            let job = match job {
                Some(job) => job,
                None => {
                    let builder = Job::builder().id(self.agreement.job).msr(self.rule.msr);
                    let builder = builder.peer_timeout(READ_TIMEOUT);
                    job.insert(builder.connect(self.atp).map_err(Fault::Atp)?)
                }
            };
            self.wait_for_room(frame, job).map_err(Fault::Io)?;
            message.clear();
            message.extend_from_slice(&self.agreement.secret.bytes());
            message.extend_from_slice(frame);
            job.send(&message).map_err(Fault::Atp)?;
            self.agreement.pace.room.note_sent(frame);
            self.shared.counts.sent_as_messages.fetch_add(1, Ordering::Relaxed);
            self.window_end.get_or_insert_with(|| Instant::now() + self.rule.window);
        }
        Ok(())
    }

    /// Waits until the other program has taken enough for another frame. Frames that are lost hold
    /// room until the end of their window, so this ends it.
    fn wait_for_room(&mut self, frame: &[u8], job: &mut Job) -> io::Result<()> {
        while !self.agreement.pace.room.is_there(frame) {
            let is_lost = self.agreement.pace.wait(LOOK_INTERVAL).is_err();
            // A server that ends its connections ends both.
            let timeout = if is_lost { PACE_TIMEOUT } else { Duration::ZERO };
            if self.pair.wait_until(|replies| replies.are_over, timeout) {
                return Err(ErrorKind::ConnectionReset.into());
            }
            if is_lost {
                return Err(io::Error::other(
                    "the server's library no longer reports how much the program has read",
                ));
            }
            if !self.agreement.pace.room.is_there(frame) && self.window_end.is_some() {
                self.end_window(job)?;
            }
        }
        Ok(())
    }

    /// Counts what a window has delivered, which is as much as its rate asks for.
    fn count(&mut self, groups: &[GroupReport]) -> io::Result<()> {
        self.shared.counts.add(groups);
        self.delivered += groups.iter().map(|group| u64::from(group.delivered)).sum::<u64>();
        // It ended before: for instance it was canceled.
        match groups.iter().find(|group| group.delivered < group.needed) {
            Some(GroupReport { delivered, needed, .. }) => Err(io::Error::other(format!(
                "{delivered} of {needed} frames were delivered when its window ended"
            ))),
            None => Ok(()),
        }
    }

    /// The end of a connection whose messages fail.
    fn broken(&mut self, error: Error) -> io::Error {
        match error {
            // The other end's program has closed the connection.
            Error::EndedByReceiver => ErrorKind::ConnectionReset.into(),
            Error::Short(shortfall) => {
                self.shared.counts.add(&shortfall.report.groups);
                match shortfall.cause {
                    // Its process ends.
                    ShortCause::Refused(Some(ResetReason::Gone)) => {
                        ErrorKind::ConnectionReset.into()
                    }
                    _ => io::Error::other(Error::Short(shortfall)),
                }
            }
            error => io::Error::other(error),
        }
    }
}

/// The result of a read of the program's bytes.
enum Got {
    /// 0 at their end.
    Bytes(usize),
    /// The program has reset its connection, after all that was read.
    Reset,
    Nothing,
}

enum Fault {
    Framing(String),
    Atp(Error),
    Io(io::Error),
}
