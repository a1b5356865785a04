//! The terminal: draws the state when values or keys come, and restores itself at every end.

use super::{app::App, input::Next, source::Source, views};
use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};
use std::{
    fs::File,
    io::{self, IsTerminal, stdin},
    os::fd::{AsFd, OwnedFd},
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
        // A terminal that has gone can't be restored, and takes no message about that.
        let _ = ratatui::try_restore();
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
    let keyboard = keyboard().context("can't read the keys of this terminal")?;
    let mut due = Instant::now();
    while !stop.load(Relaxed) {
        if Instant::now() >= due {
            take(&mut source, &mut app);
            due = Instant::now() + interval;
        }
        screen.0.draw(|frame| views::draw(frame, &mut app)).context("can't draw")?;
        match wait(&mut app, &keyboard, &stop, due)? {
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
fn wait(app: &mut App, keyboard: &OwnedFd, stop: &AtomicBool, due: Instant) -> Result<Next> {
    const FAILED: &str = "can't read the keys of this terminal";
    while !stop.load(Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Next::Draw);
        }
        if !is_there(keyboard, left.min(WAIT_MAX)) {
            return Ok(Next::Quit);
        }
        let mut next = None;
        while event::poll(Duration::ZERO).context(FAILED)? {
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

/// The terminal whose keys crossterm reads.
fn keyboard() -> io::Result<OwnedFd> {
    match stdin().is_terminal() {
        true => stdin().as_fd().try_clone_to_owned(),
        false => Ok(File::open("/dev/tty")?.into()),
    }
}

/// Waits for keys or a signal, such as that of a new size. Returns whether the terminal is still
/// there. Crossterm would read the end of one that has gone again and again.
fn is_there(keyboard: &OwnedFd, time: Duration) -> bool {
    let mut ready = [PollFd::new(keyboard.as_fd(), PollFlags::POLLIN)];
    // Rounded up: a wait of zero would be repeated until the time is over.
    let milliseconds = u16::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u16::MAX);
    let _ = poll(&mut ready, PollTimeout::from(milliseconds));
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    !ready[0].revents().is_some_and(|ready| ready.intersects(gone))
}
