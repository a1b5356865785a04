//! Prints packets, as a line of text or of JSON.
//!
//! Neither has the cookie: it is a secret, and these lines end up in reports.

use super::packet::{Body, Packet};
use atp_common::{
    units::Msr,
    wire::{
        Advice, EpochArrivals, Header, Order, PROBE_EPOCHS, PROBE_SLOTS, PROBE_WORDS, ProbeBody,
        TermsGroup,
    },
};
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};

impl Display for Packet<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (seconds, ns) = (self.time_ns / 1_000_000_000, self.time_ns % 1_000_000_000);
        write!(f, "{seconds}.{ns:09} {} > {}: ", self.source, self.destination)?;
        write!(f, "{}", self.header)?;
        match &self.body {
            Body::Data(bytes) => write!(f, ", {bytes} bytes"),
            Body::Packed(bytes, body) => {
                write!(f, ", {bytes} bytes, messages")?;
                body.members().try_for_each(|(id, data)| write!(f, " {id}:{}", data.len()))
            }
            Body::Empty | Body::Probe | Body::Unknown => Ok(()),
            Body::Ack(arrived) => write!(f, " arrived {arrived}"),
            Body::ProbeAck(body) => probe_ack(f, &self.header, body),
            Body::Receipt(body) => {
                write!(f, ", cumulative {} delivered {}", body.cumulative, body.delivered)?;
                write!(f, " packets arrived {}", body.packets_arrived)?;
                body.words().try_for_each(|word| {
                    let first = u64::from(word.index) * 64;
                    write!(f, ", group {} messages {first}+{:#x}", word.group, word.bits)
                })
            }
            Body::Fin(body) => {
                write!(f, ", window {}", body.window())?;
                body.groups().try_for_each(|group| {
                    write!(f, ", group {} delivered {}", group.group, group.delivered)?;
                    write!(f, " needed {} messages {}", group.needed, group.messages)
                })
            }
            Body::Terms(body) => {
                write!(f, ", window {} answered {}", body.window, body.answered)?;
                body.groups().try_for_each(|group| {
                    write!(f, ", group {} {:?}", group.group, group.name)?;
                    write!(f, " MSR {}", f64::from(group.msr.parts_per_billion()) / 1e9)?;
                    group.messages.map_or(Ok(()), |messages| write!(f, " messages {messages}"))
                })
            }
            Body::Request(body) => {
                f.write_str(if body.end { ", end" } else { "" })?;
                body.groups().try_for_each(|(group, msr)| {
                    let msr = f64::from(msr.parts_per_billion()) / 1e9;
                    write!(f, ", group {group} MSR {msr}")
                })
            }
            Body::Truncated(bytes) => write!(f, ", the capture lacks {bytes} bytes"),
            Body::Malformed => f.write_str(", malformed body"),
        }
    }
}

fn probe_ack(f: &mut Formatter<'_>, header: &Header, body: &ProbeBody) -> fmt::Result {
    let arrived: u32 = (0..PROBE_WORDS).map(|index| body.word(index).count_ones()).sum();
    write!(f, ", {arrived} arrived")?;
    for (first, last) in arrived_ranges(header.slot(), body) {
        match first == last {
            true => write!(f, " {first}")?,
            false => write!(f, " {first}-{last}")?,
        }
    }
    epochs(body).try_for_each(|EpochArrivals { epoch, arrived, marked }| {
        write!(f, ", epoch {epoch} arrived {arrived} marked {marked}")
    })
}

/// The first and last slot of each range of slots that arrived.
fn arrived_ranges(first_slot: u32, body: &ProbeBody) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for at in (0..PROBE_SLOTS).filter(|at| body.word((at / 32) as usize) >> (at % 32) & 1 == 1) {
        let slot = first_slot.wrapping_add(at);
        match ranges.last_mut() {
            Some((_, last)) if last.wrapping_add(1) == slot => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
}

fn epochs(body: &ProbeBody) -> impl Iterator<Item = EpochArrivals> + '_ {
    (0..PROBE_EPOCHS).filter_map(|index| body.epoch(index))
}

