//! Slows a flow down while the peer's host says that nothing listens on the port.
//!
//! A receiver may start after its senders, so a flow goes on until the peer timeout. Without an ACK
//! no RTT is known, and most rate laws would let the flow send at its full rate for so long.
//! Instead, single packets look whether a receiver has started, after growing pauses.

/// The first pause.
const PAUSE_NS_MIN: u64 = 10_000_000;
/// The longest one: a receiver that starts waits no longer for its first packet.
const PAUSE_NS_MAX: u64 = 500_000_000;

/// The state of the peer's port, as its host tells it.
#[derive(Debug, Default)]
pub struct ClosedPort(Option<Pause>);

#[derive(Debug)]
struct Pause {
    length_ns: u64,
    until_ns: u64,
    /// The peer's answers when its host refused a packet.
    answers: u64,
}

impl ClosedPort {
    /// Notes that the host refused packets. `answers`: the number of the peer's answers so far.
    pub fn refused(&mut self, now_ns: u64, answers: u64) {
        if self.0.as_ref().is_none_or(|pause| pause.answers != answers) {
            let until_ns = now_ns + PAUSE_NS_MIN;
            self.0 = Some(Pause { length_ns: PAUSE_NS_MIN, until_ns, answers });
        }
    }

    /// When the next packet may leave, and only one; `None` without a limit. An answer ends it.
    pub fn next_packet_ns(&self, answers: u64) -> Option<u64> {
        self.0.as_ref().filter(|pause| pause.answers == answers).map(|pause| pause.until_ns)
    }

    /// Notes that a packet left.
    pub fn sent(&mut self, now_ns: u64) {
        if let Some(pause) = &mut self.0 {
            pause.length_ns = (2 * pause.length_ns).min(PAUSE_NS_MAX);
            pause.until_ns = now_ns + pause.length_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn next_packet__leaves_after_growing_pauses() {
        let mut port = ClosedPort::default();
        assert_eq!(port.next_packet_ns(0), None);
        port.refused(0, 0);
        let mut sent_ms = Vec::new();
        for now_ms in 0..3_000 {
            if port.next_packet_ns(0).is_some_and(|at_ns| at_ns <= now_ms * MS) {
                sent_ms.push(now_ms);
                port.sent(now_ms * MS);
                // The host refuses every one of them.
                port.refused(now_ms * MS, 0);
            }
        }
        assert_eq!(sent_ms, [10, 30, 70, 150, 310, 630, 1_130, 1_630, 2_130, 2_630]);
    }

    #[test]
    fn next_packet__has_no_limit_after_an_answer() {
        let mut port = ClosedPort::default();
        port.refused(0, 3);
        port.sent(10 * MS);
        assert_eq!(port.next_packet_ns(4), None);
        // The receiver has gone again.
        port.refused(100 * MS, 4);
        assert_eq!(port.next_packet_ns(4), Some(110 * MS));
    }
}
