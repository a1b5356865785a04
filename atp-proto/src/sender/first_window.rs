//! Limits the first window: the packets in flight until the peer or its host answers, and then
//! until the first advice.
//!
//! Advice comes some milliseconds after the first ACK, as it passes through processes of both
//! hosts. Lanes that begin together and send at the line's rate meanwhile fill the queues, and lose
//! all that exceeds the line. A window in flight is as fast on a short path, and needs less queue.
//! Only the start of a flow has this limit: lanes that return after a rest have none.
//!
//! If all of them are lost, only a timeout ends the silence, and without a measured RTT it is long.
//! So one packet more follows after each timer granularity. Its ACK shows that the earlier ones are
//! lost. In a long silence the packets follow at longer and longer intervals.

use super::{config::SenderConfig, peer::Peer};

/// The number of extra packets after which the interval between them doubles.
const DOUBLE_AFTER: u32 = 64;
/// The most doublings: from 1 ms to a second.
const DOUBLINGS_MAX: u32 = 10;
/// An answered sender awaits the first receipt for this time: that of a receiver that gives advice
/// is due with the first packet.
const RECEIPT_NS_MAX: u64 = 2_000_000;
/// It awaits the first advice for this time, once a receipt has announced that there is advice.
const ADVICE_NS_MAX: u64 = 25_000_000;

/// The state of a sender that has received nothing, or no advice.
#[derive(Debug, Default)]
pub(crate) struct FirstWindow {
    /// Whether there is no limit any more.
    is_open: bool,
    /// When the peer or its host was first known to answer.
    answered_ns: Option<u64>,
    /// The most packets in flight from then on.
    awaiting_packets: u32,
    /// When a packet was handed out last.
    sent_ns: u64,
    /// One packet more may be sent than the window allows.
    extra: bool,
    /// How many more packets there were.
    grown: u32,
}

impl FirstWindow {
    /// Sets the most packets in flight from the first answer until the first advice.
    pub(super) fn set_awaiting_packets(&mut self, packets: u32) {
        self.awaiting_packets = packets;
    }

    /// Notes that packets were handed out.
    pub(super) fn on_sent(&mut self, now_ns: u64) {
        (self.sent_ns, self.extra) = (now_ns, false);
    }

    /// Ends the limit, unless nothing was received or advice is to be awaited. `is_exact`: all
    /// groups are.
    pub(super) fn open(&mut self, now_ns: u64, peer: &Peer, is_exact: bool) {
        if self.is_open || !peer.silence.has_answered() {
            return;
        }
        let answered_ns = *self.answered_ns.get_or_insert(now_ns);
        let until_ns = match peer.advice.is_awaited() {
            Some(true) => answered_ns.saturating_add(ADVICE_NS_MAX),
            Some(false) => 0,
            None => answered_ns.saturating_add(RECEIPT_NS_MAX),
        };
        self.is_open = is_exact || now_ns >= until_ns;
    }

    /// The number of packets that the window has room for beside those in flight; `None` if there
    /// is no limit.
    pub(super) fn room(&self, config: &SenderConfig, peer: &Peer, in_flight: u32) -> Option<u32> {
        let packets = match config.initial_window_packets {
            0 => 0,
            packets if peer.silence.has_answered() => packets.max(self.awaiting_packets),
            packets => packets,
        };
        let is_limited = packets > 0 && !self.is_open;
        let room = packets.saturating_sub(in_flight);
        is_limited.then_some(room.max(self.extra.into()))
    }

    /// When a full window that has more to send grows by a packet.
    pub(super) fn grows_ns(&self, timer_granularity_ns: u64) -> u64 {
        let doublings = (self.grown / DOUBLE_AFTER).min(DOUBLINGS_MAX);
        let wait_ns = timer_granularity_ns.saturating_mul(1 << doublings);
        self.sent_ns.saturating_add(wait_ns)
    }

    /// Grows by a packet.
    pub(super) fn grow(&mut self) {
        self.extra = true;
        self.grown = self.grown.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Sender, SenderConfig,
        tests::{MS, ack, config, send_all},
    };

    #[test]
    fn first_window__grows_by_a_packet_after_each_granularity() {
        let config = SenderConfig { initial_window_packets: 10, ..config() };
        let mut sender = Sender::new(config).unwrap();
        (0..30).for_each(|_| _ = sender.queue(0, 10).unwrap());
        assert_eq!(send_all(&mut sender, 0).len(), 10);
        let mut last = None;
        for ms in 1..=3 {
            assert_eq!(sender.poll_timeout(), Some(ms * MS));
            assert_eq!(send_all(&mut sender, ms * MS).len(), 0);
            sender.handle_timeout(ms * MS);
            let packets = send_all(&mut sender, ms * MS);
            assert_eq!(packets.len(), 1);
            last = packets.last().copied();
        }
        // Its ACK shows that the first window is lost, long before the first timeout of 20 ms.
        ack(&mut sender, 4 * MS, &last.unwrap());
        assert!(sender.report().packets_lost >= 10, "{:?}", sender.report());
    }

    /// A receiver that is gone gets some hundred packets, not a packet per millisecond.
    #[test]
    fn first_window__grows_less_and_less_in_a_long_silence() {
        let config = SenderConfig { initial_window_packets: 2, ..config() };
        let mut sender = Sender::new(config).unwrap();
        (0..2_000).for_each(|_| _ = sender.queue(0, 10).unwrap());
        let mut packets = 0;
        for ms in 0..9_000 {
            sender.handle_timeout(ms * MS);
            packets += send_all(&mut sender, ms * MS).len();
        }
        assert!((150..1_500).contains(&packets), "{packets} packets");
    }

    #[test]
    fn first_window__grows_only_if_there_is_something_to_send() {
        let config = SenderConfig { initial_window_packets: 5, ..config() };
        let mut sender = Sender::new(config).unwrap();
        (0..5).for_each(|_| _ = sender.queue(0, 10).unwrap());
        assert_eq!(send_all(&mut sender, 0).len(), 5);
        assert!(sender.poll_timeout().unwrap() >= 20 * MS);
    }
}
