//! A process of a run inside one of the testbed's hosts. It reads its role and orders from standard
//! input, and writes replies to standard output (see `protocol`).

use std::io::{BufRead, BufReader, stdin};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::mpsc::channel;
use std::thread;

use anyhow::{Context, Result, bail};
use approx_answers::Confidence;
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::answer::Answers;
use super::control::Control;
use super::exact;
use super::intervals::Estimators;
use super::messages::Messages;
use super::protocol::{JobSpec, Order, ReceiverReport, Reply, Role};
use super::schemes::{Received, ReceiverSetup, SenderSetup};

/// The timer slack of a worker: timers fire when they are due, not 50 us later.
const TIMER_SLACK_NS: u64 = 1_000;

#[derive(clap::Args)]
pub struct Args {}

pub fn main(_args: Args) -> Result<()> {
    prctl::set_timerslack(TIMER_SLACK_NS)?;
    allow_many_connections()?;
    let mut lines = BufReader::new(stdin()).lines();
    let role = lines.next().context("the worker got no role on its standard input")??;
    let role: Role = serde_json::from_str(&role).context("the worker can't read its role")?;
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
    let mut control = Control::new(received);
    if let Err(error) = work(role, &mut control) {
        control.reply(&Reply::Failed(format!("{error:#}")))?;
    }
    Ok(())
}

/// Raises the limit of open files: each request that waits for a full port keeps a connection.
fn allow_many_connections() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, most, most)?)
}

fn work(role: Role, control: &mut Control) -> Result<()> {
    let last = match role {
        Role::ExactServer { bind } => return serve(bind, control),
        Role::ExactClient { server, load, seed } => {
            Reply::Requests(request(server, load, seed, control)?)
        }
        Role::Receive { job, bind, control_socket, line_rate_bytes_per_s, queue_depth_packets } => {
            let messages = Messages::read(&job.messages)?;
            let (job, messages) = (&job, &messages);
            let setup = ReceiverSetup {
                job,
                messages,
                bind,
                control_socket,
                line_rate_bytes_per_s,
                queue_depth_packets,
            };
            let received = job.scheme.scheme().receive(&setup, control)?;
            let timeline = control.take_timeline();
            Reply::Received(check(job, messages, received, timeline)?)
        }
        Role::Send { job, sender, receiver, control_socket } => {
            let messages = Messages::read(&job.messages)?;
            let setup =
                SenderSetup { job: &job, messages: &messages, sender, receiver, control_socket };
            Reply::Sent(job.scheme.scheme().send(&setup, control)?)
        }
    };
    control.reply(&last)
}

fn serve(bind: IpAddr, control: &mut Control) -> Result<()> {
    exact::go_first();
    let listener = TcpListener::bind((bind, 0))?;
    control.ready(listener.local_addr()?.port())?;
    exact::serve(&listener, || !matches!(control.try_order(), Ok(None)))
}

fn request(
    server: SocketAddr,
    load: exact::Load,
    seed: u64,
    control: &mut Control,
) -> Result<exact::Requests> {
    exact::go_first();
    let client = exact::Client::connect(server)?;
    control.ready(0)?;
    let start_ns = control.wait_for_start()?;
    client.run(start_ns, load, seed, || Ok(control.try_order()? == Some(Order::Stop)))
}

/// Compares the delivered messages with the sent ones, and computes the queries' answers.
fn check(
    job: &JobSpec,
    messages: &Messages,
    received: Received,
    timeline: Vec<(u64, usize)>,
) -> Result<ReceiverReport> {
    let mut delivered = vec![false; messages.count()];
    let mut answers = Answers::new(job.queries.len());
    let mut estimators = Estimators::new(&job.queries, job.sources.len(), messages.count())?;
    for (index, data) in &received.messages {
        match messages.get(*index) {
            None => bail!("message {index} was delivered, but the job has {}", delivered.len()),
            Some(sent) if sent != data => bail!("message {index} was altered"),
            Some(_) if delivered[*index] => bail!("message {index} was delivered twice"),
            Some(_) => delivered[*index] = true,
        }
        answers.add_message(&job.queries, data)?;
        estimators.push(*index, data)?;
    }
    // Looks at the answers during the job were paid for by a stricter level.
    let level = received.accepted.as_ref().map_or(job.confidence, |accepted| accepted.level);
    let intervals = estimators.intervals(Confidence::new(level)?);
    Ok(ReceiverReport {
        ended_ns: received.ended_ns,
        delivered: received.messages.len(),
        timeline,
        answers,
        intervals,
        accepted: received.accepted,
        packets_arrived: received.packets_arrived,
    })
}
