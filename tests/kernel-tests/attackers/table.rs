//! The table: who sends what, and what it may cost the honest job.
//!
//! Each attacker that forges addresses has a row for each kind of packet. The others' addresses are
//! refused before their packets' kinds matter, so the kinds for one end share a row; a row that
//! fails tries each of them alone. Rows of IPv6 and rows of attackers that are there before the job
//! are those whose code differs: both programs parse the addresses of each family, and only state
//! that a packet creates can be older than a job.

use atp_common::wire::Kind;
use testbed::Family;

/// The place and the knowledge of an attacker. Each knows the addresses, ports and job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attacker {
    /// Another user of the sender's host, without privileges: sends from sockets of its own.
    SendersUser,
    /// Root of a container on the sender's network: in a PID namespace and a cgroup of its own,
    /// without capabilities. With CAP_NET_RAW it would be on the path.
    SendersTenant,
    /// Another user of the receiver's host. Its packets reach the receiver by the loopback.
    ReceiversUser,
    /// Another host: sends from its own address.
    Neighbor,
    /// Another host: forges the address of the job's other end, and guesses cookies.
    OffPath,
    /// A router of the job's path: reads the packets, so it knows the cookie and the slots.
    OnPath,
}

/// The time of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// From the arrival of the job's first packets to the sender's end.
    Job,
    /// From before the job begins. The attacker knows the port that the sender will have.
    Before,
    /// Until the receiving command ends: one sender of messages without an end.
    GoesOn,
}

/// The cost of an attack for the job, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Speed. The job completes, and the receiver has what the job needs.
    Speed,
    /// As [`Loss::Speed`]. A receiver without limits gets messages of the attacker besides, as from
    /// another sender of a job of the same name.
    Messages,
    /// The job, noticed: the sender reports an end before the guarantee, or an error. Only a key
    /// would end this row. Other jobs of the same hosts, and the daemons, are safe.
    Job,
    /// As [`Loss::Job`], unnoticed: the sender may take messages for delivered that aren't.
    Unnoticed,
}

/// One attacker, and what it sends.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub attacker: Attacker,
    pub time: Time,
    pub family: Family,
    /// The kinds of packets, all for the same end.
    pub kinds: &'static [Kind],
    /// The receiver takes only the job, and only from the sender's address.
    pub limits: bool,
    pub loss: Loss,
}

impl Row {
    /// The test's name.
    pub fn name(&self) -> String {
        let attacker = match self.attacker {
            Attacker::SendersUser => "user_of_the_sender_s_host",
            Attacker::SendersTenant => "container_on_the_sender_s_host",
            Attacker::ReceiversUser => "user_of_the_receiver_s_host",
            Attacker::Neighbor => "neighbor",
            Attacker::OffPath => "off_path",
            Attacker::OnPath => "on_path",
        };
        let time = match self.time {
            Time::Job => "",
            Time::Before => "_before_the_job",
            Time::GoesOn => "_and_goes_on",
        };
        let family = match self.family {
            Family::V4 => "",
            Family::V6 => "_by_ipv6",
        };
        let kinds = match self.kinds {
            TO_SENDER => "all_kinds_for_senders".to_owned(),
            TO_RECEIVER => "all_kinds_for_receivers".to_owned(),
            kinds => {
                let names: Vec<_> = kinds.iter().map(|kind| kind.name().to_lowercase()).collect();
                names.join("_and_").replace('-', "_")
            }
        };
        let limits = if self.limits { "_to_a_receiver_with_limits" } else { "" };
        format!("{attacker}__sends_{kinds}{family}{time}{limits}")
    }

    /// Whether a key alone would end the row.
    pub const fn needs_a_key(&self) -> bool {
        matches!(self.loss, Loss::Job | Loss::Unnoticed)
    }

