//! How much may wait in the socket and in the queueing discipline below it.
//!
//! Little: what waits there was chosen by MRDF, and stamped with an epoch, that long ago. But
//! enough that the queue never runs dry between two turns of the sending thread, and enough for a
//! full batch where the rate is high.

use crate::udp::{BATCH, UdpSocket};
use atp_common::units::Rate;

/// What may wait, as time.
pub const BACKLOG_NS: u64 = 2_000_000;
/// More than this is no estimate: a lane's least rate is a packet per epoch or RTT.
const WAIT_NS_MAX: u64 = 1_000_000_000;
/// Fewer packets would leave the queue empty between two turns.
const PACKETS_MIN: u64 = 6;
/// Room for one batch while another waits.
const PACKETS_MAX: u64 = 2 * BATCH as u64;

/// Keeps a socket's send buffer in step with its lane's rate.
pub struct Backlog {
    /// Bytes on the wire of a full packet.
    packet_bytes: u32,
    /// What a full packet costs of the send buffer.
    truesize_bytes: usize,
    packets: u64,
}

impl Backlog {
    /// For packets of `packet_bytes` on the wire.
    pub fn new(packet_bytes: u32) -> Self {
        Self { packet_bytes, truesize_bytes: truesize(packet_bytes as usize), packets: 0 }
    }

    /// Adapts the socket to `rate`. Only changes of more than a quarter are worth a system call. A
    /// rate of 0 is one that isn't known yet.
    pub fn follow(&mut self, socket: &UdpSocket, rate: Rate) {
        let packets = packets_at(rate, self.packet_bytes);
        if packets.abs_diff(self.packets) * 4 <= self.packets {
            return;
        }
        // Can't fail on a UDP socket, and a wrong size costs speed only.
        let _ = socket.set_send_buffer(packets as usize * self.truesize_bytes);
        self.packets = packets;
    }

    /// How long a packet handed over now will wait at `rate`, nanoseconds; 0 if that isn't known.
    pub fn wait_ns(&self, socket: &UdpSocket, rate: Rate) -> u64 {
        if rate == Rate::default() {
            return 0;
        }
        let packets = socket.queued_bytes() / self.truesize_bytes;
        let wait_ns = packets as u64 * rate.duration_ns(self.packet_bytes);
        wait_ns.min(WAIT_NS_MAX)
    }
}

fn packets_at(rate: Rate, packet_bytes: u32) -> u64 {
    let packets = rate.bytes_in(BACKLOG_NS) / u64::from(packet_bytes.max(1));
    packets.clamp(PACKETS_MIN, PACKETS_MAX)
}

/// What the kernel charges a socket for a packet: its buffer (headroom, packet and the shared
/// info's 320 bytes, rounded up to a power of two) and 256 bytes for the descriptor. 1,400-byte
/// payloads: 2,304, as measured.
fn truesize(packet_bytes: usize) -> usize {
    (packet_bytes + 320 + 64).next_power_of_two() + 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_at__two_milliseconds_within_bounds() {
        let at = |bytes_per_s| packets_at(Rate::from_bytes_per_s(bytes_per_s), 1_474);
        assert_eq!(at(0), PACKETS_MIN);
        assert_eq!(at(25_000_000), 33);
        assert_eq!(at(50_000_000_000), PACKETS_MAX);
    }

    #[test]
    fn truesize__of_a_usual_packet() {
        assert_eq!(truesize(1_474), 2_304);
    }
}
