//! What leaves: control packets, and batches of data as the transport chooses and the datapath lets.

use super::{
    builder::PATH_MTU_BYTES_MIN,
    store::Message,
    worker::{Blocked, Buffers, Worker},
};
use crate::udp::{BATCH, Outgoing};
use atp_common::wire::{Flags, HEADER_LEN, Header};
use atp_proto::{MessageId, Packet};
use std::io;

/// Batches sent before acknowledgements are looked at again.
const BATCHES_PER_TURN: usize = 2;
/// Superpackets of a batch.
const BURSTS: usize = 4;
/// The longest UDP payload that a superpacket may have, over IPv4 and IPv6, with some to spare.
const SUPERPACKET_BYTES_MAX: usize = 65_000;
/// How long to wait after the host itself dropped a packet.
const PAUSE_NS: u64 = 1_000_000;

impl Worker {
    /// Sends what the transport has to say; `false` if the socket has no room for it now.
    pub(super) fn send_control(&mut self, now_ns: u64) -> bool {
        loop {
            let Buffers { control, control_len, send, .. } = &mut self.buffers;
            if *control_len == 0 {
                let Some(len) = self.sender.next_control(now_ns, &mut control[..]) else {
                    return true;
                };
                *control_len = len;
            }
            let head = &control[..*control_len];
            match send.send(&self.socket, &[Outgoing::control(head)]) {
                // Kept, so that it goes first as soon as there is room.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                sent => {
                    *control_len = 0;
                    if sent.is_err() {
                        // The transport repeats what is not answered.
                        self.note_errors();
                        return true;
                    }
                }
            }
        }
    }

    pub(super) fn send_data(&mut self, now_ns: u64) -> Blocked {
        for _ in 0..BATCHES_PER_TURN {
            self.buffers.question = self.datapath.ask(now_ns, &self.sender);
            let blocked = self.choose(now_ns);
            let chosen = self.buffers.packets.len();
            let asks = usize::from(self.buffers.question.is_some());
            if chosen + asks == 0 {
                return blocked;
            }
            let (left, error) = self.send_chosen();
            if let Some((group, _)) = self.buffers.question {
                self.datapath.asked(now_ns, &mut self.sender, group, left > 0);
            }
            let sent = left.saturating_sub(asks);
            self.take_back(sent);
            if sent > 0 {
                self.refused_here = None;
            }
            match error {
                Some(error) => return self.after(&error, now_ns),
                None if sent < chosen => return Blocked::No,
                None if blocked != Blocked::No => return blocked,
                None => {}
            }
        }
        Blocked::No
    }

    /// Fills `packets` with what may leave now.
    fn choose(&mut self, now_ns: u64) -> Blocked {
        let room = (BATCH - 1).max(BURSTS * self.burst_packets());
        let packets = &mut self.buffers.packets;
        packets.clear();
        if self.datapath.never_holds() {
            self.sender.next_packets(now_ns, room, packets);
            for packet in &mut *packets {
                let payload_bytes = payload_bytes(packet);
                self.datapath.depart(now_ns, &mut packet.header, payload_bytes);
            }
            return if packets.len() < room { Blocked::Nothing } else { Blocked::No };
        }
        while packets.len() < room {
            let datapath = &self.datapath;
            let may_send = |group| datapath.hold_until(group, now_ns).is_none();
            let Some(mut packet) = self.sender.next_packet_of(now_ns, may_send) else {
                // Nothing there, or nothing whose time has come.
                let held_ns = datapath.first_release(now_ns);
                return held_ns.map_or(Blocked::Nothing, Blocked::Until);
            };
            let payload_bytes = payload_bytes(&packet);
            self.datapath.depart(now_ns, &mut packet.header, payload_bytes);
            packets.push(packet);
        }
        Blocked::No
    }

    fn send_chosen(&mut self) -> (usize, Option<io::Error>) {
        self.write_heads();
        let Buffers { store, packets, send, question, no_bursts, .. } = &mut self.buffers;
        let (datapath, no_bursts) = (&self.datapath, *no_bursts);
        // Before what it doesn't ask about: behind a burst it would be what no longer fits a queue.
        let question = question.iter().map(|(_, head)| Outgoing::control(head));
        // Packets of one message follow each other.
        let mut last: Option<(MessageId, Message<'_>)> = None;
        let data = packets.iter().map(|packet| {
            let message = match last {
                Some((id, message)) if id == packet.message => message,
                _ => store.get(packet.message),
            };
            last = Some((packet.message, message));
            let (head, body) = match message.packet {
                Some(whole) if packet.header.count() == 1 => (whole, &[][..]),
                // Empty if there is no such part, which would be the transport's mistake.
                _ => {
                    let (start, len) = (packet.offset as usize, packet.len as usize);
                    let part = message.bytes.get(start..start + len).unwrap_or_default();
                    (&packet.header.as_bytes()[..], part)
                }
            };
            let traffic_class = datapath.traffic_class(packet.message.group);
            Outgoing { head, body, to: None, traffic_class, lane: lane_of(&packet.header) }
        });
        let outgoing: Vec<_> = question.chain(data).collect();
        let burst_packets = |group| if no_bursts { 1 } else { datapath.burst_packets(group) };
        let together = |left: &[Outgoing<'_>]| run_len(left, burst_packets);
        match send.send_bursts(&self.socket, &outgoing, together) {
            Ok(sent) => (sent, None),
            Err(error) => (0, Some(error)),
        }
    }

    /// Puts the header of each message of one packet before it: the kernel then takes both in one piece.
    fn write_heads(&mut self) {
        let Buffers { store, packets, .. } = &mut self.buffers;
        for packet in packets.iter().filter(|packet| packet.header.count() == 1) {
            if let Some(own) = store.own_mut(packet.message) {
                own.write_head(packet.header.as_bytes());
            }
        }
    }

    /// How many packets may leave as one.
    fn burst_packets(&self) -> usize {
        if self.buffers.no_bursts { 1 } else { self.datapath.longest_burst_packets() }
    }

    /// Gives back what did not leave, youngest first.
    fn take_back(&mut self, sent: usize) {
        for packet in self.buffers.packets[sent..].iter().rev() {
            self.datapath.unsent(&packet.header, payload_bytes(packet));
            self.sender.take_back(packet);
        }
    }

    fn after(&mut self, error: &io::Error, now_ns: u64) -> Blocked {
        let code = error.raw_os_error().unwrap_or(libc::EIO);
        match code {
            libc::EAGAIN => return Blocked::Full,
            libc::EINTR => return Blocked::No,
            // A device without checksums of its own, or a path shorter than a segment.
            libc::EIO | libc::EINVAL if self.burst_packets() > 1 => {
                tracing::info!(%error, "no superpackets on this path");
                self.buffers.no_bursts = true;
                return Blocked::No;
            }
            // Told of an earlier packet, not of this one.
            libc::ECONNREFUSED => self.note_errors(),
            // The host's own queue dropped it, or something worse: never in flight, so nobody else
            // would notice if it lasted.
            _ => {
                self.refused_here.get_or_insert((now_ns, code)).1 = code;
                if code != libc::ENOBUFS {
                    tracing::debug!(%error, "sending failed");
                    self.note_errors();
                }
                if code == libc::EMSGSIZE {
                    self.trouble.mtu_bytes = self.socket.path_mtu_bytes().map(|mtu| mtu as u32);
                    self.fit_path(now_ns);
                    return Blocked::No;
                }
            }
        }
        Blocked::Until(now_ns + PAUSE_NS)
    }

    /// Makes packets as short as the path is now known to be. A path that takes no packet of ours ends
    /// the job: see `ended`.
    pub(super) fn fit_path(&mut self, now_ns: u64) {
        let Some(mtu_bytes) = self.trouble.mtu_bytes else { return };
        let headers = self.socket.overhead_bytes() + HEADER_LEN;
        let room = (mtu_bytes as usize).saturating_sub(headers) as u32;
        if mtu_bytes as usize >= PATH_MTU_BYTES_MIN && room < self.sender.config().payload_bytes_max
        {
            tracing::debug!(mtu_bytes, "the path has become narrower");
            self.sender.set_payload_bytes(now_ns, room);
        }
    }

    pub(super) fn note_errors(&mut self) {
        let news = self.socket.take_errors();
        self.trouble.refused |= news.refused;
        self.trouble.unreachable |= news.unreachable;
        self.trouble.mtu_bytes = news.mtu_bytes.or(self.trouble.mtu_bytes);
    }
}

/// How many of the packets that are left make one superpacket of at most `packets_max` of its group: consecutive
/// ones of a lane and epoch that get no ACK of their own, all but the last of one length. An answer in
/// GRO's and the datapath's sense must not mix lanes.
fn run_len(left: &[Outgoing<'_>], packets_max: impl Fn(u8) -> usize) -> usize {
    let Some((first, lane)) = left.first().and_then(|first| Some((first, first.lane?))) else {
        return 1;
    };
    let segment_len = first.len();
    let packets_max = packets_max(lane.0).min(SUPERPACKET_BYTES_MAX / segment_len).max(1);
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

/// Group and epoch of DATA without an ACK of its own.
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

    fn header(probed: bool, group: u8, epoch: u16) -> Header {
        let flags = if probed { Flags::NO_ACK } else { Flags::NONE };
        Header::new(&Fields {
            kind: Kind::Data,
            flags,
            group,
            job: 1,
            cookie: 2,
            message: 3,
            index: 0,
            count: 1,
            epoch,
            slot: 4,
            time: 0,
        })
    }

    proptest! {
        // What the kernel and the datapath ask of a superpacket.
        #[test]
        fn run_len__segments_of_one_lane_and_length(
            packets in proptest::collection::vec((0u8..8, 0u8..2, 0u16..2, 0usize..4), 1..100),
            packets_max in 1usize..50,
        ) {
            let lens = [0, 700, 1_400, 1_400];
            let body = [0; 1_400];
            let packets: Vec<_> = packets
                .into_iter()
                .map(|(probed, group, epoch, len)| (header(probed > 0, group, epoch), lens[len]))
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
                let n = run_len(left, |_| packets_max);
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
