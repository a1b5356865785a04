//! Python's buffers as messages: memory of any object with the buffer protocol.

use pyo3::{exceptions::PyTypeError, ffi, prelude::*};
use std::{
    mem,
    sync::{Arc, Mutex, PoisonError, TryLockError},
};

/// Messages of this length or longer are sent without a copy. Shorter ones are copied faster than
/// their buffers can be held and released.
pub const ZERO_COPY_BYTES: usize = 16 << 10;

/// Buffers that the library's threads no longer need. They hold at most what jobs held since
/// Python's last call, because every call empties it.
static PENDING: Mutex<Vec<Exported>> = Mutex::new(Vec::new());

/// A filled `Py_buffer`: the exporter keeps its memory in place until it is released.
struct Exported(Box<ffi::Py_buffer>);

// SAFETY: its memory may be read on any thread; `release_pending` alone releases it, with the GIL.
unsafe impl Send for Exported {}
// SAFETY: as above; nothing changes it while it is shared.
unsafe impl Sync for Exported {}

/// The bytes of a message.
#[derive(Clone)]
pub struct Buffer(Arc<Memory>);

enum Memory {
    /// `None` only while it is dropped.
    Exported(Option<Exported>),
    /// Of an exporter whose bytes aren't in one piece.
    Copied(Vec<u8>),
}

impl Buffer {
    /// The bytes of a Python object.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let memory = match export(object, ffi::PyBUF_SIMPLE) {
            Ok(exported) => Memory::Exported(Some(exported)),
            Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {
                return Err(PyTypeError::new_err(format!(
                    "a message must be bytes or another object with the buffer protocol, not {}: \
                     encode text with str.encode()",
                    object.get_type().name()?
                )));
            }
            // BufferError, or numpy's ValueError: its elements may not be side by side.
            Err(_) => Memory::Copied(in_one_piece(object)?),
        };
        Ok(Self(Arc::new(memory)))
    }

    pub fn len(&self) -> usize {
        self.as_ref().len()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        match &*self.0 {
            Memory::Exported(Some(Exported(view))) if view.len > 0 => {
                // SAFETY: the exporter keeps `len` bytes at `buf` until the buffer is released.
                unsafe { std::slice::from_raw_parts(view.buf.cast(), view.len as usize) }
            }
            Memory::Exported(_) => &[],
            Memory::Copied(bytes) => bytes,
        }
    }
}

impl Drop for Memory {
    // It runs on any thread, with or without the GIL.
    fn drop(&mut self) {
        if let Self::Exported(exported) = self
            && let Some(exported) = exported.take()
        {
            PENDING.lock().unwrap_or_else(PoisonError::into_inner).push(exported);
        }
    }
}

/// Gives buffers back to Python that are no longer needed.
pub fn release_pending(_py: Python<'_>) {
    let pending = match PENDING.try_lock() {
        Ok(mut pending) => mem::take(&mut *pending),
        Err(TryLockError::Poisoned(pending)) => mem::take(&mut *pending.into_inner()),
        // Another thread is just adding one. In a forked child it may never end.
        Err(TryLockError::WouldBlock) => return,
    };
    // An exporter's own code runs here: without the lock.
    for Exported(mut view) in pending {
        // SAFETY: the GIL is held, and this buffer was filled and not released before.
        unsafe { ffi::PyBuffer_Release(&mut *view) };
    }
}

fn export(object: &Bound<'_, PyAny>, flags: std::ffi::c_int) -> PyResult<Exported> {
    let mut view = Box::new(ffi::Py_buffer::new());
    // SAFETY: the GIL is held, and `view` is empty and stays at its address.
    match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut *view, flags) } {
        0 => Ok(Exported(view)),
        _ => Err(PyErr::fetch(object.py())),
    }
}

/// A copy of an array whose elements aren't side by side, in the order of C.
fn in_one_piece(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let Exported(mut view) = export(object, ffi::PyBUF_FULL_RO)?;
    let mut bytes = vec![0; view.len as usize];
    // SAFETY: `view` is a filled buffer, and `bytes` has room for its length.
    let done = unsafe {
        ffi::PyBuffer_ToContiguous(bytes.as_mut_ptr().cast(), &*view, view.len, b'C' as _)
    };
    let done = if done == 0 { Ok(bytes) } else { Err(PyErr::fetch(object.py())) };
    // SAFETY: the GIL is held, and this buffer was filled and not released before.
    unsafe { ffi::PyBuffer_Release(&mut *view) };
    done
}
