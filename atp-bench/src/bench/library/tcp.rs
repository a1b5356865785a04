//! One TCP stream like iperf's: long writes into a socket with CUBIC, and a sink that counts.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use socket2::SockRef;

use super::endpoint::{Sink, Stream, print_ready};
use super::tally::{Arrivals, Tally};

const CONGESTION_CONTROL: &[u8] = b"cubic";
const READ_BYTES: usize = 128 << 10;
/// The idle limit, after which a sender or receiver counts as hung.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Sends for the given time.
pub fn send(stream: &Stream) -> Result<Tally> {
    let mut socket = TcpStream::connect_timeout(&stream.to, STALL_MAX)?;
    SockRef::from(&socket)
        .set_tcp_congestion(CONGESTION_CONTROL)
        .context("this kernel doesn't have the congestion control CUBIC")?;
    socket.set_write_timeout(Some(STALL_MAX))?;
    let data = vec![0u8; stream.bytes];
    let mut bytes = 0;
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < stream.seconds {
        socket.write_all(&data).context("sending TCP")?;
        bytes += data.len() as u64;
    }
    Ok(Tally { bytes, active_s: started.elapsed().as_secs_f64(), ..Tally::default() })
}

/// Counts until the sender closes.
pub fn receive(sink: &Sink) -> Result<Tally> {
    let listener = TcpListener::bind(sink.at)?;
    print_ready(listener.local_addr()?)?;
    let (mut socket, _) = listener.accept()?;
    socket.set_read_timeout(Some(STALL_MAX))?;
    let mut buffer = vec![0u8; READ_BYTES];
    let mut arrivals = Arrivals::new();
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(arrivals.tally()),
            Ok(bytes) => arrivals.count(0, bytes as u64),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("receiving TCP"),
        }
    }
}
