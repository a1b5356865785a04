//! Output by a thread. The daemon's control loop and its end don't wait for a reader of its output.

use std::{
    io::Write,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

/// The lines that wait while the output takes none, for instance because a person stopped the
/// terminal. Further lines are lost.
const LINES_MAX: usize = 8192;
/// The time for the last output. [`LastLines`] needs 1.1 s at most, unless its thread is stuck.
const LAST_OUTPUT_TIME: Duration = Duration::from_secs(2);

/// Counts the lines that the daemon lost.
static LOST: OnceLock<ErrorCounter> = OnceLock::new();

/// A writer that never waits, and the value that writes the last lines when it is dropped.
pub fn writer(output: impl Write + Send + 'static) -> (NonBlocking, LastLines) {
    let (writer, worker) = NonBlockingBuilder::default()
        .buffered_lines_limit(LINES_MAX)
        .thread_name("atp-log")
        .finish(output);
    let _ = LOST.set(writer.error_counter());
    (writer, LastLines(Some(worker)))
}

/// Says how many lines were lost so far, if that has changed since the last call.
pub fn say_lost() {
    static SAID: AtomicUsize = AtomicUsize::new(0);
    let lost = LOST.get().map_or(0, ErrorCounter::dropped_lines);
    if SAID.swap(lost, Relaxed) != lost {
        tracing::warn!(lost, "log lines were lost: standard error or the journal was too slow");
    }
}

/// Waits for the last lines when it is dropped, unless the output is stuck.
pub struct LastLines(Option<WorkerGuard>);

impl Drop for LastLines {
    fn drop(&mut self) {
        let worker = self.0.take();
        // With a full queue it prints to standard output, which can be stuck as well.
        in_time(move || drop(worker));
    }
}

/// Runs something that can block for good. Returns at its end, or after [`LAST_OUTPUT_TIME`].
pub fn in_time(output: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel::<()>();
    let run = move || {
        output();
        drop(ended);
    };
    if thread::Builder::new().name("atp-last-lines".into()).spawn(run).is_ok() {
        // An error in both cases: nothing is sent.
        let _ = end.recv_timeout(LAST_OUTPUT_TIME);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::journal::Journal, *};
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn writer__doesn_t_wait_for_a_full_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let unread = UnixDatagram::bind(&path).unwrap();
        let (mut writer, last_lines) = writer(Journal::open(&path).unwrap());
        let lost = writer.error_counter();
        // More than the queues of the thread and of the socket hold.
        for _ in 0..2 * LINES_MAX {
            writer.write_all(b"MESSAGE=x\n").unwrap();
        }
        // A writer that waits would wait for good: nothing is read before.
        drop(last_lines);
        let mut entries = 0;
        let mut buffer = [0; 64];
        unread.set_nonblocking(true).unwrap();
        while let Ok(bytes) = unread.recv(&mut buffer) {
            assert_eq!(&buffer[..bytes], b"MESSAGE=x\n");
            entries += 1;
        }
        assert!(entries > 0 && lost.dropped_lines() > 0);
    }

    #[test]
    fn last_lines__are_written() {
        let (read, write) = std::io::pipe().unwrap();
        let (mut writer, last_lines) = writer(write);
        writer.write_all(b"last\n").unwrap();
        drop((last_lines, writer));
        assert_eq!(std::io::read_to_string(read).unwrap(), "last\n");
    }
}
