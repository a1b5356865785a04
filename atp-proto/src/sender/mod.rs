//! The sending side of one flow: chooses the next packet, detects losses, and tells when the job
//! is complete.
//!
//! Every transmission, also a retransmission, takes the next slot of the flow's 32-bit slot
//! sequence. An acknowledgment therefore names one transmission, never one of several. Slots are in
//! the order of sending, and a scan of the acknowledgment ring reads neighboring words.
//!
//! A job may be a stream of *windows*. Each window has its own messages and its own end. Slots, and
//! the knowledge about the path, continue from one window to the next.
//!
//! # The files, in the order of a message's life
//!
//! | file | phase |
//! |---|---|
//! | `queue` | the application queues a message; it enters the `ledger` and its group's `schedule` |
//! | `send` | the `schedule` names the next message; its packets take slots of `sent_packets` |
//! | `pack` | several short messages share a packet; `members` are those messages |
//! | `on_ack` | the peer's host acknowledges packets |
//! | `on_probe` | packets without an ACK become known: PROBEs about them are answered |
//! | `on_loss` | `loss`, the detector, declares packets lost; they become sendable again |
//! | `on_receipt` | the peer's application has messages; they leave the ledger |
//! | `terms` | the peer learns N, MSR and name of each group |
//! | `on_request` | the peer asks for other sampling rates, or for the end |
//! | `ack_loss` | receipts show how many ACKs were lost |
//! | `advice` | receipts also carry the receiving host's advice to lanes |
//! | `missing` | acknowledged messages that wait too long for their receipt are retransmitted |
//! | `no_room` | the peer has no room: sending pauses |
//! | `window` | the next window begins, perhaps while the end of the last one is confirmed |
//! | `end` | FIN and FIN-ACK end the window or the job |
//! | `naming`, `lost_ids` | receipts name the messages that the ended window has lost |
//!
//! `on_packet` hands each packet of the peer to its phase, and `on_timeout` each timeout. `update`
//! is the step that all phases share: it files a message whose packets changed their states.
//! `settings` changes a running sender, and `status` describes it. `lanes` keeps each lane's pace,
//! an input of the loss detector.

mod ack_loss;
mod advice;
mod awaiting_receipt;
mod black_hole;
mod buckets;
mod config;
mod end;
mod ending;
mod first_window;
mod group;
mod lanes;
mod latest_receipt;
mod ledger;
mod loss;
mod lost_ids;
mod members;
mod missing;
mod naming;
mod no_room;
mod on_ack;
mod on_loss;
mod on_packet;
mod on_probe;
mod on_receipt;
mod on_request;
mod on_timeout;
mod pack;
mod queue;
mod report;
mod schedule;
mod send;
mod sent_packets;
mod settings;
mod silence;
mod status;
mod terms;
#[cfg(test)]
mod tests;
mod told_by;
mod update;
mod window;

pub use config::{
    CompleteAt, ConfigError, GroupConfig, MESSAGES_MAX, PAYLOAD_BYTES_MAX, Pace, SenderConfig,
};
pub use on_request::RequestPolicy;
pub use pack::PackedMessage;
pub use report::{
    GroupReport, LostIds, MessageId, MsrError, PacketRefused, QueueError, Report, SendError, Short,
    State, UnknownIds,
};
pub use send::Packet;
pub use sent_packets::AckRing;
pub use window::EndedWindow;

use ack_loss::AckLoss;
use advice::ReceiverAdvice;
use black_hole::BlackHoleDetector;
use first_window::FirstWindow;
use group::Group;
use lanes::Lanes;
use latest_receipt::LatestReceipt;
use loss::LossDetector;
use no_room::NoRoom;
use pack::Support;
use sent_packets::SentPackets;
use silence::Silence;
use terms::Announcement;
use window::Window;

/// The sending side of one flow: one destination of one job.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    /// The present window; while a phase works on the closing one, that.
    window: Window,
    /// The window before it, while its end is confirmed.
    closing: Option<Box<Window>>,
    /// By id: the group's index plus one, 0 for an unknown group.
    group_indices: Box<[u16; 256]>,
    sent_packets: SentPackets,
    /// Whether the receiver takes packed packets.
    support: Support,
    /// Whether the receiver takes windows that overlap.
    takes_overlap: bool,
    lanes: Lanes,
    loss_detector: LossDetector,
    silence: Silence,
    first_window: FirstWindow,
    black_hole: BlackHoleDetector,
    no_room: NoRoom,
    latest_receipt: Option<LatestReceipt>,
    receiver_advice: ReceiverAdvice,
    announcement: Announcement,
    ack_loss: AckLoss,
    /// Counters. Its groups stay empty: [`Sender::report`] fills them in.
    report: Report,
    /// Buffer for the slots that a scan finds, reused by every scan.
    newly_acked: Vec<u32>,
}

impl Sender {
    /// A sender that has sent nothing. The acknowledgment ring, if there is one, must be zeroed.
    pub fn new(mut config: SenderConfig) -> Result<Self, ConfigError> {
        config.check()?;
        config.groups.sort_by_key(|group| group.group);
        let groups: Vec<_> =
            config.groups.iter().map(|g| Group::new(*g, g.msr.is_exact(), &config)).collect();
        let mut group_indices = Box::new([0; 256]);
        for (number, group) in (1..).zip(&config.groups) {
            group_indices[usize::from(group.group)] = number;
        }
        let lanes = groups.len();
        Ok(Self {
            lanes: Lanes::new(lanes, config.cookie, config.timer_granularity_ns),
            loss_detector: LossDetector::new(lanes),
            config,
            window: Window::new(0, 0, groups),
            closing: None,
            group_indices,
            sent_packets: SentPackets::new(lanes),
            support: Support::default(),
            takes_overlap: false,
            silence: Silence::default(),
            first_window: FirstWindow::default(),
            black_hole: BlackHoleDetector::default(),
            no_room: NoRoom::default(),
            latest_receipt: None,
            receiver_advice: ReceiverAdvice::new(lanes),
            announcement: Announcement::default(),
            ack_loss: AckLoss::default(),
            report: Report::default(),
            newly_acked: Vec::new(),
        })
    }

    /// The index of a group in the configuration, which is also that of its lane.
    fn group_index(&self, group: u8) -> Option<u8> {
        self.group_indices[usize::from(group)].checked_sub(1).map(|index| index as u8)
    }
}
