//! Collects the packets to send back for a batch of received packets, and sends them.

use crate::udp::{Ends, Outgoing, SendBatch, UdpSocket};
use atp_common::wire::{Ack, Header};
use atp_proto::StatedEnd;
use std::io::ErrorKind::WouldBlock;

/// Room for the longest control packet.
const CONTROL_BYTES: usize = 1_280;

/// Packets to send back: ACKs, bare headers, and control packets one after the other in `bytes`.
#[derive(Default)]
pub struct Replies {
    /// ACKs, and the lengths of the packets that they answer.
    pub acks: Vec<(Ack, usize, Ends)>,
    pub headers: Vec<(Header, Ends)>,
    bytes: Vec<u8>,
    controls: Vec<(usize, Ends)>,
}

impl Replies {
    /// Adds the control packet that `write` writes; `write` returns its length, 0 for none.
    pub fn control(&mut self, to: Ends, write: impl FnOnce(&mut [u8]) -> usize) {
        let start = self.bytes.len();
        self.bytes.resize(start + CONTROL_BYTES, 0);
        let len = write(&mut self.bytes[start..]);
        self.bytes.truncate(start + len);
        if len > 0 {
            self.controls.push((len, to));
        }
    }

    /// Adds the answers to a sender's FIN, all pages, although no FIN has just come.
    pub fn state_end(&mut self, to: Ends, end: &StatedEnd) {
        for page in 0..end.pages() {
            self.control(to, |out| end.answer_unasked(page, out));
        }
    }

    /// Sends all packets and clears the list.
    pub fn send(&mut self, socket: &UdpSocket, batch: &mut SendBatch) {
        let mut rest = &self.bytes[..];
        let acks = self.acks.iter().map(|(ack, data_len, to)| (ack.bytes(*data_len), *to));
        let headers = self.headers.iter().map(|(header, to)| (&header.as_bytes()[..], *to));
        let controls = self.controls.iter().map(|(len, to)| {
            let (control, after) = rest.split_at(*len);
            rest = after;
            (control, *to)
        });
        let mut outgoing: Vec<_> = acks
            .chain(headers)
            .chain(controls)
            .map(|(head, to)| Outgoing { to: Some(to), ..Outgoing::control(head) })
            .collect();
        let mut left = &mut outgoing[..];
        while let Some(first) = left.first().and_then(|first| first.to) {
            let sent = match batch.send(socket, left) {
                // The sender's address for this host is no source, such as a broadcast, or has gone
                // since: the kernel chooses another one.
                Err(error) if first.local.is_some() && error.kind() != WouldBlock => {
                    left[0].to = Some(Ends { local: None, ..first });
                    continue;
                }
                // A packet that can't leave is lost: senders repeat packets that get no answer.
                // Skip only the one that fails, perhaps because its source can't be reached.
                sent => sent.unwrap_or(1).clamp(1, left.len()),
            };
            left = &mut left[sent..];
        }
        self.acks.clear();
        self.headers.clear();
        self.bytes.clear();
        self.controls.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send__from_another_address_if_the_asked_one_is_gone() {
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        peer.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let source = peer.local_addr().unwrap();
        let mut replies = Replies::default();
        for (byte, local) in [(1, "127.0.0.1"), (2, "192.0.2.1"), (3, "127.0.0.1")] {
            let ends = Ends { source, local: Some(local.parse().unwrap()) };
            replies.control(ends, |out| {
                out[0] = byte;
                1
            });
        }
        replies.send(&socket, &mut SendBatch::new());
        let mut arrived = [0; 3];
        for byte in &mut arrived {
            peer.recv(std::slice::from_mut(byte)).unwrap();
        }
        assert_eq!(arrived, [1, 2, 3]);
    }
}
