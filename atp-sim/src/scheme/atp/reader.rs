//! The library's thread on a sending host, which reads acknowledgments and receipts late: a timer
//! wakes it, or the host is busy.

use super::AtpBody;

/// Each flow's reads begin this much after those of the flow before it.
const PHASE_NS: u64 = 370_001;

/// The packets that arrived and weren't read yet, and the time of the next read.
#[derive(Debug)]
pub struct Reader {
    /// The time between two reads. 0: each packet is read when it arrives.
    interval_ns: u64,
    next_ns: u64,
    unread: Vec<AtpBody>,
}

impl Reader {
    /// The thread of a flow.
    pub fn new(flow: u32, interval_ns: u64) -> Self {
        let next_ns = u64::from(flow) * PHASE_NS % interval_ns.max(1);
        Self { interval_ns, next_ns, unread: Vec::new() }
    }

    /// Keeps what arrived until the next read. False if the thread reads it at once.
    pub fn keep(&mut self, body: &AtpBody) -> bool {
        if self.interval_ns > 0 {
            self.unread.push(body.clone());
        }
        self.interval_ns > 0
    }

    /// The packets that the thread reads at `now_ns`; `None` between two reads.
    pub fn read(&mut self, now_ns: u64) -> Option<Vec<AtpBody>> {
        if now_ns < self.next_ns {
            return None;
        }
        if self.interval_ns > 0 {
            let late_ns = (now_ns - self.next_ns) % self.interval_ns;
            self.next_ns = now_ns - late_ns + self.interval_ns;
        }
        Some(std::mem::take(&mut self.unread))
    }

    /// When the thread runs next. `timeout_ns`: when it has something to do, if nothing arrives.
    pub fn wake_ns(&self, timeout_ns: Option<u64>, is_over: bool) -> Option<u64> {
        let is_idle = is_over && timeout_ns.is_none() && self.unread.is_empty();
        match self.interval_ns {
            0 => timeout_ns,
            _ => (!is_idle).then_some(self.next_ns),
        }
    }

    /// The mean time from the arrival of an ACK to its reading, as the library measures it.
    pub fn mean_late_ns(&self) -> u64 {
        self.interval_ns / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::wire::{Fields, Header, Kind};

    fn body() -> AtpBody {
        let header = Header::new(&Fields { count: 1, ..Fields::of(Kind::Ack) });
        AtpBody { header, arrived: None, payload_bytes: 0, members: None, control: None }
    }

    #[test]
    fn read__takes_what_arrived_since_the_last_read() {
        let mut reader = Reader::new(0, 100);
        assert_eq!(reader.read(0).map(|unread| unread.len()), Some(0));
        assert!(reader.keep(&body()) && reader.keep(&body()));
        assert!(reader.read(99).is_none());
        assert_eq!(reader.wake_ns(None, true), Some(100));
        assert_eq!(reader.read(130).map(|unread| unread.len()), Some(2));
        assert_eq!((reader.wake_ns(None, false), reader.wake_ns(None, true)), (Some(200), None));
        assert_eq!(reader.mean_late_ns(), 50);
    }

    #[test]
    fn read__at_once_keeps_nothing() {
        let mut reader = Reader::new(7, 0);
        assert!(!reader.keep(&body()));
        assert_eq!(reader.read(3).map(|unread| unread.len()), Some(0));
        assert_eq!((reader.wake_ns(Some(5), false), reader.wake_ns(None, false)), (Some(5), None));
    }
}
