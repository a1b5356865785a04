//! The bytes that arrive on a line beside this receiver's DATA, from the interface's counter.
//!
//! Reading the counter takes a system call, and some drivers ask their card, so that it is read
//! once a window. Until the next time, the others are assumed to arrive at their mean rate.

use atp_common::laws::advice::WINDOW_NS;
use atp_proto::{Rest, WireBytes};

/// The first interval is short: until its end there is no advice.
const FIRST_NS: u64 = 2_000_000;
/// A thread that never empties its socket reads the counter more rarely by this factor.
const UNDRAINED_INTERVALS: u64 = 4;
/// The time constant of the mean. Other receivers on the line without a daemon are among the
/// others, and each answers to all. With the rates of single windows, three of them swing between
/// nothing and the whole line. With this mean, sixteen don't.
const MEAN_NS: u64 = 200_000_000;
/// A rate of so long ago is none.
const STALE_NS: u64 = 1_000_000_000;
/// The intervals in a row in which a counter may miss this receiver's own DATA. Drivers count a
/// packet at most some milliseconds late, unless they ask the card for counts once a second.
const MISSES_MAX: u32 = 3;
/// For so long nothing is believed of a counter that has missed them.
const DISTRUST_NS: u64 = 10_000_000_000;

/// The counter of an interface at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub at_ns: u64,
    /// Bytes on the wire that have arrived.
    pub line_bytes: u64,
    /// Packets that the socket has dropped because its buffer was full. The line has counted them,
    /// this receiver hasn't.
    pub socket_drops: u32,
    /// Whether no packet waited in the socket.
    pub is_drained: bool,
}

/// The rate of the others.
#[derive(Debug, Default)]
pub struct Others {
    last: Option<Sample>,
    /// Bytes of this receiver's DATA since then.
    own_bytes: u64,
    rest: Rest,
    /// The mean.
    rate_bytes_per_s: Option<u64>,
    /// The time that the mean covers.
    mean_ns: u64,
    /// Up to when the others' bytes have been taken.
    taken_ns: u64,
    misses: u32,
    /// When the counter is believed again.
    distrusted_until_ns: u64,
    /// When the mean was computed last.
    rated_ns: u64,
    /// When the counter was looked at last, with or without success.
    looked_ns: u64,
}

impl Others {
    /// Counts DATA of this receiver.
    pub fn on_own(&mut self, wire_bytes: u64) {
        self.own_bytes += wire_bytes;
    }

    /// Whether the counter should be read, best while no packet waits in the socket: the line has
    /// counted it, this receiver hasn't, and it seems to be of the others. The next interval makes
    /// up for it.
    pub fn is_due(&self, now_ns: u64, is_drained: bool) -> bool {
        let interval_ns = if self.rate_bytes_per_s.is_some() { WINDOW_NS } else { FIRST_NS };
        let interval_ns = if is_drained { interval_ns } else { UNDRAINED_INTERVALS * interval_ns };
        let is_first = self.looked_ns == 0;
        self.is_fit(now_ns) && (is_first || now_ns.saturating_sub(self.looked_ns) >= interval_ns)
    }

    /// Whether the counter counts packets when they arrive. A counter that is brought up to date
    /// now and then would make the others seem silent, and then as fast as many lines.
    pub const fn is_fit(&self, now_ns: u64) -> bool {
        now_ns >= self.distrusted_until_ns
    }

    /// Notes a look at the counter, and takes in what it says. `None` if it couldn't be read.
    pub fn look(&mut self, now_ns: u64, found: Option<Sample>) {
        self.looked_ns = now_ns;
        if let Some(next) = found {
            self.observe(next);
        }
    }

