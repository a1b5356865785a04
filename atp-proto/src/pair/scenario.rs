//! Scenarios, drawn from a seed.

use super::Path;
use crate::{CompleteAt, GroupConfig, ReceiverConfig, SenderConfig};
use atp_common::{
    laws::RateLaw,
    units::Msr,
    wire::{GroupName, Order},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The source of acknowledgments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The receiver's kernel, before the socket's buffer. The sender reads them from a ring.
    Kernel,
    /// The receiving library, packet by packet.
    Library,
}

/// One window of a job, or a job without windows.
#[derive(Clone, Debug)]
pub struct Window {
    /// Groups and lengths of the messages, in the order of queueing.
    pub messages: Vec<(u8, u32)>,
}

/// A change of a group's sampling rate by the application.
#[derive(Clone, Debug)]
pub struct MsrChange {
    /// When, from the beginning on.
    pub at_ns: u64,
    /// The group's id.
    pub group: u8,
    /// The group's new rate.
    pub msr: Msr,
}

/// A request of the receiving application.
#[derive(Clone, Debug)]
pub struct Request {
    /// When, from the beginning on.
    pub at_ns: u64,
    /// A group's sampling rate; `None` asks for the end.
    pub rate: Option<(u8, Msr)>,
}

/// A jump of a host's clock: the host or its hypervisor was stopped.
#[derive(Clone, Copy, Debug)]
pub struct ClockStep {
    /// When, from the beginning on.
    pub at_ns: u64,
    /// How far.
    pub step_ns: u64,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seeds all that is drawn.
    pub seed: u64,
    /// The sender's settings.
    pub sender: SenderConfig,
    /// The receiver's limits.
    pub receiver: ReceiverConfig,
    /// The path of DATA.
    pub forward: Path,
    /// The path of answers.
    pub back: Path,
    /// The source of acknowledgments.
    pub acks: Acks,
    /// The law by which the sending library paces its lanes itself, as without a daemon. Needs the
    /// ACKs of the receiving library.
    pub law: Option<RateLaw>,
    /// Packets leave without ACKs of their own at times, as those of a fast lane under a daemon,
    /// and probes ask about them. The sender reads all ACKs from a ring then. Needs a wire on which
    /// a probe per millisecond is little.
    pub probes: bool,
    /// The windows; one for a job without windows.
    pub windows: Vec<Window>,
    /// The time from a window's first message until its end is forced.
    pub window_deadline_ns: Option<u64>,
    /// The application ends the last window's input, and the job's once that window has ended.
    pub finishes_late: bool,
    /// When the application cancels the job.
    pub cancel_ns: Option<u64>,
    /// The sending application's changes, by time.
    pub msr_changes: Vec<MsrChange>,
    /// By time.
    pub requests: Vec<Request>,
    /// The receiving application confirms each window this long after its end.
    pub confirm_ns: Option<u64>,
    /// The application's pause between two messages.
    pub queue_pause_ns: u64,
    /// The time of one packet on the sender's wire.
    pub wire_ns: u64,
    /// The chance that the socket refuses a packet.
    pub refuse: f64,
    /// Packets that the receiver's socket holds.
    pub socket_packets: usize,
    /// How often the library reads.
    pub read_every_ns: u64,
    /// The packets that it reads at once.
    pub read_packets: usize,
    /// The library reads nothing in this time.
    pub stall_ns: std::ops::Range<u64>,
    /// From this time on, packets with more bytes of a message are dropped silently.
    pub narrow: Option<(u64, u32)>,
    /// Jumps of the sender's clock.
    pub sender_clock: Option<ClockStep>,
    /// Jumps of the receiver's clock.
    pub receiver_clock: Option<ClockStep>,
    /// The memory of the receiving process.
    pub budget_bytes: u64,
    /// Until then other senders hold all of that memory.
    pub full_ns: Option<u64>,
    /// Until then the receiver has no place for a new sender, instead of no memory.
    pub refuses_places: bool,
    /// When the receiving process is replaced by a new one.
    pub restart_ns: Option<u64>,
    /// The receiver drops packed packets and TERMS, and announces neither.
    pub is_old_receiver: bool,
    /// The receiver drops TERMS that state an order, and doesn't announce that it takes them.
    pub without_order: bool,
    /// The receiver's host gives advice, another one with every packet.
    pub advises: bool,
    /// When the receiving host disappears.
    pub vanish_ns: Option<u64>,
    /// After this silence the receiver forgets a sender.
    pub silence_ns: Option<u64>,
    /// When the application drops the receiver.
    pub leave_ns: Option<u64>,
}

pub const JOB: u32 = 7;
pub const COOKIE: u32 = 0x5eed_1234;

