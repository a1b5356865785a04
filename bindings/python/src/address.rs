//! Addresses of Python: "host:port" as text, and tuples of host and port.

use crate::arguments::{integer, shown};
use pyo3::{exceptions::PyTypeError, prelude::*};
use std::net::SocketAddr;

/// An address, "host:port" or a tuple of host and port, as the library takes it. The module
/// `socket` has tuples of four for IPv6: host, port, flow, and the index of a link-local address's
/// interface.
pub fn given(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = value.extract::<String>() {
        return Ok(text);
    }
    let four = value.extract::<(String, Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>)>();
    let (host, port) = match four {
        Ok((host, port, _, scope)) => {
            let scope = integer("the scope of an address", &scope, u32::MAX.into())?;
            let is_named = scope == 0 || host.contains('%');
            (if is_named { host } else { format!("{host}%{scope}") }, port)
        }
        Err(_) => value.extract().map_err(|_| {
            PyTypeError::new_err(format!(
                "an address must be \"host:port\" or a tuple of host and port, not {}",
                shown(value)
            ))
        })?,
    };
    let port = integer("the port of an address", &port, u16::MAX.into())?;
    // An IPv6 address has colons of its own.
    let is_ipv6 = host.contains(':');
    Ok(if is_ipv6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// Host and port. The host of a link-local address has its interface, as in `fe80::1%2`, which the
/// module `socket` takes too.
pub fn pair(address: SocketAddr) -> (String, u16) {
    let host = match address {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        _ => address.ip().to_string(),
    };
    (host, address.port())
}
