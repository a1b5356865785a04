//! Handles a batch of received packets: gives each to its sender's transport, and collects events
//! for the application and packets to send back.

use super::{
    acknowledger::Advising,
    events::Event,
    places::{Network, ResetLimiter},
    replies::Replies,
    source::{Source, SourceKey},
    sources::{Admitted, Sources},
    stats::ReceiverStats,
    tombstones::Tombstone,
};
use crate::{
    address::canonical,
    udp::{Ends, GroBuffer, Incoming},
};
use atp_common::{
    dscp,
    maps::arrivals::{self, RUN_MAX, Run},
    wire::{Ack, FinBody, Flags, HEADER_LEN, Header, Kind, PROBE_LEN, ResetReason, TermsBody},
};
use atp_proto::{Outcome, reset_header};

/// Handles one batch of packets.
pub struct PacketHandler<'a> {
    pub sources: &'a mut Sources,
    pub stats: &'a mut ReceiverStats,
    pub replies: &'a mut Replies,
    pub resets: &'a mut ResetLimiter,
    pub events: &'a mut Vec<Event>,
    pub advising: Advising<'a>,
    /// The arrival interface of the packets, if the kernel tells it.
    pub interface: u32,
    /// Whether this process sends ACKs, instead of the daemon's programs.
    pub acknowledges: bool,
    /// Whether the receiver leaves: only senders of ended jobs still get answers.
    pub leaving: bool,
}

