//! Reads the ends of partitions for their lag: a consumer knows no new end of a paused partition.

use super::assignment::{Assignment, Key};
use crate::client::Inquirer;
use rdkafka::consumer::Consumer;
use std::{
    io,
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long the brokers may take for an answer.
const ANSWER: Duration = Duration::from_secs(1);

/// The thread. Dropping it ends it.
pub struct Ends {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ends {
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(inquirer: Inquirer, assignment: Arc<Assignment>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let run = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                look(&inquirer, &assignment);
            }
        };
        let thread = thread::Builder::new().name("ends".into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn look(inquirer: &Inquirer, assignment: &Assignment) {
    let keys: Vec<Key> = assignment.state().partitions.keys().cloned().collect();
    for (topic, number) in keys {
        // While the brokers are away, the last ends stay: the next question is soon enough.
        let Ok((_, end)) = inquirer.fetch_watermarks(&topic, number, ANSWER) else { return };
        if let Some(partition) = assignment.state().partitions.get_mut(&(topic, number)) {
            partition.end = u64::try_from(end).ok();
        }
    }
}