impl Scenario {
    /// A quiet network: nothing is lost.
    pub fn perfect(messages: Vec<(u8, u32)>, msr: Msr) -> Self {
        let total = Some(messages.len() as u32);
        let group = GroupConfig { total, ..GroupConfig::new(0, msr) };
        Self {
            seed: 0,
            sender: SenderConfig::new(JOB, COOKIE, group),
            receiver: ReceiverConfig::default(),
            forward: Path::perfect(100_000),
            back: Path::perfect(100_000),
            acks: Acks::Kernel,
            law: None,
            probes: false,
            windows: vec![Window { messages }],
            window_deadline_ns: None,
            finishes_late: false,
            cancel_ns: None,
            msr_changes: vec![],
            requests: vec![],
            confirm_ns: None,
            queue_pause_ns: 0,
            wire_ns: 10_000,
            refuse: 0.0,
            socket_packets: 10_000,
            read_every_ns: 10_000,
            read_packets: 100,
            stall_ns: 0..0,
            narrow: None,
            sender_clock: None,
            receiver_clock: None,
            budget_bytes: 1 << 30,
            full_ns: None,
            refuses_places: false,
            restart_ns: None,
            is_old_receiver: false,
            without_order: false,
            advises: false,
            vanish_ns: None,
            silence_ns: None,
            leave_ns: None,
        }
    }

    /// The length of a message, if it exists.
    pub fn len_of(&self, window: u32, group: u8, id: u32) -> Option<u32> {
        let messages = &self.windows.get(window as usize)?.messages;
        messages.iter().filter(|message| message.0 == group).nth(id as usize).map(|m| m.1)
    }

    /// Whether all messages of a group are needed.
    pub fn is_exact(&self, group: u8) -> bool {
        self.sender.groups.iter().any(|config| config.group == group && config.msr.is_exact())
    }

