//! A carried connection at the listening end: messages become bytes, and replies go back.

use super::{
    LOOK_INTERVAL, RESET_TIMEOUT,
    pace::Reporter,
    pieces::{Overrun, Piece, Pieces},
    record::{BYTES_MAX, Record},
    socket::{self, OnPanic, ToProgram, is_pause},
};
use crate::{
    secret::Secret,
    shared::{lock, pass_calls_of_this_thread},
};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

/// How long messages that were confirmed may take from the receiver to here.
const FINISH_TIMEOUT: Duration = Duration::from_secs(60);

/// A carried connection, for the threads that receive messages and that end the process.
pub struct Connection {
    /// The messages of its client begin with this.
    secret: Secret,
    /// The run of the client's job: the first one that knew the secret.
    run: OnceLock<u64>,
    pieces: Pieces,
    passed: Mutex<Passed>,
    changed: Condvar,
    /// Messages taken for the program.
    taken: AtomicU64,
    /// The program takes nothing more.
    is_closed: AtomicBool,
    /// The connection to the other library.
    private: TcpStream,
    /// Held by the thread that writes to it.
    telling: Mutex<()>,
    program: ToProgram,
    /// The library's address of the connection to the program.
    far: SocketAddr,
}

/// The parts of a connection that have ended.
#[derive(Default)]
struct Passed {
    messages: bool,
    /// A window had fewer messages than its rate asks for.
    are_messages_missing: bool,
    /// The bytes for the program, which has them all or takes no more.
    pieces: bool,
    replies: bool,
}

impl Connection {
    pub fn new(private: TcpStream, program: ToProgram, far: SocketAddr) -> io::Result<Self> {
        socket::begin_private(&private)?;
        Ok(Self {
            secret: Secret::draw()?,
            run: OnceLock::new(),
            pieces: Pieces::default(),
            passed: Mutex::default(),
            changed: Condvar::new(),
            taken: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            private,
            telling: Mutex::default(),
            program,
            far,
        })
    }

    pub fn far(&self) -> SocketAddr {
        self.far
    }

    pub fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether a message of a run is of this connection's client.
    pub fn admits(&self, run: u64, message: &[u8]) -> bool {
        let begins = message.first_chunk().is_some_and(|first| Secret::of(*first) == self.secret);
        begins && *self.run.get_or_init(|| run) == run
    }

    /// Whether the client's messages are those of this run.
    pub fn has_run(&self, run: u64) -> bool {
        self.run.get() == Some(&run)
    }

