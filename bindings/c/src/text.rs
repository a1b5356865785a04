//! Texts and lists that the caller passes.

use crate::status::{
    Failure, Outcome,
    atp_status::{ATP_ERROR_ARGUMENT, ATP_ERROR_TEXT},
};
use std::{
    ffi::{CStr, OsStr, c_char},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// The text at `at`, called `name` in errors.
///
/// # Safety
/// `at` is null or a text that ends with 0 and stays as it is for `'a`.
pub unsafe fn text<'a>(at: *const c_char, name: &str) -> Outcome<&'a str> {
    // SAFETY: the caller promises the same.
    unsafe { optional_text(at, name) }?.ok_or_else(|| Failure::null(name))
}

/// As [`text`]; `None` if it is null.
///
/// # Safety
/// As [`text`].
pub unsafe fn optional_text<'a>(at: *const c_char, name: &str) -> Outcome<Option<&'a str>> {
    if at.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises a text that ends with 0.
    let bytes = unsafe { CStr::from_ptr(at) };
    let invalid = |_| {
        let shown = bytes.to_string_lossy();
        Failure::new(ATP_ERROR_TEXT, format!("{name} {shown:?} is not UTF-8: encode it as UTF-8"))
    };
    bytes.to_str().map(Some).map_err(invalid)
}

/// The path at `at`, which may hold any bytes; `None` if it is null.
///
/// # Safety
/// As [`text`].
pub unsafe fn optional_path(at: *const c_char) -> Option<PathBuf> {
    // SAFETY: the caller promises a text that ends with 0.
    let path = (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) })?;
    Some(OsStr::from_bytes(path.to_bytes()).into())
}

/// The `len` elements at `at`, called `name` in errors.
///
/// # Safety
/// `at` is null, or has `len` elements that stay as they are for `'a`.
pub unsafe fn list<'a, T>(at: *const T, len: usize, name: &str) -> Outcome<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return Err(Failure::null(name));
    }
    let fits = len.checked_mul(size_of::<T>()).is_some_and(|bytes| {
        isize::try_from(bytes).is_ok() && at.addr().checked_add(bytes).is_some()
    });
    if !fits || !at.is_aligned() {
        let text = format!("{name} has {len} elements at {at:?}, which no memory holds");
        return Err(Failure::new(ATP_ERROR_ARGUMENT, text));
    }
    // SAFETY: it is neither null nor misaligned, and the caller promises the elements.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}
