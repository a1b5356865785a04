//! The receiving side of one (source, job): messages put together, receipts, the job's end.

mod assemble;
mod config;
mod delivered;
mod outcome;
mod partial;
mod receipt;
mod sparse;
#[cfg(test)]
mod tests;

pub use config::ReceiverConfig;
pub use outcome::{DropReason, Outcome, ReceiverStats, Summary, reset_header};

use assemble::{Assembler, Assembly};
use atp_common::wire::{Fields, FinBody, FinGroup, Flags, HEADER_LEN, Header, Kind, ResetReason};
use delivered::Delivered;
use partial::Piece;
use receipt::{RECEIPT_BYTES_MIN, Receipts, Reported};

/// Contradictions that are dropped in silence, since a damaged packet can look like one. After so
/// many the sender is told.
const CONTRADICTIONS_MAX: u64 = 16;

/// What may be sent for each byte that came: nothing proves that a source's address is true, and who
/// forges one shall not make much of it (the factor of RFC 9000 §8.1).
const AMPLIFICATION_MAX: u64 = 3;
/// A sender that was heard well is owed no more than this, which is many receipts.
const CREDIT_BYTES_MAX: u64 = 1 << 16;

/// The receiving side of one (source, job).
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    job: u32,
    cookie: u32,
    assembler: Assembler,
    delivered: Delivered,
    /// Whole messages per group.
    group_delivered: Box<[u32; 256]>,
    receipts: Receipts,
    stats: ReceiverStats,
    /// The youngest slot that was taken in.
    slot: u32,
    group: u8,
    heard_ns: u64,
    /// How much may be sent to the source.
    credit_bytes: u64,
    end: Option<End>,
}

/// What is known of a job that has ended.
#[derive(Debug)]
struct End {
    ids: u32,
    groups: Vec<FinGroup>,
    asked_ns: u64,
}

impl Receiver {
    /// A receiver for the sender whose first packet (DATA or FIN) has `first` as its header. That
    /// packet is still to be given to [`Receiver::on_data`] or [`Receiver::on_fin`].
    pub fn new(config: ReceiverConfig, now_ns: u64, first: &Header) -> Self {
        Self {
            job: first.job(),
            cookie: first.cookie(),
            assembler: Assembler::new(config),
            delivered: Delivered::default(),
            group_delivered: Box::new([0; 256]),
            receipts: Receipts::new(&config),
            stats: ReceiverStats::default(),
            slot: first.slot(),
            group: first.group(),
            heard_ns: now_ns,
            credit_bytes: 0,
            end: None,
            config,
        }
    }

    /// The job's id.
    pub fn job(&self) -> u32 {
        self.job
    }

    /// The sender's cookie. A packet with another one is of another run of the job.
    pub fn cookie(&self) -> u32 {
        self.cookie
    }

    /// Takes in one DATA packet: its parsed header and what follows the header.
    pub fn on_data(&mut self, now_ns: u64, header: &Header, data: &[u8]) -> Outcome {
        if !self.is_ours(header) {
            self.stats.packets_foreign += 1;
            return Outcome::Dropped(DropReason::Foreign);
        }
        self.heard(now_ns, header, data.len());
        self.stats.packets_arrived += 1;
        self.receipts.arrived(now_ns);
        let (message, count) = (header.message(), header.count());
        if message >= self.config.messages_max {
            self.stats.packets_refused += 1;
            return Outcome::Refused(ResetReason::NoRoom);
        }
        if self.delivered.contains(message) {
            self.stats.packets_duplicate += 1;
            self.receipts.repeat(now_ns, message);
            return Outcome::Duplicate;
        }
        if self.end.is_some() {
            self.stats.packets_late += 1;
            return Outcome::Dropped(DropReason::Ended);
        }
        let group = header.group();
        let piece = Piece { message, group, index: header.index(), count, data };
        let assembly = if count == 1 && header.index() == 0 {
            self.take_single(&piece)
        } else if header.index() < count {
            self.assembler.insert(now_ns, &piece, &mut self.stats)
        } else {
            Assembly::Contradiction
        };
        self.conclude(now_ns, &piece, assembly)
    }

    fn take_single(&self, piece: &Piece<'_>) -> Assembly {
        if piece.data.len() as u64 > u64::from(self.config.message_bytes_max) {
            Assembly::TooLarge
        } else if self.assembler.contains(piece.message) {
            Assembly::Contradiction
        } else {
            Assembly::Whole(piece.data.to_vec())
        }
    }

    fn conclude(&mut self, now_ns: u64, piece: &Piece<'_>, assembly: Assembly) -> Outcome {
        let Piece { message, group, .. } = *piece;
        match assembly {
            Assembly::Whole(data) => {
                self.delivered.insert(message);
                self.group_delivered[usize::from(group)] += 1;
                self.receipts.completed(now_ns, message);
                self.stats.messages_delivered += 1;
                self.stats.bytes_delivered += data.len() as u64;
                Outcome::Complete { message, group, data }
            }
            Assembly::Kept => Outcome::Incomplete,
            Assembly::Duplicate => {
                self.stats.packets_duplicate += 1;
                Outcome::Duplicate
            }
            Assembly::NoRoom => {
                self.stats.packets_no_room += 1;
                Outcome::Dropped(DropReason::NoRoom)
            }
            Assembly::TooLarge => {
                self.stats.packets_refused += 1;
                Outcome::Refused(ResetReason::TooLarge)
            }
            Assembly::Contradiction => {
                self.stats.packets_contradicting += 1;
                if self.stats.packets_contradicting > CONTRADICTIONS_MAX {
                    return Outcome::Refused(ResetReason::Inconsistent);
                }
                Outcome::Dropped(DropReason::Contradiction)
            }
        }
    }

