//! Keeps the lanes' settings: the pace, which the datapath measures, and whether packets get ACKs.
//! Derives the timeouts from the pace.

use super::config::Pace;
use atp_common::laws::{rtt::Rtt, urgency};

/// The settings of all lanes.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// By index of the group.
    lanes: Vec<Lane>,
    timer_granularity_ns: u64,
    /// The longest timeout of a lane with a known RTT, without doubling.
    base_timeout_ns: u64,
    /// The timeout while no lane has a known RTT.
    first_timeout_ns: u64,
    /// How much less the lanes yield than their windows say.
    urgency: u8,
}

/// The longest timeout from an earlier job's RTT, without its spread. That RTT may be of a full
/// queue or of a receiver that delays its ACKs. Doubled timeouts cover longer paths.
const EARLIER_TIMEOUT_NS_MAX: u64 = 200_000_000;

/// One lane's settings.
#[derive(Clone, Debug, Default)]
struct Lane {
    pace: Pace,
    /// Transmissions from now on get no ACK of their own.
    no_ack: bool,
}

/// The current times of one lane: the loss detector's input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) rtt: Rtt,
    /// How long a packet that is handed out now waits in this host.
    pub(crate) backlog_ns: u64,
    /// The timeout, without doubling.
    pub(crate) timeout_ns: u64,
    pub(crate) timer_granularity_ns: u64,
}

impl Lanes {
    /// `cookie`, the job's, spreads first timeouts over a factor of two. If many senders began at
    /// once and lost their packets, a common timeout would make them lose the packets again.
    pub(crate) fn new(lanes: usize, cookie: u32, timer_granularity_ns: u64) -> Self {
        let unknown_ns = Rtt::default().timeout_ns(timer_granularity_ns);
        let first_timeout_ns = first_timeout_ns(cookie, unknown_ns);
        Self {
            lanes: vec![Lane::default(); lanes],
            timer_granularity_ns,
            first_timeout_ns,
            base_timeout_ns: first_timeout_ns,
            urgency: 0,
        }
    }

    /// The times of a lane.
    pub(crate) fn timing(&self, lane: u8) -> Timing {
        let Pace { rtt, backlog_ns, .. } = self.lanes[usize::from(lane)].pace;
        let timer_granularity_ns = self.timer_granularity_ns;
        let timeout_ns = match rtt.smoothed_ns {
            // Another lane's timeout is a better guess than none.
            0 => self.base_timeout_ns,
            _ => rtt.timeout_ns(timer_granularity_ns),
        };
        Timing { rtt, backlog_ns, timeout_ns, timer_granularity_ns }
    }

    /// A lane's smoothed RTT; 0 if it isn't known.
    pub(crate) fn smoothed_ns(&self, lane: u8) -> u64 {
        self.lanes[usize::from(lane)].pace.rtt.smoothed_ns
    }

    /// Sets an RTT of an earlier job to the same host, for timeouts until a lane's RTT is known.
    pub(crate) fn set_earlier_rtt(&mut self, cookie: u32, rtt: Rtt) {
        let timeout_ns = rtt.timeout_ns(self.timer_granularity_ns).min(EARLIER_TIMEOUT_NS_MAX);
        self.first_timeout_ns = first_timeout_ns(cookie, timeout_ns);
        if self.lanes.iter().all(|lane| lane.pace.rtt.smoothed_ns == 0) {
            self.base_timeout_ns = self.first_timeout_ns;
        }
    }