    /// Divides the job into up to four windows, which may have a deadline.
    pub fn in_windows(mut self) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(self.seed ^ 0x77);
        self.sender.windows = true;
        let all = std::mem::take(&mut self.windows[0].messages);
        let number = rng.random_range(1..=4);
        let every = |window| all.iter().skip(window).step_by(number).copied().collect();
        self.windows = (0..number).map(|window| Window { messages: every(window) }).collect();
        let drawn_ns = 10u64.pow(rng.random_range(5..9)) * rng.random_range(1..10);
        self.window_deadline_ns = rng.random_bool(0.5).then_some(drawn_ns);
        self.finishes_late = rng.random_bool(0.3);
        let first = &self.windows[0].messages;
        for group in &mut self.sender.groups {
            let number = first.iter().filter(|message| message.0 == group.group).count();
            group.total = group.total.map(|_| number as u32);
        }
        self
    }

    /// A bad network, and a job.
    pub fn random(seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let msrs = [0, 1, 500_000_000, 800_000_000, 950_000_000, 1_000_000_000];
        let groups: Vec<u8> = match rng.random_range(0..10) {
            0 => vec![3, 0, 200],
            // More than one page of a FIN.
            1 => (0..70).map(|n| n * 3).collect(),
            _ => vec![0],
        };
        let payload = rng.random_range(1..200);
        let packets_max = [1, 1, 4, 40][rng.random_range(0..4)];
        let number = rng.random_range(0..120);
        let messages: Vec<_> = (0..number)
            .map(|_| {
                let group = groups[rng.random_range(0..groups.len())];
                (group, rng.random_range(0..=payload * packets_max))
            })
            .collect();
        let total_known = rng.random_bool(0.5);
        let mut sender = SenderConfig::new(JOB, COOKIE, GroupConfig::new(0, Msr::EXACT));
        sender.groups = groups
            .iter()
            .map(|&group| GroupConfig {
                total: total_known
                    .then(|| messages.iter().filter(|message| message.0 == group).count() as u32),
                ..GroupConfig::new(
                    group,
                    Msr::from_parts_per_billion(msrs[rng.random_range(0..msrs.len())]).unwrap(),
                )
            })
            .collect();
        sender.payload_bytes_max = payload;
        sender.message_bytes_max = payload * 100;
        sender.mrdf = rng.random_bool(0.8);
        sender.ack_ring_words = 1 << rng.random_range(2..8);
        sender.buffer_messages_max = rng.random_range(1..300);
        sender.buffer_bytes_max = u64::from(payload) * rng.random_range(100..1_000);
        sender.complete_at =
            if rng.random_bool(0.3) { CompleteAt::EveryMessageTried } else { CompleteAt::Msr };
        // A wrong timer granularity causes wrong losses, but must not fail a job.
        sender.timer_granularity_ns = 10u64.pow(rng.random_range(4..8)).min(25_000_000);
        sender.peer_timeout_ns = 30_000_000_000;
        sender.receipt_timeout_ns = 120_000_000_000;
        let reads = rng.random_range(1..8);
        let wire_ns = 10u64.pow(rng.random_range(3..7));
        Self {
            seed,
            sender,
            receiver: receiver(rng),
            forward: Path::random(rng),
            back: Path::random(rng),
            acks: if rng.random_bool(0.6) { Acks::Kernel } else { Acks::Library },
            windows: vec![Window { messages }],
            queue_pause_ns: [0, 0, wire_ns, 20 * wire_ns][rng.random_range(0..4)],
            wire_ns,
            refuse: [0.0, 0.05][rng.random_range(0..2)],
            socket_packets: [1, 8, 10_000][rng.random_range(0..3)],
            // At worst the library reads at a third of the wire's speed.
            read_every_ns: wire_ns * reads,
            read_packets: rng.random_range(reads as usize / 3..8) + 1,
            ..Self::perfect(vec![], Msr::EXACT)
        }
        .with_packing(seed)
        .with_advice(seed)
        .with_terms(seed)
        .with_names(seed)
    }

    /// Makes most messages so short that several fit into a packet.
    pub fn with_short_messages(mut self) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(self.seed ^ 0x05_4027);
        let (old, payload) = (self.sender.payload_bytes_max, rng.random_range(100..1_500));
        self.sender.payload_bytes_max = payload;
        self.sender.message_bytes_max = payload * 100;
        self.sender.buffer_bytes_max = self.sender.buffer_bytes_max / u64::from(old) * 1_500;
        for (_, len) in &mut self.windows[0].messages {
            *len = match rng.random_range(0..20) {
                0 => rng.random_range(0..payload * 3),
                _ => rng.random_range(0..=payload / 4),
            };
        }
        self
    }

    /// Draws whether packets are packed, and how often that is possible. It has random numbers of
    /// its own, so that the rest of a seed's scenario stays the same.
    fn with_packing(mut self, seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x009a_c4ed);
        self.sender.packing = rng.random_bool(0.75);
        self.sender.rank_by_bytes = rng.random_bool(0.25);
        self.is_old_receiver = rng.random_bool(0.15);
        let shorter = [1, 1, 8, 30][rng.random_range(0..4)];
        for (_, len) in &mut self.windows[0].messages {
            *len /= shorter;
        }
        self
    }

    /// Draws whether the receiver's host gives advice, and the first window. As
    /// [`Self::with_packing`], it has random numbers of its own.
    fn with_advice(mut self, seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x0ad_1ce);
        self.advises = !self.is_old_receiver && rng.random_bool(0.5);
        self.sender.initial_window_packets = [0, 0, 1, 3, 16][rng.random_range(0..5)];
        self
    }

    /// Draws whether the sender tells its terms.
    fn with_terms(mut self, seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x7e_2a15);
        self.sender.announce_terms = rng.random_bool(0.7);
        self.without_order = rng.random_bool(0.2);
        // The end awaits terms that state an order.
        if rng.random_bool(0.5) {
            self.sender.groups.iter_mut().for_each(|group| group.order = Order::Shuffled);
        }
        for (index, group) in self.sender.groups.iter_mut().enumerate() {
            group.name = GroupName::new(&format!("group {index}")).unwrap();
        }
        self
    }

    /// Draws whether the sender waits for the ids of lost messages.
    fn with_names(mut self, seed: u64) -> Self {
        self.sender.names_lost = ChaCha8Rng::seed_from_u64(seed ^ 0x1d5).random_bool(0.4);
        self
    }

    /// Draws how late the receiving application confirms windows.
    pub fn with_confirmations(mut self) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(self.seed ^ 0xc0_4f1);
        self.receiver.confirms_windows = true;
        self.confirm_ns = Some(10u64.pow(rng.random_range(3..10)) * rng.random_range(1..10));
        self
    }

    /// Draws requests of the receiver: rates, and sometimes the end.
    pub fn with_requests(mut self) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(self.seed ^ 0x2e9);
        self.sender.announce_terms = true;
        let groups: Vec<u8> = self.sender.groups.iter().map(|group| group.group).collect();
        let mut at_ns = 0;
        for _ in 0..rng.random_range(1..100) {
            at_ns += 10u64.pow(rng.random_range(1..8));
            let group = groups[rng.random_range(0..groups.len())];
            let msr = Msr::from_parts_per_billion(rng.random_range(0..=1_000_000_000)).unwrap();
            let rate = (!rng.random_bool(0.02)).then_some((group, msr));
            self.requests.push(Request { at_ns, rate });
        }
        self
    }
}

fn receiver(rng: &mut ChaCha8Rng) -> ReceiverConfig {
    ReceiverConfig {
        message_bytes_max: 20_000,
        incomplete_messages_max: rng.random_range(30..200),
        incomplete_idle_ns: rng.random_range(50_000_000..1_000_000_000),
        messages_max: 100_000,
        receipt_messages: rng.random_range(1..100),
        receipt_delay_ns: rng.random_range(100_000..5_000_000),
        silence_ns: u64::MAX,
        ..ReceiverConfig::default()
    }
}
