//! Handles timeouts: losses by silence, messages without a receipt, and giving up.

use super::{Sender, SenderConfig, loss::TIMEOUT_NS_MAX, report::SendError};

/// The shortest absence that counts, longer than any timeout.
const ABSENCE_NS_MIN: u64 = 2 * TIMEOUT_NS_MAX;

impl Sender {
    /// When [`Sender::handle_timeout`] has something to do, if no packet comes before. It may lie
    /// in the past.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.has_ended() {
            return None;
        }
        let timeouts = [
            self.loss_timeout_ns(),
            self.windows().filter_map(|window| self.receipt_timeout_ns(window)).min(),
            self.next_fin_timeout_ns(),
            self.no_room.paused_until_ns(),
            self.first_window_due_ns(),
            self.window_timeout_ns(),
            self.terms_timeout_ns(),
            self.silence_timeout_ns(),
        ];
        timeouts.into_iter().flatten().min()
    }

    /// Does the work that is due. Take in all arrived packets first. Afterwards call
    /// [`Sender::next_packet`] and [`Sender::next_control`] again: some timeouts make a FIN due
    /// or end a pause.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.exclude_absence(now_ns);
        self.no_room.resume(now_ns);
        self.detect_losses(now_ns);
        self.note_overdue(now_ns);
        self.open_first_window(now_ns);
        self.grow_first_window(now_ns);
        self.narrow_if_black_hole(now_ns);
        self.in_each_window(|sender| sender.probe_for_receipt(now_ns));
        self.give_up_if_silent(now_ns);
    }

    /// Excludes an absence from the peer's silence. If a due timeout had no call for long, this
    /// process or its whole machine was stopped. The peer wasn't silent then. A timeout stays due
    /// while its packet can't leave, and calls go on.
    fn exclude_absence(&mut self, now_ns: u64) {
        let called_ns = self.silence.note_call(now_ns);
        let due_ns = self.poll_timeout().map(|due_ns| due_ns.max(called_ns));
        let absent_ns = due_ns.map_or(0, |due_ns| now_ns.saturating_sub(due_ns));
        if absent_ns > ABSENCE_NS_MIN {
            self.silence.exclude_absence(now_ns, absent_ns);
            self.in_each_window(|sender| {
                sender.window.awaiting_receipt.exclude_absence(now_ns, absent_ns);
            });
        }
    }

    /// Makes packets shorter if the path seems to have become narrower.
    fn narrow_if_black_hole(&mut self, now_ns: u64) {
        let (timeouts, silent_ns) = (self.silence.timeouts(), self.silence.length_ns(now_ns));
        let narrower = self.black_hole.evaluate(timeouts, silent_ns, self.config.payload_bytes_max);
        if let Some(payload_bytes) = narrower {
            self.set_payload_bytes(now_ns, payload_bytes);
        }
    }

    /// When the peer has been silent for too long, however late the next retransmission is. A
    /// packet in flight gets the time for an answer: the job may have paused before it. FINs are
    /// repeated soon enough.
    fn silence_timeout_ns(&self) -> Option<u64> {
        let silent_ns = self.silence.lasts_until_ns(self.silence_ns_max())?;
        let lanes = 0..self.config.groups.len();
        let oldest = |lane| Some(self.sent_packets.find_in_flight(lane as u8)?.1.departs_ns);
        let asked_ns = lanes.filter_map(oldest).min()?;
        Some(silent_ns.max(asked_ns.saturating_add(self.lanes.base_timeout_ns())))
    }

    /// How long the peer may be silent.
    fn silence_ns_max(&self) -> u64 {
        let SenderConfig { peer_timeout_ns, refused_timeout_ns, .. } = self.config;
        match self.silence.is_refused() {
            true => peer_timeout_ns.min(refused_timeout_ns),
            false => peer_timeout_ns,
        }
    }

    /// Notes that the peer's host said that nothing listens on the port (ICMP port unreachable).
    /// Anyone on the path can say so: it shortens a silence, and ends nothing by itself.
    pub fn on_port_unreachable(&mut self) {
        self.silence.on_refused();
    }

    /// Fails the job if the peer has been silent for too long.
    fn give_up_if_silent(&mut self, now_ns: u64) {
        if self.has_ended() {
            return;
        }
        if let Some(silence_ns) = self.silence.confirmed_ns(now_ns)
            && silence_ns >= self.silence_ns_max()
        {
            let short = self.short();
            self.fail(SendError::PeerSilent { silence_ns, short });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::{
        State,
        tests::{self, MS, config},
    };

    /// Sends and waits from `now_ns` until the job fails.
    fn fail_by_silence(sender: &mut Sender, mut now_ns: u64) -> u64 {
        while matches!(sender.state(), State::Open | State::Finishing) {
            while sender.next_packet(now_ns).is_some() {}
            sender.next_control(now_ns, &mut [0; 52]);
            now_ns = sender.poll_timeout().unwrap().max(now_ns);
            sender.handle_timeout(now_ns);
        }
        assert!(matches!(sender.state(), State::Failed(SendError::PeerSilent { .. })));
        now_ns
    }

    #[test]
    fn silence__ends_the_job_at_the_timeout() {
        // Retransmissions are a second apart by then.
        for timeout_ms in [1_000, 3_000, 3_900, 10_000] {
            let mut sender =
                tests::sender(SenderConfig { peer_timeout_ns: timeout_ms * MS, ..config() });
            sender.queue(0, 10).unwrap();
            let failed_ns = fail_by_silence(&mut sender, 0);
            let over_ms = failed_ns / MS - timeout_ms;
            assert!(over_ms <= 50, "{timeout_ms} ms took {over_ms} ms more");
            // Only the end of an empty job needs an answer.
            let of_end = SenderConfig { peer_timeout_ns: timeout_ms * MS, ..config() };
            let mut sender = tests::sender(of_end);
            sender.finish();
            let over_ms = fail_by_silence(&mut sender, 0) / MS - timeout_ms;
            assert!(over_ms <= 50, "the end: {timeout_ms} ms took {over_ms} ms more");
        }
    }

    #[test]
    fn silence__is_shorter_if_the_host_says_that_nothing_listens() {
        let limits = SenderConfig {
            peer_timeout_ns: 10_000 * MS,
            refused_timeout_ns: 1_000 * MS,
            ..config()
        };
        let failed_ms = |refused: bool, heard: bool, limits: &SenderConfig| {
            let mut sender = tests::sender(limits.clone());
            sender.queue(0, 10).unwrap();
            sender.queue(0, 10).unwrap();
            let packet = sender.next_packet(0).unwrap();
            if refused {
                sender.on_port_unreachable();
            }
            if heard {
                tests::ack(&mut sender, 0, &packet);
            }
            fail_by_silence(&mut sender, 0) / MS
        };
        let refused = failed_ms(true, false, &limits);
        assert!((1_000..=1_050).contains(&refused), "{refused}");
        for (refused, heard) in [(false, false), (true, true)] {
            let at = failed_ms(refused, heard, &limits);
            assert!((10_000..=10_050).contains(&at), "refused {refused}, heard {heard}: {at}");
        }
        let longer = SenderConfig { refused_timeout_ns: u64::MAX, ..limits };
        assert!((10_000..=10_050).contains(&failed_ms(true, false, &longer)));
    }
}
