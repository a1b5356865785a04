//! Delays packets: a thread reads the far end of a cable and sends each packet after its delay.
//! Kernels without netem have no qdisc that delays packets.

use super::layout::PASS_MARK;
use crate::namespace::Namespace;
use crate::wire::link;
use anyhow::{Context, Result};
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use socket2::Socket;
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::{ErrorKind, Read},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The longest wait between two checks whether the thread must end.
const LOOK: Duration = Duration::from_millis(50);
/// The seed of the delays; the packets that get them still differ from run to run.
const SEED: u64 = 1;
const FRAME_BYTES_MAX: usize = 1 << 16;

/// A frame with its departure time; the count keeps frames with equal times in order.
type Held = Reverse<(Instant, u64, Vec<u8>)>;

/// A delay line. It ends when dropped; the packets in it are lost.
#[derive(Debug)]
pub struct DelayLine {
    entrance: String,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DelayLine {
    /// Makes the cable. Its packets leave through `port` after `delay.0` to `delay.1`.
    pub fn start(router: &Namespace, port: &str, delay: (Duration, Duration)) -> Result<Self> {
        let (entrance, exit) = (format!("to-{port}"), format!("late-{port}"));
        router.run(&format!("ip link add {entrance} type veth peer name {exit}"))?;
        for end in [&entrance, &exit] {
            // Keep IPv6's own packets off the cable.
            router.set(&format!("net/ipv6/conf/{end}/disable_ipv6"), "1")?;
            router.run(&format!("ip link set {end} up"))?;
        }
        let (from, to) = router.enter(|| {
            let (from, to) = (link::listen(&exit)?, link::sender(port)?);
            from.set_nonblocking(true)?;
            to.set_mark(PASS_MARK)?;
            Ok((from, to))
        })?;
        let over = Arc::new(AtomicBool::new(false));
        let mut line = Line { from, to, delay, held: BinaryHeap::new(), count: 0 };
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        let thread = thread::Builder::new().name(exit).spawn({
            let over = Arc::clone(&over);
            move || {
                while !over.load(Ordering::Relaxed) {
                    // The interface is down or its queue is full: the packets are lost.
                    if line.step(&mut random).is_err() {
                        thread::sleep(LOOK / 50);
                    }
                }
            }
        })?;
        Ok(Self { entrance, over, thread: Some(thread) })
    }

    /// The interface that leads into the delay line.
    pub fn entrance(&self) -> &str {
        &self.entrance
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

struct Line {
    from: Socket,
    to: Socket,
    delay: (Duration, Duration),
    held: BinaryHeap<Held>,
    count: u64,
}

impl Line {
    /// Waits for a frame or the next departure, reads new frames, and sends frames that are due.
    fn step(&mut self, random: &mut ChaCha8Rng) -> Result<()> {
        let now = Instant::now();
        let next = self.held.peek().map(|Reverse((due, ..))| due.saturating_duration_since(now));
        let wait = TimeSpec::from_duration(next.unwrap_or(LOOK).min(LOOK));
        let mut poll = [PollFd::new(self.from.as_fd(), PollFlags::POLLIN)];
        ppoll(&mut poll, Some(wait), None).context("waiting for late packets")?;
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        loop {
            match self.from.read(&mut buffer) {
                Ok(len) => self.hold(buffer[..len].to_vec(), random),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        let now = Instant::now();
        while self.held.peek().is_some_and(|Reverse((due, ..))| *due <= now) {
            let Some(Reverse((_, _, frame))) = self.held.pop() else { break };
            self.to.send(&frame)?;
        }
        Ok(())
    }

    fn hold(&mut self, frame: Vec<u8>, random: &mut ChaCha8Rng) {
        let (least, most) = self.delay;
        let delay = least + (most - least).mul_f64(random.random());
        self.count += 1;
        self.held.push(Reverse((Instant::now() + delay, self.count, frame)));
    }
}
