//! One batch of packets, from whomever, becoming events and answers.

use super::{
    answers::Answers,
    events::Event,
    inbox::ReceiverStats,
    sources::{Admitted, Source, Sources},
    tombstones::Tombstone,
};
use crate::udp::{Incoming, Superpacket};
use atp_common::{
    dscp,
    maps::arrivals::{self, RUN_MAX, Run},
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
    /// Takes in packets that came together, whoever they are from.
    pub fn take_superpacket(&mut self, now_ns: u64, mut superpacket: Superpacket<'_>) {
        if let Some(first) = whole_message(&superpacket)
            && self.take_whole(now_ns, &first, &mut superpacket)
        {
            return;
        }
        for packet in superpacket.packets() {
            self.take_in(now_ns, &packet);
        }
    }

    /// Takes in all packets of a message at once, in the memory where they are; `false` if they have to
    /// be looked at one by one.
    fn take_whole(
        &mut self,
        now_ns: u64,
        first: &Header,
        superpacket: &mut Superpacket<'_>,
    ) -> bool {
        let Some(bytes) = superpacket.joined_bytes() else { return false };
        let Admitted::Here(source) = self.sources.admit(now_ns, superpacket.source, first) else {
            return false;
        };
        if !source.transport.accepts_complete(first, bytes) {
            return false;
        }
        if self.acknowledges {
            record(source, superpacket.traffic_class(), first, first.count());
        }
        self.stats.packets_received += u64::from(first.count());
        self.stats.bytes += bytes as u64;
        match source.transport.on_complete(now_ns, first, superpacket.take_joined()) {
            Outcome::Complete => take_messages(source, self.stats, self.events),
            _ => self.stats.refused += 1,
        }
        true
    }

    /// Takes in one packet, whoever it is from.
    fn take_in(&mut self, now_ns: u64, packet: &Incoming<'_>) {
        match Header::parse(packet.head) {
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
            Admitted::Gone(Tombstone::Ended(_)) => {
                self.stats.refused += 1;
                return self.acknowledge(packet, header);
            }
            Admitted::Gone(Tombstone::Forgotten) => {
                return self.refuse(packet, header, ResetReason::NoRoom);
            }
            Admitted::Refused(reason) => return self.refuse(packet, header, reason),
        };
        match source.transport.on_data(now_ns, header, packet.body) {
            Outcome::Refused(reason) => return self.refuse(packet, header, reason),
            Outcome::Complete => take_messages(source, self.stats, self.events),
            Outcome::Dropped(_) => self.stats.refused += 1,
            Outcome::Incomplete | Outcome::Duplicate => {}
        }
        self.stats.packets_received += 1;
        self.stats.bytes += packet.body.len() as u64;
        if header.flags().contains(Flags::NO_ACK) {
            if self.acknowledges {
                record(source, packet.traffic_class, header, 1);
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
            source.filter(|_| self.acknowledges && HEADER_LEN + packet.body.len() == PROBE_LEN)
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
        let Some(body) = FinBody::parse(packet.body) else {
            self.stats.refused += 1;
            return;
        };
        let source = match self.sources.admit(now_ns, packet.source, header) {
            Admitted::Here(source) => source,
            Admitted::Gone(Tombstone::Ended(fin_acks)) => {
                return self.answers.control(packet.source, |out| fin_acks.answer(header, out));
            }
            Admitted::Gone(Tombstone::Forgotten) => {
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

/// What `packets` packets from `first` on were, for whoever asks.
fn record(source: &mut Source, traffic_class: u8, first: &Header, packets: u32) {
    let marked = dscp::is_congestion_experienced(traffic_class);
    let run = Run { slot: first.slot(), packets, epoch: first.epoch(), marked };
    arrivals::record(&mut **source.arrivals.entry(first.group()).or_default(), &run);
}

/// The first header of a superpacket that is all packets of one message, in order, one after the other
/// in their lane, without ACKs of their own.
fn whole_message(superpacket: &Superpacket<'_>) -> Option<Header> {
    superpacket.joined_bytes()?;
    let mut first = None;
    for (index, packet) in (0..).zip(superpacket.packets()) {
        let (header, Kind::Data) = Header::parse(packet.head).ok()? else { return None };
        let begun = *first.get_or_insert(header);
        let same = header.job() == begun.job()
            && header.cookie() == begun.cookie()
            && (header.group(), header.message()) == (begun.group(), begun.message())
            && (header.count(), header.segmentation()) == (begun.count(), begun.segmentation())
            && (header.flags(), header.epoch()) == (begun.flags(), begun.epoch());
        let next = header.index() == index && header.slot() == begun.slot().wrapping_add(index);
        if !same || !next || packet.body.is_empty() {
            return None;
        }
    }
    let packets = superpacket.len() as u32;
    first.filter(|first| {
        first.count() == packets && packets <= RUN_MAX && first.flags().contains(Flags::NO_ACK)
    })
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
