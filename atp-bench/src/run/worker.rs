//! A process of a run inside one of the testbed's hosts. It reads its role and orders from standard
//! input, and writes replies to standard output (see `protocol`).

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::answer::Answers;
use super::clock;
use super::exact;
use super::messages::Messages;
use super::protocol::{JobSpec, Order, ReceiverReport, Reply, Role};
use super::schemes::{Received, ReceiverSetup, SenderSetup};

/// Timers of a worker fire when they are due, not 50 us later.
const TIMER_SLACK_NS: u64 = 1_000;
const PROGRESS_PAUSE: Duration = Duration::from_millis(200);
const TIMELINE_PAUSE_NS: u64 = 5_000_000;

#[derive(clap::Args)]
pub struct Args {}

pub fn main(_args: Args) -> Result<()> {
    prctl::set_timerslack(TIMER_SLACK_NS)?;
    allow_many_connections()?;
    let mut lines = BufReader::new(stdin()).lines();
    let role = lines.next().context("a worker is told what it is on its standard input")??;
    let role: Role = serde_json::from_str(&role).context("not a role")?;
    let (orders, received) = channel();
    thread::spawn(move || {
        for line in lines {
            let order = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            let Some(order) = order else { return };
            if orders.send(order).is_err() {
                return;
            }
        }
    });
    let mut control =
        Control { orders: received, last_progress: Instant::now(), timeline: Vec::new() };
    if let Err(error) = work(role, &mut control) {
        reply(&Reply::Failed(format!("{error:#}")))?;
    }
    Ok(())
}

/// Requests that a full port holds up each keep a connection open.
fn allow_many_connections() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, most, most)?)
}

fn work(role: Role, control: &mut Control) -> Result<()> {
    let last = match role {
        Role::ExactServer { bind } => return serve(bind, control),
        Role::ExactClient { server, requests_per_s, seed } => {
            Reply::Requests(request(server, requests_per_s, seed, control)?)
        }
        Role::Receive { job, bind, control_socket } => {
            let messages = Messages::read(&job.messages)?;
            let setup = ReceiverSetup { job: &job, messages: &messages, bind, control_socket };
            let received = job.scheme.scheme().receive(&setup, control)?;
            let timeline = std::mem::take(&mut control.timeline);
            Reply::Received(check(&job, &messages, received, timeline)?)
        }
        Role::Send { job, sender, receiver, control_socket } => {
            let messages = Messages::read(&job.messages)?;
            let setup =
                SenderSetup { job: &job, messages: &messages, sender, receiver, control_socket };
            Reply::Sent(job.scheme.scheme().send(&setup, control)?)
        }
    };
    reply(&last)
}

fn serve(bind: IpAddr, control: &mut Control) -> Result<()> {
    exact::go_first();
    let listener = TcpListener::bind((bind, 0))?;
    control.ready(listener.local_addr()?.port())?;
    exact::serve(&listener, || !matches!(control.try_order(), Ok(None)))
}

fn request(
    server: SocketAddr,
    requests_per_s: f64,
    seed: u64,
    control: &mut Control,
) -> Result<exact::Requests> {
    exact::go_first();
    let client = exact::Client::connect(server)?;
    control.ready(0)?;
    let start_ns = control.wait_for_start()?;
    client.run(start_ns, requests_per_s, seed, || Ok(control.try_order()? == Some(Order::Stop)))
}

/// Compares the delivered messages with the sent ones, and answers the queries from them.
fn check(
    job: &JobSpec,
    messages: &Messages,
    received: Received,
    timeline: Vec<(u64, usize)>,
) -> Result<ReceiverReport> {
    let mut delivered = vec![false; messages.count()];
    let mut answers = Answers::new(job.queries.len());
    for (index, data) in &received.messages {
        match messages.get(*index) {
            None => bail!("message {index} was delivered, of {} that there are", delivered.len()),
            Some(sent) if sent != data => bail!("message {index} was not delivered as it was sent"),
            Some(_) if delivered[*index] => bail!("message {index} was delivered twice"),
            Some(_) => delivered[*index] = true,
        }
        answers.add_message(&job.queries, data)?;
    }
    Ok(ReceiverReport {
        ended_ns: received.ended_ns,
        delivered: received.messages.len(),
        timeline,
        answers,
        packets_arrived: received.packets_arrived,
    })
}

fn reply(reply: &Reply) -> Result<()> {
    let mut line = serde_json::to_string(reply)?;
    line.push('\n');
    stdout().write_all(line.as_bytes()).context("the run is gone")
}

/// A worker's line to the run.
pub struct Control {
    orders: Receiver<Order>,
    last_progress: Instant,
    timeline: Vec<(u64, usize)>,
}

impl Control {
    /// Reports that the preparation is done; `port` is the port of this worker, or 0.
    pub fn ready(&mut self, port: u16) -> Result<()> {
        reply(&Reply::Ready { port })
    }

    /// Waits for the common start and returns its instant.
    pub fn wait_for_start(&mut self) -> Result<u64> {
        match self.orders.recv() {
            Ok(Order::Start { at_ns }) => {
                clock::sleep_until(at_ns)?;
                Ok(at_ns)
            }
            Ok(order) => bail!("{order:?} came before the start"),
            Err(_) => Err(run_is_gone()),
        }
    }

    /// The next order, if there is one.
    pub fn try_order(&mut self) -> Result<Option<Order>> {
        match self.orders.try_recv() {
            Ok(order) => Ok(Some(order)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(run_is_gone()),
        }
    }

    /// Reports the number of delivered messages, from time to time.
    pub fn progress(&mut self, delivered: usize) -> Result<()> {
        let now_ns = clock::now_ns();
        if self.timeline.last().is_none_or(|(at_ns, _)| now_ns >= at_ns + TIMELINE_PAUSE_NS) {
            self.timeline.push((now_ns, delivered));
        }
        if self.last_progress.elapsed() < PROGRESS_PAUSE {
            return Ok(());
        }
        self.last_progress = Instant::now();
        reply(&Reply::Progress { delivered })
    }
}

fn run_is_gone() -> anyhow::Error {
    anyhow!("the run that started this worker is gone")
}
