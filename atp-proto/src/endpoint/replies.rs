//! The packets to send back for a batch of received packets.

use super::Ends;
use crate::StatedEnd;
use atp_common::wire::{Ack, Header};

/// Room for the longest control packet.
const CONTROL_BYTES: usize = 1_280;

/// Packets to send back, in this order: ACKs, bare headers, and control packets.
#[derive(Default)]
pub struct Replies {
    /// ACKs, and the lengths of the packets that they answer.
    pub(super) acks: Vec<(Ack, usize, Ends)>,
    pub(super) headers: Vec<(Header, Ends)>,
    /// The control packets one after the other.
    bytes: Vec<u8>,
    controls: Vec<(usize, Ends)>,
}

impl Replies {
    /// Adds the control packet that `write` writes; `write` returns its length, 0 for none.
    pub fn control(&mut self, to: Ends, write: impl FnOnce(&mut [u8]) -> usize) {
        let mut packet = [0; CONTROL_BYTES];
        let len = write(&mut packet);
        if len > 0 {
            self.bytes.extend_from_slice(&packet[..len]);
            self.controls.push((len, to));
        }
    }

    /// Adds the answers to a sender's FIN, all pages, although no FIN has just come.
    pub(super) fn state_end(&mut self, to: Ends, end: &StatedEnd) {
        for page in 0..end.pages() {
            self.control(to, |out| end.answer_unasked(page, out));
        }
    }

    /// All packets, each with the sender to which it goes and the local address that it comes from.
    pub fn packets(&self) -> impl Iterator<Item = (&[u8], Ends)> {
        let mut rest = &self.bytes[..];
        let acks = self.acks.iter().map(|(ack, data_len, to)| (ack.bytes(*data_len), *to));
        let headers = self.headers.iter().map(|(header, to)| (&header.as_bytes()[..], *to));
        let controls = self.controls.iter().map(move |(len, to)| {
            let (control, after) = rest.split_at(*len);
            rest = after;
            (control, *to)
        });
        acks.chain(headers).chain(controls)
    }

    /// Forgets all packets: they are sent.
    pub fn clear(&mut self) {
        self.acks.clear();
        self.headers.clear();
        self.bytes.clear();
        self.controls.clear();
    }
}