    /// The longest smoothed RTT of any lane; 0 if none is known.
    pub(crate) fn longest_smoothed_ns(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.pace.rtt.smoothed_ns).max().unwrap_or(0)
    }

    /// The most packets in flight of a lane; 0: no limit.
    pub(crate) fn window_packets(&self, lane: u8) -> u32 {
        let packets = self.lanes[usize::from(lane)].pace.window_packets;
        urgency::window_packets(self.urgency, packets)
    }

    /// Whether a lane has a window, at urgency 0.
    pub(crate) fn yields(&self, lane: u8) -> bool {
        self.lanes[usize::from(lane)].pace.window_packets > 0
    }

    /// Sets the level of urgency.
    pub(crate) fn set_urgency(&mut self, level: u8) {
        self.urgency = level;
    }

    /// How long after its departure a packet takes no room in the lane's window any more.
    pub(crate) fn overdue_ns(&self, lane: u8) -> u64 {
        // The backlog is part of the estimated departure. It counts once more here: the rate may
        // have fallen since.
        let Pace { overdue_ns, backlog_ns, .. } = self.lanes[usize::from(lane)].pace;
        overdue_ns.saturating_add(backlog_ns)
    }

    /// Sets a lane's RTT, backlog and window.
    pub(crate) fn set_pace(&mut self, lane: u8, pace: Pace) {
        let before = std::mem::replace(&mut self.lanes[usize::from(lane)].pace, pace);
        if before.rtt == pace.rtt {
            return;
        }
        let (longest_ns, timer_granularity_ns) = (self.base_timeout_ns, self.timer_granularity_ns);
        let before_ns = before.rtt.timeout_ns(timer_granularity_ns);
        self.base_timeout_ns = match pace.rtt.timeout_ns(timer_granularity_ns) {
            longer_ns if longer_ns >= longest_ns && before.rtt.smoothed_ns != 0 => longer_ns,
            _ if before.rtt.smoothed_ns != 0 && before_ns < longest_ns => longest_ns,
            _ => self.longest_timeout_ns(),
        };
    }

    fn longest_timeout_ns(&self) -> u64 {
        let known = self.lanes.iter().map(|lane| lane.pace.rtt).filter(|rtt| rtt.smoothed_ns > 0);
        known
            .map(|rtt| rtt.timeout_ns(self.timer_granularity_ns))
            .max()
            .unwrap_or(self.first_timeout_ns)
    }

    /// The timeout of the slowest lane, without doubling.
    pub(crate) fn base_timeout_ns(&self) -> u64 {
        self.base_timeout_ns
    }

    /// How long a packet that is handed out now waits in this host.
    pub(crate) fn backlog_ns(&self, lane: u8) -> u64 {
        self.lanes[usize::from(lane)].pace.backlog_ns
    }

    /// The longest backlog of any lane.
    pub(crate) fn longest_backlog_ns(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.pace.backlog_ns).max().unwrap_or(0)
    }

    /// Sets whether transmissions of a lane get no ACK of their own from now on.
    pub(crate) fn set_no_ack(&mut self, lane: u8, no_ack: bool) {
        self.lanes[usize::from(lane)].no_ack = no_ack;
    }

    /// Whether transmissions of a lane get no ACK of their own.
    pub(crate) fn is_no_ack(&self, lane: u8) -> bool {
        self.lanes[usize::from(lane)].no_ack
    }

    /// Gives the transmissions of every lane ACKs of their own again.
    pub(crate) fn stop_probing(&mut self) {
        for lane in &mut self.lanes {
            lane.no_ack = false;
        }
    }
}

/// A first timeout of one to two times `least_ns`.
fn first_timeout_ns(cookie: u32, least_ns: u64) -> u64 {
    // Knuth's multiplicative hash (TAOCP 6.4): cookies needn't be random.
    let spread = u64::from(cookie.wrapping_mul(0x9e37_79b1));
    least_ns + ((least_ns * spread) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pace(rtt_ns: u64) -> Pace {
        let rtt = (0..40).fold(Rtt::default(), |rtt, _| rtt.observe(rtt_ns));
        Pace { rtt, backlog_ns: rtt_ns / 10, ..Pace::default() }
    }

    #[test]
    fn set_earlier_rtt__counts_until_an_rtt_is_known() {
        let mut lanes = Lanes::new(2, 2, MS);
        lanes.set_earlier_rtt(2, pace(20 * MS).rtt);
        let least_ns = pace(20 * MS).rtt.timeout_ns(MS);
        assert!((least_ns..2 * least_ns).contains(&lanes.base_timeout_ns()));
        lanes.set_pace(0, pace(4 * MS));
        lanes.set_earlier_rtt(2, pace(30 * MS).rtt);
        assert_eq!(lanes.base_timeout_ns(), pace(4 * MS).rtt.timeout_ns(MS));
    }

    #[test]
    fn set_earlier_rtt__is_bounded() {
        let mut lanes = Lanes::new(1, u32::MAX, MS);
        lanes.set_earlier_rtt(u32::MAX, pace(5_000 * MS).rtt);
        let most_ns = 2 * EARLIER_TIMEOUT_NS_MAX;
        assert!((EARLIER_TIMEOUT_NS_MAX..=most_ns).contains(&lanes.base_timeout_ns()));
    }

    #[test]
    fn base_timeout_ns__is_the_slowest_known_lanes() {
        let mut lanes = Lanes::new(3, 2, MS);
        let first_ns = lanes.base_timeout_ns();
        assert_eq!(lanes.timing(0).timeout_ns, first_ns);
        for (lane, rtt_ms, slowest_ms) in [(0, 4, 4), (1, 9, 9), (0, 2, 9), (1, 3, 3), (0, 8, 8)] {
            lanes.set_pace(lane, pace(rtt_ms * MS));
            let slowest_ns = pace(slowest_ms * MS).rtt.timeout_ns(MS);
            assert_eq!(lanes.base_timeout_ns(), slowest_ns);
            // A lane without an RTT has the timeout of the slowest.
            assert_eq!(lanes.timing(2).timeout_ns, slowest_ns);
            assert_eq!(lanes.timing(lane).timeout_ns, pace(rtt_ms * MS).rtt.timeout_ns(MS));
        }
        assert_eq!((lanes.backlog_ns(1), lanes.longest_backlog_ns()), (MS * 3 / 10, MS * 8 / 10));
    }
}
