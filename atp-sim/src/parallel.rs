//! Runs independent work on all cores, with a progress bar.

use indicatif::{ProgressBar, ProgressStyle};
use std::{
    cell::Cell,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// A callback for long work to report its progress. Its argument computes the share done, 0 to 1,
/// and is called only when the bar is redrawn.
pub type ReportProgress<'a> = &'a dyn Fn(&dyn Fn() -> f64);

/// The time between updates of the bar.
const UPDATE_INTERVAL: Duration = Duration::from_millis(200);
/// The units of the bar per item.
const UNITS_PER_ITEM: u64 = 1_000;

/// Applies `work` to all items and returns the results in the order of the items.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T, ReportProgress<'_>) -> R + Sync,
) -> Vec<R> {
    let bar = match atp_output::draws(&std::io::stderr()) {
        true => ProgressBar::new(items.len() as u64 * UNITS_PER_ITEM),
        false => ProgressBar::hidden(),
    };
    let template = "{bar:40} {percent} %, {msg} {elapsed} (left {eta})";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(UPDATE_INTERVAL);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let say_done = |done| bar.set_message(format!("{done}/{}", items.len()));
    say_done(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    let Some(item) = items.get(number) else { return };
                    let progress = ItemProgress::of(&bar);
                    let result = work(item, &|share| progress.update(share));
                    progress.end();
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                    say_done(done.fetch_add(1, Relaxed) + 1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The progress of one item.
struct ItemProgress<'a> {
    bar: &'a ProgressBar,
    shown: Cell<u64>,
    shown_at: Cell<Instant>,
}

impl<'a> ItemProgress<'a> {
    fn of(bar: &'a ProgressBar) -> Self {
        Self { bar, shown: Cell::new(0), shown_at: Cell::new(Instant::now()) }
    }

    fn update(&self, share: &dyn Fn() -> f64) {
        if self.shown_at.get().elapsed() >= UPDATE_INTERVAL {
            self.shown_at.set(Instant::now());
            self.show((share() * UNITS_PER_ITEM as f64) as u64);
        }
    }

    /// Completes the item on the bar, for any progress reported so far.
    fn end(&self) {
        self.show(UNITS_PER_ITEM);
    }

    fn show(&self, parts: u64) {
        let more = parts.min(UNITS_PER_ITEM).saturating_sub(self.shown.get());
        self.shown.set(self.shown.get() + more);
        self.bar.inc(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map__keeps_the_order() {
        let items: Vec<u64> = (0..100).collect();
        let squares = map(&items, |item, _| item * item);
        assert!(squares.iter().enumerate().all(|(at, square)| *square == (at * at) as u64));
        assert!(map(&[] as &[u64], |item, _| *item).is_empty());
    }

    /// A repeated report counts once. A report above 1, or too soon after the last one, is ignored.
    #[test]
    fn item_progress__never_exceeds_one_item() {
        let bar = ProgressBar::hidden();
        let progress = ItemProgress::of(&bar);
        progress.update(&|| panic!("the share is computed only for an update of the bar"));
        let long_ago = Instant::now() - UPDATE_INTERVAL;
        for (share, shown) in [(0.25, 250), (0.2, 250), (f64::NAN, 250), (0.5, 500), (7.0, 1_000)] {
            progress.shown_at.set(long_ago);
            progress.update(&|| share);
            assert_eq!(bar.position(), shown, "{share}");
        }
        progress.end();
        assert_eq!(bar.position(), UNITS_PER_ITEM);
    }
}
