//! Numbers that stand for objects. Every number is given out once.

use crate::failure::{Failure, Outcome};
use std::{
    collections::HashMap,
    sync::{
        Arc, LazyLock, PoisonError, RwLock,
        atomic::{AtomicI64, Ordering},
    },
};

/// The next number of any kind. A number of one kind is therefore none of another.
static NEXT: AtomicI64 = AtomicI64::new(1);

/// The objects of one kind.
pub struct Table<T> {
    /// In error messages.
    kind: &'static str,
    objects: LazyLock<RwLock<HashMap<i64, Arc<T>>>>,
}

impl<T> Table<T> {
    pub const fn new(kind: &'static str) -> Self {
        Self { kind, objects: LazyLock::new(RwLock::default) }
    }

    pub fn add(&self, object: T) -> i64 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.insert(number, Arc::new(object));
        number
    }

    pub fn find(&self, number: i64) -> Outcome<Arc<T>> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(&number).cloned().ok_or_else(|| Failure::closed(self.kind))
    }

    /// Removes an object, if it was not removed before. A call of another thread may still use it.
    pub fn remove(&self, number: i64) -> Option<Arc<T>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}
