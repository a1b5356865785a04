//! The thread that reads counters and run times, so that the control loop doesn't: each value takes
//! a system call.

use super::{clock::monotonic_ns, snapshot::SnapshotPages};
use atp_datapath::Meter;
use std::{
    io,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The time between two readings.
const INTERVAL: Duration = Duration::from_millis(250);

/// The running thread. Dropping this value ends it, and waits for its end.
pub struct TelemetryThread {
    /// `None` only while it is dropped.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TelemetryThread {
    /// Reads once, so that the first client finds values, then starts the thread.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn start(meter: Meter, pages: Arc<SnapshotPages>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let mut last_error = None;
        read(&meter, &pages, &mut last_error);
        let thread = thread::Builder::new().name("atp-telemetry".into()).spawn(move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                read(&meter, &pages, &mut last_error);
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

/// Writes the present values. A repeated error is logged once, and again after a success.
fn read(meter: &Meter, pages: &SnapshotPages, last_error: &mut Option<String>) {
    match meter.read(monotonic_ns()) {
        Ok(telemetry) => {
            pages.set_telemetry(&telemetry);
            *last_error = None;
        }
        Err(error) => {
            let error = error.to_string();
            if last_error.as_ref() != Some(&error) {
                tracing::warn!(%error, "can't read the counters of the programs");
            }
            *last_error = Some(error);
        }
    }
}

impl Drop for TelemetryThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread for counters has panicked");
        }
    }
}