/// The packet as a JSON object, with the header's fields by their names in the protocol.
pub fn json(packet: &Packet<'_>) -> Value {
    let header = &packet.header;
    let kind = header.kind();
    let mut object = json!({
        "time_ns": packet.time_ns,
        "source": packet.source,
        "destination": packet.destination,
        "kind": kind.ok().map(|kind| kind.name()),
        "flags": flags(header),
        "group": header.group(),
        "job": header.job(),
        "message": header.message(),
        "index": header.index(),
        "count": header.count(),
        "segmentation": header.segmentation(),
        "window": header.window(),
        "epoch": header.epoch(),
        "slot": header.slot(),
        "time": header.time(),
    });
    let error = kind.err().map(|error| error.to_string());
    let (key, value) = match &packet.body {
        Body::Data(bytes) => ("data_bytes", json!(bytes)),
        Body::Packed(bytes, body) => {
            let member = |(id, data): (u32, &[u8])| json!({ "message": id, "bytes": data.len() });
            object["data_bytes"] = json!(bytes);
            ("messages", body.members().map(member).collect())
        }
        Body::Empty | Body::Probe => return object,
        Body::Ack(arrived) => ("arrived", json!(arrived)),
        Body::ProbeAck(body) => ("probe_ack", probe_ack_json(header, body)),
        Body::Receipt(body) => {
            let words: Vec<_> = body
                .words()
                .map(|word| {
                    let first = u64::from(word.index) * 64;
                    // Strings, because many readers of JSON round 64-bit numbers.
                    let bits = format!("{:#018x}", word.bits);
                    json!({ "group": word.group, "first_message": first, "bits": bits })
                })
                .collect();
            let receipt = json!({
                "features": header.epoch(),
                "terms": header.count(),
                "advice_bytes_per_s": Advice::from_wire(header.message()).bytes_per_s(),
                "cumulative": body.cumulative,
                "delivered": body.delivered,
                "packets_arrived": body.packets_arrived,
                "words": words,
            });
            ("receipt", receipt)
        }
        Body::Fin(body) => {
            let groups: Vec<_> = body
                .groups()
                .map(|group| {
                    json!({
                        "group": group.group,
                        "messages": group.messages,
                        "needed": group.needed,
                        "delivered": group.delivered,
                    })
                })
                .collect();
            ("fin", json!({ "window": body.window(), "groups": groups }))
        }
        Body::Terms(body) => {
            let group = |group: TermsGroup| {
                json!({
                    "group": group.group,
                    "name": group.name.as_str(),
                    "exact": group.exact,
                    "messages": group.messages,
                    "msr": f64::from(group.msr.parts_per_billion()) / 1e9,
                    "order": order(group.order),
                    "shortest_first": group.shortest_first,
                })
            };
            let groups: Vec<_> = body.groups().map(group).collect();
            let terms =
                json!({ "window": body.window, "answered": body.answered, "groups": groups });
            ("terms", terms)
        }
        Body::Request(body) => {
            let group = |(group, msr): (u8, Msr)| json!({ "group": group, "msr": f64::from(msr.parts_per_billion()) / 1e9 });
            let groups: Vec<_> = body.groups().map(group).collect();
            ("request", json!({ "end": body.end, "groups": groups }))
        }
        Body::Truncated(bytes) => ("missing_bytes", json!(bytes)),
        Body::Malformed => ("error", json!("malformed body")),
        Body::Unknown => ("error", json!(error)),
    };
    object[key] = value;
    object
}

fn probe_ack_json(header: &Header, body: &ProbeBody) -> Value {
    let epochs: Vec<_> = epochs(body)
        .map(|EpochArrivals { epoch, arrived, marked }| {
            json!({ "epoch": epoch, "arrived": arrived, "marked": marked })
        })
        .collect();
    json!({ "arrived_slots": arrived_ranges(header.slot(), body), "epochs": epochs })
}

fn flags(header: &Header) -> Vec<&'static str> {
    header.kind().map(|kind| header.flags().names(kind).collect()).unwrap_or_default()
}

/// An order as JSON: its name, or the number of messages of a shuffle's buffer.
fn order(order: Order) -> Value {
    match order {
        Order::Unknown => json!("unknown"),
        Order::Ordered => json!("ordered"),
        Order::Shuffled => json!("shuffled"),
        Order::ShuffledAmong { log2_messages } => {
            json!({ "shuffled_among": 1u64 << log2_messages })
        }
    }
}
