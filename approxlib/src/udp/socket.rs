//! A UDP socket with the options that ATP needs.

use crate::address::canonical;
use nix::{
    errno::Errno,
    sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg},
};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

/// The narrowest path that ATP uses: every host must take packets of this size (RFC 791), and on a
/// narrower path the headers would be most of a packet.
pub const PATH_MTU_BYTES_MIN: usize = 576;

/// The receive buffer that the library requests (SO_RCVBUF), bytes. The kernel doubles it: about
/// 7,000 packets of 1,400 bytes fit. Without CAP_NET_ADMIN `net.core.rmem_max` limits it.
pub const RECEIVE_BUFFER_BYTES: i32 = 8 << 20;

/// A UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    v6: bool,
}

/// Errors from a socket's error queue. A job's error message cites them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketErrors {
    /// The peer's host answered that nothing listens on the port.
    pub port_unreachable: bool,
    /// A router or this host answered that the peer's host can't be reached.
    pub host_unreachable: bool,
    /// This host itself answered so: it found no neighbor, so a packet never left.
    pub host_unreachable_from_here: bool,
    /// The path MTU that a router reported, bytes with IP header.
    pub mtu_bytes: Option<u32>,
}

impl UdpSocket {
    /// A socket that sends to `peer` and receives from no other address.
    pub fn connect(peer: SocketAddr) -> io::Result<Self> {
        let peer = canonical(peer);
        let this = Self::new(peer.ip())?;
        // Reports a local drop as ENOBUFS at once, and queues ICMP errors. Without this option both
        // look like loss in the network.
        match this.v6 {
            false => this.set(libc::IPPROTO_IP, libc::IP_RECVERR, 1)?,
            true => this.set(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?,
        }
        this.never_fragment()?;
        this.enlarge_receive_buffer();
        this.socket.connect(&peer.into())?;
        Ok(this)
    }

    /// A socket that receives at `local`; an IPv6 wildcard takes IPv4 too.
    pub fn bind(local: SocketAddr) -> io::Result<Self> {
        let this = Self::new(local.ip())?;
        if this.v6 {
            this.socket.set_only_v6(false)?;
            this.set(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        }
        // On a dual-stack socket this option covers the IPv4 packets.
        this.set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        if local.ip().to_canonical().is_unspecified() {
            this.tell_destinations()?;
        }
        // Best effort: without GRO the kernel delivers packets one by one.
        let _ = this.set(libc::SOL_UDP, libc::UDP_GRO, 1);
        this.enlarge_receive_buffer();
        this.socket.bind(&local.into())?;
        Ok(this)
    }

    fn new(ip: IpAddr) -> io::Result<Self> {
        let domain = if ip.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, v6: ip.is_ipv6() })
    }

    /// Asks the kernel for the destination of each packet.
    fn tell_destinations(&self) -> io::Result<()> {
        if self.v6 {
            self.set(libc::IPPROTO_IPV6, libc::IPV6_RECVORIGDSTADDR, 1)?;
        }
        // On a dual-stack socket this option covers the IPv4 packets.
        self.set(libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR, 1)
    }

    /// Asks the kernel for the arrival interface of each packet.
    pub fn tell_interfaces(&self) -> io::Result<()> {
        match self.v6 {
            // On a dual-stack socket this option covers the IPv4 packets.
            true => self.set(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
            false => self.set(libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        }
    }

    /// The address that the socket is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?;
        address.as_socket().ok_or_else(|| io::Error::other("not an IP address"))
    }

    /// Whether packets travel over IPv6. A dual-stack socket counts as IPv6.
    pub const fn is_v6(&self) -> bool {
        self.v6
    }

    /// Bytes of the IP and UDP headers.
    pub const fn overhead_bytes(&self) -> usize {
        if self.v6 { 40 + 8 } else { 20 + 8 }
    }

    /// The path MTU as far as this host knows it, bytes with IP header.
    pub fn path_mtu_bytes(&self) -> Option<usize> {
        let mtu = match self.v6 {
            false => self.read(libc::IPPROTO_IP, libc::IP_MTU),
            true => self.read(libc::IPPROTO_IPV6, libc::IPV6_MTU),
        };
        mtu.ok().and_then(|mtu| usize::try_from(mtu).ok())
    }

    /// Limits the packets that wait in the socket and in the queueing discipline below it to
    /// `bytes` in total, counted by the kernel's true size (`truesize`).
    pub fn set_send_buffer(&self, bytes: usize) -> io::Result<()> {
        // The kernel doubles the value.
        self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, i32::try_from(bytes / 2).unwrap_or(i32::MAX))
    }

