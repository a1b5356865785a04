//! The pull queue of a host (Handley et al., SIGCOMM 2017, §3.2), shared by all flows that end at
//! the host.
//!
//! It serves flows round-robin, so that the requested data arrives at the rate of the line and in
//! equal shares. It skips a flow that has nothing to request, and the others get its share (§6.2,
//! "Sender-limited traffic").

use super::EndpointId;
use crate::net::duration_ps;
use std::collections::BTreeSet;

/// The endpoints that want to pull, and the time of the next pull.
#[derive(Debug, Default)]
pub struct PullQueue {
    waiting: BTreeSet<EndpointId>,
    /// The endpoint that pulled last.
    last: EndpointId,
    /// The time when the line has received the data of the last pull.
    free_ps: u64,
}

impl PullQueue {
    /// Adds or removes an endpoint.
    pub fn set(&mut self, id: EndpointId, wants: bool) {
        if wants {
            self.waiting.insert(id);
        } else {
            self.waiting.remove(&id);
        }
    }

    /// Whether a pull may be sent at once: no endpoint waits, and the last pull's time is over.
    pub fn is_free(&self, now_ps: u64) -> bool {
        self.waiting.is_empty() && self.free_ps <= now_ps
    }

    /// The endpoint that may pull now: the next one after the last. `None` if none may.
    pub fn next(&self, now_ps: u64) -> Option<EndpointId> {
        if self.free_ps > now_ps {
            return None;
        }
        self.waiting.range(self.last + 1..).next().or_else(|| self.waiting.first()).copied()
    }

    /// Records that endpoint `id` pulled data of `wire_bytes` bytes on the wire.
    pub fn note(&mut self, now_ps: u64, id: EndpointId, wire_bytes: u32, bits_per_s: u64) {
        self.last = id;
        self.free_ps = now_ps + duration_ps(wire_bytes, bits_per_s);
    }

    /// Time of the next pull. `None` if no endpoint wants one.
    pub fn due_ps(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.free_ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBIT: u64 = 1_000_000_000;

    /// SIGCOMM 2017, §3.2: round-robin at the rate of the line, without endpoints that want
    /// nothing.
    #[test]
    fn pull_queue__is_round_robin() {
        let mut queue = PullQueue::default();
        assert!(queue.is_free(0));
        for id in [3, 5, 9] {
            queue.set(id, true);
        }
        let mut now_ps = 0;
        let mut order = Vec::new();
        for step in 0..9 {
            if step == 5 {
                queue.set(5, false);
            }
            assert!(!queue.is_free(now_ps));
            assert!(now_ps == 0 || queue.next(now_ps - 1).is_none());
            let id = queue.next(now_ps).unwrap();
            queue.note(now_ps, id, 1_500, 10 * GBIT);
            order.push(id);
            now_ps += 1_200_000;
            assert_eq!(queue.due_ps(), Some(now_ps));
        }
        assert_eq!(order, [3, 5, 9, 3, 5, 9, 3, 9, 3]);
        queue.set(3, false);
        queue.set(9, false);
        assert_eq!(queue.due_ps(), None);
    }
}
