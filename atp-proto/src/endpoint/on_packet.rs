//! Gives each packet to its sender's transport, and collects events and replies.

use super::{
    Arrived, Buffer, Datagram, Endpoint, Ends, Host, Lanes,
    events::{take_messages, take_terms},
    places::Network,
    source::{Source, SourceKey},
    sources::Admitted,
    tombstones::Tombstone,
};
use crate::{Outcome, reset_header};
use atp_common::{
    dscp,
    maps::arrivals::{self, RUN_MAX, Run},
    wire::{Ack, Flags, HEADER_LEN, Header, Kind, PROBE_LEN, ResetReason, TermsBody},
};

impl<L: Lanes> Endpoint<L> {
    /// Handles the packets of one buffer. A message that came complete in it isn't copied.
    pub fn on_buffer(
        &mut self,
        now_ns: u64,
        buffer: &mut impl Buffer,
        host: &mut impl Host<Lanes = L>,
    ) {
        if self.leaving.is_none()
            && let Some(first) = single_message_header(buffer)
            && self.on_complete_message(now_ns, &first, buffer, host)
        {
            return;
        }
        for packet in buffer.packets() {
            self.on_packet(now_ns, &packet, host);
        }
    }

    /// Handles all packets of a message at once, without copying the message. Returns `false` if
    /// they have to be handled one by one.
    fn on_complete_message(
        &mut self,
        now_ns: u64,
        first: &Header,
        buffer: &mut impl Buffer,
        host: &mut impl Host<Lanes = L>,
    ) -> bool {
        let Some(bytes) = buffer.contiguous_bytes() else { return false };
        let Admitted::Here(source) = self.sources.admit(now_ns, buffer.ends(), first) else {
            return false;
        };
        if !source.transport.accepts_complete(first, bytes) {
            return false;
        }
        let is_recorded =
            !host.acknowledges() || record(source, buffer.traffic_class(), first, first.count());
        if !is_recorded {
            return false;
        }
        let arrived = Arrived { header: first, packets: first.count(), body_bytes: bytes };
        note_data(host, source, &arrived);
        self.stats.packets_received += u64::from(first.count());
        self.stats.bytes += bytes as u64;
        match source.transport.on_complete(now_ns, first, buffer.take_contiguous()) {
            Outcome::Complete => self.stats.messages += take_messages(source, &mut self.events),
            Outcome::Refused(reason) => self.refuse(now_ns, buffer.ends(), first, reason),
            Outcome::Dropped(reason) => self.stats.note_drop(reason),
            Outcome::Incomplete | Outcome::Duplicate => self.stats.ignored += 1,
        }
        true
    }

    /// Handles a packet.
    pub fn on_packet(
        &mut self,
        now_ns: u64,
        packet: &Datagram<'_>,
        host: &mut impl Host<Lanes = L>,
    ) {
        match Header::parse(packet.head) {
            Ok((header, Kind::Data | Kind::Fin))
                if self.leaving.is_some()
                    && !self.sources.has_ended(now_ns, packet.ends.source, &header) =>
            {
                // A run that this receiver doesn't know may be meant for the next one at this port.
                match self.sources.find(packet.ends.source, &header) {
                    Some(_) => self.refuse(now_ns, packet.ends, &header, ResetReason::Gone),
                    None => self.ignore(packet, &header),
                }
            }
            Ok((header, Kind::Data)) => self.on_data(now_ns, packet, &header, host),
            Ok((header, Kind::Fin)) => self.on_fin(now_ns, packet, &header),
            Ok((header, Kind::Probe)) => self.on_probe(packet, &header, host),
            Ok((header, Kind::Terms)) => self.on_terms(now_ns, packet, &header),
            // A receiver expects no other kind, and answers none.
            Ok((header, _)) => self.drop_packet(packet, &header),
            Err(error) => {
                self.stats.note_malformed();
                tracing::trace!(source = %packet.ends.source, %error, "packet without an ATP header");
            }
        }
    }