    fn observe(&mut self, next: Sample) {
        let own_bytes = std::mem::take(&mut self.own_bytes);
        let Some(last) = self.last.replace(next) else { return };
        let elapsed_ns = next.at_ns.saturating_sub(last.at_ns);
        if elapsed_ns > STALE_NS {
            (self.rest, self.rate_bytes_per_s, self.mean_ns) = (Rest::default(), None, 0);
            return;
        }
        // A smaller count is another interface's, or begins anew.
        let counted = next.line_bytes.checked_sub(last.line_bytes);
        let Some(counted) = counted.filter(|_| next.socket_drops == last.socket_drops) else {
            self.rest = Rest::default();
            return;
        };
        // DATA that waited in the socket was counted before.
        if last.is_drained {
            self.misses = if counted < own_bytes / 2 { self.misses + 1 } else { 0 };
        }
        if self.misses >= MISSES_MAX {
            *self = Self { distrusted_until_ns: next.at_ns + DISTRUST_NS, ..Self::default() };
            return;
        }
        self.rated_ns = next.at_ns;
        let bytes = |all| WireBytes { all, approximate: 0 };
        let others = self.rest.of(bytes(counted), bytes(own_bytes)).all;
        let per_s = u128::from(others) * 1_000_000_000 / u128::from(elapsed_ns.max(1));
        self.take_rate(u64::try_from(per_s).unwrap_or(u64::MAX), elapsed_ns);
    }

    /// Takes an interval's rate into the mean: of all intervals first, then exponentially weighted.
    fn take_rate(&mut self, bytes_per_s: u64, elapsed_ns: u64) {
        self.mean_ns = self.mean_ns.saturating_add(elapsed_ns).clamp(1, MEAN_NS);
        let elapsed_ns = elapsed_ns.min(self.mean_ns);
        let part = |bytes_per_s: u64, ns: u64| u128::from(bytes_per_s) * u128::from(ns);
        let before = part(self.rate_bytes_per_s.unwrap_or(0), self.mean_ns - elapsed_ns);
        let mean = (before + part(bytes_per_s, elapsed_ns)) / u128::from(self.mean_ns);
        self.rate_bytes_per_s = Some(mean as u64);
    }

