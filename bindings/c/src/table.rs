//! Handles: numbers that stand for objects. Every number is given out once.

use crate::{
    forks,
    status::{
        Failure, Outcome,
        atp_status::{ATP_ERROR_FORKED, ATP_ERROR_HANDLE},
    },
};
use std::{
    collections::HashMap,
    ptr::null_mut,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicPtr, AtomicU64, Ordering},
    },
};

/// The next handle of any kind. A handle of one kind is therefore none of another.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// Above these bits, a handle holds the number of forks before it.
const NUMBER_BITS: u32 = 48;

/// The objects of one kind.
pub struct Table<T> {
    /// In error messages.
    kind: &'static str,
    /// The shelf of this process; null before the first handle.
    shelf: AtomicPtr<Shelf<T>>,
}

/// The objects that one process has made. Shelves are never freed: a forked child must not touch
/// its parent's objects, nor a lock that another thread may have held.
struct Shelf<T> {
    forks: u64,
    objects: RwLock<HashMap<u64, Arc<T>>>,
    /// The parent's, for tools that look for lost memory.
    _parent: AtomicPtr<Self>,
}

impl<T: Send + Sync> Table<T> {
    pub const fn new(kind: &'static str) -> Self {
        Self { kind, shelf: AtomicPtr::new(null_mut()) }
    }

    /// Adds an object and returns its handle, which isn't 0.
    pub fn add(&self, object: T) -> u64 {
        let shelf = self.shelf();
        let handle = NEXT.fetch_add(1, Ordering::Relaxed) | shelf.forks << NUMBER_BITS;
        let mut objects = shelf.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.insert(handle, Arc::new(object));
        handle
    }

    pub fn find(&self, handle: u64) -> Outcome<Arc<T>> {
        let shelf = self.shelf_of(handle)?;
        let objects = shelf.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(&handle).cloned().ok_or_else(|| self.stale(handle))
    }

    pub fn remove(&self, handle: u64) -> Outcome<Arc<T>> {
        let shelf = self.shelf_of(handle)?;
        let mut objects = shelf.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.remove(&handle).ok_or_else(|| self.stale(handle))
    }

    /// Refuses handles from before a fork.
    fn shelf_of(&self, handle: u64) -> Outcome<&Shelf<T>> {
        let shelf = self.shelf();
        if handle == 0 || handle >> NUMBER_BITS >= shelf.forks {
            return Ok(shelf);
        }
        let kind = self.kind;
        let text = format!(
            "handle {handle} is no {kind} of this process, which was forked: only the parent can \
             use it; open another one"
        );
        Err(Failure::new(ATP_ERROR_FORKED, text))
    }

    fn shelf(&self) -> &Shelf<T> {
        loop {
            let forks = forks::counted();
            let found = self.shelf.load(Ordering::Acquire);
            // SAFETY: a shelf lives for ever.
            if let Some(shelf) = unsafe { found.as_ref() }
                && shelf.forks == forks
            {
                return shelf;
            }
            let (objects, _parent) = (RwLock::default(), AtomicPtr::new(found));
            let new = Box::into_raw(Box::new(Shelf { forks, objects, _parent }));
            let swapped =
                self.shelf.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire);
            if swapped.is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
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
