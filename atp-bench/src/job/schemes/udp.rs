//! Plain UDP: sends every message once, at the rate of the host's link, and counts the messages
//! that arrive.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::socket::{setsockopt, sockopt};

use super::super::clock::now_ns;
use super::super::control::Control;
use super::super::protocol::{Order, SenderReport};
use super::{Received, ReceiverSetup, Scheme, SenderSetup};

/// The header of a datagram: message index (u32), part and number of parts (u16), big-endian.
const HEADER_BYTES: usize = 8;
/// The message bytes that ATP puts into one packet.
const PART_BYTES: usize = 1_400;
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// The time after the last arrival in which the path's queues drain.
const QUIET: Duration = Duration::from_millis(200);
const LOOK_UP: Duration = Duration::from_millis(20);
/// The time limit for datagrams after the senders' end. Later datagrams can't be of this job.
const AFTERMATH_MAX: Duration = Duration::from_secs(60);

pub struct Udp;

impl Scheme for Udp {
    fn receive(&self, setup: &ReceiverSetup, control: &mut Control) -> Result<Received> {
        let socket = UdpSocket::bind((setup.bind, 0))?;
        enlarge_receive_buffer(&socket)?;
        socket.set_read_timeout(Some(LOOK_UP))?;
        control.ready(socket.local_addr()?.port())?;
        let start_ns = control.wait_for_start()?;
        let mut arrivals = Arrivals::new(setup.messages.count(), start_ns);
        let mut datagram = [0; 1 << 16];
        let mut ended_ns = None;
        loop {
            match socket.recv(&mut datagram) {
                Ok(bytes) => arrivals.add(&datagram[..bytes])?,
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error).context("receiving datagrams"),
            }
            control.progress(arrivals.messages.len())?;
            if ended_ns.is_none() && control.try_order()? == Some(Order::SendersEnded) {
                ended_ns = Some(now_ns());
            }
            if let Some(ended_ns) = ended_ns {
                let now = now_ns();
                let quiet_from = arrivals.last_ns.max(ended_ns);
                if now > quiet_from + QUIET.as_nanos() as u64 {
                    return Ok(arrivals.into_received());
                }
                if now > ended_ns + AFTERMATH_MAX.as_nanos() as u64 {
                    bail!("datagrams still arrive after all senders have ended");
                }
            }
        }
    }

    fn send(&self, setup: &SenderSetup, control: &mut Control) -> Result<SenderReport> {
        let socket = UdpSocket::bind((unspecified(setup), 0))?;
        socket.connect(setup.receiver)?;
        control.ready(0)?;
        control.wait_for_start()?;
        let mut datagrams = 0;
        for index in setup.dealt() {
            for datagram in datagrams_of(index, setup.messages.message(index))? {
                // This blocks while the socket's buffer is full, so the link sets the pace.
                match socket.send(&datagram) {
                    Ok(_) => {}
                    // The host's own queue dropped the datagram: it counts as sent and lost.
                    Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                    Err(error) => return Err(error).context("sending datagrams"),
                }
                datagrams += 1;
            }
        }
        Ok(SenderReport { packets_sent: datagrams, ..SenderReport::default() })
    }
}

fn unspecified(setup: &SenderSetup) -> std::net::IpAddr {
    match setup.receiver.is_ipv4() {
        true => std::net::Ipv4Addr::UNSPECIFIED.into(),
        false => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Enlarges the buffer, so that losses happen in the network. Root of the network may exceed the
/// system's limit.
fn enlarge_receive_buffer(socket: &UdpSocket) -> Result<()> {
    if setsockopt(socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
        setsockopt(socket, sockopt::RcvBuf, &RECEIVE_BUFFER_BYTES)?;
    }
    Ok(())
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn datagrams_of(index: usize, message: &[u8]) -> Result<impl Iterator<Item = Vec<u8>>> {
    let parts = u16::try_from(message.len().div_ceil(PART_BYTES))
        .context("a message is too long for plain UDP")?;
    Ok((0..parts).zip(message.chunks(PART_BYTES)).map(move |(part, data)| {
        let mut datagram = Vec::with_capacity(HEADER_BYTES + data.len());
        datagram.extend_from_slice(&(index as u32).to_be_bytes());
        datagram.extend_from_slice(&part.to_be_bytes());
        datagram.extend_from_slice(&parts.to_be_bytes());
        datagram.extend_from_slice(data);
        datagram
    }))
}

/// Reassembles messages from their parts.
struct Arrivals {
    /// The received parts by message; empty before the first one arrives.
    parts: Vec<Vec<Option<Vec<u8>>>>,
    messages: Vec<(usize, Vec<u8>)>,
    datagrams: u64,
    last_ns: u64,
}

impl Arrivals {
    fn new(count: usize, start_ns: u64) -> Arrivals {
        Arrivals {
            parts: vec![Vec::new(); count],
            messages: Vec::new(),
            datagrams: 0,
            last_ns: start_ns,
        }
    }

    fn add(&mut self, datagram: &[u8]) -> Result<()> {
        let Some((header, data)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
            bail!("a datagram of {} bytes", datagram.len());
        };
        let [a, b, c, d, part @ .., e, f] = *header;
        let index = u32::from_be_bytes([a, b, c, d]) as usize;
        let [part, parts] = [part, [e, f]].map(|number| usize::from(u16::from_be_bytes(number)));
        let Some(slots) = self.parts.get_mut(index) else { bail!("a datagram of message {index}") };
        self.datagrams += 1;
        self.last_ns = now_ns();
        if slots.is_empty() {
            *slots = vec![None; parts];
        }
        match slots.get_mut(part) {
            Some(slot @ None) => *slot = Some(data.to_vec()),
            Some(Some(_)) => bail!("part {part} of message {index} arrived twice"),
            None => bail!("part {part} of a message of {parts}"),
        }
        if slots.iter().all(Option::is_some) {
            let message = slots.iter_mut().filter_map(Option::take).flatten().collect();
            self.messages.push((index, message));
        }
        Ok(())
    }

    fn into_received(self) -> Received {
        Received {
            ended_ns: self.last_ns,
            messages: self.messages,
            packets_arrived: Some(self.datagrams),
            accepted: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add__messages_are_whole_in_any_order_or_not_there() {
        let long: Vec<u8> = (0..3_000).map(|i| i as u8).collect();
        let mut datagrams: Vec<_> = datagrams_of(1, &long).unwrap().collect();
        assert_eq!(datagrams.len(), 3);
        datagrams.extend(datagrams_of(0, b"short").unwrap());
        datagrams.extend(datagrams_of(2, &long).unwrap().skip(1));
        datagrams.reverse();
        let mut arrivals = Arrivals::new(3, 0);
        datagrams.iter().for_each(|datagram| arrivals.add(datagram).unwrap());
        let received = arrivals.into_received();
        assert_eq!(received.messages, [(0, b"short".to_vec()), (1, long)]);
        assert_eq!(received.packets_arrived, Some(6));
    }

    #[test]
    fn add__refuses_what_no_sender_of_ours_sends() {
        let mut arrivals = Arrivals::new(1, 0);
        for bad in [&[0; 7][..], &[0, 0, 0, 1, 0, 0, 0, 1], &[0, 0, 0, 0, 0, 1, 0, 1]] {
            assert!(arrivals.add(bad).is_err(), "{bad:?}");
        }
    }
}
