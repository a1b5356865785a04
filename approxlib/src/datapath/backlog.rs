//! Limits the backlog in the socket and in the queueing discipline below it.
//!
//! A short backlog keeps the order of MRDF and the epoch stamps recent. It must still be long
//! enough that the queue doesn't run empty between two rounds of the sender thread, and that a full
//! batch fits at high rates.

use crate::udp::{BATCH, UdpSocket};
use atp_common::{
    laws::backlog::{PACKETS_MAX, PACKETS_MIN, packets_at},
    units::Rate,
};

/// The limit of an estimated wait. The lowest rate of a lane is one packet per epoch or RTT, so a
/// longer estimate is wrong.
const WAIT_NS_MAX: u64 = 1_000_000_000;

const _: () = assert!(PACKETS_MAX == 2 * BATCH as u64);

/// Adapts a socket's send buffer to its lane's rate.
pub struct Backlog {
    /// Bytes on the wire of a full packet.
    packet_bytes: u32,
    /// The share of the send buffer that a full packet uses, bytes.
    truesize_bytes: usize,
    packets: u64,
}

impl Backlog {
    /// For packets of `packet_bytes` on the wire.
    pub fn new(packet_bytes: u32) -> Self {
        Self { packet_bytes, truesize_bytes: truesize(packet_bytes as usize), packets: 0 }
    }

    /// Adapts the socket to `rate`, at once: the laws take a longer backlog for a queue of the
    /// network. A rate of 0 is not known yet.
    pub fn follow(&mut self, socket: &UdpSocket, rate: Rate) {
        let packets = packets_at(rate, self.packet_bytes, PACKETS_MIN);
        if packets == self.packets {
            return;
        }
        // The call can't fail on a UDP socket, and a wrong size would only cost speed.
        let _ = socket.set_send_buffer(packets as usize * self.truesize_bytes);
        self.packets = packets;
    }

    /// How long a packet sent now waits in this host at `rate`, nanoseconds; 0 if the rate isn't
    /// known.
    pub fn wait_ns(&self, socket: &UdpSocket, rate: Rate) -> u64 {
        if rate == Rate::default() {
            return 0;
        }
        let packets = socket.queued_bytes() / self.truesize_bytes;
        let wait_ns = packets as u64 * rate.duration_ns(self.packet_bytes);
        wait_ns.min(WAIT_NS_MAX)
    }
}

/// The largest send buffer (SO_SNDBUF) that the library requests for packets of `packet_bytes` on
/// the wire, bytes. `net.core.wmem_max` limits it.
pub const fn send_buffer_bytes_max(packet_bytes: usize) -> usize {
    // The kernel doubles the value.
    PACKETS_MAX as usize * truesize(packet_bytes) / 2
}

/// The kernel's charge to a socket for a packet: a buffer and 256 bytes for the descriptor. The
/// buffer holds 64 bytes of headroom, the packet and the 320 bytes of the shared info, rounded up
/// to a power of two. For 1,400-byte payloads the sum is 2,304, as measured.
const fn truesize(packet_bytes: usize) -> usize {
    (packet_bytes + 320 + 64).next_power_of_two() + 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truesize__of_a_usual_packet() {
        assert_eq!(truesize(1_474), 2_304);
        assert_eq!(send_buffer_bytes_max(1_474), 147_456);
    }
}