impl PacketHandler<'_> {
    /// Handles the packets of one GRO buffer.
    pub fn on_gro_buffer(&mut self, now_ns: u64, mut buffer: GroBuffer<'_>) {
        if !self.leaving
            && let Some(first) = single_message_header(&buffer)
            && self.on_complete_message(now_ns, &first, &mut buffer)
        {
            return;
        }
        for packet in buffer.packets() {
            self.on_packet(now_ns, &packet);
        }
    }

    /// Handles all packets of a message at once, without copying the message. Returns `false` if
    /// they have to be handled one by one.
    fn on_complete_message(
        &mut self,
        now_ns: u64,
        first: &Header,
        buffer: &mut GroBuffer<'_>,
    ) -> bool {
        let Some(bytes) = buffer.contiguous_bytes() else { return false };
        let Admitted::Here(source) = self.sources.admit(now_ns, buffer.ends, first) else {
            return false;
        };
        if !source.transport.accepts_complete(first, bytes) {
            return false;
        }
        let is_recorded =
            !self.acknowledges || record(source, buffer.traffic_class(), first, first.count());
        if !is_recorded {
            return false;
        }
        let arrived = Arrived { header: first, packets: first.count(), body_bytes: bytes };
        note_lane(&mut self.advising, self.acknowledges, self.interface, source, &arrived);
        self.stats.packets_received += u64::from(first.count());
        self.stats.bytes += bytes as u64;
        match source.transport.on_complete(now_ns, first, buffer.take_contiguous()) {
            Outcome::Complete => take_messages(source, self.stats, self.events),
            Outcome::Refused(reason) => self.refuse(now_ns, buffer.ends, first, reason),
            Outcome::Dropped(reason) => self.stats.note_drop(reason),
            Outcome::Incomplete | Outcome::Duplicate => self.stats.ignored += 1,
        }
        true
    }

    fn on_packet(&mut self, now_ns: u64, packet: &Incoming<'_>) {
        match Header::parse(packet.head) {
            Ok((header, Kind::Data | Kind::Fin))
                if self.leaving && !self.sources.has_ended(now_ns, packet.ends.source, &header) =>
            {
                // A run that this receiver doesn't know may be meant for the next one at this port.
                match self.sources.find(packet.ends.source, &header) {
                    Some(_) => self.refuse(now_ns, packet.ends, &header, ResetReason::Gone),
                    None => ignore(self.stats, packet, &header),
                }
            }
            Ok((header, Kind::Data)) => self.on_data(now_ns, packet, &header),
            Ok((header, Kind::Fin)) => self.on_fin(now_ns, packet, &header),
            Ok((header, Kind::Probe)) => self.on_probe(packet, &header),
            Ok((header, Kind::Terms)) => self.on_terms(now_ns, packet, &header),
            // A receiver expects no other kind, and answers none.
            Ok((header, _)) => drop_packet(self.stats, packet, &header),
            Err(error) => {
                self.stats.note_malformed();
                tracing::trace!(source = %packet.ends.source, %error, "packet without an ATP header");
            }
        }
    }

    fn on_data(&mut self, now_ns: u64, packet: &Incoming<'_>, header: &Header) {
        let source = match self.sources.admit(now_ns, packet.ends, header) {
            Admitted::Here(source) => source,
            Admitted::Gone(Tombstone::Ended { .. }) => {
                self.stats.ignored += 1;
                return self.acknowledge(now_ns, packet, header);
            }
            Admitted::Gone(Tombstone::Forgotten) => {
                return self.refuse(now_ns, packet.ends, header, ResetReason::Forgotten);
            }
            Admitted::Refused(reason) => {
                if reason == ResetReason::NoRoom {
                    self.acknowledge(now_ns, packet, header);
                }
                return self.refuse(now_ns, packet.ends, header, reason);
            }
        };
        let outcome = source.transport.on_data(now_ns, header, packet.body);
        // A packed packet may complete some messages while others are refused.
        take_messages(source, self.stats, self.events);
        match outcome {
            Outcome::Refused(reason) => {
                if reason == ResetReason::NoRoom {
                    self.acknowledge(now_ns, packet, header);
                }
                return self.refuse(now_ns, packet.ends, header, reason);
            }
            Outcome::Dropped(reason) => {
                // The packet reached the host, so it is counted and acknowledged as any other.
                self.stats.note_drop(reason);
                tracing::trace!(
                    source = %packet.ends.source, %header, ?reason,
                    "payload discarded, packet acknowledged",
                );
            }
            Outcome::Complete | Outcome::Incomplete | Outcome::Duplicate => {}
        }
        let arrived = Arrived { header, packets: 1, body_bytes: packet.body.len() };
        note_lane(&mut self.advising, self.acknowledges, self.interface, source, &arrived);
        self.stats.packets_received += 1;
        self.stats.bytes += packet.body.len() as u64;
        if header.flags().contains(Flags::NO_ACK) {
            // Without memory for a record, each packet gets an ACK.
            if self.acknowledges && !record(source, packet.traffic_class, header, 1) {
                self.acknowledge(now_ns, packet, header);
            }
        } else {
            self.acknowledge(now_ns, packet, header);
        }
    }

    /// Takes in the terms of a job of which some DATA has arrived. Others are dropped: TERMS give
    /// no sender a place.
    fn on_terms(&mut self, now_ns: u64, packet: &Incoming<'_>, header: &Header) {
        let Some(body) = TermsBody::parse(packet.body) else {
            return drop_packet(self.stats, packet, header);
        };
        match self.sources.find(packet.ends.source, header) {
            Some(source) if !self.leaving => {
                source.transport.on_terms(now_ns, header, &body);
                take_terms(source, self.events);
            }
            _ => ignore(self.stats, packet, header),
        }
    }

    /// Answers a probe as the daemon's programs do. Drops probes of unknown senders and those of a
    /// wrong length.
    fn on_probe(&mut self, packet: &Incoming<'_>, header: &Header) {
        let source = self.sources.find(packet.ends.source, header);
        if let Some(source) =
            source.filter(|_| self.acknowledges && HEADER_LEN + packet.body.len() == PROBE_LEN)
        {
            let arrivals = source.arrivals(header.group());
            let body = arrivals.map(|arrived| arrivals::answer(arrived, header.slot()));
            let answer = header.into_probe_ack();
            self.replies.control(packet.ends, |out| {
                out[..HEADER_LEN].copy_from_slice(answer.as_bytes());
                let body = body.unwrap_or_default();
                out[HEADER_LEN..PROBE_LEN].copy_from_slice(body.as_bytes());
                PROBE_LEN
            });
        } else {
            ignore(self.stats, packet, header);
        }
    }

    /// Acknowledges a packet, if this process does so. An ACK says only that the packet reached the
    /// host, so every packet of an admitted job gets one, even a dropped one. So does a packet for
    /// which there is no room at present: that is no congestion of the network.
    fn acknowledge(&mut self, now_ns: u64, packet: &Incoming<'_>, header: &Header) {
        if self.acknowledges {
            let congestion = dscp::is_congestion_experienced(packet.traffic_class);
            let ack = Ack::answering(*header, congestion, now_ns);
            self.replies.acks.push((ack, HEADER_LEN + packet.body.len(), packet.ends));
            self.stats.acks_sent += 1;
        }
    }

    fn on_fin(&mut self, now_ns: u64, packet: &Incoming<'_>, header: &Header) {
        let Some(body) = FinBody::parse(packet.body) else {
            return drop_packet(self.stats, packet, header);
        };
        let key = SourceKey::new(packet.ends.source, header);
        if header.flags().contains(Flags::ENDED) {
            // The sender knows of the end, and wants no answer.
            match self.sources.find(packet.ends.source, header) {
                Some(source) => _ = source.transport.on_fin(now_ns, header, &body, &mut []),
                None => self.sources.forget_unknown_end(&key),
            }
            return;
        }
        let source = match self.sources.admit(now_ns, packet.ends, header) {
            Admitted::Here(source) => source,
            Admitted::Gone(Tombstone::Ended { end, .. }) => {
                self.sources.note_fin(now_ns, &key);
                return self.replies.control(packet.ends, |out| end.answer(header, &body, out));
            }
            Admitted::Gone(Tombstone::Forgotten) => {
                return self.refuse(now_ns, packet.ends, header, ResetReason::Forgotten);
            }
            Admitted::Refused(reason) => {
                return self.refuse(now_ns, packet.ends, header, reason);
            }
        };
        let transport = &mut source.transport;
        // The receipt goes first: the sender's report needs its counts before the job ends.
        let window = body.window();
        self.replies
            .control(packet.ends, |out| transport.write_receipt_of_window(now_ns, window, out));
        self.replies.control(packet.ends, |out| transport.on_fin(now_ns, header, &body, out));
        // The end of the job releases messages that waited for earlier ones.
        take_messages(source, self.stats, self.events);
        if source.transport.is_finished() {
            source.end_advice();
        }
        // Anybody can send a FIN. Without a message it is answered, but it ends nothing.
        let has_messages = source.delivered() > 0;
        while let Some(summary) = source.transport.take_summary() {
            if !has_messages {
                continue;
            }
            let (address, job) = (canonical(packet.ends.source), source.key.job);
            self.events.push(match summary.more {
                true => Event::WindowEnded { source: address, job, summary: summary.into() },
                false => Event::Finished { source: address, job, summary: summary.into() },
            });
        }
    }

    fn refuse(&mut self, now_ns: u64, ends: Ends, header: &Header, reason: ResetReason) {
        let source = ends.source;
        tracing::trace!(%source, %header, reason = reason.explain(), "refused");
        self.stats.note_reset(reason);
        if reason == ResetReason::NoRoom {
            self.sources.free_memory(now_ns, &SourceKey::new(source, header));
        }
        if self.resets.allows(now_ns, Network::of(source)) {
            self.replies.headers.push((reset_header(header, reason), ends));
        }
    }
}

