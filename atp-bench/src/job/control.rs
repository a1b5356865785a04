//! A worker's connection to the run, for orders and replies.

use std::io::{Write, stdout};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use super::clock;
use super::protocol::{Order, Reply};

/// The time between two progress replies.
const PROGRESS_PAUSE: Duration = Duration::from_millis(200);
/// The time between two points of the timeline.
const TIMELINE_PAUSE_NS: u64 = 5_000_000;

/// The orders of a worker, and its replies.
pub struct Control {
    orders: Receiver<Order>,
    last_progress: Instant,
    timeline: Vec<(u64, usize)>,
}

impl Control {
    pub fn new(orders: Receiver<Order>) -> Control {
        Control { orders, last_progress: Instant::now(), timeline: Vec::new() }
    }

    pub fn reply(&self, reply: &Reply) -> Result<()> {
        let mut line = serde_json::to_string(reply)?;
        line.push('\n');
        stdout().write_all(line.as_bytes()).map_err(|_| run_has_ended())
    }

    /// Reports that the preparation is done; `port` is the port of this worker, or 0.
    pub fn ready(&mut self, port: u16) -> Result<()> {
        self.reply(&Reply::Ready { port })
    }

    /// Waits for the start and returns its instant, which all workers share.
    pub fn wait_for_start(&mut self) -> Result<u64> {
        match self.orders.recv() {
            Ok(Order::Start { at_ns }) => {
                clock::sleep_until(at_ns)?;
                Ok(at_ns)
            }
            Ok(order) => bail!("{order:?} came before the start"),
            Err(_) => Err(run_has_ended()),
        }
    }

    /// The next order, if one has arrived.
    pub fn try_order(&mut self) -> Result<Option<Order>> {
        match self.orders.try_recv() {
            Ok(order) => Ok(Some(order)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(run_has_ended()),
        }
    }

    /// Reports the number of delivered messages, at most once per `PROGRESS_PAUSE`.
    pub fn progress(&mut self, delivered: usize) -> Result<()> {
        let now_ns = clock::now_ns();
        if self.timeline.last().is_none_or(|(at_ns, _)| now_ns >= at_ns + TIMELINE_PAUSE_NS) {
            self.timeline.push((now_ns, delivered));
        }
        if self.last_progress.elapsed() < PROGRESS_PAUSE {
            return Ok(());
        }
        self.last_progress = Instant::now();
        self.reply(&Reply::Progress { delivered })
    }

    /// Takes the timeline: instants with the number of messages delivered by then.
    pub fn take_timeline(&mut self) -> Vec<(u64, usize)> {
        std::mem::take(&mut self.timeline)
    }
}

fn run_has_ended() -> anyhow::Error {
    anyhow!("the run that started this worker has ended")
}
