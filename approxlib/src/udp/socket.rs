//! A UDP socket with the options that ATP needs.

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

/// Asked for, and doubled by the kernel: some seven thousand packets of 1,400 bytes may wait.
const RECEIVE_BUFFER_BYTES: i32 = 8 << 20;

/// A UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    v6: bool,
}

/// What the error queue told, and what a later message to the user may cite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The peer's host answers that nothing listens on the port.
    pub refused: bool,
    /// A router, or this host, answers that the peer's host can't be reached.
    pub unreachable: bool,
    /// The path takes no packet longer than this, bytes with IP header.
    pub mtu_bytes: Option<u32>,
}

impl UdpSocket {
    /// A socket that sends to `peer` and hears from nobody else.
    pub fn connect(peer: SocketAddr) -> io::Result<Self> {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let this = Self::new(peer.ip())?;
        // A local drop becomes ENOBUFS at once, an ICMP error can be read; without it both look
        // like loss in the network.
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
        // On a dual-stack socket this one is for the IPv4 packets.
        this.set(libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        // Superpackets as they came; where the kernel can't, it hands them over one by one.
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

    /// The address that the socket is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?;
        address.as_socket().ok_or_else(|| io::Error::other("not an IP address"))
    }

    /// Bytes of IP and UDP headers in front of a payload.
    pub const fn is_v6(&self) -> bool {
        self.v6
    }

    /// Bytes of the IP and UDP headers.
    pub const fn overhead_bytes(&self) -> usize {
        if self.v6 { 40 + 8 } else { 20 + 8 }
    }

    /// The longest packet that the path takes, IP header included, as far as the host knows.
    pub fn path_mtu_bytes(&self) -> Option<usize> {
        let mtu = match self.v6 {
            false => self.read(libc::IPPROTO_IP, libc::IP_MTU),
            true => self.read(libc::IPPROTO_IPV6, libc::IPV6_MTU),
        };
        mtu.ok().and_then(|mtu| usize::try_from(mtu).ok())
    }

    /// Lets packets wait in the socket, and in the queueing discipline below it, as long as their
    /// true sizes are less than `bytes` together.
    pub fn set_send_buffer(&self, bytes: usize) -> io::Result<()> {
        // The kernel doubles what it is told.
        self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, i32::try_from(bytes / 2).unwrap_or(i32::MAX))
    }

    /// True sizes of the packets that wait, together; 0 if the kernel doesn't tell.
    pub fn queued_bytes(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: TIOCOUTQ (SIOCOUTQ) writes one int, which outlives the call.
        let result = unsafe { libc::ioctl(self.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if result < 0 { 0 } else { usize::try_from(bytes).unwrap_or(0) }
    }

    /// Empties the error queue (which would keep `poll` awake) and says what was in it.
    pub fn take_errors(&self) -> Trouble {
        let mut trouble = Trouble::default();
        // Bounded: a flood of ICMP must not hold the sender up.
        for _ in 0..64 {
            let Some(error) = self.take_error() else { break };
            match error.ee_errno as i32 {
                libc::ECONNREFUSED => trouble.refused = true,
                libc::EHOSTUNREACH | libc::ENETUNREACH => trouble.unreachable = true,
                libc::EMSGSIZE => trouble.mtu_bytes = Some(error.ee_info),
                _ => {}
            }
        }
        // What `poll` also shows as an error; every one of them is in the queue, too.
        let _ = self.socket.take_error();
        trouble
    }

    fn take_error(&self) -> Option<libc::sock_extended_err> {
        let mut bytes = [0; 64];
        let mut payload = [IoSliceMut::new(&mut bytes)];
        let mut space = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let fd = self.as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(fd, &mut payload, Some(&mut space), flags).ok()?;
        message.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::Ipv4RecvErr(error, _)
            | ControlMessageOwned::Ipv6RecvErr(error, _) => Some(error),
            _ => None,
        })
    }

    fn never_fragment(&self) -> io::Result<()> {
        match self.v6 {
            false => self.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
            true => self.set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
        }
    }

    /// Best effort: a small buffer costs speed, never correctness.
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
