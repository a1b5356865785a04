//! Waiting for a condition, with a limit.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The limit for operations that take a fraction of a second on an idle machine: test machines are
/// slow, busy, or emulated.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until `condition` returns a value; `what` names it in the error.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = condition()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("waited {} s in vain for {what}", TIMEOUT.as_secs());
        }
        thread::sleep(Duration::from_millis(10));
    }
}
