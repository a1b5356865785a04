//! The terminal: draws the state when values or keys come, and restores itself at every end.

use super::{app::App, input::Next, source::Source, views};
use anyhow::{Context, Result};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The longest wait before signals are looked for.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// A terminal in the screen's mode. Dropping it restores the terminal; so does a panic, by the hook
/// of ratatui.
struct Screen(DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the screen until a key or a signal ends it.
pub fn run(mut source: Source, mut app: App, interval: Duration) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())
            .context("can't handle the signals that end this program")?;
    }
    let terminal = ratatui::try_init()
        .context("can't use this terminal: use --once, --json or --jsonl, which print text")?;
    let mut screen = Screen(terminal);
    let mut due = Instant::now();
    while !stop.load(Relaxed) {
        if Instant::now() >= due {
            take(&mut source, &mut app);
            due = Instant::now() + interval;
        }
        screen.0.draw(|frame| views::draw(frame, &mut app)).context("can't draw")?;
        match wait(&mut app, &stop, due)? {
            Next::Quit => break,
            Next::Redraw => screen.0.clear().context("can't clear the terminal")?,
            Next::Draw => {}
        }
    }
    Ok(())
}

/// Takes the present values.
fn take(source: &mut Source, app: &mut App) {
    let reading = source.read();
    if let Some(stats) = reading.stats {
        app.update(stats);
    }
    match reading.trouble {
        Some(trouble) => app.set_trouble(trouble),
        None => app.trouble = None,
    }
}

/// Waits until something is to be drawn. Handles all keys that have come: a slow terminal must not
/// fall behind a key that repeats.
fn wait(app: &mut App, stop: &AtomicBool, due: Instant) -> Result<Next> {
    const FAILED: &str = "can't read the keys of this terminal";
    while !stop.load(Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Next::Draw);
        }
        let mut next = None;
        while event::poll(if next.is_some() { Duration::ZERO } else { left.min(WAIT_MAX) })
            .context(FAILED)?
        {
            let after = match event::read().context(FAILED)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => app.on_key(key),
                _ => Next::Draw,
            };
            if after == Next::Quit {
                return Ok(Next::Quit);
            }
            next = Some(if next == Some(Next::Redraw) { Next::Redraw } else { after });
        }
        if let Some(next) = next {
            return Ok(next);
        }
    }
    Ok(Next::Quit)
}
