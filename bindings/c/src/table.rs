//! Handles: numbers that stand for objects. Every number is given out once.

use crate::status::{Failure, Outcome, atp_status::ATP_ERROR_HANDLE};
use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// The next handle of any kind. A handle of one kind is therefore none of another.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The objects of one kind.
pub struct Table<T> {
    /// In error messages.
    kind: &'static str,
    objects: LazyLock<RwLock<HashMap<u64, Arc<T>>>>,
}

impl<T> Table<T> {
    pub const fn new(kind: &'static str) -> Self {
        Self { kind, objects: LazyLock::new(RwLock::default) }
    }

    /// Adds an object and returns its handle, which isn't 0.
    pub fn add(&self, object: T) -> u64 {
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.insert(handle, Arc::new(object));
        handle
    }

    pub fn find(&self, handle: u64) -> Outcome<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(&handle).cloned().ok_or_else(|| self.stale(handle))
    }

    pub fn remove(&self, handle: u64) -> Outcome<Arc<T>> {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&handle).ok_or_else(|| self.stale(handle))
    }

    fn stale(&self, handle: u64) -> Failure {
        let kind = self.kind;
        let text = match handle {
            0 => format!("handle 0 is no {kind}: open it first"),
            _ => format!("handle {handle} is no open {kind}: it was freed, or is something else"),
        };
        Failure::new(ATP_ERROR_HANDLE, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find__refuses_stale_and_foreign_handles() {
        let (these, those) = (Table::new("number"), Table::new("text"));
        let (one, other) = (these.add(1), those.add("a"));
        assert_eq!(*these.find(one).unwrap(), 1);
        assert_eq!(*those.find(other).unwrap(), "a");
        assert_eq!(these.find(other).unwrap_err().status, ATP_ERROR_HANDLE);
        these.remove(one).unwrap();
        assert!(these.find(one).is_err() && these.remove(one).is_err());
        assert_ne!(these.add(2), one);
    }
}
