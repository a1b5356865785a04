//! Leaving: stays until the endpoint is no longer needed.

use super::ReceiverThread;
use crate::udp::{Interest, now_ns, wait};
use std::{os::fd::AsFd, time::Duration};

impl ReceiverThread {
    /// Sends the last packets to all senders. Then answers FINs, and repeats the answers, until
    /// every sender of an ended job has said that it knows, or has been silent for the linger time.
    pub(super) fn leave(&mut self) {
        let linger_ns = u64::try_from(self.linger.as_nanos()).unwrap_or(u64::MAX);
        self.endpoint.leave(now_ns(), linger_ns);
        self.send_replies();
        loop {
            let now_ns = now_ns();
            let until_ns = self.endpoint.handle_leave_timeout(now_ns);
            self.send_replies();
            let Some(until_ns) = until_ns else { return };
            if !self.answer_for(until_ns - now_ns) {
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
        self.send_replies();
        received.is_ok()
    }
}
