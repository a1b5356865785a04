//! A received message: an object whose buffer is the memory that the library received it into.

use crate::stub::stub;
use crate::{address, exceptions};
use pyo3::{
    exceptions::{PyBufferError, PyMemoryError},
    ffi,
    prelude::*,
    types::{PyBytes, PyMemoryView},
};
use std::{
    ffi::c_int,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

#[doc = stub!(Message)]
#[pyclass(frozen, module = "atp")]
pub struct Message {
    source: SocketAddr,
    #[doc = stub!(Message.job)]
    #[pyo3(get)]
    job: u32,
    #[doc = stub!(Message.run)]
    #[pyo3(get)]
    run: u64,
    #[doc = stub!(Message.window)]
    #[pyo3(get)]
    window: u32,
    #[doc = stub!(Message.group)]
    #[pyo3(get)]
    group: u8,
    #[doc = stub!(Message.message)]
    #[pyo3(get)]
    message: u32,
    memory: Mutex<Memory>,
}

struct Memory {
    /// `None` after `Receiver.recycle`.
    bytes: Option<Vec<u8>>,
    /// Views that Python holds.
    exports: usize,
}

impl Message {
    pub fn new(
        source: SocketAddr,
        (job, run): (u32, u64),
        window: u32,
        group: u8,
        message: u32,
        data: Vec<u8>,
    ) -> Self {
        let memory = Mutex::new(Memory { bytes: Some(data), exports: 0 });
        Self { source, job, run, window, group, message, memory }
    }

    /// Takes the memory away, unless a view holds it.
    pub fn recycle(&self) -> PyResult<Vec<u8>> {
        let taken = {
            let mut memory = self.memory();
            if memory.exports == 0 { Some(memory.bytes.take()) } else { None }
        };
        match taken {
            Some(bytes) => bytes.ok_or_else(exceptions::recycled),
            None => Err(PyBufferError::new_err(
                "the message can't be recycled: a view or an array still uses its memory",
            )),
        }
    }

    /// Gives memory back that `recycle` took.
    pub fn restore(&self, bytes: Vec<u8>) {
        self.memory().bytes = Some(bytes);
    }

    /// Counts a view that has ended.
    fn release(&self) {
        let mut memory = self.memory();
        memory.exports = memory.exports.saturating_sub(1);
    }

    // With the GIL held, as every call here is, it is free at once. An exception is made without
    // it: Python may run other code meanwhile.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Message {
    #[classattr]
    fn __match_args__() -> (&'static str,) {
        ("data",)
    }

    #[doc = stub!(Message.source)]
    #[getter]
    fn source(&self) -> (String, u16) {
        address::pair(self.source)
    }

    #[doc = stub!(Message.data)]
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf)
    }

    fn __len__(&self) -> PyResult<usize> {
        let len = self.memory().bytes.as_ref().map(Vec::len);
        len.ok_or_else(exceptions::recycled)
    }

    // An empty message is a message.
    fn __bool__(&self) -> bool {
        true
    }

    fn __bytes__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        // The view keeps the memory while Python makes the object.
        Ok(Self::data(slf)?.call_method0("tobytes")?.cast_into()?)
    }

    fn __repr__(&self) -> String {
        let Self { source, job, window, group, message, .. } = self;
        let size = self.memory().bytes.as_ref().map_or("recycled".to_owned(), |bytes| {
            let len = bytes.len();
            format!("{len} bytes")
        });
        format!(
            "<atp.Message {message} of group {group}, window {window}, job {job} from {source}: \
             {size}>"
        )
    }

    /// # Safety
    /// Python gives a view to fill.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = {
            let mut memory = slf.get().memory();
            let bytes = memory.bytes.as_ref().map(|bytes| (bytes.as_ptr(), bytes.len() as isize));
            memory.exports += usize::from(bytes.is_some());
            bytes
        };
        let Some((data, len)) = bytes else {
            // SAFETY: the protocol asks for a null object after an error.
            unsafe { (*view).obj = std::ptr::null_mut() };
            return Err(exceptions::recycled());
        };
        // SAFETY: `data` holds `len` bytes until the count of exports is 0 and the message is
        // recycled or dropped; the view keeps the message.
        let done = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), data.cast_mut().cast(), len, 1, flags)
        };
        if done != 0 {
            slf.get().release();
            let missing = || PyMemoryError::new_err("the view can't be made");
            return Err(PyErr::take(slf.py()).unwrap_or_else(missing));
        }
        Ok(())
    }

    /// # Safety
    /// Python gives a view that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.release();
    }
}
