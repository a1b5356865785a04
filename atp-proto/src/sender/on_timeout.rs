//! Handles timeouts: losses by silence, messages without a receipt, and giving up.

use super::{Sender, loss::TIMEOUT_NS_MAX, missing::Stuck, report::SendError};

/// The shortest absence that counts, longer than any timeout.
const ABSENCE_NS_MIN: u64 = 2 * TIMEOUT_NS_MAX;

impl Sender {
    /// When [`Sender::handle_timeout`] has something to do, if no packet comes before. It may lie
    /// in the past.
    pub fn poll_timeout(&self) -> Option<u64> {
        if self.has_ended() {
            return None;
        }
        let Self { config, windows, transmissions, peer, announcement, .. } = self;
        let base_timeout_ns = transmissions.lanes.base_timeout_ns();
        let receipts_ns = windows.iter().filter_map(|w| w.receipt_timeout_ns(base_timeout_ns));
        // Windows end in order.
        let ending = windows.iter().find(|window| !window.is_over());
        let timeouts = [
            transmissions.loss_timeout_ns(peer.timeouts_doubling(config)),
            receipts_ns.min(),
            ending.and_then(|window| self.fin_timeout_ns(window)),
            peer.no_room.paused_until_ns(),
            self.first_window_grows_ns(),
            transmissions.overdue_timeout_ns(),
            announcement.timeout_ns(&self.facts()),
            self.silence_timeout_ns(),
        ];
        timeouts.into_iter().flatten().min()
    }

    /// Does the work that is due. Take in all arrived packets first. Afterwards call
    /// [`Sender::next_packet`] and [`Sender::next_control`] again: some timeouts make a FIN due
    /// or end a pause.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.exclude_absence(now_ns);
        self.peer.no_room.resume(now_ns);
        self.detect_losses(now_ns);
        self.transmissions.note_overdue(now_ns);
        self.first_window.open(now_ns, &self.peer, self.windows.current.is_exact());
        if self.first_window_grows_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.first_window.grow();
        }
        self.narrow_if_black_hole(now_ns);
        self.probe_for_receipts(now_ns);
        self.give_up_if_silent(now_ns);
    }

    /// Excludes an absence from the peer's silence. If a due timeout had no call for long, this
    /// process or its whole machine was stopped. The peer wasn't silent then. A timeout stays due
    /// while its packet can't leave, and calls go on.
    fn exclude_absence(&mut self, now_ns: u64) {
        let called_ns = self.peer.silence.note_call(now_ns);
        let due_ns = self.poll_timeout().map(|due_ns| due_ns.max(called_ns));
        let absent_ns = due_ns.map_or(0, |due_ns| now_ns.saturating_sub(due_ns));
        if absent_ns > ABSENCE_NS_MIN {
            self.peer.silence.exclude_absence(now_ns, absent_ns);
            for window in self.windows.each_mut() {
                window.awaiting_receipt.exclude_absence(now_ns, absent_ns);
            }
        }
    }

    /// When a full first window grows by a packet, if there is anything to send.
    fn first_window_grows_ns(&self) -> Option<u64> {
        let Self { config, windows, transmissions, peer, first_window, .. } = self;
        let waits = first_window.room(config, peer, transmissions.sent.in_flight()) == Some(0)
            && windows.iter().any(|window| window.next_message(|_| true).is_some());
        waits.then(|| first_window.grows_ns(config.timer_granularity_ns))
    }

    /// Makes packets shorter if the path seems to have become narrower.
    fn narrow_if_black_hole(&mut self, now_ns: u64) {
        let silence = &self.peer.silence;
        let (timeouts, silent_ns) = (silence.timeouts(), silence.length_ns(now_ns));
        let black_hole = &mut self.transmissions.black_hole;
        let narrower = black_hole.evaluate(timeouts, silent_ns, self.config.payload_bytes_max);
        if let Some(payload_bytes) = narrower {
            self.set_payload_bytes(payload_bytes);
        }
    }

    /// Retransmits messages that have waited too long for their receipt.
    fn probe_for_receipts(&mut self, now_ns: u64) {
        let Self { config, windows, transmissions, report, .. } = self;
        let timeout_ns = transmissions.lanes.base_timeout_ns();
        let probed = windows
            .each_mut()
            .try_for_each(|window| window.probe_for_receipt(now_ns, timeout_ns, config, report));
        if let Err(Stuck(silence_ns)) = probed {
            self.fail(|short| SendError::NotReading { silence_ns, short });
        }
    }

    /// When the peer has been silent for too long, however late the next retransmission is. A
    /// packet in flight gets the time for an answer: the job may have paused before it. FINs are
    /// repeated soon enough.
    fn silence_timeout_ns(&self) -> Option<u64> {
        let Self { config, transmissions, peer, .. } = self;
        let silent_ns = peer.silence.lasts_until_ns(peer.silence_ns_max(config))?;
        let asked_ns = transmissions.oldest_departs_ns()?;
        let answered_ns = asked_ns.saturating_add(transmissions.lanes.base_timeout_ns());
        Some(silent_ns.max(answered_ns))
    }

    /// Notes that the peer's host said that nothing listens on the port (ICMP port unreachable).
    /// Anyone on the path can say so: it shortens a silence, and ends nothing by itself.
    pub fn on_port_unreachable(&mut self) {
        self.peer.silence.on_refused();
    }

    /// Fails the job if the peer has been silent for too long.
    fn give_up_if_silent(&mut self, now_ns: u64) {
        if self.has_ended() {
            return;
        }
        if let Some(silence_ns) = self.peer.silence.confirmed_ns(now_ns)
            && silence_ns >= self.peer.silence_ns_max(&self.config)
        {
            self.fail(|short| SendError::PeerSilent { silence_ns, short });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sender::{
        SenderConfig, State,
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
        let failed_ms = |refused: bool, received: bool, limits: &SenderConfig| {
            let mut sender = tests::sender(limits.clone());
            sender.queue(0, 10).unwrap();
            sender.queue(0, 10).unwrap();
            let packet = sender.next_packet(0).unwrap();
            if refused {
                sender.on_port_unreachable();
            }
            if received {
                tests::ack(&mut sender, 0, &packet);
            }
            fail_by_silence(&mut sender, 0) / MS
        };
        let refused = failed_ms(true, false, &limits);
        assert!((1_000..=1_050).contains(&refused), "{refused}");
        for (refused, received) in [(false, false), (true, true)] {
            let at = failed_ms(refused, received, &limits);
            assert!(
                (10_000..=10_050).contains(&at),
                "refused {refused}, received {received}: {at}"
            );
        }
        let longer = SenderConfig { refused_timeout_ns: u64::MAX, ..limits };
        assert!((10_000..=10_050).contains(&failed_ms(true, false, &longer)));
    }
}
