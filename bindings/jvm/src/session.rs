//! A query that is answered while tables arrive, behind a number.

use crate::{
    answers,
    failure::{self, Class, Failure, Outcome},
    query_options::QueryOptions,
    record::Record,
    table::Table,
    wait,
};
use approx_answers::Query;
use approx_session::{Pace, Reception, Session, SessionError, Step};
use approxlib::{Error, ReceiverBuilder};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

pub static SESSIONS: Table<Receiving> = Table::new("receiver");

/// The longest time of a call with events, so that Java notices interrupts.
const CALL: Duration = Duration::from_millis(20);

pub struct Receiving {
    pub address: SocketAddr,
    /// `None` once it is closed. Nobody waits with this lock.
    state: Mutex<Option<State>>,
    readable: OwnedFd,
    /// Readable once it is closed: wakes the waiting threads.
    closed: EventFd,
}

struct State {
    /// Stays until the close, so that the senders learn of their ends.
    reception: Reception,
    stage: Stage,
    pace: Pace,
    /// The state of the answer in a line, as of the last time that it was due.
    line: Option<String>,
    /// Messages that arrived, and those that were sent if that is known.
    messages: (u64, Option<u64>),
}

enum Stage {
    Running(Box<Session>),
    /// The record of the answers, or the exception.
    Ended(Result<Vec<u8>, (Class, String)>),
}

/// The outcome of a call.
pub enum Turn {
    /// It took events, and there may be more.
    Took,
    /// There is none at present.
    Nothing,
    /// The record of the answers.
    Answers(Vec<u8>),
}

impl Receiving {
    /// Starts to receive, and returns the number.
    pub fn open(
        (query, options): (Query, QueryOptions),
        receiver: ReceiverBuilder,
        is_named: bool,
        local: &str,
    ) -> Outcome<i64> {
        let QueryOptions { confidence, accepted, senders, timeout } = options;
        let senders = senders.max(1);
        let session = Session::of_query(query, senders, confidence, accepted)?;
        let receiver = receiver.bind(local)?;
        let address = receiver.local_addr()?;
        let readable = receiver.readable_fd()?.try_clone_to_owned().map_err(Error::Thread)?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let closed = EventFd::from_flags(flags);
        let closed = closed.map_err(|errno| Error::Thread(io::Error::from(errno)))?;
        let state = State {
            reception: Reception::new(receiver, senders, timeout, is_named),
            stage: Stage::Running(Box::new(session)),
            pace: Pace::new(Duration::ZERO, Instant::now()),
            line: None,
            messages: (0, None),
        };
        Ok(SESSIONS.add(Self { address, state: Mutex::new(Some(state)), readable, closed }))
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> Outcome<T>) -> Outcome<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        work(state.as_mut().ok_or_else(|| Failure::closed("receiver"))?)
    }

    /// Takes the events that are there.
    pub fn run(&self) -> Outcome<Turn> {
        self.with(State::run)
    }

    /// Waits until an event may be there, or it was closed.
    pub fn wait(&self, timeout_ms: i32) {
        wait::readable([self.readable.as_fd(), self.closed.as_fd()], timeout_ms);
    }

    /// Awaits no sender any longer.
    pub fn cut_short(&self) -> Outcome {
        self.with(|state| {
            if let Stage::Running(session) = &mut state.stage {
                session.cut_short("interrupted: the answer has what had arrived by then");
                state.reception.interrupt();
            }
            Ok(())
        })
    }

    /// The line, if there is one, and the messages that arrived and were sent, as a record.
    pub fn progress(&self) -> Outcome<Vec<u8>> {
        self.with(|state| {
            state.look();
            let ((arrived, sent), mut record) = (state.messages, Record::default());
            record.option(state.line.as_deref(), Record::text);
            record.u64(arrived).option(sent, Record::u64);
            Ok(record.into_bytes())
        })
    }

    /// Ends the waits of other threads, then the receiver, which may linger.
    pub fn close(&self) {
        // A full counter is readable as well.
        let _ = self.closed.write(1);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(state);
    }
}

impl State {
    fn run(&mut self) -> Outcome<Turn> {
        let began = Instant::now();
        while let Stage::Running(session) = &mut self.stage {
            match session.step(&mut self.reception, Duration::ZERO)? {
                Step::Nothing => return Ok(Turn::Nothing),
                Step::Took if began.elapsed() > CALL => return Ok(Turn::Took),
                Step::Took => {}
                Step::Ended => self.end(),
            }
        }
        match &self.stage {
            Stage::Running(_) => Ok(Turn::Took),
            Stage::Ended(Ok(answers)) => Ok(Turn::Answers(answers.clone())),
            Stage::Ended(Err((class, text))) => Err(Failure::new(class, text)),
        }
    }

    /// Ends the session. Every later call has the same outcome.
    fn end(&mut self) {
        self.look();
        let ended = Stage::Ended(Err((failure::INTERNAL, "the end has failed".to_owned())));
        let Stage::Running(session) = std::mem::replace(&mut self.stage, ended) else { return };
        let outcome = session.finish().map(|answered| answers::answers(&answered));
        self.stage = Stage::Ended(outcome.map_err(said));
    }

    fn look(&mut self) {
        let Stage::Running(session) = &self.stage else { return };
        self.messages = session.messages();
        let began = Instant::now();
        // An answer may have many keys: its line would take much of the time.
        if self.pace.is_due(began) {
            self.line = session.line();
            self.pace.printed(began, Instant::now());
        }
    }
}

fn said(error: SessionError) -> (Class, String) {
    match Failure::from(error) {
        Failure::Said(class, text) => (class, text),
        Failure::Short(shortfall) => (failure::ATP, shortfall.to_string()),
        Failure::Jni(error) => (failure::INTERNAL, error.to_string()),
    }
}