    fn on_data(
        &mut self,
        now_ns: u64,
        packet: &Datagram<'_>,
        header: &Header,
        host: &mut impl Host<Lanes = L>,
    ) {
        let acknowledges = host.acknowledges();
        let source = match self.sources.admit(now_ns, packet.ends, header) {
            Admitted::Here(source) => source,
            Admitted::Gone(Tombstone::Ended { .. }) => {
                self.stats.ignored += 1;
                return self.acknowledge(now_ns, packet, header, acknowledges);
            }
            Admitted::Gone(Tombstone::Forgotten) => {
                return self.refuse(now_ns, packet.ends, header, ResetReason::Forgotten);
            }
            Admitted::Refused(reason) => {
                if reason == ResetReason::NoRoom {
                    self.acknowledge(now_ns, packet, header, acknowledges);
                }
                return self.refuse(now_ns, packet.ends, header, reason);
            }
        };
        let outcome = source.transport.on_data(now_ns, header, packet.body);
        // A packed packet may complete some messages while others are refused.
        self.stats.messages += take_messages(source, &mut self.events);
        match outcome {
            Outcome::Refused(reason) => {
                if reason == ResetReason::NoRoom {
                    self.acknowledge(now_ns, packet, header, acknowledges);
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
        note_data(host, source, &arrived);
        self.stats.packets_received += 1;
        self.stats.bytes += packet.body.len() as u64;
        if header.flags().contains(Flags::NO_ACK) {
            // Without memory for a record, each packet gets an ACK.
            if acknowledges && !record(source, packet.traffic_class, header, 1) {
                self.acknowledge(now_ns, packet, header, acknowledges);
            }
        } else {
            self.acknowledge(now_ns, packet, header, acknowledges);
        }
    }

    /// Takes in the terms of a job of which some DATA has arrived. Others are dropped: TERMS give
    /// no sender a place.
    fn on_terms(&mut self, now_ns: u64, packet: &Datagram<'_>, header: &Header) {
        let Some(body) = TermsBody::parse(packet.body) else {
            return self.drop_packet(packet, header);
        };
        match self.sources.find(packet.ends.source, header) {
            Some(source) if self.leaving.is_none() => {
                source.transport.on_terms(now_ns, header, &body);
                take_terms(source, &mut self.events);
            }
            _ => self.ignore(packet, header),
        }
    }

    /// Answers a probe as the daemon's programs do. Drops probes of unknown senders and those of a
    /// wrong length.
    fn on_probe(&mut self, packet: &Datagram<'_>, header: &Header, host: &impl Host<Lanes = L>) {
        let answers = host.acknowledges() && HEADER_LEN + packet.body.len() == PROBE_LEN;
        let source = self.sources.find(packet.ends.source, header);
        if let Some(source) = source.filter(|_| answers) {
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
            self.ignore(packet, header);
        }
    }

    /// Acknowledges a packet, if this endpoint does so. An ACK says only that the packet reached
    /// the host, so every packet of an admitted job gets one, even a dropped one. So does a packet
    /// for which there is no room now: that is no congestion of the network.
    fn acknowledge(
        &mut self,
        now_ns: u64,
        packet: &Datagram<'_>,
        header: &Header,
        acknowledges: bool,
    ) {
        if acknowledges {
            let congestion = dscp::is_congestion_experienced(packet.traffic_class);
            let ack = Ack::answering(*header, congestion, now_ns);
            self.replies.acks.push((ack, HEADER_LEN + packet.body.len(), packet.ends));
            self.stats.acks_sent += 1;
        }
    }

    pub(super) fn refuse(&mut self, now_ns: u64, ends: Ends, header: &Header, reason: ResetReason) {
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

    /// Counts a damaged packet, which gets no answer.
    pub(super) fn drop_packet(&mut self, packet: &Datagram<'_>, header: &Header) {
        tracing::trace!(source = %packet.ends.source, %header, "packet dropped");
        self.stats.note_malformed();
    }

    /// Counts a packet that means nothing to this endpoint.
    fn ignore(&mut self, packet: &Datagram<'_>, header: &Header) {
        tracing::trace!(source = %packet.ends.source, %header, "packet ignored");
        self.stats.ignored += 1;
    }
}

/// Tells the host of DATA. Late packets of an ended job take no share.
fn note_data<L: Lanes>(
    host: &mut impl Host<Lanes = L>,
    source: &mut Source<L>,
    arrived: &Arrived<'_>,
) {
    if !source.transport.is_finished() {
        host.on_data(source.key.address, &mut source.lanes, arrived);
    }
}

/// Records the arrival of `packets` packets from `first` on, for answers to probes. Returns `false`
/// if there is no memory for the record.
fn record<L>(source: &mut Source<L>, traffic_class: u8, first: &Header, packets: u32) -> bool {
    let marked = dscp::is_congestion_experienced(traffic_class);
    let run = Run { slot: first.slot(), packets, epoch: first.epoch(), marked };
    source.record(first.group(), &run)
}

/// The first header of a buffer that holds exactly the packets of one message, in order, with
/// consecutive slots of their lane, and without ACKs of their own.
fn single_message_header(buffer: &impl Buffer) -> Option<Header> {
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
    let packets = buffer.packets().len() as u32;
    first.filter(|first| {
        first.count() == packets && packets <= RUN_MAX && first.flags().contains(Flags::NO_ACK)
    })
}
