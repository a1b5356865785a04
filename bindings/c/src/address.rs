//! Addresses of senders and receivers.

use crate::status::{Failure, Outcome, atp_status, atp_status::ATP_ERROR_ARGUMENT, call_once};
use std::{
    ffi::c_char,
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
};

/// An address and a port. Its layout never changes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct atp_address {
    /// 4 or 6, for IPv4 or IPv6; 0 if there is no address.
    pub version: u16,
    /// The port, in the byte order of the host.
    pub port: u16,
    /// The scope of a link-local address of IPv6; 0 otherwise.
    pub scope: u32,
    /// The address in network byte order. IPv4 uses the first four bytes.
    pub ip: [u8; 16],
}

impl From<SocketAddr> for atp_address {
    fn from(address: SocketAddr) -> Self {
        let mut ip = [0; 16];
        let (version, scope) = match address {
            SocketAddr::V4(v4) => {
                ip[..4].copy_from_slice(&v4.ip().octets());
                (4, 0)
            }
            SocketAddr::V6(v6) => {
                ip = v6.ip().octets();
                (6, v6.scope_id())
            }
        };
        Self { version, port: address.port(), scope, ip }
    }
}

impl atp_address {
    pub fn socket_address(&self) -> Outcome<SocketAddr> {
        let Self { version, port, scope, ip } = *self;
        match version {
            4 => {
                let [a, b, c, d, ..] = ip;
                Ok(SocketAddr::new(IpAddr::from([a, b, c, d]), port))
            }
            6 => Ok(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into()),
            other => Err(Failure::new(
                ATP_ERROR_ARGUMENT,
                format!("an address has version 4 or 6, not {other}: is the structure filled in?"),
            )),
        }
    }
}

/// Writes an address as text, such as "10.0.0.2:4747" or "[fe80::1%2]:4747", with a 0 at its end.
/// 64 bytes suffice for every address; ATP_ERROR_ARGUMENT if `len` is too small.
///
/// # Safety
/// `address` is null or readable; `text` is null or has `len` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_address_text(
    address: *const atp_address,
    text: *mut c_char,
    len: usize,
) -> atp_status {
    call_once(|| {
        if address.is_null() || text.is_null() {
            return Err(Failure::null(if address.is_null() { "address" } else { "text" }));
        }
        // SAFETY: the caller promises that it is readable. Any bytes are an address.
        let shown = unsafe { address.read_unaligned() }.socket_address()?.to_string();
        if shown.len() >= len {
            let text = format!("{len} bytes are too few for {shown}: give 64");
            return Err(Failure::new(ATP_ERROR_ARGUMENT, text));
        }
        // SAFETY: the caller promises `len` bytes, which suffice for the text and the 0.
        unsafe {
            std::ptr::copy_nonoverlapping(shown.as_ptr(), text.cast(), shown.len());
            text.add(shown.len()).write(0);
        }
        Ok(())
    })
}