/// Packets of a lane that arrived together. `header`: of one of them. `body_bytes`: of all of them,
/// without headers.
struct Arrived<'a> {
    header: &'a Header,
    packets: u32,
    body_bytes: usize,
}

/// Counts packets of a lane, or makes the daemon count the lane if its programs saw them. Late
/// packets of an ended job take no share.
fn note_lane(
    advising: &mut Advising<'_>,
    acknowledges: bool,
    interface: u32,
    source: &mut Source,
    &Arrived { header, packets, body_bytes }: &Arrived<'_>,
) {
    if source.transport.is_finished() {
        return;
    }
    match advising {
        Advising::Daemon(arriving) if !acknowledges => {
            let address = source.key.address;
            source.lanes.open(header.group(), || arriving.open(address, header));
            arriving.wake_daemon();
        }
        Advising::Here(own) => own.count(source, interface, header, packets, body_bytes),
        Advising::Daemon(_) | Advising::Nobody => {}
    }
}

/// Counts a damaged packet, which gets no answer.
fn drop_packet(stats: &mut ReceiverStats, packet: &Incoming<'_>, header: &Header) {
    tracing::trace!(source = %packet.ends.source, %header, "packet dropped");
    stats.note_malformed();
}

/// Counts a packet that means nothing to this receiver.
fn ignore(stats: &mut ReceiverStats, packet: &Incoming<'_>, header: &Header) {
    tracing::trace!(source = %packet.ends.source, %header, "packet ignored");
    stats.ignored += 1;
}

/// Records the arrival of `packets` packets from `first` on, for answers to probes. Returns `false`
/// if there is no memory for the record.
fn record(source: &mut Source, traffic_class: u8, first: &Header, packets: u32) -> bool {
    let marked = dscp::is_congestion_experienced(traffic_class);
    let run = Run { slot: first.slot(), packets, epoch: first.epoch(), marked };
    source.record(first.group(), &run)
}

/// The first header of a buffer that holds exactly the packets of one message, in order, with
/// consecutive slots of their lane, and without ACKs of their own.
fn single_message_header(buffer: &GroBuffer<'_>) -> Option<Header> {
    buffer.contiguous_bytes()?;
    let mut first = None;
    for (index, packet) in (0..).zip(buffer.packets()) {
        let (header, Kind::Data) = Header::parse(packet.head).ok()? else { return None };
        let begun = *first.get_or_insert(header);
        let same = header.job() == begun.job()
            && header.cookie() == begun.cookie()
            && (header.group(), header.message()) == (begun.group(), begun.message())
            && header.window() == begun.window()
            && (header.count(), header.segmentation()) == (begun.count(), begun.segmentation())
            && (header.flags(), header.epoch()) == (begun.flags(), begun.epoch());
        let next = header.index() == index && header.slot() == begun.slot().wrapping_add(index);
        if !same || !next || packet.body.is_empty() {
            return None;
        }
    }
    let packets = buffer.len() as u32;
    first.filter(|first| {
        first.count() == packets && packets <= RUN_MAX && first.flags().contains(Flags::NO_ACK)
    })
}

/// Tells the application the terms of a sender, once the sender has delivered a message.
fn take_terms(source: &mut Source, events: &mut Vec<Event>) {
    if source.delivered() == 0 {
        return;
    }
    if let Some(terms) = source.transport.take_terms() {
        let (address, job) = (canonical(source.key.address), source.key.job);
        events.push(match terms.is_first {
            true => Event::Started { source: address, job, terms: terms.into() },
            false => Event::TermsChanged { source: address, job, terms: terms.into() },
        });
    }
}

fn take_messages(source: &mut Source, stats: &mut ReceiverStats, events: &mut Vec<Event>) {
    take_terms(source, events);
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
