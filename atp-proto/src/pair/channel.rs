//! One direction of the network: a queue, loss, bursts of loss, marks, duplication, reordering,
//! delay, corruption.

use atp_common::wire::HEADER_LEN;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// The faults of one direction.
#[derive(Clone, Debug)]
pub struct Path {
    /// The delay of every packet.
    pub delay_ns: u64,
    /// The longest further delay.
    pub jitter_ns: u64,
    /// The chance per packet that it is lost.
    pub loss: f64,
    /// The chance per packet that a burst of losses begins, and its longest duration.
    pub burst: (f64, u64),
    /// The chance per packet that it comes twice.
    pub duplicate: f64,
    /// The chance that a packet is delayed, and the longest delay.
    pub reorder: (f64, u64),
    /// The chance that only the first bytes of a header come.
    pub truncate: f64,
    /// The chance that bits flip. The UDP checksum detects it, and the packet is dropped.
    pub corrupt: f64,
    /// The chance that a packet is marked (ECN).
    pub mark: f64,
    /// The time of one packet on the slowest line, and the packets that wait before it. It drops
    /// further ones, and marks each behind half of them.
    pub queue: Option<(u64, u64)>,
    /// All packets of this time are lost.
    pub blackout_ns: std::ops::Range<u64>,
}

impl Path {
    /// A path without faults.
    pub const fn perfect(delay_ns: u64) -> Self {
        Self {
            delay_ns,
            jitter_ns: 0,
            loss: 0.0,
            burst: (0.0, 0),
            duplicate: 0.0,
            reorder: (0.0, 0),
            truncate: 0.0,
            corrupt: 0.0,
            mark: 0.0,
            queue: None,
            blackout_ns: 0..0,
        }
    }

    /// A bad path.
    pub fn random(rng: &mut ChaCha8Rng) -> Self {
        let harsh = |rng: &mut ChaCha8Rng, max: f64| {
            if rng.random_bool(0.5) { rng.random_range(0.0..max) } else { 0.0 }
        };
        let delay_ns = 10u64.pow(rng.random_range(4..8));
        Self {
            delay_ns,
            jitter_ns: rng.random_range(0..=delay_ns / 2),
            loss: harsh(rng, 0.6),
            burst: (harsh(rng, 0.02), rng.random_range(1..50_000_000)),
            duplicate: harsh(rng, 0.1),
            reorder: (harsh(rng, 0.2), rng.random_range(1..=2 * delay_ns)),
            truncate: 0.0,
            corrupt: harsh(rng, 0.05),
            mark: 0.0,
            queue: None,
            blackout_ns: 0..0,
        }
    }
}

/// A packet that comes through.
pub struct Arrival {
    pub at_ns: u64,
    /// Whether it is marked.
    pub marked: bool,
}

/// One direction of the network.
pub struct Channel {
    path: Path,
    /// When the slowest line has sent all that waits.
    free_ns: u64,
    burst_until_ns: u64,
    last_arrival_ns: u64,
}

impl Channel {
    pub fn new(path: Path) -> Self {
        Self { path, free_ns: 0, burst_until_ns: 0, last_arrival_ns: 0 }
    }

    /// Cuts a packet, if this is its fate.
    pub fn cut(&self, payload: &[u8], rng: &mut ChaCha8Rng) -> Vec<u8> {
        let is_cut = self.path.truncate > 0.0 && rng.random_bool(self.path.truncate);
        let len = if is_cut { rng.random_range(0..HEADER_LEN) } else { payload.len() };
        payload[..len].to_vec()
    }

    /// The arrivals of a packet sent at `now_ns`: none, one or two.
    pub fn carry(&mut self, now_ns: u64, rng: &mut ChaCha8Rng) -> Vec<Arrival> {
        let path = self.path.clone();
        let Some((through_ns, marked)) = self.queue(now_ns) else { return vec![] };
        if now_ns < self.burst_until_ns {
            return vec![];
        }
        if rng.random_bool(path.burst.0) {
            self.burst_until_ns = now_ns + rng.random_range(0..=path.burst.1);
        }
        let lost = rng.random_bool(path.loss) || rng.random_bool(path.corrupt);
        if lost || path.blackout_ns.contains(&now_ns) {
            return vec![];
        }
        let marked = marked || path.mark > 0.0 && rng.random_bool(path.mark);
        let copies = 1 + usize::from(rng.random_bool(path.duplicate));
        let arrival = |_| Arrival { at_ns: self.arrival(through_ns, &path, rng), marked };
        (0..copies).map(arrival).collect()
    }

    /// When a packet has left the slowest line, and whether it is marked; `None` if it is dropped.
    fn queue(&mut self, now_ns: u64) -> Option<(u64, bool)> {
        let Some((packet_ns, packets)) = self.path.queue else { return Some((now_ns, false)) };
        let waiting = self.free_ns.saturating_sub(now_ns) / packet_ns;
        if waiting > packets {
            return None;
        }
        self.free_ns = self.free_ns.max(now_ns) + packet_ns;
        Some((self.free_ns, waiting > packets / 2))
    }

    fn arrival(&mut self, now_ns: u64, path: &Path, rng: &mut ChaCha8Rng) -> u64 {
        let at_ns = now_ns + path.delay_ns + rng.random_range(0..=path.jitter_ns);
        if rng.random_bool(path.reorder.0) {
            return at_ns + rng.random_range(0..=path.reorder.1);
        }
        // Jitter alone doesn't reorder: a queue is first in, first out.
        self.last_arrival_ns = self.last_arrival_ns.max(at_ns);
        self.last_arrival_ns
    }
}
