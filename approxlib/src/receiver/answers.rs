//! What goes back to the senders after a batch was read.

use super::fin_acks::FinAcks;
use crate::udp::{Outgoing, SendBatch, UdpSocket};
use atp_common::wire::Header;
use std::net::SocketAddr;

/// Room for every control packet.
const CONTROL_BYTES: usize = 1_280;

/// Packets to send back: bare headers, and control packets one after the other in `bytes`.
#[derive(Default)]
pub struct Answers {
    pub headers: Vec<(Header, SocketAddr)>,
    bytes: Vec<u8>,
    controls: Vec<(usize, SocketAddr)>,
}

impl Answers {
    /// Adds what `write` writes, if anything.
    pub fn control(&mut self, to: SocketAddr, write: impl FnOnce(&mut [u8]) -> usize) {
        let at = self.bytes.len();
        self.bytes.resize(at + CONTROL_BYTES, 0);
        let len = write(&mut self.bytes[at..]);
        self.bytes.truncate(at + len);
        if len > 0 {
            self.controls.push((len, to));
        }
    }

    /// Adds what was answered to a FIN before.
    pub fn repeat(&mut self, to: SocketAddr, fin_acks: &FinAcks) {
        for answer in fin_acks.iter() {
            self.control(to, |out| {
                out[..answer.len()].copy_from_slice(answer);
                answer.len()
            });
        }
    }

    /// Sends everything and forgets it.
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
            // What can't leave is lost: senders repeat what they get no answer to. Skip one that
            // fails (a source that can't be reached), not those behind it.
            let sent = batch.send(socket, left).unwrap_or(1);
            left = &left[sent.max(1).min(left.len())..];
        }
        self.headers.clear();
        self.bytes.clear();
        self.controls.clear();
    }
}
