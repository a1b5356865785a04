//! When the control loop runs: at every tick while there are lanes, seldom without them.

use std::{rc::Rc, time::Duration};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// The control loop's clock.
pub struct Ticks {
    with_lanes: Duration,
    without_lanes: Duration,
    /// Notified when the first lane opens: it doesn't wait for the long tick's end.
    first_lane: Rc<Notify>,
    last: Instant,
}

impl Ticks {
    /// Ticks of these lengths; the first one ends after that time. Without lanes a tick is never
    /// shorter than with them.
    pub fn new(with_lanes: Duration, without_lanes: Duration, first_lane: Rc<Notify>) -> Self {
        let (without_lanes, last) = (without_lanes.max(with_lanes), Instant::now());
        Self { with_lanes, without_lanes, first_lane, last }
    }

    /// Waits for the end of the tick. A late end delays the following ticks. Nothing is lost if
    /// the returned future is dropped.
    pub async fn next(&mut self, has_lanes: bool) {
        let tick = if has_lanes { self.with_lanes } else { self.without_lanes };
        tokio::select! {
            () = sleep_until(self.last + tick) => {}
            () = self.first_lane.notified() => {}
        }
        self.last = Instant::now();
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
        let mut ticks = Ticks::new(TICK, LONG, first_lane.clone());
        let waiting = timeout(50 * TICK, ticks.next(false)).await;
        assert!(waiting.is_err(), "the tick ended without a lane");
        let (ended, ()) = tokio::join!(timeout(SOON, ticks.next(false)), async {
            tokio::task::yield_now().await;
            first_lane.notify_one();
        });
        ended.unwrap();
        timeout(SOON, ticks.next(true)).await.unwrap();
        // The notification was spent on one tick.
        assert!(timeout(50 * TICK, ticks.next(false)).await.is_err());
    }

    /// A lane may open while the control loop does something else.
    #[tokio::test(flavor = "current_thread")]
    async fn next__first_lane_is_not_missed_between_two_waits() {
        let first_lane = Rc::new(Notify::new());
        let mut ticks = Ticks::new(TICK, LONG, first_lane.clone());
        assert!(timeout(TICK, ticks.next(false)).await.is_err());
        first_lane.notify_one();
        timeout(SOON, ticks.next(false)).await.unwrap();
    }

    #[tokio::test(flavor = "current_thread")]
    async fn new__tick_without_lanes_is_never_the_shorter_one() {
        let mut ticks = Ticks::new(LONG, TICK, Rc::default());
        assert!(timeout(50 * TICK, ticks.next(false)).await.is_err());
    }
}
