//! Socket addresses as libc has them.

use crate::names::Ends;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket},
    ptr::from_ref,
};

/// Reads an address of IPv4 or IPv6.
///
/// # Safety
/// `at` is null, or readable for `len` bytes.
pub unsafe fn read(at: *const libc::sockaddr, len: usize) -> Option<SocketAddr> {
    if at.is_null() || len < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the family and, by the length, the structure of that family are readable.
    unsafe {
        match i32::from(at.cast::<libc::sa_family_t>().read_unaligned()) {
            libc::AF_INET if len >= size_of::<libc::sockaddr_in>() => {
                let v4 = at.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some((ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 if len >= size_of::<libc::sockaddr_in6>() => {
                let v6 = at.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let (port, scope) = (u16::from_be(v6.sin6_port), v6.sin6_scope_id);
                Some(SocketAddrV6::new(ip, port, 0, scope).into())
            }
            _ => None,
        }
    }
}

/// Writes an address for a socket of the family `domain`; its length.
pub fn write(address: SocketAddr, domain: i32) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zero is a valid `sockaddr_storage`.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    storage.ss_family = domain as libc::sa_family_t;
    let len = match domain {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        _ => size_of::<libc::sockaddr_in6>(),
    };
    // SAFETY: the storage holds an address of each family, and its family is written.
    unsafe { replace((&raw mut storage).cast(), len, address) };
    (storage, len as libc::socklen_t)
}

/// Replaces an address that the kernel wrote by another one, in the same family.
///
/// # Safety
/// `at` is writable for `len` bytes.
pub unsafe fn replace(at: *mut libc::sockaddr, len: usize, by: SocketAddr) {
    // SAFETY: the caller promises the memory; the kernel has written the family.
    unsafe {
        let family = i32::from(at.cast::<libc::sa_family_t>().read_unaligned());
        match (family, by.ip()) {
            (libc::AF_INET, IpAddr::V4(ip)) if len >= size_of::<libc::sockaddr_in>() => {
                let mut v4 = at.cast::<libc::sockaddr_in>().read_unaligned();
                v4.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
                v4.sin_port = by.port().to_be();
                at.cast::<libc::sockaddr_in>().write_unaligned(v4);
            }
            (libc::AF_INET6, ip) if len >= size_of::<libc::sockaddr_in6>() => {
                let ip = match ip {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => v6,
                };
                let mut v6 = at.cast::<libc::sockaddr_in6>().read_unaligned();
                v6.sin6_addr.s6_addr = ip.octets();
                v6.sin6_port = by.port().to_be();
                if let SocketAddr::V6(by) = by {
                    v6.sin6_scope_id = by.scope_id();
                }
                at.cast::<libc::sockaddr_in6>().write_unaligned(v6);
            }
            _ => {}
        }
    }
}

/// The address of a socket's end, which `ask` (getsockname or getpeername) reads.
pub fn of_socket(
    fd: i32,
    ask: unsafe fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32,
) -> Option<SocketAddr> {
    // SAFETY: all zero is a valid `sockaddr_storage`.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&storage) as libc::socklen_t;
    // SAFETY: the memory is there and `len` is its length.
    let done = unsafe { ask(fd, (&raw mut storage).cast(), &raw mut len) };
    // SAFETY: as above.
    (done == 0).then(|| unsafe { read(from_ref(&storage).cast(), len as usize) })?
}

/// The number of an option of the socket level.
pub fn option(fd: i32, name: i32) -> Option<i32> {
    option_of(fd, libc::SOL_SOCKET, name)
}

/// The number of an option of a level.
pub fn option_of(fd: i32, level: i32, name: i32) -> Option<i32> {
    let (mut value, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the memory is there and `len` is its length.
    let done = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    (done == 0).then_some(value)
}

/// The address that the kernel sends from to `peer`.
pub fn source_to(peer: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Gives each descriptor that came with a message to `take`, which returns its new number.
///
/// # Safety
/// The kernel has written the message.
pub unsafe fn each_descriptor(message: &libc::msghdr, take: impl Fn(i32) -> i32) {
    // SAFETY: the kernel wrote the control messages, and the lengths.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = head.as_ref() {
            if (control.cmsg_level, control.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let first = libc::CMSG_DATA(head).cast::<i32>();
                let bytes = control.cmsg_len - libc::CMSG_LEN(0) as usize;
                for index in 0..bytes / size_of::<i32>() {
                    let fd = first.add(index);
                    fd.write_unaligned(take(fd.read_unaligned()));
                }
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
}

/// The index of the interface with an address; 0 if there is none.
pub fn interface_of(ip: IpAddr) -> u32 {
    let mut first = std::ptr::null_mut();
    // SAFETY: the list is the kernel's, and freed once.
    unsafe {
        if libc::getifaddrs(&raw mut first) != 0 {
            return 0;
        }
        let (mut next, mut index) = (first, 0);
        while let Some(interface) = next.as_ref() {
            let len = size_of::<libc::sockaddr_in6>();
            if read(interface.ifa_addr, len).is_some_and(|address| address.ip() == ip) {
                index = libc::if_nametoindex(interface.ifa_name);
                break;
            }
            next = interface.ifa_next;
        }
        libc::freeifaddrs(first);
        index
    }
}

/// Puts the address at which a datagram has arrived in the place of the loopback's.
///
/// # Safety
/// The kernel has written the message.
pub unsafe fn replace_destination(message: &libc::msghdr, ends: &Ends) {
    // SAFETY: the kernel wrote the control messages, and each has the type of its kind.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = head.as_ref() {
            let data = libc::CMSG_DATA(head);
            // The kernel cuts a message for which the program has too little room.
            let has_room = |bytes: usize| control.cmsg_len >= libc::CMSG_LEN(bytes as u32) as usize;
            match (control.cmsg_level, control.cmsg_type, ends.local.ip()) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO, IpAddr::V4(ip))
                    if has_room(size_of::<libc::in_pktinfo>()) =>
                {
                    let address = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
                    data.cast::<libc::in_pktinfo>().write_unaligned(libc::in_pktinfo {
                        ipi_ifindex: ends.interface as i32,
                        ipi_spec_dst: address,
                        ipi_addr: address,
                    });
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, ip)
                    if has_room(size_of::<libc::in6_pktinfo>()) =>
                {
                    let ip = match ip {
                        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                        IpAddr::V6(v6) => v6,
                    };
                    data.cast::<libc::in6_pktinfo>().write_unaligned(libc::in6_pktinfo {
                        ipi6_addr: libc::in6_addr { s6_addr: ip.octets() },
                        ipi6_ifindex: ends.interface,
                    });
                }
                _ => {}
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
}

/// Whether the descriptor is a socket of UDP.
pub fn is_udp(fd: i32) -> bool {
    option_of(fd, libc::IPPROTO_UDP, libc::UDP_CORK).is_some()
}

/// Whether the descriptor is a socket of TCP.
pub fn is_tcp(fd: i32) -> bool {
    option(fd, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
}
