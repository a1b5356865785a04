//! Receives until the awaited senders have ended.

use crate::underway::Underway;
use approxlib::{Error, Event, Receiver};
use std::time::{Duration, Instant};

/// The number of checks for new packets within one idle timeout.
const CHECKS_PER_TIMEOUT: u32 = 8;

/// The longest time for the events that wait at an interrupt.
const INTERRUPTED_MAX: Duration = Duration::from_secs(1);

/// A receiver of a number of senders, and the state of their jobs.
pub struct Reception {
    receiver: Receiver,
    underway: Underway,
    wanted: usize,
    timeout: Duration,
    /// Packets at the last look, and the time of the last look that found more of them.
    packets: u64,
    last_packet: Instant,
    interrupted: Option<Instant>,
}

/// A step of a [`Reception`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Next {
    /// It received this.
    Event(Event),
    /// It waited, and no event came.
    Nothing,
    /// The awaited senders have ended.
    Ended,
    /// No packet arrived for the timeout.
    Silent,
}

impl Reception {
    /// Awaits a number of senders. The timeout is the longest time without a packet of any job.
    /// `named`: the receiver takes the packets of known jobs and addresses only, so no stranger can
    /// take the place of a sender.
    pub fn new(receiver: Receiver, senders: u32, timeout: Duration, named: bool) -> Self {
        let wanted = senders as usize;
        let early_wait = if named { Duration::ZERO } else { timeout };
        let packets = receiver.stats().packets_received;
        Self {
            receiver,
            underway: Underway::new(wanted, timeout, early_wait),
            wanted,
            timeout,
            packets,
            last_packet: Instant::now(),
            interrupted: None,
        }
    }

    /// The receiver.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// The longest time without a packet of any job.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether enough senders have ended, and some of them before their sampling rates: others may
    /// follow, as this may have been a stranger.
    pub fn awaits_others(&self) -> bool {
        self.underway.ended() >= self.wanted && !self.underway.is_enough(Instant::now())
    }

    /// Senders that go on and aren't awaited any longer.
    pub fn go_on(&self) -> usize {
        self.underway.go_on()
    }

    /// Awaits no sender any longer: the events that wait already come next, and then the end.
    pub fn interrupt(&mut self) {
        self.interrupted.get_or_insert_with(Instant::now);
    }

    /// Waits for the next event, for `wait` at most. `ends_by_plan`: this receiver has asked the
    /// senders for the end.
    ///
    /// # Errors
    /// The receiver failed.
    pub fn next(&mut self, wait: Duration, ends_by_plan: bool) -> Result<Next, Error> {
        if let Some(since) = self.interrupted {
            let event = match since.elapsed() < INTERRUPTED_MAX {
                true => self.receiver.recv(Some(Duration::ZERO))?,
                false => None,
            };
            return Ok(event.map_or(Next::Ended, Next::Event));
        }
        let now = Instant::now();
        let is_enough = self.underway.is_enough(now);
        // A sender that began before the last awaited one ended has a job to complete.
        if is_enough && self.underway.left(now) == 0 {
            return Ok(Next::Ended);
        }
        let awaits_ends = is_enough || self.underway.ended() >= self.wanted;
        let interval = if awaits_ends { self.underway.silence_max() } else { self.timeout };
        let event = self.receiver.recv(Some(wait.min(interval / CHECKS_PER_TIMEOUT)))?;
        let now = Instant::now();
        match event {
            Some(event) => {
                self.underway.on_event(&event, ends_by_plan, now);
                self.last_packet = now;
                Ok(Next::Event(event))
            }
            None if awaits_ends || self.has_new_packets() => {
                self.last_packet = now;
                Ok(Next::Nothing)
            }
            None if now.duration_since(self.last_packet) >= self.timeout => Ok(Next::Silent),
            None => Ok(Next::Nothing),
        }
    }

    /// Counts packets, not events: a long message on a slow path is many packets and one event.
    fn has_new_packets(&mut self) -> bool {
        let packets = self.receiver.stats().packets_received;
        std::mem::replace(&mut self.packets, packets) != packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approxlib::Job;
    use std::thread;

    /// A packet of the slow message comes every 14 ms. At a load of ten the gaps have a mean of
    /// 40 ms at most, and one of the 210 exceeds this, by an exponential tail, once in a million
    /// runs: 210 exp(-1000 / 40) = 3e-9.
    const TIMEOUT: Duration = Duration::from_secs(1);

    /// The next event, which takes any number of waits.
    fn event(reception: &mut Reception) -> Next {
        loop {
            match reception.next(TIMEOUT, false).unwrap() {
                Next::Nothing => {}
                next => return next,
            }
        }
    }

    fn reception() -> Reception {
        let receiver = Receiver::builder().control_socket(None);
        Reception::new(receiver.bind("127.0.0.1:0").unwrap(), 1, TIMEOUT, false)
    }

    /// The message takes three seconds, three times the timeout.
    #[test]
    fn next__waits_while_packets_arrive() {
        let mut reception = reception();
        let peer = reception.receiver().local_addr().unwrap();
        let sender = thread::spawn(move || {
            let job = Job::builder().control_socket(None).rate_max_bytes_per_s(100_000);
            let mut job = job.connect(peer).unwrap();
            job.send(&[7; 300_000]).unwrap();
            job.finish().unwrap()
        });
        let started = Instant::now();
        let began = event(&mut reception);
        assert!(matches!(began, Next::Event(Event::Started { .. })), "{began:?}");
        let message = event(&mut reception);
        assert!(
            matches!(message, Next::Event(Event::Message { data, .. }) if data.len() == 300_000)
        );
        assert!(
            started.elapsed() > TIMEOUT,
            "the message arrived within the timeout: the test shows nothing"
        );
        assert!(matches!(event(&mut reception), Next::Event(Event::Finished { .. })));
        assert!(matches!(event(&mut reception), Next::Ended));
        sender.join().unwrap();
    }

    #[test]
    fn next__ends_without_packets() {
        let started = Instant::now();
        assert!(matches!(event(&mut reception()), Next::Silent));
        assert!(started.elapsed() >= TIMEOUT);
    }
}
