//! Ctrl-C and `kill`. The first signal sets a flag, so that the testbed is taken down in order. The
//! second one ends the process at once, and the kernel cleans up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The exit code that a shell reports for a program ended by SIGINT.
const EXIT_CODE: i32 = 130;

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Sets a flag on SIGINT and SIGTERM from now on. Call it once, early.
///
/// # Errors
/// The kernel refuses the handlers.
pub fn install() -> Result<()> {
    let noted = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        // In this order, the first signal only raises the flag, and the second ends the process.
        flag::register_conditional_shutdown(signal, EXIT_CODE, noted.clone())
            .and_then(|_| flag::register(signal, noted.clone()))
            .context("signals can't be handled")?;
    }
    Ok(())
}

/// Whether SIGINT or SIGTERM came. If so, the caller stops its work and drops the testbed.
pub fn interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|noted| noted.load(Ordering::Relaxed))
}