    /// The others' bytes since the last call, in the last window at most; `None` if nothing is
    /// known of them.
    pub fn take_bytes(&mut self, now_ns: u64) -> Option<u64> {
        let elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.taken_ns, now_ns));
        let is_new = now_ns.saturating_sub(self.rated_ns) <= STALE_NS;
        let rate = self.rate_bytes_per_s.filter(|_| is_new);
        let bytes = u128::from(rate?) * u128::from(elapsed_ns.min(WINDOW_NS)) / 1_000_000_000;
        Some(bytes as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LINE: u64 = 25_000_000;

    /// A counter and the DATA that a receiver has read.
    #[derive(Default)]
    struct Host {
        others: Others,
        line_bytes: u64,
        socket_drops: u32,
    }

    impl Host {
        /// Lets bytes arrive by `now_ns`, and reads the counter if that is due.
        fn step(&mut self, now_ns: u64, own: u64, others: u64) -> Option<u64> {
            self.line_bytes += own + others;
            self.others.on_own(own);
            self.observe(now_ns, self.line_bytes);
            self.others.take_bytes(now_ns)
        }

        fn observe(&mut self, at_ns: u64, line_bytes: u64) {
            if self.others.is_due(at_ns, true) {
                let socket_drops = self.socket_drops;
                let sample = Sample { at_ns, line_bytes, socket_drops, is_drained: true };
                self.others.look(at_ns, Some(sample));
            }
        }
    }

    #[test]
    fn take_bytes__are_those_of_the_others() {
        let mut host = Host::default();
        let found: Vec<_> = (1..=500).map(|ms| host.step(ms * MS, 20_000, 5_000)).collect();
        assert!(found[..2].iter().all(Option::is_none), "{:?}", &found[..3]);
        assert!(found[2..].iter().all(|bytes| *bytes == Some(5_000)), "{found:?}");
    }

    #[test]
    fn take_bytes__of_a_late_thread_are_no_burst() {
        let mut host = Host::default();
        (1..100).for_each(|ms| _ = host.step(ms * MS, 20_000, 5_000));
        // It reads all packets of 80 ms at once. The others' count is that of one window.
        let found = host.step(179 * MS, 80 * 20_000, 80 * 5_000);
        assert_eq!(found, Some(50_000));
        assert_eq!(host.step(180 * MS, 20_000, 5_000), Some(5_000));
    }

    #[test]
    fn take_bytes__end_with_the_counter() {
        let mut host = Host::default();
        (1..100).for_each(|ms| _ = host.step(ms * MS, 20_000, 5_000));
        assert_eq!(host.others.take_bytes(1_000 * MS), Some(50_000));
        assert_eq!(host.others.take_bytes(1_200 * MS), None, "nobody has read it for a second");
        // The counter of another interface, which begins anew.
        host.line_bytes = 0;
        assert_eq!(host.step(1_300 * MS, 20_000, 5_000), None);
        assert_eq!(host.step(1_302 * MS, 40_000, 8_000), Some(8_000));
    }

    // Packets that the socket dropped are none of the others.
    #[test]
    fn observe__ignores_intervals_with_dropped_packets() {
        let mut host = Host::default();
        (1..100).for_each(|ms| _ = host.step(ms * MS, 20_000, 5_000));
        for ms in 100..200 {
            host.socket_drops += 1;
            host.line_bytes += 10_000;
            assert_eq!(host.step(ms * MS, 10_000, 5_000), Some(5_000), "{ms}");
        }
        // Nor is a counter that begins anew.
        host.line_bytes = 0;
        (200..230).for_each(|ms| assert_eq!(host.step(ms * MS, 10_000, 5_000), Some(5_000)));
    }

    #[test]
    fn observe__distrusts_a_counter_of_once_a_second() {
        let mut host = Host::default();
        let mut found = Vec::new();
        for ms in 1..3_000 {
            host.line_bytes += LINE / 1_000;
            host.others.on_own(20_000);
            host.observe(ms * MS, host.line_bytes / LINE * LINE);
            found.push(host.others.take_bytes(ms * MS));
        }
        let known = found.iter().flatten().count();
        assert!(known < 40 && found.iter().flatten().all(|bytes| *bytes == 0), "{known}");
        assert!(!host.others.is_fit(3_000 * MS));
        // It may be a better one later: another driver, another route.
        assert!(host.others.is_fit(20_000 * MS));
    }

    // Of a backlog in the socket, the others seem to have no more than the mean shows.
    #[test]
    fn observe__of_a_thread_that_never_empties_its_socket() {
        let mut host = Host::default();
        (1..500).for_each(|ms| _ = host.step(ms * MS, 20_000, 5_000));
        let (mut waiting, mut found) = (0, Vec::new());
        for ms in 500..1_500 {
            host.line_bytes += 25_000;
            // It reads nothing for 5 ms, and then twice as much as arrives.
            waiting += 20_000;
            let read = if ms % 10 < 5 { 0 } else { waiting.min(40_000) };
            waiting -= read;
            host.others.on_own(read);
            if host.others.is_due(ms * MS, false) {
                let Host { line_bytes, socket_drops, .. } = host;
                let sample = Sample { at_ns: ms * MS, line_bytes, socket_drops, is_drained: false };
                host.others.look(ms * MS, Some(sample));
            }
            found.push(host.others.take_bytes(ms * MS).unwrap());
        }
        assert!(found.iter().all(|bytes| (4_000..=6_000).contains(bytes)), "{found:?}");
        assert!(host.others.is_fit(1_500 * MS));
    }

    // Packets that arrive while the counter is read are of the next interval.
    #[test]
    fn observe__makes_up_for_packets_between_socket_and_counter() {
        let mut host = Host::default();
        let mut sum = 0;
        for ms in 1..=1_002 {
            let early = if ms / 10 % 2 == 0 { 3_000 } else { 0 };
            host.line_bytes += 20_000 + 1_000 + early;
            host.others.on_own(20_000);
            host.observe(ms * MS, host.line_bytes);
            sum += host.others.take_bytes(ms * MS).unwrap_or(0);
            host.line_bytes -= early;
        }
        assert!((990_000..=1_010_000).contains(&sum), "{sum}");
    }
}
