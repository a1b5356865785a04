//! The table: who sends what, and what it may cost the honest job.

use atp_common::wire::Kind;

/// The place and the knowledge of an attacker. Each knows the addresses, ports and job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attacker {
    /// Another user of the sender's host, without privileges: sends from sockets of its own.
    LocalUser,
    /// Another host: sends from its own address.
    Neighbor,
    /// Another host: forges the address of the job's other end, and guesses cookies.
    OffPath,
    /// A router of the job's path: reads the packets, so it knows the cookie and the slots.
    OnPath,
}

/// The cost of an attack for the job, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Speed. The job completes, and the receiver has what the job needs.
    Speed,
    /// As [`Loss::Speed`]. The receiver may get messages of the attacker besides, as from another
    /// sender of a job of the same name, and its ends count as those of senders.
    Messages,
    /// The job. Only a key would end this row. The daemons and the next job are safe.
    Job,
}

/// One attacker, and what it sends.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub attacker: Attacker,
    /// The kinds of packets, all for the same end. Several are sent one after the other, with the
    /// same cookie.
    pub kinds: &'static [Kind],
    pub loss: Loss,
}

impl Row {
    /// The test's name.
    pub fn name(&self) -> String {
        let attacker = match self.attacker {
            Attacker::LocalUser => "local_user",
            Attacker::Neighbor => "neighbor",
            Attacker::OffPath => "off_path",
            Attacker::OnPath => "on_path",
        };
        let kinds: Vec<_> = self.kinds.iter().map(|kind| kind.name().to_lowercase()).collect();
        format!("{attacker}__sends_{}", kinds.join("_and_").replace('-', "_"))
    }
}

const fn row(attacker: Attacker, kinds: &'static [Kind], loss: Loss) -> Row {
    Row { attacker, kinds, loss }
}

use Attacker::{LocalUser, Neighbor, OffPath, OnPath};
use Loss::{Job, Messages, Speed};

/// All rows.
pub const ROWS: [Row; 43] = [
    row(LocalUser, &[Kind::Data], Messages),
    row(LocalUser, &[Kind::Ack], Speed),
    row(LocalUser, &[Kind::Probe], Speed),
    row(LocalUser, &[Kind::Receipt], Speed),
    row(LocalUser, &[Kind::Fin], Speed),
    row(LocalUser, &[Kind::FinAck], Speed),
    row(LocalUser, &[Kind::Reset], Speed),
    row(LocalUser, &[Kind::ProbeAck], Speed),
    row(LocalUser, &[Kind::Terms], Speed),
    row(LocalUser, &[Kind::Request], Speed),
    row(LocalUser, &[Kind::Data, Kind::Fin], Messages),
    row(Neighbor, &[Kind::Data], Messages),
    row(Neighbor, &[Kind::Ack], Speed),
    row(Neighbor, &[Kind::Probe], Speed),
    row(Neighbor, &[Kind::Receipt], Speed),
    row(Neighbor, &[Kind::Fin], Speed),
    row(Neighbor, &[Kind::FinAck], Speed),
    row(Neighbor, &[Kind::Reset], Speed),
    row(Neighbor, &[Kind::ProbeAck], Speed),
    row(Neighbor, &[Kind::Terms], Speed),
    row(Neighbor, &[Kind::Request], Speed),
    row(Neighbor, &[Kind::Data, Kind::Fin], Messages),
    row(OffPath, &[Kind::Data], Messages),
    row(OffPath, &[Kind::Ack], Speed),
    row(OffPath, &[Kind::Probe], Speed),
    row(OffPath, &[Kind::Receipt], Speed),
    row(OffPath, &[Kind::Fin], Speed),
    row(OffPath, &[Kind::FinAck], Speed),
    row(OffPath, &[Kind::Reset], Speed),
    row(OffPath, &[Kind::ProbeAck], Speed),
    row(OffPath, &[Kind::Terms], Speed),
    row(OffPath, &[Kind::Request], Speed),
    row(OffPath, &[Kind::Data, Kind::Fin], Messages),
    row(OnPath, &[Kind::Data], Job),
    row(OnPath, &[Kind::Ack], Speed),
    row(OnPath, &[Kind::Probe], Speed),
    row(OnPath, &[Kind::Receipt], Job),
    row(OnPath, &[Kind::Fin], Job),
    row(OnPath, &[Kind::FinAck], Job),
    row(OnPath, &[Kind::Reset], Job),
    row(OnPath, &[Kind::ProbeAck], Speed),
    row(OnPath, &[Kind::Terms], Speed),
    row(OnPath, &[Kind::Request], Job),
];
