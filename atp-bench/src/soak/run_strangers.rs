//! Strangers of a server under `atp-run`.

use anyhow::Result;
use approxlib::Job;
use std::{
    io::Write,
    net::{SocketAddr, TcpStream, UdpSocket},
    thread,
    time::Duration,
};

/// A client's agreement to have its connection carried by `atp-run`.
const AGREEMENT: &[u8] = &[1];
/// The limit of a stranger's wait for the server.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);

/// Connects to the door of `atp-run`, agrees on every other connection, and holds them for so long.
pub fn hold_doors(door: SocketAddr, time: Duration) -> Result<u64> {
    let open = |number| {
        let mut stream = TcpStream::connect_timeout(&door, PEER_TIMEOUT).ok()?;
        if number % 2 == 0 {
            stream.write_all(AGREEMENT).ok()?;
        }
        Some(stream)
    };
    let held: Vec<_> = (0..200).filter_map(open).collect();
    thread::sleep(time);
    Ok(held.len() as u64)
}

/// Sends messages that are no frames, and datagrams that claim other ports, to where `atp-run`
/// receives them. It may end the job.
pub fn speak_to_run(to: SocketAddr) -> Result<u64> {
    let mut job = Job::builder().control_socket(None).peer_timeout(PEER_TIMEOUT).connect(to)?;
    let mut sent = 0;
    for port in 1..=50_u8 {
        let claim = [&[0xae, 2, 200, port, 10, 99, 0, 2][..], &[7; 8], b"stranger"].concat();
        for message in [&claim[..], b"transfer 999 to mallory\n"] {
            sent += u64::from(job.send(message).is_ok());
        }
    }
    drop(job.finish());
    Ok(sent)
}

/// Sends datagrams to the program's own port, each from another port.
pub fn send_plainly(to: SocketAddr) -> Result<u64> {
    let send = || UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"stranger", to));
    Ok((0..100).filter(|_| send().is_ok()).count() as u64)
}