    /// The total true size of the packets that wait; 0 if the kernel doesn't tell.
    pub fn queued_bytes(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: TIOCOUTQ (SIOCOUTQ) writes one int, which outlives the call.
        let result = unsafe { libc::ioctl(self.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if result < 0 { 0 } else { usize::try_from(bytes).unwrap_or(0) }
    }

    /// Empties the error queue and returns its errors. A filled queue would keep `poll` awake.
    pub fn take_errors(&self) -> SocketErrors {
        let mut errors = SocketErrors::default();
        // Bounded: a flood of ICMP packets must not block the sender.
        for _ in 0..64 {
            let Some((error, offender)) = self.take_error() else { break };
            match error.ee_errno as i32 {
                libc::ECONNREFUSED => errors.port_unreachable = true,
                libc::EHOSTUNREACH | libc::ENETUNREACH => {
                    errors.host_unreachable = true;
                    let here = self.local_addr().ok().map(|here| here.ip().to_canonical());
                    errors.host_unreachable_from_here |= offender.is_some() && offender == here;
                }
                libc::EMSGSIZE => errors.mtu_bytes = Some(error.ee_info),
                _ => {}
            }
        }
        // Clears SO_ERROR, which also keeps `poll` awake. The queue has held the same errors.
        let _ = self.socket.take_error();
        errors
    }

    /// The next error, with the address that sent the ICMP packet.
    fn take_error(&self) -> Option<(libc::sock_extended_err, Option<IpAddr>)> {
        let mut bytes = [0; 64];
        let mut payload = [IoSliceMut::new(&mut bytes)];
        let mut space = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let fd = self.as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(fd, &mut payload, Some(&mut space), flags).ok()?;
        message.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::Ipv4RecvErr(error, offender) => {
                // The kernel stores addresses in network order.
                let ip = |from: libc::sockaddr_in| from.sin_addr.s_addr.to_ne_bytes().into();
                Some((error, offender.map(ip)))
            }
            ControlMessageOwned::Ipv6RecvErr(error, offender) => {
                let ip = |from: libc::sockaddr_in6| from.sin6_addr.s6_addr.into();
                Some((error, offender.map(ip)))
            }
            _ => None,
        })
    }

    /// The packets that the kernel dropped because the receive buffer was full, or GRO buffers of
    /// them; 0 if it doesn't tell. The count wraps.
    pub fn dropped_packets(&self) -> u32 {
        // SK_MEMINFO_DROPS of `linux/sock_diag.h`; older kernels fill in less.
        const DROPS: usize = 8;
        let mut values = [0u32; DROPS + 1];
        let mut len = size_of_val(&values) as libc::socklen_t;
        // SAFETY: values and length are live, and the length is that of the values.
        let result = unsafe {
            libc::getsockopt(
                self.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                values.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if result == 0 { values[DROPS] } else { 0 }
    }

    fn never_fragment(&self) -> io::Result<()> {
        match self.v6 {
            false => self.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
            true => self.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
        }
    }

    /// Best effort: a small buffer costs speed, not correctness.
    fn enlarge_receive_buffer(&self) {
        let forced = self.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES);
        if forced.is_err() {
            let _ = self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES);
        }
    }

    fn set(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        // SAFETY: the option's value is a live int of the length given.
        let result = unsafe {
            libc::setsockopt(
                self.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        };
        Errno::result(result).map(drop).map_err(io::Error::from)
    }

    fn read(&self, level: i32, name: i32) -> io::Result<i32> {
        let mut value = 0i32;
        let mut len = size_of::<i32>() as libc::socklen_t;
        // SAFETY: value and length are live, and the length is the value's.
        let result = unsafe {
            libc::getsockopt(self.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len)
        };
        Errno::result(result).map(|_| value).map_err(io::Error::from)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