    /// Takes in a FIN, writes the FIN-ACK (header and body) into `out` and returns its length; 0 if
    /// the FIN is foreign or makes no sense, or `out` is too short (1,056 bytes are always enough).
    /// A receipt may be due afterwards. Once every group has what it needs the job has ended:
    /// see [`Receiver::summary`].
    pub fn on_fin(
        &mut self,
        now_ns: u64,
        header: &Header,
        body: &FinBody,
        out: &mut [u8],
    ) -> usize {
        if !self.is_ours(header) {
            self.stats.packets_foreign += 1;
            return 0;
        }
        let ids: u64 = body.groups().map(|group| u64::from(group.messages)).sum();
        if ids != u64::from(header.message()) || ids > u64::from(self.config.messages_max) {
            self.stats.packets_refused += 1;
            return 0;
        }
        self.heard(now_ns, header, body.bytes());
        let mut sender_knows_less = false;
        let counted = body.groups().map(|group| {
            let delivered = self.group_delivered[usize::from(group.group)].min(group.messages);
            sender_knows_less |= group.delivered < delivered;
            FinGroup { delivered, ..group }
        });
        let groups: Vec<_> = counted.collect();
        let is_enough = groups.iter().all(|group| group.delivered >= group.needed);
        if sender_knows_less {
            self.receipts.hurry();
        }
        // As long as the FIN.
        let len = fin_ack(header, &groups, out);
        self.credit_bytes = self.credit_bytes.saturating_sub(len as u64);
        match &mut self.end {
            Some(end) => end.asked_ns = now_ns,
            None if is_enough => {
                self.end = Some(End { ids: header.message(), groups, asked_ns: now_ns });
                self.assembler.clear();
            }
            None => {}
        }
        len
    }

    /// Whether a receipt should go out now.
    pub fn receipt_due(&self, now_ns: u64) -> bool {
        self.poll_timeout().is_some_and(|at_ns| at_ns <= now_ns)
    }

    /// When the next receipt will be due, if nothing arrives before. It may lie in the past.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.receipts.due_ns().filter(|_| self.credit_bytes >= RECEIPT_BYTES_MIN)
    }

    /// Writes a receipt, header and body, into `out` and returns its length; 0 if `out` is shorter
    /// than 44 bytes, or if the source was sent three times as much as came from it. 1,196 bytes are
    /// the most that is used.
    pub fn write_receipt(&mut self, now_ns: u64, out: &mut [u8]) -> usize {
        let room = out.len().min(self.credit_bytes as usize);
        let reported = Reported {
            job: self.job,
            cookie: self.cookie,
            group: self.group,
            slot: self.slot,
            packets_arrived: self.stats.packets_arrived as u32,
        };
        let len = self.receipts.write(now_ns, &self.delivered, &reported, &mut out[..room]);
        self.credit_bytes -= len as u64;
        len
    }

    /// How the job ended; `None` before it did. It doesn't change afterwards.
    pub fn summary(&self) -> Option<Summary> {
        let end = self.end.as_ref()?;
        Some(Summary {
            messages: end.ids,
            delivered: self.delivered.number(),
            groups: end.groups.clone(),
            lost: self.delivered.missing(end.ids).collect(),
        })
    }

    /// Whether the job has ended (FIN came and every group has what it needs).
    pub fn is_finished(&self) -> bool {
        self.end.is_some()
    }

    /// Whether nothing came from the sender for so long, before the job's end, that it is gone.
    pub fn is_abandoned(&self, now_ns: u64) -> bool {
        let silence_ns = now_ns.saturating_sub(self.heard_ns);
        self.end.is_none() && silence_ns >= self.config.silence_ns
    }

    /// Whether this state can be dropped: finished and lingered, or abandoned.
    pub fn expired(&self, now_ns: u64) -> bool {
        match &self.end {
            Some(end) => now_ns.saturating_sub(end.asked_ns) >= self.config.linger_ns,
            None => self.is_abandoned(now_ns),
        }
    }

    /// When the last packet of the sender came.
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// Counters.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Messages delivered of `group`.
    pub fn delivered(&self, group: u8) -> u32 {
        self.group_delivered[usize::from(group)]
    }

    fn is_ours(&self, header: &Header) -> bool {
        header.job() == self.job && header.cookie() == self.cookie
    }

    fn heard(&mut self, now_ns: u64, header: &Header, body_bytes: usize) {
        self.heard_ns = now_ns;
        let bytes = (HEADER_LEN + body_bytes) as u64;
        self.credit_bytes = (self.credit_bytes + AMPLIFICATION_MAX * bytes).min(CREDIT_BYTES_MAX);
        // Serial numbers: what came out of order isn't younger.
        if (header.slot().wrapping_sub(self.slot) as i32) > 0 {
            self.slot = header.slot();
        }
    }
}

/// Writes the answer to a FIN: everything echoed but the kind and the counts.
fn fin_ack(fin: &Header, groups: &[FinGroup], out: &mut [u8]) -> usize {
    let header = Header::new(&Fields {
        kind: Kind::FinAck,
        flags: Flags::NONE,
        group: fin.group(),
        job: fin.job(),
        cookie: fin.cookie(),
        message: fin.message(),
        index: fin.index(),
        count: fin.count(),
        epoch: fin.epoch(),
        slot: fin.slot(),
        time: fin.time(),
    });
    let Some((head, body)) = out.split_at_mut_checked(HEADER_LEN) else { return 0 };
    head.copy_from_slice(header.as_bytes());
    FinBody::write(body, groups).map_or(0, |body_len| HEADER_LEN + body_len)
}
