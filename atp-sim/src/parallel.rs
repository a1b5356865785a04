//! Independent runs on all cores.

use indicatif::{ProgressBar, ProgressStyle};
use std::{
    cell::Cell,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Work that takes long calls it every so often, with what finds out how much of it is done, 0 to 1: that is
/// asked for only when it is shown.
pub type Watch<'a> = &'a dyn Fn(&dyn Fn() -> f64);

/// How often it is shown.
const SHOWN: Duration = Duration::from_millis(200);
/// What an item is of the bar.
const PARTS: u64 = 1_000;

/// What `work` makes of each item, in the items' order, with a bar that shows how far it is.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T, Watch<'_>) -> R + Sync) -> Vec<R> {
    let bar = ProgressBar::new(items.len() as u64 * PARTS);
    let template = "{bar:40} {percent} %, {msg} {elapsed} (left {eta})";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(SHOWN);
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
                    let part = Part::of(&bar);
                    let result = work(item, &|share| part.look(share));
                    part.end();
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

/// An item's part of the bar.
struct Part<'a> {
    bar: &'a ProgressBar,
    shown: Cell<u64>,
    shown_at: Cell<Instant>,
}

impl<'a> Part<'a> {
    fn of(bar: &'a ProgressBar) -> Self {
        Self { bar, shown: Cell::new(0), shown_at: Cell::new(Instant::now()) }
    }

    fn look(&self, share: &dyn Fn() -> f64) {
        if self.shown_at.get().elapsed() >= SHOWN {
            self.shown_at.set(Instant::now());
            self.show((share() * PARTS as f64) as u64);
        }
    }

    /// All that is done at the end is as much as there is, whatever was said meanwhile.
    fn end(&self) {
        self.show(PARTS);
    }

    fn show(&self, parts: u64) {
        let more = parts.min(PARTS).saturating_sub(self.shown.get());
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

    /// What is said again counts once, what is too much or comes too often not at all.
    #[test]
    fn part__is_never_more_than_an_item() {
        let bar = ProgressBar::hidden();
        let part = Part::of(&bar);
        part.look(&|| panic!("nobody looks so often"));
        let long_ago = Instant::now() - SHOWN;
        for (share, shown) in [(0.25, 250), (0.2, 250), (f64::NAN, 250), (0.5, 500), (7.0, 1_000)] {
            part.shown_at.set(long_ago);
            part.look(&|| share);
            assert_eq!(bar.position(), shown, "{share}");
        }
        part.end();
        assert_eq!(bar.position(), PARTS);
    }
}