    /// The rows of each kind alone. The kinds of a job, DATA and FIN, belong together.
    pub fn of_each_kind(self) -> impl Iterator<Item = Self> {
        let each = if self.kinds == JOB { &[][..] } else { self.kinds };
        each.chunks(1).map(move |kinds| Self { kinds, ..self })
    }

    const fn at(self, time: Time) -> Self {
        Self { time, ..self }
    }

    const fn with_limits(self) -> Self {
        Self { limits: true, ..self }
    }

    const fn by_ipv6(self) -> Self {
        Self { family: Family::V6, ..self }
    }
}

const fn row(attacker: Attacker, kinds: &'static [Kind], loss: Loss) -> Row {
    Row { attacker, time: Time::Job, family: Family::V4, kinds, limits: false, loss }
}

use Attacker::{Neighbor, OffPath, OnPath, ReceiversUser, SendersTenant, SendersUser};
use Kind::{Ack, Data, Fin, FinAck, Probe, ProbeAck, Receipt, Request, Reset, Terms};
use Loss::{Messages, Speed, Unnoticed};
use Time::{Before, GoesOn};

/// All kinds that only a sender gets.
const TO_SENDER: &[Kind] = &[Ack, Receipt, FinAck, Reset, ProbeAck, Request];
/// The kinds that only a receiver gets, without messages.
const TO_RECEIVER: &[Kind] = &[Probe, Fin, Terms];
/// A job of the attacker's.
const JOB: &[Kind] = &[Data, Fin];

/// All rows.
pub const ROWS: [Row; 43] = [
    row(SendersUser, TO_RECEIVER, Speed),
    row(SendersUser, TO_SENDER, Speed),
    row(SendersUser, JOB, Messages),
    row(SendersUser, JOB, Messages).by_ipv6(),
    row(SendersTenant, TO_RECEIVER, Speed),
    row(SendersTenant, TO_SENDER, Speed),
    row(SendersTenant, JOB, Messages),
    row(ReceiversUser, TO_RECEIVER, Speed),
    row(ReceiversUser, TO_SENDER, Speed),
    row(ReceiversUser, JOB, Messages),
    row(Neighbor, TO_RECEIVER, Speed),
    row(Neighbor, TO_SENDER, Speed),
    row(Neighbor, TO_SENDER, Speed).by_ipv6(),
    row(Neighbor, JOB, Messages),
    row(Neighbor, JOB, Speed).at(Before).with_limits(),
    row(Neighbor, &[Data], Messages).at(GoesOn),
    row(OffPath, &[Data], Messages),
    row(OffPath, &[Ack], Speed),
    row(OffPath, &[Probe], Speed),
    row(OffPath, &[Receipt], Speed),
    row(OffPath, &[Fin], Speed),
    row(OffPath, &[FinAck], Speed),
    row(OffPath, &[Reset], Speed),
    row(OffPath, &[ProbeAck], Speed),
    row(OffPath, &[Terms], Speed),
    row(OffPath, &[Request], Speed),
    row(OffPath, JOB, Messages),
    row(OffPath, TO_RECEIVER, Speed).by_ipv6(),
    row(OffPath, TO_SENDER, Speed).by_ipv6(),
    row(OffPath, JOB, Messages).by_ipv6(),
    row(OffPath, TO_RECEIVER, Speed).at(Before),
    row(OffPath, TO_SENDER, Speed).at(Before),
    row(OffPath, JOB, Loss::Job).at(Before).with_limits(),
    row(OnPath, &[Data], Unnoticed),
    row(OnPath, &[Ack], Speed),
    row(OnPath, &[Probe], Speed),
    row(OnPath, &[Receipt], Unnoticed),
    row(OnPath, &[Fin], Loss::Job),
    row(OnPath, &[FinAck], Unnoticed),
    row(OnPath, &[Reset], Loss::Job),
    row(OnPath, &[ProbeAck], Speed),
    row(OnPath, &[Terms], Speed),
    row(OnPath, &[Request], Loss::Job),
];
