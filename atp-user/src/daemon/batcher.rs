//! Blocking work whose cost is a wait, and which can be done for many requests at once: requests
//! that come during a wait share the next one.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// Does `work` for keys, on threads that may block.
pub struct Batcher<T> {
    work: Arc<Work<T>>,
    batch_max: usize,
    waiting: Arc<Mutex<Vec<Request<T>>>>,
}

/// Returns one result for each key.
type Work<T> = dyn Fn(&[u32]) -> Vec<T> + Send + Sync;

struct Request<T> {
    key: u32,
    reply: oneshot::Sender<T>,
}

impl<T> Clone for Batcher<T> {
    fn clone(&self) -> Self {
        Self { work: self.work.clone(), batch_max: self.batch_max, waiting: self.waiting.clone() }
    }
}

impl<T: Send + 'static> Batcher<T> {
    /// No requests yet. A batch has at most `batch_max`.
    pub fn new(batch_max: usize, work: impl Fn(&[u32]) -> Vec<T> + Send + Sync + 'static) -> Self {
        Self { work: Arc::new(work), batch_max, waiting: Arc::default() }
    }

    /// The result for a key; `None` if the work panicked.
    pub async fn result(&self, key: u32) -> Option<T> {
        let (reply, result) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(Request { key, reply });
        let this = self.clone();
        // One task for each request: whichever thread is free first takes all that wait, and the
        // others find nothing left to do.
        tokio::task::spawn_blocking(move || this.work());
        result.await.ok()
    }

    fn work(&self) {
        let requests: Vec<_> = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let count = waiting.len().min(self.batch_max);
            waiting.drain(..count).collect()
        };
        if requests.is_empty() {
            return;
        }
        let keys: Vec<_> = requests.iter().map(|request| request.key).collect();
        for (request, result) in requests.into_iter().zip((self.work)(&keys)) {
            // Fails if the client has disconnected.
            request.reply.send(result).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        cell::Cell,
        rc::Rc,
        sync::{Mutex, mpsc},
    };
    use tokio::task::{LocalSet, spawn_local, yield_now};

    #[test]
    fn result__of_each_key_from_few_batches() {
        const BATCH_MAX: usize = 64;
        const KEYS: u32 = 3 * BATCH_MAX as u32;
        let (note, batches) = mpsc::channel();
        // The first batch ends once everything was asked for.
        let (all_asked, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let batcher = Batcher::new(BATCH_MAX, move |keys: &[u32]| {
            note.send(keys.len()).unwrap();
            let _: Result<(), _> = gate.lock().unwrap().recv();
            keys.iter().map(|key| key * 10).collect()
        });
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        let asked = Rc::new(Cell::new(0));
        LocalSet::new().block_on(&runtime, async {
            let all = (0..KEYS).map(|key| {
                let (batcher, asked) = (batcher.clone(), asked.clone());
                spawn_local(async move {
                    asked.set(asked.get() + 1);
                    (key, batcher.result(key).await)
                })
            });
            let all: Vec<_> = all.collect();
            while asked.get() < KEYS {
                yield_now().await;
            }
            drop(all_asked);
            for one in all {
                let (key, result) = one.await.unwrap();
                assert_eq!(result, Some(key * 10));
            }
        });
        drop((batcher, runtime));
        let sizes: Vec<_> = batches.iter().collect();
        assert_eq!(sizes.iter().sum::<usize>(), KEYS as usize);
        assert!(sizes.iter().all(|size| *size <= BATCH_MAX), "{sizes:?}");
        // One that began at once, and three of those that waited.
        assert!(sizes.len() <= 4, "{sizes:?}");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn result__none_if_the_work_panics() {
        let batcher: Batcher<u32> = Batcher::new(1, |_| panic!("on purpose"));
        assert_eq!(batcher.result(1).await, None);
        assert_eq!(batcher.result(2).await, None);
    }
}
