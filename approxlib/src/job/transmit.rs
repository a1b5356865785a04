//! What leaves: control packets, and batches of data as the transport chooses and the datapath lets.

use super::{
    builder::PATH_MTU_BYTES_MIN,
    worker::{Blocked, Buffers, Worker},
};
use crate::udp::{BATCH, Outgoing};
use atp_common::wire::HEADER_LEN;
use atp_proto::Packet;
use std::io;

/// Batches sent before acknowledgements are looked at again.
const BATCHES_PER_TURN: usize = 2;
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
            let packet = Outgoing { head, body: &[], to: None, traffic_class: 0 };
            match send.send(&self.socket, &[packet]) {
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
            let blocked = self.choose(now_ns);
            let chosen = self.buffers.packets.len();
            if chosen == 0 {
                return blocked;
            }
            let (sent, error) = self.send_chosen();
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
        let packets = &mut self.buffers.packets;
        packets.clear();
        while packets.len() < BATCH {
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
        let Buffers { store, packets, send, .. } = &mut self.buffers;
        let datapath = &self.datapath;
        let outgoing: Vec<_> = packets
            .iter()
            .map(|packet| Outgoing {
                head: packet.header.as_bytes(),
                body: store.part(packet.message, packet.offset, packet.len),
                to: None,
                traffic_class: datapath.traffic_class(packet.message.group),
            })
            .collect();
        match send.send(&self.socket, &outgoing) {
            Ok(sent) => (sent, None),
            Err(error) => (0, Some(error)),
        }
    }

    /// Gives back what did not leave, youngest first.
    fn take_back(&mut self, sent: usize) {
        for packet in self.buffers.packets[sent..].iter().rev() {
            self.datapath.unsent(&packet.header, payload_bytes(packet));
            self.sender.unsent(packet);
        }
    }

    fn after(&mut self, error: &io::Error, now_ns: u64) -> Blocked {
        let code = error.raw_os_error().unwrap_or(libc::EIO);
        match code {
            libc::EAGAIN => return Blocked::Full,
            libc::EINTR => return Blocked::No,
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

fn payload_bytes(packet: &Packet) -> u32 {
    packet.len + HEADER_LEN as u32
}
