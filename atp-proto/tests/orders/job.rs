//! A job, and the events that may happen to it.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Which events may happen, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    pub cancel: bool,
    pub deadline: bool,
    pub lower_msr: bool,
    /// The receiving application asks for the end.
    pub request: bool,
    /// Another process takes the receiver's place.
    pub restart: bool,
    /// The receiver of an ended job leaves a tombstone.
    pub leave: bool,
}

impl Events {
    const NONE: Self = Self {
        cancel: false,
        deadline: false,
        lower_msr: false,
        request: false,
        restart: false,
        leave: false,
    };
    const ALL: Self = Self {
        cancel: true,
        deadline: true,
        lower_msr: true,
        request: true,
        restart: true,
        leave: true,
    };

    /// Each event alone.
    pub fn each() -> [Self; 6] {
        let none = Self::NONE;
        [
            Self { cancel: true, ..none },
            Self { deadline: true, ..none },
            Self { lower_msr: true, ..none },
            Self { request: true, ..none },
            Self { restart: true, ..none },
            Self { leave: true, ..none },
        ]
    }

    /// Every two events.
    pub fn pairs() -> impl Iterator<Item = Self> {
        let of = |a: Self, b: Self| Self {
            cancel: a.cancel || b.cancel,
            deadline: a.deadline || b.deadline,
            lower_msr: a.lower_msr || b.lower_msr,
            request: a.request || b.request,
            restart: a.restart || b.restart,
            leave: a.leave || b.leave,
        };
        let each = Self::each();
        (0..each.len()).flat_map(move |a| (0..a).map(move |b| of(each[a], each[b])))
    }
}

/// The job, and how much may happen to it.
#[derive(Clone, Debug)]
pub struct Job {
    /// Each group's messages in a window, and its MSR in parts per billion.
    pub groups: Vec<(u32, u32)>,
    pub windows: u32,
    pub overlap: bool,
    pub names_lost: bool,
    /// Packets that the library has read when the events begin. The host has all.
    pub arrived: usize,
    /// FIN attempts that leave the sender, in all windows.
    pub attempts: u32,
    /// Packets that may be delivered a second time.
    pub duplicates: u32,
    /// Whether packets of DATA, receipts and TERMS are delivered in any order too.
    pub data: bool,
    pub events: Events,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            groups: vec![],
            windows: 1,
            overlap: false,
            names_lost: false,
            arrived: 0,
            attempts: 2,
            duplicates: 1,
            data: false,
            events: Events::NONE,
        }
    }
}

impl Job {
    pub fn random(rng: &mut ChaCha8Rng) -> Self {
        let rates = [0, 300_000_000, 500_000_000, 900_000_000, 1_000_000_000];
        let groups = match rng.random_range(0..4) {
            0 => 40,
            1 => 3,
            _ => 1,
        };
        Self {
            groups: (0..groups)
                .map(|_| (rng.random_range(0..5), rates[rng.random_range(0..rates.len())]))
                .collect(),
            windows: [1, 3, 70, 140][rng.random_range(0..4)],
            overlap: rng.random_bool(0.4),
            names_lost: rng.random_bool(0.3),
            arrived: 0,
            attempts: 1_000,
            duplicates: 50,
            data: true,
            events: Events::ALL,
        }
    }
}
