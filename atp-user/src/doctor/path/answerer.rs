//! The far end of a probe: records how packets arrive, and reports it to those who know the token.

use super::wire::{self, ARRIVALS_PER_REPORT, Arrival, Head, Message, Report, TRAINS};
use anyhow::{Context, Result};
use nix::{
    cmsg_space,
    errno::Errno,
    sys::socket::{
        ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt,
        sockopt::{IpRecvTos, Ipv6RecvTClass, RcvBuf, RcvBufForce, ReceiveTimestampns, RxqOvfl},
    },
    sys::time::TimeSpec,
};
use std::{
    io::IoSliceMut,
    net::{SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

/// Datagrams that an answerer reads before it ends.
const DATAGRAMS_MAX: u64 = 2_000_000;
/// Probers at a time. A further one replaces the oldest.
const SESSIONS_MAX: usize = 8;
/// Recorded packets of a train.
const ARRIVALS_MAX: usize = 1 << 16;
/// The requested receive buffer, bytes.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;
/// The longest wait before the answerer looks at the time.
const WAIT: Duration = Duration::from_millis(100);

/// An answerer on a UDP port.
pub struct Answerer {
    socket: UdpSocket,
    records: Records,
}

/// The recorded arrivals.
struct Records {
    token: u64,
    /// Packets that the socket had no room for.
    dropped: u32,
    /// The oldest first.
    sessions: Vec<Session>,
}

struct Session {
    id: u32,
    source: SocketAddr,
    trains: [Vec<Arrival>; TRAINS as usize],
}

/// A datagram with what the kernel says about it.
struct Datagram {
    len: usize,
    source: Option<SocketAddr>,
    at_ns: u64,
    traffic_class: u8,
    dropped: Option<u32>,
}

impl Answerer {
    /// Opens the port.
    pub fn bind(address: SocketAddr, token: u64) -> Result<Self> {
        let socket = UdpSocket::bind(address)
            .with_context(|| format!("can't answer probes at {address}: choose another port"))?;
        socket.set_read_timeout(Some(WAIT))?;
        // On a dual-stack socket this option covers the IPv4 packets.
        setsockopt(&socket, IpRecvTos, &true)?;
        if address.is_ipv6() {
            setsockopt(&socket, Ipv6RecvTClass, &true)?;
        }
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        setsockopt(&socket, RxqOvfl, &1)?;
        // Best effort: the reports count the packets that a small buffer drops.
        if setsockopt(&socket, RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
            let _ = setsockopt(&socket, RcvBuf, &RECEIVE_BUFFER_BYTES);
        }
        Ok(Self { socket, records: Records { token, dropped: 0, sessions: Vec::new() } })
    }

    /// The address with its port.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        Ok(self.socket.local_addr()?)
    }

    /// Answers for a time, or until too many datagrams came.
    pub fn run(&mut self, time: Duration) -> Result<()> {
        let deadline = Instant::now() + time;
        let mut bytes = [0; wire::MESSAGE_BYTES_MAX + 1];
        for _ in 0..DATAGRAMS_MAX {
            let datagram = loop {
                if Instant::now() >= deadline {
                    return Ok(());
                }
                if let Some(datagram) = receive(&self.socket, &mut bytes)? {
                    break datagram;
                }
            };
            if let Some(dropped) = datagram.dropped {
                self.records.dropped = dropped;
            }
            let Some(source) = datagram.source else { continue };
            let Some(reply) = self.records.handle(&bytes[..datagram.len], source, &datagram) else {
                continue;
            };
            // A lost reply is asked for again.
            let _ = self.socket.send_to(&reply, source);
        }
        Ok(())
    }
}

impl Records {
    /// Records a probe, or answers a question. Nothing without the token is answered or recorded,
    /// and no answer is longer than its question.
    fn handle(&mut self, bytes: &[u8], source: SocketAddr, datagram: &Datagram) -> Option<Vec<u8>> {
        match wire::parse(bytes)? {
            Message::Probe(head) if head.token == self.token => {
                let arrivals = &mut self.session(head, source).trains[usize::from(head.train)];
                if arrivals.len() < ARRIVALS_MAX {
                    arrivals.push(Arrival {
                        number: head.number,
                        at_ns: datagram.at_ns,
                        traffic_class: datagram.traffic_class,
                    });
                }
                None
            }
            Message::Question(head) if head.token == self.token => {
                let dropped = self.dropped;
                let arrivals = &self.session(head, source).trains[usize::from(head.train)];
                let part = arrivals.iter().skip(head.number as usize).take(ARRIVALS_PER_REPORT);
                let report = Report {
                    total: arrivals.len() as u32,
                    dropped,
                    arrivals: part.copied().collect(),
                };
                wire::report(head, &report, bytes.len())
            }
            _ => None,
        }
    }

    fn session(&mut self, head: Head, source: SocketAddr) -> &mut Session {
        let is_this = |session: &Session| session.id == head.session && session.source == source;
        let known = self.sessions.iter().position(is_this);
        let at = known.unwrap_or_else(|| {
            if self.sessions.len() == SESSIONS_MAX {
                self.sessions.remove(0);
            }
            self.sessions.push(Session { id: head.session, source, trains: Default::default() });
            self.sessions.len() - 1
        });
        &mut self.sessions[at]
    }
}

/// Receives a datagram; `None` if none came in time.
fn receive(socket: &UdpSocket, bytes: &mut [u8]) -> Result<Option<Datagram>> {
    let mut space = cmsg_space!(TimeSpec, i32, u32);
    let mut payload = [IoSliceMut::new(bytes)];
    let fd = socket.as_raw_fd();
    let message =
        match recvmsg::<SockaddrStorage>(fd, &mut payload, Some(&mut space), MsgFlags::empty()) {
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => return Ok(None),
            message => message.context("can't receive probes")?,
        };
    let mut datagram = Datagram {
        len: message.bytes,
        source: message.address.as_ref().and_then(ip_address),
        at_ns: 0,
        traffic_class: 0,
        dropped: None,
    };
    let Ok(controls) = message.cmsgs() else { return Ok(None) };
    for control in controls {
        match control {
            ControlMessageOwned::ScmTimestampns(time) => {
                datagram.at_ns = time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64;
            }
            ControlMessageOwned::Ipv4Tos(class) => datagram.traffic_class = class,
            ControlMessageOwned::Ipv6TClass(class) => datagram.traffic_class = class as u8,
            ControlMessageOwned::RxqOvfl(dropped) => datagram.dropped = Some(dropped),
            _ => {}
        }
    }
    Ok(Some(datagram))
}

fn ip_address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|address| SocketAddr::V4((*address).into()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|address| SocketAddr::V6((*address).into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TOKEN: u64 = 0x0123_4567_89ab_cdef;

    fn records() -> Records {
        Records { token: TOKEN, dropped: 0, sessions: Vec::new() }
    }

    fn handle(records: &mut Records, bytes: &[u8]) -> Option<Vec<u8>> {
        let source = "10.0.0.1:9".parse().unwrap();
        let (len, at_ns) = (bytes.len(), 77);
        let datagram = Datagram { len, source: None, at_ns, traffic_class: 46, dropped: None };
        records.handle(bytes, source, &datagram)
    }

    fn head(session: u32, number: u32) -> Head {
        Head { token: TOKEN, session, train: 1, number }
    }

    #[test]
    fn handle__reports_what_arrived() {
        let mut records = records();
        for number in [0, 2, 1] {
            assert_eq!(handle(&mut records, &wire::probe(head(5, number), 100)), None);
        }
        let reply = handle(&mut records, &wire::question(head(5, 1))).unwrap();
        let Some(Message::Report(_, report)) = wire::parse(&reply) else { panic!("no report") };
        let numbers: Vec<u32> = report.arrivals.iter().map(|arrival| arrival.number).collect();
        assert_eq!((report.total, numbers), (3, vec![2, 1]));
        assert!(report.arrivals.iter().all(|arrival| arrival.traffic_class == 46));
    }

    #[test]
    fn handle__ignores_a_wrong_token() {
        let mut records = records();
        let wrong = Head { token: TOKEN + 1, ..head(5, 0) };
        assert_eq!(handle(&mut records, &wire::probe(wrong, 100)), None);
        assert_eq!(handle(&mut records, &wire::question(wrong)), None);
        assert!(records.sessions.is_empty());
    }

    #[test]
    fn handle__memory_is_bounded() {
        let mut records = records();
        for session in 0..100 {
            handle(&mut records, &wire::probe(head(session, 0), 100));
        }
        assert_eq!(records.sessions.len(), SESSIONS_MAX);
        for number in 0..ARRIVALS_MAX as u32 + 10 {
            handle(&mut records, &wire::probe(head(99, number), 0));
        }
        let last = records.sessions.last().unwrap();
        assert_eq!(last.trains[1].len(), ARRIVALS_MAX);
    }

    proptest! {
        /// Bytes without the token get no reply. With it, no reply is longer than its question.
        #[test]
        fn handle__never_amplifies(
            noise in prop::collection::vec(any::<u8>(), 0..1_300),
            len in 0..1_300usize,
            kind in 0..5u8,
        ) {
            let mut records = records();
            prop_assert_eq!(handle(&mut records, &noise), None);
            let mut bytes = wire::probe(head(1, 0), len);
            bytes[5] = kind;
            let reply = handle(&mut records, &bytes);
            prop_assert!(reply.is_none_or(|reply| kind == 2 && reply.len() <= bytes.len()));
        }
    }
}
