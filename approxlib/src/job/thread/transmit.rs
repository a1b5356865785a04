//! Sends control packets and batches of data. The transport chooses the packets; the datapath says
//! when they may leave.

use super::{Blocked, Buffers, SenderThread, packing, store::Message};
use crate::udp::{BATCH, Outgoing, PATH_MTU_BYTES_MIN};
use atp_common::wire::{Flags, HEADER_LEN, Header};
use atp_proto::{MessageId, Packet};
use std::io;

/// Batches sent before the thread reads acknowledgments again.
const BATCHES_PER_ROUND: usize = 2;
/// GSO buffers of a batch.
const GSO_BUFFERS: usize = 4;
/// The longest UDP payload of a GSO buffer over IPv4 and IPv6, with a margin.
const GSO_BUFFER_BYTES_MAX: usize = 65_000;
/// The pause after this host dropped a packet.
const PAUSE_NS: u64 = 1_000_000;

impl SenderThread {
    /// Sends the transport's control packets. Returns `false` if the socket has no room now.
    pub(super) fn send_control(&mut self, now_ns: u64) -> bool {
        loop {
            let Buffers { control, control_len, send, .. } = &mut self.buffers;
            if *control_len == 0 {
                let Some(len) = self.job.sender.next_control(now_ns, &mut control[..]) else {
                    return true;
                };
                *control_len = len;
            }
            let head = &control[..*control_len];
            match send.send(&self.socket, &[Outgoing::control(head)]) {
                // Keep the packet: it goes first as soon as there is room.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                sent => {
                    *control_len = 0;
                    if sent.is_err() {
                        // The transport repeats a control packet that gets no answer.
                        self.note_errors(now_ns);
                        return true;
                    }
                }
            }
        }
    }

    /// Sends batches of probes and data, and returns why it stopped.
    pub(super) fn send_data(&mut self, now_ns: u64) -> Blocked {
        for _ in 0..BATCHES_PER_ROUND {
            let room = match self.closed_port.next_packet_ns(self.job.sender.answers()) {
                Some(at_ns) if at_ns > now_ns => return Blocked::Until(at_ns),
                Some(_) => 1,
                None => (BATCH - 1).max(GSO_BUFFERS * self.gso_packets_max()),
            };
            self.buffers.probe = self.datapath.next_probe(now_ns, &self.job.sender);
            let blocked = self.choose_packets(now_ns, room);
            let chosen = self.buffers.packets.len();
            let probes = usize::from(self.buffers.probe.is_some());
            if chosen + probes == 0 {
                return blocked;
            }
            let (left, error) = self.send_chosen();
            if let Some((group, _)) = self.buffers.probe {
                self.datapath.probe_sent(now_ns, &mut self.job.sender, group, left > 0);
            }
            let sent = left.saturating_sub(probes);
            self.datapath.data_sent(now_ns, sent);
            self.take_back(sent);
            if sent > 0 {
                self.refused_by_host = None;
                self.closed_port.sent(now_ns);
            }
            match error {
                Some(error) => return self.on_send_error(&error, now_ns),
                None if sent < chosen => return Blocked::No,
                None if blocked != Blocked::No => return blocked,
                None => {}
            }
        }
        Blocked::No
    }

    /// Fills `packets` with the packets that may leave now, `room` at most.
    fn choose_packets(&mut self, now_ns: u64, room: usize) -> Blocked {
        let packets = &mut self.buffers.packets;
        packets.clear();
        if self.datapath.is_unpaced() {
            self.job.sender.next_packets(now_ns, room, packets);
            packing::pad(packets);
            for packet in &mut *packets {
                let payload_bytes = payload_bytes(packet);
                self.datapath.depart(now_ns, &mut packet.header, payload_bytes);
            }
            return if packets.len() < room { self.nothing_to_send() } else { Blocked::No };
        }
        while packets.len() < room {
            let datapath = &self.datapath;
            let may_send = |group| datapath.hold_until(group, now_ns).is_none();
            let Some(mut packet) = self.job.sender.next_packet_of(now_ns, may_send) else {
                // There is no packet, or pacing holds all of them.
                let held_ns = datapath.next_release(now_ns);
                return held_ns.map_or_else(|| self.nothing_to_send(), Blocked::Until);
            };
            let payload_bytes = payload_bytes(&packet);
            self.datapath.depart(now_ns, &mut packet.header, payload_bytes);
            packets.push(packet);
        }
        Blocked::No
    }

    /// Why there is no packet, although none is held by pacing.
    fn nothing_to_send(&self) -> Blocked {
        let is_full = self.job.sender.is_full() && self.job.sender.waits_for_acks();
        if is_full { Blocked::WindowFull } else { Blocked::Nothing }
    }

    fn send_chosen(&mut self) -> (usize, Option<io::Error>) {
        self.prepend_headers();
        let Buffers { store, packets, packed, send, probe, gso_unsupported, .. } =
            &mut self.buffers;
        packed.assemble(packets, &self.job.sender, store);
        let mut packed = packed.packets();
        let (datapath, gso_unsupported) = (&self.datapath, *gso_unsupported);
        // The probe goes first: behind a burst that fills a queue it would be dropped.
        let probe = probe.iter().map(|(_, head)| Outgoing::control(head));
        // Packets of one message follow each other: look each message up once.
        let mut last: Option<(MessageId, Message<'_>)> = None;
        let data = packets.iter().map(|packet| {
            let traffic_class = datapath.traffic_class(packet.message.group);
            let lane = lane_of(&packet.header);
            if packet.is_packed() {
                let head = packed.next().unwrap_or_default();
                return Outgoing { head, body: &[], to: None, traffic_class, lane };
            }
            let message = match last {
                Some((id, message)) if id == packet.message => message,
                _ => store.get(packet.message),
            };
            last = Some((packet.message, message));
            let (head, body) = match message.packet {
                Some(packet_bytes) if packet.header.count() == 1 => (packet_bytes, &[][..]),
                // Empty if the message has no such part, which would be a bug of the transport.
                _ => {
                    let (start, len) = (packet.offset as usize, packet.len as usize);
                    let part = message.bytes.get(start..start + len).unwrap_or_default();
                    (&packet.header.as_bytes()[..], part)
                }
            };
            Outgoing { head, body, to: None, traffic_class, lane }
        });
        let outgoing: Vec<_> = probe.chain(data).collect();
        let gso_packets = |group| if gso_unsupported { 1 } else { datapath.gso_packets(group) };
        let segments = |left: &[Outgoing<'_>]| gso_buffer_packets(left, gso_packets);
        match send.send_segmented(&self.socket, &outgoing, segments) {
            Ok(sent) => (sent, None),
            Err(error) => (0, Some(error)),
        }
    }

    /// Writes the header of each single-packet message in front of its data, so that the kernel
    /// copies one piece instead of two.
    fn prepend_headers(&mut self) {
        let Buffers { store, packets, .. } = &mut self.buffers;
        for packet in packets.iter().filter(|packet| packet.header.count() == 1) {
            if let Some(copy) = store.copy_mut(packet.message) {
                copy.write_header(packet.header.as_bytes());
            }
        }
    }

    /// The most packets that one GSO buffer of any group may hold.
    fn gso_packets_max(&self) -> usize {
        if self.buffers.gso_unsupported { 1 } else { self.datapath.gso_packets_max() }
    }

    /// Gives the packets after the first `sent` back to the transport, in reverse order.
    fn take_back(&mut self, sent: usize) {
        for packet in self.buffers.packets[sent..].iter().rev() {
            self.datapath.take_back(&packet.header, payload_bytes(packet));
            self.job.sender.take_back(packet);
        }
    }

    fn on_send_error(&mut self, error: &io::Error, now_ns: u64) -> Blocked {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        match errno {
            libc::EAGAIN => return Blocked::SocketFull,
            libc::EINTR => return Blocked::No,
            // The device computes no checksums, or the path is narrower than a segment.
            libc::EIO | libc::EINVAL if self.gso_packets_max() > 1 => {
                tracing::info!(peer = %self.peer, %error, "GSO failed: sending packets one by one");
                self.buffers.gso_unsupported = true;
                return Blocked::No;
            }
            // The error belongs to an earlier packet.
            libc::ECONNREFUSED => self.note_errors(now_ns),
            // This host dropped the packet. It was never in flight, so no timeout of the transport
            // would end the job if the error lasted: `ended` does.
            _ => {
                self.refused_by_host.get_or_insert((now_ns, errno)).1 = errno;
                if errno != libc::ENOBUFS {
                    tracing::debug!(peer = %self.peer, %error, "sending failed");
                    self.note_errors(now_ns);
                }
                if errno == libc::EMSGSIZE {
                    self.socket_errors.mtu_bytes =
                        self.socket.path_mtu_bytes().map(|mtu| mtu as u32);
                    self.fit_path();
                    return Blocked::No;
                }
            }
        }
        Blocked::Until(now_ns + PAUSE_NS)
    }

    /// Shortens packets to the path MTU, if it is now smaller. A path too narrow for ATP ends the
    /// job: see `ended`.
    pub(super) fn fit_path(&mut self) {
        let Some(mtu_bytes) = self.socket_errors.mtu_bytes else { return };
        let headers = self.socket.overhead_bytes() + HEADER_LEN;
        let room = (mtu_bytes as usize).saturating_sub(headers) as u32;
        if mtu_bytes as usize >= PATH_MTU_BYTES_MIN
            && room < self.job.sender.config().payload_bytes_max
        {
            tracing::debug!(peer = %self.peer, mtu_bytes, "the path's MTU shrank");
            self.job.sender.set_payload_bytes(room);
        }
    }

    pub(super) fn note_errors(&mut self, now_ns: u64) {
        let new = self.socket.take_errors();
        if new.port_unreachable {
            self.closed_port.refused(now_ns, self.job.sender.answers());
        }
        let is_first = new.port_unreachable && !self.socket_errors.port_unreachable;
        if is_first && self.job.sender.report().packets_arrived == 0 {
            tracing::warn!(
                peer = %self.peer,
                timeout_s = self.job.sender.config().peer_timeout_ns as f64 / 1e9,
                "nothing listens at the receiver's port: trying again until the timeout"
            );
        }
        if new.port_unreachable {
            self.job.sender.on_port_unreachable();
        }
        // A router's answer shows that packets left: the programs must have counted them.
        if new.host_unreachable_from_here {
            self.datapath.excuse_uncounted(now_ns);
        }
        self.socket_errors.port_unreachable |= new.port_unreachable;
        self.socket_errors.host_unreachable |= new.host_unreachable;
        self.socket_errors.mtu_bytes = new.mtu_bytes.or(self.socket_errors.mtu_bytes);
    }
}

/// How many of the packets in `left` make one GSO buffer, at most `packets_max` of its group.
///
/// They are consecutive packets of one lane and epoch without ACKs of their own, and all but the
/// last have the same length. The receiving kernel merges them to one GRO buffer, and the datapath
/// counts it for one lane: a buffer must not mix lanes.
fn gso_buffer_packets(left: &[Outgoing<'_>], packets_max: impl Fn(u8) -> usize) -> usize {
    let Some((first, lane)) = left.first().and_then(|first| Some((first, first.lane?))) else {
        return 1;
    };
    let segment_len = first.len();
    let packets_max = packets_max(lane.0).min(GSO_BUFFER_BYTES_MAX / segment_len).max(1);
    let mut n = 1;
    for packet in left.iter().take(packets_max).skip(1) {
        if packet.len() > segment_len || packet.lane != Some(lane) {
            break;
        }
        n += 1;
        if packet.len() < segment_len {
            break;
        }
    }
    n
}

/// The group and epoch of a DATA packet without an ACK of its own.
fn lane_of(header: &Header) -> Option<(u8, u16)> {
    header.flags().contains(Flags::NO_ACK).then(|| (header.group(), header.epoch()))
}

fn payload_bytes(packet: &Packet) -> u32 {
    packet.len + HEADER_LEN as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::wire::{Fields, Kind};
    use proptest::prelude::*;

    fn header(no_ack: bool, group: u8, epoch: u16) -> Header {
        let flags = if no_ack { Flags::NO_ACK } else { Flags::NONE };
        Header::new(&Fields {
            flags,
            group,
            job: 1,
            cookie: 2,
            message: 3,
            count: 1,
            epoch,
            slot: 4,
            ..Fields::of(Kind::Data)
        })
    }

    proptest! {
        // The kernel and the datapath require all of this of a GSO buffer.
        #[test]
        fn run_len__segments_of_one_lane_and_length(
            packets in proptest::collection::vec((0u8..8, 0u8..2, 0u16..2, 0usize..4), 1..100),
            packets_max in 1usize..50,
        ) {
            let lens = [0, 700, 1_400, 1_400];
            let body = [0; 1_400];
            let packets: Vec<_> = packets
                .into_iter()
                .map(|(no_ack, group, epoch, len)| (header(no_ack > 0, group, epoch), lens[len]))
                .collect();
            let outgoing: Vec<_> = packets
                .iter()
                .map(|(header, len)| Outgoing {
                    body: &body[..*len],
                    lane: lane_of(header),
                    ..Outgoing::control(header.as_bytes())
                })
                .collect();
            let mut left = &outgoing[..];
            while !left.is_empty() {
                let n = gso_buffer_packets(left, |_| packets_max);
                prop_assert!((1..=packets_max.min(left.len())).contains(&n));
                let (run, rest) = left.split_at(n);
                if n > 1 {
                    prop_assert!(run.iter().all(|packet| packet.lane == run[0].lane));
                    prop_assert!(run[0].lane.is_some());
                    prop_assert!(run[..n - 1].iter().all(|packet| packet.len() == run[0].len()));
                    prop_assert!(run[n - 1].len() <= run[0].len());
                    prop_assert!(run.iter().map(Outgoing::len).sum::<usize>() <= 65_507);
                }
                left = rest;
            }
        }
    }
}
