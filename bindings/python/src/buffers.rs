//! Python's buffers as messages: memory of any object with the buffer protocol.

use crate::errors::raise;
use approxlib::Error;
use pyo3::{
    exceptions::{PyMemoryError, PyTypeError},
    ffi,
    prelude::*,
    types::{PyBytes, PyMemoryView},
};
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
    /// A copy of an exporter's bytes that aren't in one piece.
    Copied(Vec<u8>),
}

impl Buffer {
    /// The bytes of a Python object. Memory of more than `bytes_max` is refused before any copy: a
    /// stride of 0 makes an array of any length from one byte.
    pub fn new(object: &Bound<'_, PyAny>, bytes_max: usize) -> PyResult<Self> {
        refuse_pointers(object)?;
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
            Err(_) => Memory::Copied(in_one_piece(object, bytes_max)?),
        };
        let buffer = Self(Arc::new(memory));
        check_len(object.py(), buffer.len(), bytes_max)?;
        Ok(buffer)
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

/// Elements of numpy's type `object` are addresses of this process, which no receiver can use.
fn refuse_pointers(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let holds_pointers = if object.is_exact_instance_of::<PyBytes>() {
        false
    } else if object.is_instance_of::<PyMemoryView>() {
        object.getattr("format")?.extract::<String>()?.contains('O')
    } else {
        let kind = object.getattr_opt("dtype")?;
        let has_object = kind.map(|kind| kind.getattr_opt("hasobject")).transpose()?.flatten();
        has_object.is_some_and(|has| has.is_truthy().unwrap_or(false))
    };
    if holds_pointers {
        return Err(PyTypeError::new_err(
            "a message must be bytes, not an array of Python objects: give its elements one type, \
             such as numpy.float32",
        ));
    }
    Ok(())
}

pub fn check_len(py: Python<'_>, bytes: usize, bytes_max: usize) -> PyResult<()> {
    if bytes <= bytes_max { Ok(()) } else { Err(raise(py, Error::TooLarge { bytes, bytes_max })) }
}

/// A copy of an array whose elements aren't side by side, in the order of C.
fn in_one_piece(object: &Bound<'_, PyAny>, bytes_max: usize) -> PyResult<Vec<u8>> {
    let py = object.py();
    let Exported(mut node) = export(object, ffi::PyBUF_FULL_RO)?;
    let copied =
        check_len(py, node.view.len as usize, bytes_max).and_then(|()| copy(py, &node.view));
    // SAFETY: the GIL is held, and this buffer was filled and not released before.
    unsafe { ffi::PyBuffer_Release(&mut node.view) };
    copied
}

fn copy(py: Python<'_>, view: &ffi::Py_buffer) -> PyResult<Vec<u8>> {
    let (len, mut bytes) = (view.len as usize, Vec::<u8>::new());
    let no_room = || PyMemoryError::new_err(format!("no memory for a message of {len} bytes"));
    bytes.try_reserve_exact(len).map_err(|_| no_room())?;
    // SAFETY: `view` is a filled buffer, and `bytes` has room for its length.
    let done =
        unsafe { ffi::PyBuffer_ToContiguous(bytes.as_mut_ptr().cast(), view, view.len, b'C' as _) };
    if done != 0 {
        let error = PyErr::fetch(py);
        // Python takes memory for a row of its own, and doesn't say how much.
        return Err(if error.is_instance_of::<PyMemoryError>(py) { no_room() } else { error });
    }
    // SAFETY: the call has filled all of them.
    unsafe { bytes.set_len(len) };
    Ok(bytes)
}
