//! The peer's packets: well-formed, with the right job and cookie, but with false contents.

use super::step::{Ack, COOKIE, DeliveredCount, FinAck, JOB, Receipt};
use atp_common::units::Msr;
use atp_common::wire::{
    Features, Fields, FinBody, FinGroup, Flags, Header, Kind, RECEIPT_WORDS_MAX, ReceiptBody,
    ReceiptWord, RequestBody, U24_MAX,
};
use atp_proto::{Packet, Sender};
use std::collections::VecDeque;

fn fields(kind: Kind) -> Fields {
    Fields { job: JOB, cookie: COOKIE, count: 1, ..Fields::of(kind) }
}

/// An ACK of one of the packets `sent`, or a false one.
pub fn ack(ack: &Ack, sent: &VecDeque<Packet>) -> Vec<u8> {
    let packet = sent.iter().rev().nth(usize::from(ack.back) % sent.len().max(1));
    let mut fields = Fields { slot: ack.slot, ..fields(Kind::Ack) };
    if let Some(packet) = packet {
        let header = packet.header;
        fields = Fields {
            group: header.group(),
            message: header.message(),
            index: header.index(),
            count: header.count(),
            slot: header.slot(),
            ..fields
        };
    }
    match ack.wrong {
        1 => fields.slot = ack.slot,
        2 => fields.slot = fields.slot.wrapping_add(ack.slot % 64),
        3 => (fields.index, fields.count) = (ack.index % 100, 100),
        4 => fields.message = ack.slot,
        5 => fields.group = ack.slot as u8,
        _ => {}
    }
    Header::new(&fields).as_bytes().to_vec()
}

/// A receipt for messages of `sender`.
pub fn receipt(receipt: &Receipt, sender: &Sender, slot: u32) -> Vec<u8> {
    let report = sender.report();
    let choose = |choice: u8| report.groups.get(usize::from(choice) % (report.groups.len() + 1));
    let group = choose(receipt.group);
    let messages = group.map_or(0, |group| group.messages);
    let cumulative = match receipt.cumulative {
        250.. => receipt.any,
        share => (u64::from(messages) * u64::from(share) / 249) as u32,
    };
    let known: u32 = report.groups.iter().map(|group| group.delivered).sum();
    let delivered = match receipt.delivered {
        DeliveredCount::Known(more) => known.wrapping_add(more.into()),
        DeliveredCount::Any(any) => any,
    };
    let word = |&(group, index, bits): &(u8, u8, u64)| ReceiptWord {
        group: choose(group).map_or(group, |group| group.group),
        index: if index == u8::MAX { receipt.any >> 8 } else { u32::from(index) % 4 },
        bits,
    };
    let words: Vec<_> = receipt.words.iter().take(RECEIPT_WORDS_MAX).map(word).collect();
    let header = Header::new(&Fields {
        group: group.map_or(receipt.group, |group| group.group),
        index: receipt.number & U24_MAX,
        slot: receipt.slot.unwrap_or(slot),
        // Few receivers take no packed packets.
        epoch: if receipt.number % 16 == 15 { 0 } else { Features::PACKED.bits() },
        ..fields(Kind::Receipt)
    });
    packet(&header, |out| ReceiptBody::write(out, cumulative, delivered, receipt.any, &words))
}

/// An answer to the last FIN, or a malformed one without a FIN.
pub fn fin_ack(answer: &FinAck, fin: Option<&(Header, Vec<u8>)>) -> Vec<u8> {
    let Some((fin, body)) = fin else { return raw(Kind::FinAck as u8, &[0; 20]) };
    let Some(body) = FinBody::parse(body) else { unreachable!("a sender's FIN is well-formed") };
    let counts = answer.counts.iter().chain(std::iter::repeat(&answer.delivered));
    let count = |(group, share): (FinGroup, &u8)| {
        let messages = answer.messages.unwrap_or(group.messages);
        let delivered = (u64::from(messages) * u64::from(*share) / 255) as u32;
        FinGroup { messages, needed: group.needed.min(messages), delivered, ..group }
    };
    let groups: Vec<_> = body.groups().zip(counts).map(count).collect();
    let flag = |set: bool, flag: Flags| if set { flag } else { Flags::NONE };
    let header = Header::new(&Fields {
        flags: flag(answer.ended, Flags::ENDED).with(flag(answer.forced, Flags::FORCED)),
        group: fin.group(),
        message: fin.message(),
        index: answer.attempt.unwrap_or(fin.index()) & U24_MAX,
        count: fin.count(),
        epoch: answer.page.map_or(fin.epoch(), u16::from),
        slot: fin.slot(),
        // Which end it states.
        time: answer.attempt.unwrap_or(0),
        ..fields(Kind::FinAck)
    });
    packet(&header, |out| FinBody::write(out, answer.window.unwrap_or(body.window()), &groups))
}

/// A RESET.
pub fn reset(reason: u16) -> Vec<u8> {
    Header::new(&Fields { epoch: reason, ..fields(Kind::Reset) }).as_bytes().to_vec()
}

/// Any body behind a header of any kind except RESET.
pub fn raw(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let kinds = [
        Kind::Data,
        Kind::Ack,
        Kind::Receipt,
        Kind::Fin,
        Kind::FinAck,
        Kind::Probe,
        Kind::ProbeAck,
        Kind::Terms,
        Kind::Request,
    ];
    let kind = kinds[usize::from(kind) % kinds.len()];
    [Header::new(&fields(kind)).as_bytes(), bytes].concat()
}

/// A REQUEST of up to two groups, from twelve bytes. It rarely asks for the end.
pub fn request(bytes: &[u8]) -> Vec<u8> {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    let parts =
        |at: usize| u32::from_be_bytes([byte(at), byte(at + 1), byte(at + 2), byte(at + 3)]);
    let msr =
        |at: usize| Msr::from_parts_per_billion(parts(at) % 1_000_000_001).unwrap_or(Msr::EXACT);
    let (first, second) = (byte(0) % 41, byte(1) % 41);
    let mut groups = vec![(first, msr(2))];
    if second > first {
        groups.push((second, msr(6)));
    }
    let header = Header::new(&Fields { time: u32::from(byte(10)), ..fields(Kind::Request) });
    packet(&header, |body| RequestBody::write(body, byte(11) == 255, groups.into_iter()))
}

fn packet(header: &Header, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut body = vec![0; 1_400];
    let len = write(&mut body).expect("a body fits");
    body.truncate(len);
    [&header.as_bytes()[..], &body].concat()
}
