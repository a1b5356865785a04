//! Collects the packets to send back for a batch of received packets, and sends them.

use super::fin_acks::FinAcks;
use crate::udp::{Ends, Outgoing, SendBatch, UdpSocket};
use atp_common::wire::Header;

/// Room for the longest control packet.
const CONTROL_BYTES: usize = 1_280;

/// Packets to send back: bare headers, and control packets one after the other in `bytes`.
#[derive(Default)]
pub struct Replies {
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

    /// Adds all kept answers to a sender's FIN.
    pub fn repeat(&mut self, to: Ends, fin_acks: &FinAcks) {
        for answer in fin_acks.iter() {
            self.control(to, |out| {
                out[..answer.len()].copy_from_slice(answer);
                answer.len()
            });
        }
    }

    /// Sends all packets and clears the list.
    pub fn send(&mut self, socket: &UdpSocket, batch: &mut SendBatch) {
        let mut rest = &self.bytes[..];
        let headers = self.headers.iter().map(|(header, to)| (&header.as_bytes()[..], *to));
        let controls = self.controls.iter().map(|(len, to)| {
            let (control, after) = rest.split_at(*len);
            rest = after;
            (control, *to)
        });
        let outgoing: Vec<_> = headers
            .chain(controls)
            .map(|(head, to)| Outgoing { to: Some(to), ..Outgoing::control(head) })
            .collect();
        let mut left = &outgoing[..];
        while !left.is_empty() {
            // A packet that can't leave is lost: senders repeat packets that get no answer. Skip
            // only the one that fails, perhaps because its source can't be reached.
            let sent = batch.send(socket, left).unwrap_or(1);
            left = &left[sent.max(1).min(left.len())..];
        }
        self.headers.clear();
        self.bytes.clear();
        self.controls.clear();
    }
}
