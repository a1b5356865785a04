//! When the control loop runs: at every tick while there are lanes, seldom without them.

use nix::sys::{
    time::TimeSpec,
    timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::Notify,
};

/// The control loop's clock.
pub struct Ticks {
    with_lanes: Duration,
    without_lanes: Duration,
    /// Notified when the first lane opens: it doesn't wait for the long tick's end.
    first_lane: Rc<Notify>,
    last: Instant,
    alarm: Alarm,
}

impl Ticks {
    /// Ticks of these lengths; the first one ends after that time. Without lanes a tick is never
    /// shorter than with them.
    ///
    /// # Errors
    /// If the kernel has no timer for this process. Outside of a runtime it panics.
    pub fn new(
        with_lanes: Duration,
        without_lanes: Duration,
        first_lane: Rc<Notify>,
    ) -> io::Result<Self> {
        let (without_lanes, last) = (without_lanes.max(with_lanes), Instant::now());
        Ok(Self { with_lanes, without_lanes, first_lane, last, alarm: Alarm::new()? })
    }

    /// Waits for the end of the tick, and returns how late that was. A late end delays the
    /// following ticks. Nothing is lost if the returned future is dropped.
    ///
    /// # Errors
    /// If the timer can't be set or waited for.
    pub async fn next(&mut self, has_lanes: bool) -> io::Result<Duration> {
        let end = self.last + if has_lanes { self.with_lanes } else { self.without_lanes };
        tokio::select! {
            ended = self.alarm.wait_until(end) => ended?,
            () = self.first_lane.notified() => {}
        }
        self.last = Instant::now();
        Ok(self.last.saturating_duration_since(end))
    }
}

/// A timer of the kernel. Those of the runtime end at whole milliseconds, up to one late, which
/// would double a tick of 1 ms.
struct Alarm(AsyncFd<Timer>);

struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        // SAFETY: the value keeps its descriptor open, and the same one, until it is dropped.
        let timer = unsafe { AsyncFd::register_with_interest(Timer(timer), Interest::READABLE)? };
        Ok(Self(timer))
    }

    /// Waits until `end`. If that has passed, it lets the runtime look at everything else once:
    /// otherwise nobody else would have a turn while ticks take longer than they may. Nothing is
    /// lost if the returned future is dropped: the next call sets the timer again.
    async fn wait_until(&self, end: Instant) -> io::Result<()> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tokio::task::yield_now().await;
                return Ok(());
            }
            let after = Expiration::OneShot(TimeSpec::from_duration(left));
            // This also takes back an expiration that nobody waited for.
            self.0.get_ref().0.set(after, TimerSetTimeFlags::empty())?;
            // The readiness may be from an earlier expiration, so the loop looks at the clock.
            self.0.readable().await?.clear_ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const TICK: Duration = Duration::from_millis(2);
    const LONG: Duration = Duration::from_secs(3_600);
    const SOON: Duration = Duration::from_secs(20);

    #[tokio::test(flavor = "current_thread")]
    async fn next__first_lane_ends_the_long_tick() {
        let first_lane = Rc::new(Notify::new());
        let mut ticks = Ticks::new(TICK, LONG, first_lane.clone()).unwrap();
        let waiting = timeout(50 * TICK, ticks.next(false)).await;
        assert!(waiting.is_err(), "the tick ended without a lane");
        let (ended, ()) = tokio::join!(timeout(SOON, ticks.next(false)), async {
            tokio::task::yield_now().await;
            first_lane.notify_one();
        });
        ended.unwrap().unwrap();
        timeout(SOON, ticks.next(true)).await.unwrap().unwrap();
        // The notification was spent on one tick.
        assert!(timeout(50 * TICK, ticks.next(false)).await.is_err());
    }

    /// A lane may open while the control loop does something else.
    #[tokio::test(flavor = "current_thread")]
    async fn next__first_lane_is_not_missed_between_two_waits() {
        let first_lane = Rc::new(Notify::new());
        let mut ticks = Ticks::new(TICK, LONG, first_lane.clone()).unwrap();
        assert!(timeout(TICK, ticks.next(false)).await.is_err());
        first_lane.notify_one();
        timeout(SOON, ticks.next(false)).await.unwrap().unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn new__tick_without_lanes_is_never_the_shorter_one() {
        let mut ticks = Ticks::new(LONG, TICK, Rc::default()).unwrap();
        assert!(timeout(50 * TICK, ticks.next(false)).await.is_err());
    }

    /// The runtime serves others, even if the work of each tick takes longer than the tick.
    #[tokio::test(flavor = "current_thread")]
    async fn next__overlong_ticks_leave_others_their_turns() {
        let mut ticks = Ticks::new(TICK, LONG, Rc::default()).unwrap();
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let far = tokio::net::UnixStream::from_std(far).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // The stream ends while overlong ticks follow each other.
            (0..2).for_each(|_| told.recv().unwrap());
            drop(near);
        });
        let work = async {
            loop {
                ticks.next(true).await.unwrap();
                std::thread::sleep(2 * TICK);
                // The other thread needs two.
                tell.send(()).ok();
            }
        };
        // The other end closes.
        timeout(SOON, async {
            tokio::select! {
                biased;
                () = work => {}
                ready = far.readable() => ready.unwrap(),
            }
        })
        .await
        .expect("nobody saw the stream's end");
    }

    /// The first end of the timer may have come while nobody waited.
    #[tokio::test(flavor = "current_thread")]
    async fn wait_until__never_ends_early() {
        let alarm = Alarm::new().unwrap();
        for _ in 0..20 {
            let dropped = timeout(Duration::ZERO, alarm.wait_until(Instant::now() + TICK / 4));
            let _ = dropped.await;
            std::thread::sleep(TICK / 2);
            let end = Instant::now() + TICK / 2;
            timeout(SOON, alarm.wait_until(end)).await.unwrap().unwrap();
            assert!(Instant::now() >= end);
        }
    }
}
