//! Leaving: tells the senders of unfinished jobs, and waits until those of ended jobs know.

use super::{Buffers, ReceiverThread};
use crate::udp::{Interest, now_ns, wait};
use atp_common::wire::ResetReason;
use atp_proto::{StatedEnd, reset_header};
use std::{os::fd::AsFd, time::Duration};

/// The longest stay, for senders that repeat their FIN again and again.
const STAY_NS_MAX: u64 = 5_000_000_000;
/// The time between repeated answers. Losses come in bursts of packets, and these packets are few.
const REPEAT_NS: u64 = 100_000_000;

impl ReceiverThread {
    /// Sends the last packets to all senders. Then answers FINs, and repeats the answers, until
    /// every sender of an ended job has said that it knows, or has been silent for the linger time.
    pub(super) fn leave(&mut self) {
        self.notify_senders();
        let started_ns = now_ns();
        let linger_ns = u64::try_from(self.linger.as_nanos()).unwrap_or(u64::MAX);
        self.leaving = true;
        let mut repeated_ns = started_ns;
        loop {
            let now_ns = now_ns();
            let stay_left_ns = STAY_NS_MAX.saturating_sub(now_ns - started_ns);
            let Some(age_ns) = self.sources.newest_unknown_end_ns(now_ns) else { return };
            let left_ns = linger_ns.saturating_sub(age_ns).min(stay_left_ns);
            if now_ns - repeated_ns >= REPEAT_NS {
                self.repeat_affordable_answers(now_ns, linger_ns);
                repeated_ns = now_ns;
            }
            if left_ns == 0 || !self.answer_for(left_ns.min(REPEAT_NS)) {
                return;
            }
        }
    }

    /// Waits for packets, at most this long, and answers them. Returns `false` if the socket fails.
    fn answer_for(&mut self, left_ns: u64) -> bool {
        let interest = Interest {
            socket: self.socket.as_fd(),
            readable: true,
            writable: false,
            wake: self.queue.wake(),
            control: None,
        };
        let Ok(ready) = wait(&interest, Duration::from_nanos(left_ns)) else { return false };
        self.queue.clear_wake();
        if ready.error {
            self.socket.take_errors();
        }
        let received = self.receive(now_ns());
        self.buffers.replies.send(&self.socket, &mut self.buffers.send);
        received.is_ok()
    }

    /// Repeats the answers to the FINs of ended jobs whose senders may not know.
    fn repeat_answers(&mut self, now_ns: u64) {
        let Buffers { replies, send, .. } = &mut self.buffers;
        for source in self.sources.iter_mut() {
            if source.transport.unknown_end_age_ns(now_ns).is_some()
                && let Some(end) = source.transport.stated_end()
            {
                replies.state_end(source.ends(), end);
            }
        }
        for (to, end) in self.sources.lingering_ends() {
            replies.state_end(to, end);
        }
        replies.send(&self.socket, send);
    }

    /// As above, within the bytes that each sender's packets allow: its address may be another
    /// host's.
    fn repeat_affordable_answers(&mut self, now_ns: u64, linger_ns: u64) {
        let Buffers { replies, send, .. } = &mut self.buffers;
        for source in self.sources.iter_mut() {
            let age_ns = source.transport.unknown_end_age_ns(now_ns);
            let bytes = source.transport.stated_end().map_or(0, StatedEnd::bytes);
            if age_ns.is_some_and(|age_ns| age_ns < linger_ns)
                && source.transport.spend(bytes)
                && let Some(end) = source.transport.stated_end()
            {
                replies.state_end(source.ends(), end);
            }
        }
        replies.send(&self.socket, send);
    }

    /// Sends the last packets to all senders: receipts and a RESET for unfinished jobs, and the
    /// last answers to FINs, twice, for finished ones. No process will repeat the first two.
    fn notify_senders(&mut self) {
        let now_ns = now_ns();
        self.repeat_answers(now_ns);
        let Buffers { replies, send, .. } = &mut self.buffers;
        let mut resets = Vec::new();
        for source in self.sources.iter_mut().filter(|source| !source.transport.is_finished()) {
            let ends = source.ends();
            replies.control(ends, |out| source.transport.write_receipt(now_ns, out));
            resets.push((reset_header(&source.first, ResetReason::Gone), ends));
        }
        // The receipts go first.
        replies.send(&self.socket, send);
        replies.headers.extend(resets);
        replies.send(&self.socket, send);
        self.repeat_answers(now_ns);
    }
}
