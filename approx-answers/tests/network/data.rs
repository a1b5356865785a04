//! Tables of records, and the messages that carry them.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Message bytes of a full packet.
pub const PACKET_BYTES: u32 = 1_400;
const RECORDS_PER_MESSAGE: usize = 15;
/// The length of messages of one length.
const MESSAGE_BYTES: u32 = 1_250;
/// Keys of a table. Key k has a share of records proportional to 1/(k + 1).
pub const KEYS: u32 = 8;

/// A record: its key, the denominator of a ratio, and the value.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub key: u32,
    pub x: f64,
    pub y: f64,
}

/// A message with its length.
#[derive(Clone, Debug)]
pub struct Message {
    pub records: Vec<Record>,
    pub bytes: u32,
}

/// The records of a table, and their division into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Moderately skewed values; 15 records a message, all of one packet.
    Plain,
    /// As `Plain`, with values that grow to three times as much in the course of time.
    Trend,
    /// As `Plain`, with a few values that hold most of the sum.
    Tail,
    /// One record a message: 80 % have 1.25 KB and a value of 0 to 2, 20 % have 2.9 KB and a value
    /// of 100.
    TwoSizes,
    /// One record a message, of 1 to 30 packets. Values grow with the length.
    Lengths,
}

/// The order of a table's records in its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Shuffled,
    InTime,
    ByKey,
}

impl Table {
    /// Draws a table of `messages` messages.
    pub fn draw(self, messages: usize, order: Order, draws: &mut ChaCha8Rng) -> Vec<Message> {
        match self {
            Self::TwoSizes | Self::Lengths => {
                // Lengths are drawn one by one, so the order of records is that of a shuffle.
                assert_eq!(order, Order::Shuffled);
                let single = |_| match self {
                    Self::TwoSizes => two_sizes(draws),
                    _ => lengths(draws),
                };
                (0..messages).map(single).collect()
            }
            Self::Plain | Self::Trend | Self::Tail => {
                let count = messages * RECORDS_PER_MESSAGE;
                let draw = |i| self.record(i as f64 / count as f64, draws);
                let mut records: Vec<Record> = (0..count).map(draw).collect();
                match order {
                    Order::Shuffled => records.shuffle(draws),
                    Order::InTime => {}
                    Order::ByKey => records.sort_by_key(|record| record.key),
                }
                let message =
                    |part: &[Record]| Message { records: part.to_vec(), bytes: MESSAGE_BYTES };
                records.chunks(RECORDS_PER_MESSAGE).map(message).collect()
            }
        }
    }

    /// A record at `time`, from 0 to 1.
    fn record(self, time: f64, draws: &mut ChaCha8Rng) -> Record {
        let key = key(draws);
        let of_key = 10.0 + 2.0 * f64::from(key);
        let y = match self {
            Self::Trend => of_key * (1.0 + 2.0 * time) * lognormal(0.0, 0.5, draws),
            Self::Tail => lognormal(0.0, 2.0, draws),
            _ => of_key * lognormal(0.0, 0.5, draws),
        };
        Record { key, x: draws.random_range(1.0..3.0), y }
    }
}

fn two_sizes(draws: &mut ChaCha8Rng) -> Message {
    let is_long = draws.random_bool(0.2);
    let (y, bytes) = if is_long { (100.0, 2_900) } else { (draws.random_range(0.0..2.0), 1_250) };
    Message { records: vec![Record { key: u32::from(is_long), x: 1.0, y }], bytes }
}

fn lengths(draws: &mut ChaCha8Rng) -> Message {
    let packets = lognormal(4f64.ln(), 0.8, draws).clamp(1.0, 30.0);
    let bytes = (packets * f64::from(PACKET_BYTES)) as u32;
    let y = packets * draws.random_range(0.5..1.5);
    Message { records: vec![Record { key: 0, x: 1.0, y }], bytes }
}

fn key(draws: &mut ChaCha8Rng) -> u32 {
    let all: f64 = (1..=KEYS).map(|k| 1.0 / f64::from(k)).sum();
    let mut left = draws.random_range(0.0..all);
    for key in 0..KEYS - 1 {
        left -= 1.0 / f64::from(key + 1);
        if left < 0.0 {
            return key;
        }
    }
    KEYS - 1
}

/// The exponential of a normal number.
fn lognormal(mean: f64, deviation: f64, draws: &mut ChaCha8Rng) -> f64 {
    // Box and Muller.
    let (u, v): (f64, f64) = (draws.random_range(f64::MIN_POSITIVE..1.0), draws.random());
    let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
    (mean + deviation * normal).exp()
}
