//! Forged packets: for each kind, the contents that would do most harm if they were believed.

use super::craft::payload;
use anyhow::{Context, Result};
use atp_common::{
    units::Msr,
    wire::{
        Fields, FinBody, FinGroup, Flags, GroupName, HEADER_LEN, Header, Kind, Order, PROBE_LEN,
        RequestBody, TermsBody, TermsGroup, probe_packet,
    },
};

/// The beginning of every forged message. No message of a [`crate::Load`] begins with it.
pub const MARK: &[u8] = b"stranger";

/// The claims of a forged packet about the job that it attacks.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub job: u32,
    pub cookie: u32,
    /// N of the job.
    pub messages: u32,
    /// The slot of the first forged packet.
    pub slot: u32,
}

/// Whether the job's sender gets packets of this kind, rather than its receiver.
pub const fn is_for_sender(kind: Kind) -> bool {
    match kind {
        Kind::Ack | Kind::Receipt | Kind::FinAck | Kind::Reset | Kind::ProbeAck | Kind::Request => {
            true
        }
        Kind::Data | Kind::Probe | Kind::Fin | Kind::Terms => false,
    }
}

/// A cookie that equals the job's with probability 2^-32.
pub const fn wrong_cookie(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_761) | 1
}

/// The `number`th forged packet of a kind.
pub fn forged(kind: Kind, claim: Claim, number: u32) -> Result<Vec<u8>> {
    let Claim { job, cookie, messages, slot } = claim;
    // A FIN's slot is later than that of the DATA before it.
    let slot = slot.wrapping_add(2 * number + u32::from(kind != Kind::Data));
    let fields = Fields { job, cookie, slot, ..Fields::of(kind) };
    let mut body = vec![0; 256];
    let (fields, len) = match kind {
        Kind::Data => {
            let text = [MARK, format!("{number:016}").as_bytes()].concat();
            body[..text.len()].copy_from_slice(&text);
            (Fields { message: number % messages, count: 1, ..fields }, Some(text.len()))
        }
        Kind::Ack => (Fields { message: number % messages, count: 1, ..fields }, Some(0)),
        Kind::Probe => {
            let fields = Fields { slot: slot / 32 * 32, index: 1 + number, ..fields };
            return Ok(probe_packet(&Header::new(&fields)).to_vec());
        }
        // All slots arrived.
        Kind::ProbeAck => {
            body.fill(0xff);
            (
                Fields { slot: slot / 32 * 32, index: 1 + number, ..fields },
                Some(PROBE_LEN - HEADER_LEN),
            )
        }
        // All messages are here: the three counts of a receipt.
        Kind::Receipt => {
            for count in body.chunks_exact_mut(4).take(3) {
                count.copy_from_slice(&messages.to_be_bytes());
            }
            (Fields { index: 1_000_000 + number, time: 1 + number, ..fields }, Some(12))
        }
        Kind::Fin | Kind::FinAck => {
            let delivered = if kind == Kind::FinAck { messages } else { 0 };
            let group = FinGroup { group: 0, messages, needed: delivered, delivered };
            let flags = if kind == Kind::FinAck { Flags::ENDED } else { Flags::FORCED };
            let index = 1 + number % 1_000;
            let fields = Fields { flags, index, message: messages, count: 1, ..fields };
            (fields, FinBody::write(&mut body, 0, &[group]))
        }
        // The receiving application went away.
        Kind::Reset => (Fields { epoch: 5, ..fields }, Some(0)),
        Kind::Terms => {
            let group = TermsGroup {
                group: 0,
                exact: false,
                messages: Some(1),
                msr: Msr::from_parts_per_billion(0).context("an MSR")?,
                order: Order::Ordered,
                shortest_first: false,
                name: GroupName::new("stranger").context("a name")?,
            };
            let fields = Fields { index: 1_000 + number, count: 1, ..fields };
            (fields, TermsBody::write(&mut body, 0, 0, [group].into_iter()))
        }
        Kind::Request => {
            let fields = Fields { time: 1 + number, ..fields };
            (fields, RequestBody::write(&mut body, true, [].into_iter()))
        }
    };
    body.truncate(len.context("the body is too long")?);
    Ok(payload(&fields, &body))
}
