//! A program in a pseudoterminal. The other side answers nothing, and records what is drawn.

use nix::{
    libc::{STDIN_FILENO, TIOCSCTTY, ioctl},
    poll::{PollFd, PollFlags, poll},
    pty::{Winsize, openpty},
    sys::signal::{Signal, kill},
    unistd::{Pid, setsid},
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, ExitStatus},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A program that hasn't done by then what a test waits for never will.
const LIMIT: Duration = Duration::from_secs(60);

nix::ioctl_write_ptr_bad!(set_window, nix::libc::TIOCSWINSZ, Winsize);

pub struct Terminal {
    child: Child,
    master: Option<File>,
    closed: Arc<AtomicBool>,
    drawn: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts the program on a terminal of this kind, its controlling one, with 80 x 24 cells.
    pub fn start(mut command: Command, kind: Option<&str>) -> Self {
        let pair = openpty(&window(80, 24), None).unwrap();
        match kind {
            Some(kind) => command.env("TERM", kind),
            None => command.env_remove("TERM"),
        };
        command.stdin(pair.slave.try_clone().unwrap());
        command.stdout(pair.slave.try_clone().unwrap()).stderr(pair.slave);
        let take_terminal = || {
            setsid()?;
            // SAFETY: standard input is the pseudoterminal. The call takes no pointer.
            match unsafe { ioctl(STDIN_FILENO, TIOCSCTTY, 0) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // SAFETY: between fork and exec the closure makes two system calls, and allocates nothing.
        unsafe { command.pre_exec(take_terminal) };
        // The program must not hold the other side of its terminal.
        let close_on_exec = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
        nix::fcntl::fcntl(&pair.master, close_on_exec).unwrap();
        let child = command.spawn().unwrap();
        drop(command);
        let master = File::from(pair.master);
        let (drawn, mut output) = (Arc::<Mutex<Vec<u8>>>::default(), master.try_clone().unwrap());
        let (written, closed) = (drawn.clone(), Arc::<AtomicBool>::default());
        let has_closed = closed.clone();
        let reader = thread::spawn(move || {
            let mut bytes = [0; 1 << 16];
            while !has_closed.load(Relaxed) {
                let mut ready = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
                if poll(&mut ready, 20u8) == Ok(0) {
                    continue;
                }
                let Ok(read @ 1..) = output.read(&mut bytes) else { return };
                written.lock().unwrap().extend(&bytes[..read]);
            }
        });
        Self { child, master: Some(master), closed, drawn, reader: Some(reader) }
    }

    /// Types this, in one write.
    pub fn type_in(&self, keys: &[u8]) {
        self.master().write_all(keys).unwrap();
    }

    /// Changes the size.
    pub fn resize(&self, columns: u16, rows: u16) {
        let fd = self.master().as_raw_fd();
        // SAFETY: the descriptor is a terminal's, and the size lives as long as the call.
        unsafe { set_window(fd, &window(columns, rows)) }.unwrap();
    }

    fn master(&self) -> &File {
        self.master.as_ref().expect("an open terminal")
    }

    /// Closes the terminal, as its window does.
    pub fn close(&mut self) {
        self.closed.store(true, Relaxed);
        self.reader.take().unwrap().join().unwrap();
        self.master = None;
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// The output drawn and not yet returned. Complete after the program's end.
    pub fn take_drawn(&mut self) -> String {
        if matches!(self.child.try_wait(), Ok(Some(_)))
            && let Some(reader) = self.reader.take()
        {
            // It ends when nobody has the terminal open.
            reader.join().unwrap();
        }
        String::from_utf8_lossy(&std::mem::take(&mut *self.drawn.lock().unwrap())).into_owned()
    }

    /// Waits until this was drawn, and returns all that was drawn until then.
    pub fn wait_for(&mut self, text: &str) -> String {
        let (mut drawn, began) = (String::new(), Instant::now());
        loop {
            let ended = self.child.try_wait().unwrap();
            drawn += &self.take_drawn();
            if let Some(at) = drawn.find(text) {
                let rest = drawn.split_off(at + text.len());
                self.drawn.lock().unwrap().splice(..0, rest.bytes());
                return drawn;
            }
            let is_late = began.elapsed() > LIMIT;
            assert!(!is_late && ended.is_none(), "{ended:?}: no {text:?} in {drawn:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the program's end.
    pub fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < LIMIT, "it goes on: {:?}", self.take_drawn());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A failed test leaves no program behind.
impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn window(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
