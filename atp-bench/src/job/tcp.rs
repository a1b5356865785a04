//! The settings of every TCP connection of a run, and the kernel's count of its segments.

use std::io;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use socket2::SockRef;

/// The default of most hosts today. It is set explicitly, so that a machine's setting doesn't
/// change the comparison.
const CONGESTION_CONTROL: &str = "cubic";

/// Sets CUBIC, and turns off Nagle's algorithm.
pub fn prepare<'s>(socket: impl Into<SockRef<'s>>) -> Result<()> {
    let socket = socket.into();
    socket.set_tcp_congestion(CONGESTION_CONTROL.as_bytes()).with_context(|| {
        format!("this kernel has no TCP {CONGESTION_CONTROL} (try `modprobe tcp_cubic` as root)")
    })?;
    socket.set_tcp_nodelay(true).context("TCP_NODELAY")?;
    Ok(())
}

/// Data segments that this end of a connection sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Segments sent, including retransmissions.
    pub sent: u64,
    pub retransmitted: u64,
}

/// The beginning of Linux's `struct tcp_info` (include/uapi/linux/tcp.h), which only ever grows.
#[repr(C)]
#[derive(Default)]
struct TcpInfo {
    states: [u8; 8],
    times_and_counts: [u32; 23],
    total_retrans: u32,
    rates_and_bytes: [u64; 4],
    segs_and_rtt: [u32; 5],
    data_segs_out: u32,
}

const _: () = assert!(std::mem::offset_of!(TcpInfo, total_retrans) == 100);
const _: () = assert!(std::mem::offset_of!(TcpInfo, data_segs_out) == 156);

/// The numbers of data segments that this end has sent and retransmitted.
pub fn segments(socket: &impl AsRawFd) -> Result<Segments> {
    let mut info = TcpInfo::default();
    let mut length = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes of plain integers to `info`, which has that
    // length and outlives the call.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error()).context("TCP_INFO");
    }
    anyhow::ensure!(
        length as usize == size_of::<TcpInfo>(),
        "this kernel doesn't count TCP's data segments (Linux 4.6 and later do)"
    );
    Ok(Segments { sent: info.data_segs_out.into(), retransmitted: info.total_retrans.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn segments__counts_what_was_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        prepare(&near).unwrap();
        assert_eq!(segments(&near).unwrap(), Segments { sent: 0, retransmitted: 0 });
        let (mut far, _) = listener.accept().unwrap();
        for byte in 0..5 {
            near.write_all(&[byte]).unwrap();
            far.read_exact(&mut [0]).unwrap();
        }
        let counted = segments(&near).unwrap();
        assert_eq!(counted.sent, 5 + counted.retransmitted);
        assert_eq!(SockRef::from(&near).tcp_congestion().unwrap()[..5], *b"cubic");
    }
}
