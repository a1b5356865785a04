//! Independent runs on all cores.

use indicatif::{ProgressBar, ProgressStyle};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// What `work` makes of each item, in the items' order, with a bar that shows how far it is.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let bar = ProgressBar::new(items.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed} (left {eta})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    let Some(item) = items.get(number) else { return };
                    let result = work(item);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map__keeps_the_order() {
        let items: Vec<u64> = (0..100).collect();
        let squares = map(&items, |item| item * item);
        assert!(squares.iter().enumerate().all(|(at, square)| *square == (at * at) as u64));
        assert!(map(&[] as &[u64], |item| *item).is_empty());
    }
}
