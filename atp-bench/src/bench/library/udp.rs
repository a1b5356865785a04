//! Raw UDP: a sender that uses `sendmmsg`, and a sink that only counts.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use socket2::{Domain, Socket, Type};

use super::endpoint::{Sink, Stream, print_ready};
use super::tally::{Arrivals, Tally};

/// Packets per system call.
const BATCH: usize = 64;
/// The size of the receive buffer, equal to that of the library's receiver.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
const DATAGRAM_BYTES_MAX: usize = 9_000;
/// The idle limit: a stream without a packet for this time has ended.
const IDLE: Duration = Duration::from_millis(200);
/// The pause of a polling sink after an empty read.
const NAP: Duration = Duration::from_micros(50);
/// The time limit for a stream to begin.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Sends as fast as one thread can.
pub fn send(stream: &Stream) -> Result<Tally> {
    let any: SocketAddr = if stream.to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse()?;
    let socket = UdpSocket::bind(any)?;
    socket.connect(stream.to)?;
    let payload = vec![0u8; stream.bytes];
    let mut vector =
        libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
    // SAFETY: all zero is a valid mmsghdr.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for message in &mut messages {
        message.msg_hdr.msg_iov = &raw mut vector;
        message.msg_hdr.msg_iovlen = 1;
    }
    let mut packets = 0;
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < stream.seconds {
        // SAFETY: every message points at `vector`, which points at `payload`; both outlive the
        // call, and the kernel only reads them.
        let sent = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), BATCH as libc::c_uint, 0)
        };
        match sent {
            0.. => packets += sent as u64,
            _ => tolerate(io::Error::last_os_error())?,
        }
    }
    Ok(Tally {
        packets,
        bytes: packets * stream.bytes as u64,
        active_s: started.elapsed().as_secs_f64(),
        ..Tally::default()
    })
}

/// Accepts ENOBUFS, a packet dropped by a queue. Every other error ends the stream.
fn tolerate(error: io::Error) -> Result<()> {
    match error.raw_os_error() {
        Some(libc::ENOBUFS | libc::EINTR) => Ok(()),
        _ => Err(error).context("sending UDP"),
    }
}

/// Counts until the stream has ended.
pub fn receive(sink: &Sink) -> Result<Tally> {
    let socket = bind(sink)?;
    print_ready(socket.local_addr()?)?;
    let mut batch = Batch::new();
    let mut arrivals = Arrivals::new();
    let started = Instant::now();
    loop {
        match batch.receive(&socket)? {
            Some((packets, bytes)) => arrivals.count(packets, bytes),
            None if arrivals.idle().is_some_and(|idle| idle > IDLE) => return Ok(arrivals.tally()),
            None if arrivals.idle().is_none() && started.elapsed() > SILENCE_MAX => {
                bail!("no packet arrived within {SILENCE_MAX:?}")
            }
            None if sink.nap => std::thread::sleep(NAP),
            None => {}
        }
    }
}

fn bind(sink: &Sink) -> Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(sink.at), Type::DGRAM, None)?;
    // This needs CAP_NET_ADMIN; without it the system's limit applies.
    if force_receive_buffer(&socket).is_err() {
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    }
    if sink.nap {
        socket.set_nonblocking(true)?;
    } else {
        socket.set_read_timeout(Some(IDLE))?;
    }
    socket.bind(&sink.at.into())?;
    Ok(socket.into())
}

fn force_receive_buffer(socket: &Socket) -> io::Result<()> {
    let bytes = RECEIVE_BUFFER_BYTES as libc::c_int;
    // SAFETY: the option's value is a live int, and the length is that of an int.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The buffers of one `recvmmsg`.
struct Batch {
    buffers: Vec<[u8; DATAGRAM_BYTES_MAX]>,
}

impl Batch {
    fn new() -> Self {
        Self { buffers: vec![[0; DATAGRAM_BYTES_MAX]; BATCH] }
    }

    /// Receives packets; returns their number and payload bytes, or `None` if the socket is empty.
    fn receive(&mut self, socket: &UdpSocket) -> Result<Option<(u64, u64)>> {
        // SAFETY: all zero is a valid iovec and mmsghdr.
        let mut vectors: [libc::iovec; BATCH] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for ((vector, message), buffer) in
            vectors.iter_mut().zip(&mut messages).zip(&mut self.buffers)
        {
            *vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the messages point at `vectors`, which point at `self.buffers` with their
        // lengths; all outlive the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error).context("receiving UDP"),
            };
        }
        let bytes =
            messages[..received as usize].iter().map(|message| u64::from(message.msg_len)).sum();
        Ok(Some((received as u64, bytes)))
    }
}
