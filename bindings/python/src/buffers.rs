//! Python's buffers as messages: memory of any object with the buffer protocol.

use pyo3::{exceptions::PyTypeError, ffi, prelude::*};
use std::{
    mem, ptr,
    sync::{
        Arc,
        atomic::{AtomicPtr, Ordering},
    },
};

/// Messages of this length or longer are sent without a copy. Shorter ones are copied faster than
/// their buffers can be held and released.
pub const ZERO_COPY_BYTES: usize = 16 << 10;

/// The newest of the buffers that the library's threads no longer need. They hold at most what jobs
/// held since Python's last call, because every call empties it. A list without a lock: after a
/// fork, a lock might be held for ever.
static PENDING: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());

/// A filled `Py_buffer`: the exporter keeps its memory in place until it is released.
struct Exported(Box<Node>);

struct Node {
    view: ffi::Py_buffer,
    /// The next pending one.
    next: *mut Node,
}

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

    /// Whether the program may change the bytes while they are sent.
    pub fn is_writable(&self) -> bool {
        matches!(&*self.0, Memory::Exported(Some(Exported(node))) if node.view.readonly == 0)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        match &*self.0 {
            Memory::Exported(Some(Exported(node))) if node.view.len > 0 => {
                let view = &node.view;
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
            push(exported);
        }
    }
}

fn push(Exported(mut node): Exported) {
    node.next = PENDING.load(Ordering::Relaxed);
    let node = Box::into_raw(node);
    loop {
        // SAFETY: `node` is this call's alone until the exchange succeeds.
        let next = unsafe { &mut (*node).next };
        match PENDING.compare_exchange_weak(*next, node, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(newest) => *next = newest,
        }
    }
}

/// Gives buffers back to Python that are no longer needed.
pub fn release_pending(_py: Python<'_>) {
    let mut newest = PENDING.swap(ptr::null_mut(), Ordering::Acquire);
    while !newest.is_null() {
        // SAFETY: `push` made it of a box, and the exchange above has taken it for this call alone.
        let mut node = unsafe { Box::from_raw(newest) };
        newest = mem::replace(&mut node.next, ptr::null_mut());
        // SAFETY: the GIL is held, and this buffer was filled and not released before.
        unsafe { ffi::PyBuffer_Release(&mut node.view) };
    }
}

fn export(object: &Bound<'_, PyAny>, flags: std::ffi::c_int) -> PyResult<Exported> {
    let mut node = Box::new(Node { view: ffi::Py_buffer::new(), next: ptr::null_mut() });
    // SAFETY: the GIL is held, and `view` is empty and stays at its address.
    match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut node.view, flags) } {
        0 => Ok(Exported(node)),
        _ => Err(PyErr::fetch(object.py())),
    }
}

/// A copy of an array whose elements aren't side by side, in the order of C.
fn in_one_piece(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let Exported(mut node) = export(object, ffi::PyBUF_FULL_RO)?;
    let view = &mut node.view;
    let mut bytes = vec![0; view.len as usize];
    // SAFETY: `view` is a filled buffer, and `bytes` has room for its length.
    let done = unsafe {
        ffi::PyBuffer_ToContiguous(bytes.as_mut_ptr().cast(), &raw const *view, view.len, b'C' as _)
    };
    let done = if done == 0 { Ok(bytes) } else { Err(PyErr::fetch(object.py())) };
    // SAFETY: the GIL is held, and this buffer was filled and not released before.
    unsafe { ffi::PyBuffer_Release(view) };
    done
}
