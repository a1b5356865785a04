//! Reads whole frames from a link and sends them on it.

use anyhow::Result;
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

/// A socket on an interface of the calling thread's network that reads every frame in both
/// directions.
pub fn listen(interface: &str) -> Result<Socket> {
    open(interface, libc::ETH_P_ALL as u16)
}

/// A socket on an interface of the calling thread's network that only sends.
pub fn sender(interface: &str) -> Result<Socket> {
    open(interface, 0)
}

fn open(interface: &str, protocol: u16) -> Result<Socket> {
    let protocol = protocol.to_be();
    let kind = Some(Protocol::from(i32::from(protocol)));
    let socket = Socket::new(Domain::PACKET, Type::RAW, kind)?;
    socket.bind(&address(if_nametoindex(interface)?, protocol))?;
    Ok(socket)
}

fn address(interface: u32, protocol: u16) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: the storage is large and aligned enough for every kind of socket address, and all
    // bit patterns of a sockaddr_ll are valid.
    let link = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    link.sll_family = libc::AF_PACKET as u16;
    link.sll_protocol = protocol;
    link.sll_ifindex = interface as i32;
    // SAFETY: `storage` holds a complete sockaddr_ll.
    unsafe { SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as libc::socklen_t) }
}