    /// Takes a message for the program.
    pub fn take(&self, message: &[u8]) -> Result<(), Overrun> {
        let frame = message.get(Secret::LEN..).unwrap_or_default();
        if self.pieces.add_frame(frame)? {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A window has ended, after all of its messages.
    pub fn end_window(&self, is_complete: bool, is_last: bool) {
        self.note(|passed| {
            passed.are_messages_missing |= !is_complete;
            passed.messages |= is_last;
        });
    }

    fn note(&self, change: impl FnOnce(&mut Passed)) {
        change(&mut lock(&self.passed));
        self.changed.notify_all();
    }

    /// Waits until `has_passed`, or `deadline`; which of them it was.
    fn wait_for(&self, has_passed: impl Fn(&Passed) -> bool, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let waits = |passed: &mut Passed| !has_passed(passed);
        let waited = self.changed.wait_timeout_while(lock(&self.passed), left, waits);
        has_passed(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Waits until the other library was told all replies and their end, or `deadline`.
    fn wait_for_replies(&self, deadline: Instant) -> bool {
        self.wait_for(|passed| passed.replies, deadline)
    }

    /// Ends the connection of a program that reads no more, after the replies that it has written.
    pub fn end_at_exit(&self, deadline: Instant) {
        self.is_closed.store(true, Ordering::Relaxed);
        if self.wait_for_replies(deadline) {
            // The kernel goes on after the end of the process. But it drops what it holds if the
            // client sends something.
            socket::drain(&self.private, deadline.saturating_duration_since(Instant::now()));
        } else {
            self.abort();
        }
        // Frees the writer that waits for the program.
        self.program.abort();
        self.pieces.close();
    }

    /// Resets both connections: the program has gone, or the other library.
    pub fn abort(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.program.abort();
        self.pieces.close();
        socket::abort(&self.private);
    }

    fn tell(&self, record: &Record) -> io::Result<()> {
        let _telling = lock(&self.telling);
        record.write(&self.private)
    }

    /// Carries the connection to its end. `job`: the one in which its messages arrive.
    pub fn relay(&self, job: u32, reporter: Reporter) -> io::Result<()> {
        thread::scope(|scope| {
            let _guard = OnPanic(|| self.abort());
            let done = self.begin(scope, job, reporter).and_then(|()| self.take_input());
            done.or_else(|error| {
                self.abort();
                match error.kind() {
                    // The client's process has ended without a word.
                    ErrorKind::UnexpectedEof
                    | ErrorKind::ConnectionReset
                    | ErrorKind::BrokenPipe => Ok(()),
                    _ => Err(error),
                }
            })
        })
    }

    /// Tells the client that its frames are taken, and starts the threads.
    fn begin<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        job: u32,
        reporter: Reporter,
    ) -> io::Result<()> {
        let job = job.to_be_bytes();
        (&self.private).write_all(&[&job[..], &self.secret.bytes()].concat())?;
        self.spawn(scope, "atp-run-replies", || self.pass_replies())?;
        self.spawn(scope, "atp-run-writer", move || self.pass_pieces(reporter))
    }

    fn spawn<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        name: &str,
        run: impl FnOnce() + Send + 'scope,
    ) -> io::Result<()> {
        let run = || {
            pass_calls_of_this_thread();
            let _guard = OnPanic(|| self.abort());
            run();
        };
        thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, run).map(drop)
    }

    /// Tells the other library the replies, and how they ended.
    fn pass_replies(&self) {
        let told = self.copy_replies().and_then(|end| {
            socket::keep_bytes(&self.private)?;
            self.tell(&end)
        });
        if told.is_err() {
            self.refuse_replies();
        }
        self.note(|passed| passed.replies = true);
    }

    fn copy_replies(&self) -> io::Result<Record> {
        let mut bytes = vec![0; BYTES_MAX];
        loop {
            match self.program.read(&mut bytes) {
                Ok(0) => return Ok(Record::End),
                Ok(len) => self.tell(&Record::Bytes(bytes[..len].to_vec()))?,
                Err(error) if is_pause(&error) => {}
                Err(_) => {
                    self.is_closed.store(true, Ordering::Relaxed);
                    return Ok(Record::Reset);
                }
            }
        }
    }

    /// The client takes no replies. The program still gets all of the client's bytes and its end,
    /// if the other library has told that. Then its writes fail, as with a kernel.
    fn refuse_replies(&self) {
        let mut bytes = vec![0; BYTES_MAX];
        while self.program.discard(&mut bytes, LOOK_INTERVAL) {
            if lock(&self.passed).pieces && !self.program.holds_bytes() {
                return self.program.abort();
            }
        }
    }

    /// Writes to the program what has come for it.
    fn pass_pieces(&self, mut reporter: Reporter) {
        let written = self.write_pieces(&mut reporter);
        self.pieces.close();
        if written.is_err() {
            // The program takes nothing more. What it has written comes first.
            self.is_closed.store(true, Ordering::Relaxed);
            self.wait_for_replies(Instant::now() + RESET_TIMEOUT);
            // A client that waits for room learns it also if it leaves the replies unread.
            drop(reporter);
            drop(self.tell(&Record::Reset));
        }
        self.note(|passed| passed.pieces = true);
    }

    fn write_pieces(&self, reporter: &mut Reporter) -> io::Result<()> {
        loop {
            let has_news = reporter.has_news(self.pieces.taken());
            let piece = self.pieces.next(if has_news { LOOK_INTERVAL } else { Duration::MAX });
            let is_idle = piece.is_none();
            match piece {
                Some(Piece::Bytes(bytes, taken)) => {
                    self.program.write_all(&bytes)?;
                    self.pieces.note_taken(taken);
                }
                Some(Piece::End) => return self.program.end(),
                Some(Piece::Reset) => {
                    self.program.drain(RESET_TIMEOUT);
                    self.program.abort();
                    return Ok(());
                }
                None => {}
            }
            reporter.report_if_due(self.pieces.taken(), is_idle);
        }
    }

    /// Takes the bytes that come after the last message, and the end. Any other end of the
    /// connection to the other library is an error.
    fn take_input(&self) -> io::Result<()> {
        let (mut private, mut delivered) = (&self.private, [0; 8]);
        private.read_exact(&mut delivered)?;
        self.wait_for_messages(u64::from_be_bytes(delivered))?;
        loop {
            match Record::read(private)? {
                Record::Bytes(bytes) => {
                    if !self.pieces.add(&bytes) {
                        // The program takes no more: its replies come first, then a reset.
                        self.wait_for_replies(Instant::now() + RESET_TIMEOUT);
                        socket::drain(private, RESET_TIMEOUT);
                        return Err(ErrorKind::ConnectionReset.into());
                    }
                }
                Record::End => {
                    self.pieces.end(Piece::End);
                    // The other library may have ended: it has told all.
                    drop(self.tell(&Record::Confirmed));
                    return Ok(());
                }
                Record::Reset => {
                    drop(self.tell(&Record::Confirmed));
                    self.reset_program();
                    return Ok(());
                }
                Record::Confirmed => return Err(ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Waits until the messages that the other library knows to be delivered are in the queue.
    fn wait_for_messages(&self, delivered: u64) -> io::Result<()> {
        let deadline = Instant::now() + FINISH_TIMEOUT;
        while delivered > 0
            && !self.wait_for(|passed| passed.messages, Instant::now() + LOOK_INTERVAL)
        {
            if !self.is_open() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(io::Error::other("a connection is reset: its frames don't come"));
            }
        }
        let are_missing = lock(&self.passed).are_messages_missing;
        let taken = self.taken.load(Ordering::Relaxed);
        // A program that takes no more misses none.
        if self.is_open() && (are_missing || taken < delivered) {
            return Err(io::Error::other(format!(
                "a connection is reset: {taken} of its {delivered} frames are here"
            )));
        }
        Ok(())
    }

    /// Resets the program's connection after the pieces, if it reads them soon.
    fn reset_program(&self) {
        let deadline = Instant::now() + RESET_TIMEOUT;
        self.pieces.end(Piece::Reset);
        self.wait_for(|passed| passed.pieces, deadline);
        self.abort();
    }
}
