//! Starts workers inside hosts, sends them orders and reads their replies.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::protocol::{Order, Reply, Role};
use testbed::{Host, Process, Signal, interrupt};

/// This program, even if its file has been rebuilt meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// The time between two checks for Ctrl-C.
const LOOK_UP: Duration = Duration::from_millis(100);
/// The time limit for the last reply of an ended worker.
const LAST_REPLY_MAX: Duration = Duration::from_secs(1);
/// The time limit for workers to read files and open sockets.
const READY_MAX: Duration = Duration::from_secs(30);

/// A group of workers, killed when this value is dropped.
pub struct Fleet {
    workers: Vec<Worker>,
    said: Receiver<(usize, Option<Reply>)>,
    /// Replies that were read but not handled yet.
    received: VecDeque<(usize, Option<Reply>)>,
    saying: Sender<(usize, Option<Reply>)>,
}

struct Worker {
    name: String,
    process: Process,
    orders: ChildStdin,
    /// Whether the worker has sent its last reply; it may then end.
    finished: bool,
}

impl Fleet {
    pub fn new() -> Fleet {
        let (saying, said) = channel();
        Fleet { workers: Vec::new(), said, received: VecDeque::new(), saying }
    }

    /// Starts a worker inside `host`. Returns its number, counted from 0.
    pub fn start(&mut self, host: &Host, role: &Role) -> Result<usize> {
        let mut command = host.namespace.command(THIS_PROGRAM);
        command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(command, Signal::SIGKILL)?;
        let pipes = (process.child().stdin.take(), process.child().stdout.take());
        let (Some(orders), Some(replies)) = pipes else { bail!("a worker has no pipes") };
        let number = self.workers.len();
        let saying = self.saying.clone();
        thread::spawn(move || listen(number, replies, &saying));
        let name = format!("{} ({})", host.name, role.name());
        self.workers.push(Worker { name, process, orders, finished: false });
        self.say(number, role)?;
        Ok(number)
    }

    pub fn order(&mut self, worker: usize, order: Order) -> Result<()> {
        self.say(worker, &order)
    }

    pub fn order_all(&mut self, order: Order) -> Result<()> {
        (0..self.workers.len()).try_for_each(|worker| self.order(worker, order))
    }

    fn say(&mut self, worker: usize, word: &impl serde::Serialize) -> Result<()> {
        let mut line = serde_json::to_string(word)?;
        line.push('\n');
        let Worker { name, orders, .. } = &mut self.workers[worker];
        let written = orders.write_all(line.as_bytes());
        let written = written.with_context(|| format!("can't write to {name}"));
        if written.is_err() {
            self.last_error(worker)?;
        }
        written
    }

    /// Fails with the error reply of an ended worker, which says more than a broken pipe. Other
    /// replies stay for [`Fleet::next`].
    fn last_error(&mut self, worker: usize) -> Result<()> {
        while let Ok((number, reply)) = self.said.recv_timeout(LAST_REPLY_MAX) {
            if let Some(Reply::Failed(error)) = &reply {
                bail!("{}: {error}", self.workers[number].name);
            }
            let is_end = number == worker && reply.is_none();
            self.received.push_back((number, reply));
            if is_end {
                break;
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(usize, Option<Reply>), RecvTimeoutError> {
        match self.received.pop_front() {
            Some(received) => Ok(received),
            None => self.said.recv_timeout(LOOK_UP),
        }
    }

    /// Waits until `worker` is ready and returns its port.
    pub fn ready(&mut self, worker: usize) -> Result<u16> {
        match self.next(Instant::now() + READY_MAX)? {
            (number, Reply::Ready { port }) if number == worker => Ok(port),
            (number, reply) => Err(self.unexpected(number, &reply)),
        }
    }

    /// Waits until all of `workers` are ready.
    pub fn all_ready(&mut self, workers: &[usize]) -> Result<()> {
        for _ in workers {
            match self.next(Instant::now() + READY_MAX)? {
                (number, Reply::Ready { .. }) if workers.contains(&number) => {}
                (number, reply) => return Err(self.unexpected(number, &reply)),
            }
        }
        Ok(())
    }

    /// The next reply, and the worker that sent it.
    ///
    /// # Errors
    /// A worker failed or ended early, no reply came by the deadline, or the run was interrupted.
    pub fn next(&mut self, deadline: Instant) -> Result<(usize, Reply)> {
        loop {
            ensure!(!interrupt::interrupted(), "interrupted");
            let (number, reply) = match self.receive() {
                Ok(said) => said,
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => continue,
                Err(_) => bail!("no reply in time from {}", self.unfinished().join(", ")),
            };
            let worker = &mut self.workers[number];
            match reply {
                Some(Reply::Failed(error)) => bail!("{}: {error}", worker.name),
                Some(reply) => {
                    worker.finished = reply.is_last();
                    return Ok((number, reply));
                }
                None if worker.finished => {}
                None => {
                    let status = worker.process.child().wait()?;
                    bail!("{} ended without a result ({status})", worker.name);
                }
            }
        }
    }

    pub fn unexpected(&self, worker: usize, reply: &Reply) -> anyhow::Error {
        let mut said = format!("{reply:?}");
        said.truncate(said.floor_char_boundary(200));
        anyhow!("unexpected reply from {}: {said}", self.workers[worker].name)
    }

    fn unfinished(&self) -> Vec<&str> {
        let unfinished = self.workers.iter().filter(|worker| !worker.finished);
        unfinished.map(|worker| worker.name.as_str()).collect()
    }
}

/// Forwards the replies of a worker, and `None` at their end.
fn listen(number: usize, replies: ChildStdout, saying: &Sender<(usize, Option<Reply>)>) {
    for line in BufReader::new(replies).lines() {
        let reply = match line {
            Ok(line) => serde_json::from_str(&line)
                .unwrap_or_else(|error| Reply::Failed(format!("not a reply: {error}"))),
            Err(error) => Reply::Failed(format!("the replies can't be read: {error}")),
        };
        if saying.send((number, Some(reply))).is_err() {
            return;
        }
    }
    // This fails only if the fleet has been dropped.
    let _ = saying.send((number, None));
}
