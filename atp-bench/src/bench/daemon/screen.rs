//! `atp-user stats` in a pseudo-terminal, whose output is read and dropped.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::pty::{Winsize, openpty};
use testbed::{Host, wait_for};

use super::share::share_for;

const WINDOW: Winsize = Winsize { ws_row: 60, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
/// The time after the first output in which the screen begins to show rates.
const WARM_UP: Duration = Duration::from_secs(2);

/// A running screen. Dropping it ends it.
pub struct Screen {
    child: Child,
    drawn_bytes: Arc<AtomicU64>,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    /// Starts the screen of the daemon at `socket`, and waits until it has drawn for a while.
    pub fn start(host: &Host, program: &Path, socket: &Path) -> Result<Self> {
        let terminal = openpty(&WINDOW, None).context("can't open a pseudo-terminal")?;
        let mut command = host.namespace.command(program);
        command.args(["stats", "--interval", "1s", "--socket"]).arg(socket);
        command.env("TERM", "xterm-256color");
        command.stdin(terminal.slave.try_clone()?);
        command.stdout(terminal.slave).stderr(Stdio::inherit());
        // The size of a screen is that of its controlling terminal.
        let take_terminal = || {
            nix::unistd::setsid()?;
            // SAFETY: standard input is the pseudo-terminal. The call takes no pointer.
            match unsafe { libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec the closure makes two system calls, and allocates nothing.
        unsafe { command.pre_exec(take_terminal) };
        let child = command.spawn().context("can't start `atp-user stats`")?;
        // Only the child holds the terminal from here on, so the reader ends with it.
        drop(command);
        let drawn_bytes = Arc::new(AtomicU64::new(0));
        let (drawn, mut master) = (drawn_bytes.clone(), File::from(terminal.master));
        let reader = Some(thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(bytes @ 1..) = master.read(&mut buffer) {
                drawn.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }));
        let mut screen = Self { child, drawn_bytes, reader };
        wait_for("the screen to draw", || {
            screen.expect_running()?;
            Ok((screen.drawn_bytes.load(Ordering::Relaxed) > 0).then_some(()))
        })?;
        thread::sleep(WARM_UP);
        Ok(screen)
    }

    /// The share of a core that it uses for `time`, in which it must draw.
    pub fn share(&mut self, time: Duration) -> Result<f64> {
        let before = self.drawn_bytes.load(Ordering::Relaxed);
        let share = share_for(self.child.id(), time)?;
        self.expect_running()?;
        let drawn = self.drawn_bytes.load(Ordering::Relaxed) - before;
        ensure!(drawn > 0, "the screen drew nothing in {} s", time.as_secs());
        Ok(share)
    }

    fn expect_running(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "`atp-user stats` ended: {}", ended.unwrap_or_default());
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if let Some(reader) = self.reader.take() {
            reader.join().ok();
        }
    }
}
