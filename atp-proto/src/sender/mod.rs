//! The sending side of one flow: chooses the next packet, detects losses, and tells when the job
//! is complete.
//!
//! Every transmission, also a retransmission, takes the next slot of the flow's 32-bit slot
//! sequence. An acknowledgment therefore names one transmission, never one of several. Slots are in
//! the order of sending, and a scan of the acknowledgment ring reads neighboring words.
//!
//! A job may have several *windows*. Each window has its own messages and its own end. Slots, and
//! the knowledge about the path, continue from one window to the next.
//!
//! # The files, in the order of a message's life
//!
//! [`Sender`] calls the phases in their order. A phase reads and changes its own state and its
//! arguments, nothing else.
//!
//! | `Sender` | the order of phases |
//! |---|---|
//! | `job` | the application queues messages, begins windows and ends them |
//! | `send` | the next packets are handed out: DATA, FIN, TERMS |
//! | `on_ack` | acknowledgments, answers to PROBEs, losses |
//! | `on_packet` | packets of the peer: receipts, FIN-ACKs, REQUESTs, RESETs |
//! | `on_timeout` | timeouts |
//! | `settings`, `status` | a running sender is changed and described |
//!
//! | `Windows`, `Window` | messages, from one window to the next |
//! |---|---|
//! | `queue` | a queued message enters the `ledger` and its `group`'s `schedule`; the next is chosen |
//! | `handout` | its packets take slots |
//! | `pack` | several short messages share a packet; `members` are those messages |
//! | `update` | acknowledged and lost packets change the message's place |
//! | `receipt` | the peer's application has messages; they leave the ledger |
//! | `missing` | messages that wait too long for their receipt are retransmitted |
//! | `fin` | FIN and FIN-ACK end the window or the job; `ending` has the state of that |
//! | `lost_ids` | receipts name the messages that an ended window has lost, as `naming` asks |
//!
//! | `Transmissions` | slots, lane by lane |
//! |---|---|
//! | `sent_packets` | the transmissions from the oldest remembered one to the latest |
//! | `lanes` | each lane's pace, an input of the loss detector |
//! | `loss` | the detector declares transmissions lost |
//! | `black_hole` | the path has become narrower |
//!
//! | `Peer` | the receiver and its host |
//! |---|---|
//! | `silence` | nothing is received |
//! | `no_room` | the receiver has no room: sending pauses |
//! | `latest_receipt` | receipts are put in order |
//! | `ack_loss` | receipts show how many ACKs were lost |
//! | `advice` | receipts also carry the receiving host's advice to lanes |
//!
//! `FirstWindow` limits the packets in flight at the start, and the `Announcement` in `terms`
//! tells the peer N, MSR and name of each group.

mod ack_loss;
mod advice;
mod awaiting_receipt;
mod black_hole;
mod buckets;
mod config;
mod ending;
mod fin;
mod first_window;
mod group;
mod handout;
mod job;
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
mod on_packet;
mod on_timeout;
mod pack;
mod peer;
mod queue;
mod receipt;
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
mod transmissions;
mod update;
mod window;
mod windows;

pub use config::{
    CompleteAt, ConfigError, GroupConfig, MESSAGES_MAX, PAYLOAD_BYTES_MAX, Pace, RequestPolicy,
    SenderConfig,
};
pub use handout::Packet;
pub use pack::PackedMessage;
pub use report::{
    GroupReport, LostIds, MessageId, MsrError, PacketRefused, QueueError, Report, SendError, Short,
    State, UnknownIds,
};
pub use sent_packets::AckRing;
pub use windows::EndedWindow;

use first_window::FirstWindow;
use group::GroupIndices;
use peer::Peer;
use terms::Announcement;
use transmissions::Transmissions;
use window::Window;
use windows::Windows;

/// The sending side of one flow: one destination of one job.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    indices: GroupIndices,
    windows: Windows,
    transmissions: Transmissions,
    peer: Peer,
    first_window: FirstWindow,
    announcement: Announcement,
    /// Counters. Its groups stay empty: [`Sender::report`] fills them in.
    report: Report,
}

impl Sender {
    /// A sender that has sent nothing. The acknowledgment ring, if there is one, must be zeroed.
    pub fn new(mut config: SenderConfig) -> Result<Self, ConfigError> {
        config.check()?;
        config.groups.sort_by_key(|group| group.group);
        Ok(Self {
            indices: GroupIndices::new(&config.groups),
            windows: Windows::new(Window::first(&config)),
            transmissions: Transmissions::new(&config),
            peer: Peer::new(config.groups.len()),
            first_window: FirstWindow::default(),
            announcement: Announcement::default(),
            report: Report::default(),
            config,
        })
    }
}
