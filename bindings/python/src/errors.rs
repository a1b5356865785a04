//! approxlib's errors as Python's exceptions, which `atp/_errors.py` defines.

use crate::{address, exceptions::make, types};
use approxlib::{Error, ShortCause, Shortfall};
use pyo3::{prelude::*, types::PyDict};
use std::io;

/// The exception of an error.
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    let text = error.to_string();
    raise_with(py, error, text)
}

/// The exception of an error, with a text that says more.
pub fn raise_with(py: Python<'_>, error: Error, text: String) -> PyErr {
    let attributes = PyDict::new(py);
    let filled = class_and_attributes(py, error, &attributes);
    filled.and_then(|class| make(py, class, text, &attributes)).unwrap_or_else(|error| error)
}

/// The name of the error's exception. Sets the attributes of the exception.
fn class_and_attributes(
    py: Python<'_>,
    error: Error,
    attributes: &Bound<'_, PyDict>,
) -> PyResult<&'static str> {
    Ok(match error {
        Error::Msr(_) | Error::RequestBounds { .. } => "MsrError",
        Error::GroupName(_) => "OptionsError",
        Error::NoMessages => "NoMessagesError",
        Error::TooLarge { bytes, bytes_max } => {
            attributes.set_item("bytes", bytes)?;
            attributes.set_item("bytes_max", bytes_max)?;
            "TooLargeError"
        }
        Error::NoPeers => "NoPeersError",
        Error::NoGroup(group) => {
            attributes.set_item("group", group)?;
            "NoGroupError"
        }
        Error::Ended => "EndedError",
        Error::EndedByReceiver => "EndedByReceiverError",
        Error::WindowEnding => "WindowEndingError",
        Error::MsrRefused(_) => "MsrRefusedError",
        Error::TooMany { messages } => {
            attributes.set_item("messages", messages)?;
            "TooManyError"
        }
        Error::Options(_) => "OptionsError",
        Error::Name { source, .. } => system(attributes, &source, "NameResolutionError")?,
        Error::Peer(_) => "PeerError",
        Error::RateMax(_) => "RateMaxError",
        Error::PathTooNarrow { .. } => "PathTooNarrowError",
        Error::Socket { source, .. } => system(attributes, &source, "SocketError")?,
        Error::Daemon(_) => "DaemonError",
        Error::SharedMemory(source) => system(attributes, &source, "SharedMemoryError")?,
        Error::Thread(source) => system(attributes, &source, "ThreadError")?,
        Error::Short(shortfall) => {
            short(py, *shortfall, attributes)?;
            "ShortError"
        }
        // Of a newer approxlib.
        _ => "Error",
    })
}

/// Sets the kernel's error number.
fn system(
    attributes: &Bound<'_, PyDict>,
    source: &io::Error,
    class: &'static str,
) -> PyResult<&'static str> {
    attributes.set_item("errno", source.raw_os_error())?;
    Ok(class)
}

fn short(py: Python<'_>, shortfall: Shortfall, attributes: &Bound<'_, PyDict>) -> PyResult<()> {
    let Shortfall { peer, cause, groups, report } = shortfall;
    attributes.set_item("peer", address::pair(peer))?;
    attributes.set_item("cause", cause_name(&cause))?;
    let (port, host) = match cause {
        ShortCause::PeerSilent { port_unreachable, host_unreachable, .. } => {
            (port_unreachable, host_unreachable)
        }
        _ => (false, false),
    };
    attributes.set_item("port_unreachable", port)?;
    attributes.set_item("host_unreachable", host)?;
    attributes.set_item("groups", types::short_groups(py, &groups)?)?;
    attributes.set_item("report", types::report(py, &report)?)
}

fn cause_name(cause: &ShortCause) -> &'static str {
    match cause {
        ShortCause::PeerSilent { .. } => "peer_silent",
        ShortCause::NotReading { .. } => "not_reading",
        ShortCause::Refused(_) => "refused",
        ShortCause::NoRoom { .. } => "no_room",
        ShortCause::ReceiverLostState => "receiver_lost_state",
        ShortCause::PathNarrowed { .. } => "path_narrowed",
        ShortCause::CannotSend { .. } => "cannot_send",
        ShortCause::Abandoned => "abandoned",
        _ => "other",
    }
}
