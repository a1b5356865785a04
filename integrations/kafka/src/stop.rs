//! The end that a signal asks for.

use anyhow::Result;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering::Relaxed},
};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Notes SIGINT and SIGTERM from now on. A second signal ends the program at once.
///
/// # Errors
/// The system refuses the handlers.
pub fn catch_signals() -> Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, asked.clone())?;
        signal_hook::flag::register(signal, asked.clone())?;
    }
    Ok(())
}

/// Whether a signal has come.
pub fn is_asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Relaxed))
}
