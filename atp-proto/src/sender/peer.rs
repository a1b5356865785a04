//! The peer as its packets describe it: whether it answers, has room and gives advice, and which
//! features it has.

use super::{
    ack_loss::AckLoss,
    advice::ReceiverAdvice,
    config::SenderConfig,
    latest_receipt::{LatestReceipt, Order},
    no_room::NoRoom,
    sent_packets::Transmission,
    silence::Silence,
};
use atp_common::wire::{Features, Header};

/// The receiver and its host.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) silence: Silence,
    pub(crate) no_room: NoRoom,
    pub(crate) advice: ReceiverAdvice,
    pub(crate) ack_loss: AckLoss,
    /// Whether the receiver takes packed packets.
    packing: PackingSupport,
    /// Whether the receiver takes windows that overlap.
    takes_overlap: bool,
    latest_receipt: Option<LatestReceipt>,
}

/// The receiver's support of packed packets, as the sender knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PackingSupport {
    /// No receipt has come.
    #[default]
    Assumed,
    /// No receipt has come, and something timed out.
    Doubted,
    /// The last receipt announced it.
    Announced,
    /// A receipt came without it.
    Missing,
}

impl Peer {
    /// `lanes`: their number.
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            silence: Silence::default(),
            no_room: NoRoom::default(),
            advice: ReceiverAdvice::new(lanes),
            ack_loss: AckLoss::default(),
            packing: PackingSupport::default(),
            takes_overlap: false,
            latest_receipt: None,
        }
    }

    /// Takes in the features that a receipt announced. Returns whether packed packets in flight are
    /// lost for certain: the receiver turns out not to take them.
    pub(crate) fn on_features(&mut self, features: Features) -> bool {
        // It stays: a window that overlaps the one before goes on.
        self.takes_overlap |= features.contains(Features::OVERLAP);
        self.packing = match features.contains(Features::PACKED) {
            // A later claim changes nothing: the receiver was replaced, or it lies.
            _ if self.packing == PackingSupport::Missing => return false,
            true => PackingSupport::Announced,
            false => PackingSupport::Missing,
        };
        self.packing == PackingSupport::Missing
    }

    /// Notes that a packet sent at `sent_ns` got no answer in time.
    pub(crate) fn on_timeout(&mut self, sent_ns: u64) {
        self.silence.on_timeout(sent_ns);
        if self.packing == PackingSupport::Assumed {
            self.packing = PackingSupport::Doubted;
        }
    }

    /// Whether the next packet may be packed, after this many others.
    pub(crate) fn may_take_packed(&self, packets_sent: u64) -> bool {
        match self.packing {
            PackingSupport::Assumed => packets_sent > 0,
            PackingSupport::Announced => true,
            PackingSupport::Doubted | PackingSupport::Missing => false,
        }
    }

    /// Whether the loss of a transmission says something about the path: a packed one may be lost
    /// because the receiver doesn't know such packets.
    pub(crate) fn is_path_loss(&self, transmission: &Transmission) -> bool {
        transmission.members == 0 || self.packing == PackingSupport::Announced
    }

    /// Whether the receiver takes windows that overlap.
    pub(crate) fn takes_overlap(&self) -> bool {
        self.takes_overlap
    }

    /// The place of a receipt beside the latest one.
    pub(crate) fn receipt_order(&self, header: &Header) -> Order {
        LatestReceipt::order(self.latest_receipt, header)
    }

    /// Takes in the header of a receipt that is not older than the latest. `group`: the index of
    /// the group that it names.
    pub(crate) fn on_latest_receipt(
        &mut self,
        now_ns: u64,
        header: &Header,
        group: Option<u8>,
        order: Order,
    ) {
        self.latest_receipt = Some(LatestReceipt::of(header));
        // A duplicate of the newest receipt says nothing about the peer's current state.
        if order != Order::Same {
            self.advice.on_receipt(now_ns, header, group);
        }
    }

    /// How often timeouts are doubled. A sender with an initial window has few packets in the
    /// network until it hears something, and may retransmit them soon.
    pub(crate) fn timeouts_doubling(&self, config: &SenderConfig) -> u32 {
        let is_starting = config.initial_window_packets > 0 && !self.silence.has_answered();
        self.silence.timeouts().min(if is_starting { 1 } else { u32::MAX })
    }

    /// How long the peer may be silent.
    pub(crate) fn silence_ns_max(&self, config: &SenderConfig) -> u64 {
        match self.silence.is_refused() {
            true => config.peer_timeout_ns.min(config.refused_timeout_ns),
            false => config.peer_timeout_ns,
        }
    }
}
