//! Reads a policy again while the daemon runs.

use super::{Policy, PolicyError};
use std::{future::pending, path::PathBuf};
use tokio::task::{JoinHandle, spawn_blocking};

/// The reader of a policy's file. Names in it can take long to look up, so it reads on a thread.
pub struct Reload {
    path: PathBuf,
    running: Option<JoinHandle<Result<Policy, PolicyError>>>,
}

impl Reload {
    /// A reader that hasn't begun.
    pub const fn new(path: PathBuf) -> Self {
        Self { path, running: None }
    }

    /// Begins to read the file, anew if it hasn't been read to its end.
    pub fn start(&mut self) {
        let path = self.path.clone();
        self.running = Some(spawn_blocking(move || Policy::load(&path)));
    }

    /// The policy, once it is read. A bad file is logged, and leaves things as they are.
    pub async fn finished(&mut self) -> Policy {
        loop {
            let Some(running) = &mut self.running else {
                pending::<()>().await;
                continue;
            };
            let read = running.await;
            self.running = None;
            match read {
                Ok(Ok(policy)) => {
                    policy.log();
                    return policy;
                }
                Ok(Err(error)) => tracing::error!("{error}; the policy before stays in force"),
                Err(error) => tracing::error!(%error, "can't read the policy"),
            }
        }
    }
}
