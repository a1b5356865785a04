//! The terminal: draws the state when values or keys come, and restores itself at every end.
//!
//! It asks the terminal for nothing but its size, which the kernel knows: an answer may never come,
//! and keys would wait behind it. `clippy.toml` forbids the functions that ask.

use super::{app::App, input::Next, keyboard::Keyboard, source::Source, views};
use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use std::{
    fs::File,
    io::{self, Read, stdin},
    mem::ManuallyDrop,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Keys are handled in such pieces. The screen is drawn after each, if more keys keep coming.
const KEY_BYTES_MAX: usize = 4_096;

/// A terminal in the screen's mode. Dropping it restores the terminal; so does a panic, by the hook
/// of ratatui.
///
/// Ratatui's own terminal isn't dropped: it would print an error to a terminal that has gone, and
/// panic because that can't be printed either.
struct Screen(ManuallyDrop<DefaultTerminal>);

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone can't be restored, and takes no message about that.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// Shows the screen until a key or a signal ends it.
pub fn run(mut source: Source, mut app: App, interval: Duration) -> Result<()> {
    let signals = Signals::catch().context("can't handle the signals that end this program")?;
    let terminal = ratatui::try_init()
        .inspect_err(|_| drop(ratatui::try_restore()))
        .context("can't use this terminal: use --once, --json or --jsonl, which print text")?;
    let mut screen = Screen(ManuallyDrop::new(terminal));
    let mut input = Input::open(signals).context(NO_KEYS)?;
    let mut due = Instant::now();
    while !input.signals.is_end() {
        if Instant::now() >= due {
            take(&mut source, &mut app);
            due = Instant::now() + interval;
        }
        match screen.0.draw(|frame| views::draw(frame, &mut app)) {
            Err(error) if has_gone(&error) => break,
            drawn => drawn.context("can't draw")?,
        };
        match input.wait(&mut app, due)? {
            Next::Quit => break,
            // `Terminal::clear` would ask for the position of the cursor.
            Next::Redraw => {
                let area = screen.0.get_frame().area();
                screen.0.resize(area).context("can't clear the terminal")?;
            }
            Next::Draw => {}
        }
    }
    Ok(())
}

/// Whether the terminal has gone. That needs no message, which would go there.
fn has_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EIO)
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

/// Signals that end the screen, and that of a new size.
struct Signals {
    end: Arc<AtomicBool>,
    /// Readable after a signal.
    wake: UnixStream,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        let end = Arc::new(AtomicBool::new(false));
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            // A second one ends the program even if the terminal takes no output. A terminal that
            // is closed sends two SIGHUPs.
            if signal != libc::SIGHUP {
                signal_hook::flag::register_conditional_default(signal, end.clone())?;
            }
            signal_hook::flag::register(signal, end.clone())?;
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?)?;
        }
        signal_hook::low_level::pipe::register(libc::SIGWINCH, waker)?;
        Ok(Self { end, wake })
    }

    fn is_end(&self) -> bool {
        self.end.load(Relaxed)
    }
}

const NO_KEYS: &str = "can't read the keys of this terminal";

/// The keys of the terminal, which is standard input, and signals.
struct Input {
    terminal: File,
    keyboard: Keyboard,
    signals: Signals,
}

impl Input {
    fn open(signals: Signals) -> io::Result<Self> {
        let terminal = stdin().as_fd().try_clone_to_owned()?.into();
        Ok(Self { terminal, keyboard: Keyboard::default(), signals })
    }

    /// Waits until something is to be drawn. Handles all keys that have come: a slow terminal must
    /// not fall behind a key that repeats.
    fn wait(&mut self, app: &mut App, due: Instant) -> Result<Next> {
        let ready = self.ready(due.saturating_duration_since(Instant::now()));
        if ready.is_end {
            return Ok(Next::Quit);
        }
        if !ready.has_keys {
            self.keyboard.forget();
            return Ok(Next::Draw);
        }
        let (mut next, mut handled) = (Next::Draw, 0);
        let mut bytes = [0; 1_024];
        loop {
            let read = match self.terminal.read(&mut bytes) {
                Ok(0) => return Ok(Next::Quit),
                Err(error) if has_gone(&error) => return Ok(Next::Quit),
                // Another process of the terminal was faster.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(next),
                read => read.context(NO_KEYS)?,
            };
            let ready = self.ready(Duration::ZERO);
            for key in self.keyboard.keys(&bytes[..read], ready.has_keys) {
                match app.on_key(key) {
                    Next::Quit => return Ok(Next::Quit),
                    Next::Redraw => next = Next::Redraw,
                    Next::Draw => {}
                }
            }
            handled += read;
            if ready.is_end {
                return Ok(Next::Quit);
            }
            if !ready.has_keys || handled >= KEY_BYTES_MAX {
                return Ok(next);
            }
        }
    }

    /// Waits for keys or a signal, for at most `time`.
    fn ready(&mut self, time: Duration) -> Ready {
        let asked = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = [asked(self.terminal.as_fd()), asked(self.signals.wake.as_fd())];
        // Rounded up: a wait of zero would be repeated until the time is over.
        let milliseconds = i32::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(i32::MAX);
        // A signal interrupts it. It is seen below, or by the next call.
        let _ = poll(&mut fds, PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX));
        let events = fds[0].revents().unwrap_or(PollFlags::empty());
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        while matches!((&self.signals.wake).read(&mut [0; 64]), Ok(1..)) {}
        Ready {
            has_keys: events.contains(PollFlags::POLLIN),
            is_end: events.intersects(gone) || self.signals.is_end(),
        }
    }
}

/// The outcome of a wait.
struct Ready {
    has_keys: bool,
    /// The terminal has gone, or a signal ends the screen.
    is_end: bool,
}
