//! Records as librdkafka hands them over.

use approx_windows::RecordRef;
use rdkafka::{
    Message,
    bindings::{rd_kafka_header_get_all, rd_kafka_headers_t, rd_kafka_message_headers},
    error::IsError,
    message::BorrowedMessage,
};
use std::{
    ffi::{CStr, c_void},
    ptr, slice,
};

/// A header's name and value.
type Header<'a> = (&'a str, Option<&'a [u8]>);

/// The name of headers whose names are no text.
const NO_TEXT: &str = "(not UTF-8)";

/// The record of a message.
pub fn record<'a>(message: &'a BorrowedMessage<'_>) -> RecordRef<'a> {
    RecordRef {
        // Offsets of records that were read are never negative.
        offset: message.offset().max(0) as u64,
        timestamp_ms: message.timestamp().to_millis(),
        key: message.key(),
        value: message.payload(),
        headers: headers(message),
    }
}

/// The headers. rdkafka's own method panics for names that are no UTF-8, which any producer can
/// send.
fn headers<'a>(message: &'a BorrowedMessage<'_>) -> Vec<Header<'a>> {
    let mut list: *mut rd_kafka_headers_t = ptr::null_mut();
    // SAFETY: the message is alive, and keeps the list.
    if unsafe { rd_kafka_message_headers(message.ptr(), &mut list) }.is_error() {
        return Vec::new();
    }
    let mut headers = Vec::new();
    loop {
        let (mut name, mut value, mut bytes) = (ptr::null(), ptr::null::<c_void>(), 0usize);
        let index = headers.len();
        // SAFETY: the list is the message's. The call checks the index.
        let found =
            unsafe { rd_kafka_header_get_all(list, index, &mut name, &mut value, &mut bytes) };
        if found.is_error() {
            return headers;
        }
        // SAFETY: librdkafka ends names with a zero. They live as long as the message.
        let name: &'a CStr = unsafe { CStr::from_ptr(name) };
        let value = (!value.is_null()).then(|| {
            // SAFETY: that many bytes are there, as long as the message is.
            unsafe { slice::from_raw_parts(value.cast::<u8>(), bytes) }
        });
        headers.push((name.to_str().unwrap_or(NO_TEXT), value));
    }
}
