//! One batch of packets, from whomever, becoming events and answers.

use super::{
    answers::Answers,
    events::Event,
    farewells::Farewell,
    inbox::ReceiverStats,
    sources::{Admitted, Source, Sources},
};
use crate::udp::Incoming;
use atp_common::{
    dscp,
    maps::arrivals::{self, Run},
    wire::{FinBody, Flags, HEADER_LEN, Header, Kind, PROBE_LEN, ResetReason},
};
use atp_proto::{Outcome, reset_header};
use std::net::SocketAddr;

/// One batch of packets being taken in.
pub struct Turn<'a> {
    pub sources: &'a mut Sources,
    pub stats: &'a mut ReceiverStats,
    pub answers: &'a mut Answers,
    pub events: &'a mut Vec<Event>,
    pub acknowledges: bool,
}

impl Turn<'_> {
    /// Takes in one packet, whoever it is from.
    pub fn take_in(&mut self, now_ns: u64, packet: &Incoming<'_>) {
        match Header::parse(packet.bytes) {
            Ok((header, Kind::Data)) => self.take_data(now_ns, packet, &header),
            Ok((header, Kind::Fin)) => self.take_fin(now_ns, packet, &header),
            Ok((header, Kind::Probe)) => self.take_question(packet, &header),
            // Whoever sends anything else to a receiver gets no answer.
            Ok(_) | Err(_) => self.stats.refused += 1,
        }
    }

    fn take_data(&mut self, now_ns: u64, packet: &Incoming<'_>, header: &Header) {
        let source = match self.sources.admit(now_ns, packet.source, header) {
            Admitted::Here(source) => source,
            Admitted::Gone(Farewell::Ended(_)) => {
                self.stats.refused += 1;
                return self.acknowledge(packet, header);
            }
            Admitted::Gone(Farewell::Forgotten) => {
                return self.refuse(packet, header, ResetReason::NoRoom);
            }
            Admitted::Refused(reason) => return self.refuse(packet, header, reason),
        };
        let data = &packet.bytes[HEADER_LEN..];
        match source.transport.on_data(now_ns, header, data) {
            Outcome::Refused(reason) => return self.refuse(packet, header, reason),
            Outcome::Complete => take_messages(source, self.stats, self.events),
            Outcome::Dropped(_) => self.stats.refused += 1,
            Outcome::Incomplete | Outcome::Duplicate => {}
        }
        self.stats.packets_received += 1;
        self.stats.bytes += data.len() as u64;
        if header.flags().contains(Flags::PROBED) {
            if self.acknowledges {
                record(source, packet, header);
            }
        } else {
            self.acknowledge(packet, header);
        }
    }

    /// What the datapath does where there is one. A question from whoever isn't here gets no answer, and
    /// one of another length isn't one.
    fn take_question(&mut self, packet: &Incoming<'_>, header: &Header) {
        let source = self.sources.find(packet.source, header);
        if let Some(source) =
            source.filter(|_| self.acknowledges && packet.bytes.len() == PROBE_LEN)
        {
            let arrivals = source.arrivals.get(&header.group());
            let body = arrivals.map(|arrived| arrivals::answer(&**arrived, header.slot()));
            let answer = header.into_probe_ack();
            self.answers.control(packet.source, |out| {
                out[..HEADER_LEN].copy_from_slice(answer.as_bytes());
                let body = body.unwrap_or_default();
                out[HEADER_LEN..PROBE_LEN].copy_from_slice(body.as_bytes());
                PROBE_LEN
            });
        } else {
            self.stats.refused += 1;
        }
    }

    /// "Reached the host" is true of every packet of an accepted job, also of one not kept.
    fn acknowledge(&mut self, packet: &Incoming<'_>, header: &Header) {
        if self.acknowledges {
            let congestion = dscp::is_congestion_experienced(packet.traffic_class);
            self.answers.headers.push((header.into_ack(congestion), packet.source));
            self.stats.acks_sent += 1;
        }
    }

    fn take_fin(&mut self, now_ns: u64, packet: &Incoming<'_>, header: &Header) {
        let Some(body) = FinBody::parse(&packet.bytes[HEADER_LEN..]) else {
            self.stats.refused += 1;
            return;
        };
        let source = match self.sources.admit(now_ns, packet.source, header) {
            Admitted::Here(source) => source,
            Admitted::Gone(Farewell::Ended(fin_acks)) => {
                return self.answers.control(packet.source, |out| fin_acks.answer(header, out));
            }
            Admitted::Gone(Farewell::Forgotten) => {
                return self.refuse(packet, header, ResetReason::NoRoom);
            }
            Admitted::Refused(reason) => return self.refuse(packet, header, reason),
        };
        let transport = &mut source.transport;
        // In this order, so that the sender's report has the last counts before its job ends.
        self.answers.control(packet.source, |out| transport.write_receipt(now_ns, out));
        let fin_acks = &mut source.fin_acks;
        self.answers.control(packet.source, |out| {
            // None to one that makes no sense: the last one stays.
            let len = transport.on_fin(now_ns, header, &body, out);
            fin_acks.note(header, &out[..len]);
            len
        });
        // What waited for others before it.
        take_messages(source, self.stats, self.events);
        if let Some(summary) = source.transport.take_summary() {
            let (address, job) = (canonical(packet.source), source.key.job);
            self.events.push(match summary.more {
                true => Event::WindowEnded { source: address, job, summary: summary.into() },
                false => Event::Finished { source: address, job, summary: summary.into() },
            });
        }
    }

    fn refuse(&mut self, packet: &Incoming<'_>, header: &Header, reason: ResetReason) {
        self.stats.refused += 1;
        self.answers.headers.push((reset_header(header, reason), packet.source));
    }
}

fn record(source: &mut Source, packet: &Incoming<'_>, header: &Header) {
    let run = Run {
        slot: header.slot(),
        packets: 1,
        epoch: header.epoch(),
        marked: dscp::is_congestion_experienced(packet.traffic_class),
    };
    arrivals::record(&mut **source.arrivals.entry(header.group()).or_default(), &run);
}

fn take_messages(source: &mut Source, stats: &mut ReceiverStats, events: &mut Vec<Event>) {
    while let Some(message) = source.transport.next_message() {
        stats.messages += 1;
        events.push(Event::Message {
            source: canonical(source.key.address),
            job: source.key.job,
            window: message.window,
            group: message.group,
            message: message.message,
            data: message.data,
        });
    }
}

/// IPv4 as IPv4, whatever the socket is.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        std::net::IpAddr::V4(v4) => SocketAddr::from((v4, address.port())),
        std::net::IpAddr::V6(_) => address,
    }
}
