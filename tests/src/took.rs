//! How long a test took.

use std::time::Instant;

/// Runs a test, and prints when it begins and the seconds that it took, in lines that the test
/// runner reads: tests run beside each other, so the runner can't measure them. The lines are their
/// own, whatever another thread has begun to write.
pub fn timed<T>(name: &str, test: impl FnOnce() -> T) -> T {
    println!("\nbegan {name}");
    let started = Instant::now();
    let outcome = test();
    println!("\ntook {name}: {:.3} s", started.elapsed().as_secs_f64());
    outcome
}
