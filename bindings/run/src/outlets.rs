//! The sockets that stand for the senders of datagrams, so that the program sees their addresses.

use crate::{
    hosts,
    names::{self, Ends, Protocol},
};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

/// The kernel delivers a datagram within this time, and a thread of the program looks up the sender
/// of a datagram that it has read within as much.
const KEPT: Duration = Duration::from_millis(50);
/// How long the receiver waits for a free socket, in all waits of a period.
const WAIT_MAX: Duration = Duration::from_millis(250);
const WAIT_PERIOD: Duration = Duration::from_secs(5);
/// The time between two looks whether a socket is free.
const WAIT_STEP: Duration = Duration::from_millis(1);

/// A socket for each sender, by the sender's address.
#[derive(Default)]
pub struct Outlets {
    held: HashMap<SocketAddr, Outlet>,
}

/// The socket that stands for a sender.
struct Outlet {
    socket: UdpSocket,
    /// The time of the sender's last message.
    used: Instant,
    /// When the program was seen to have read all datagrams of the sender.
    read: Option<Instant>,
}

impl Drop for Outlets {
    fn drop(&mut self) {
        self.held.values().for_each(|outlet| forget(&outlet.socket));
    }
}

/// Forgets the sender for whom a socket stands. If the program reads a datagram of it later, it
/// sees the address of the loopback.
pub fn forget(socket: &UdpSocket) {
    if let Ok(own) = socket.local_addr() {
        names::forget(Protocol::Udp, own);
    }
}

impl Outlets {
    pub fn contains(&self, sender: SocketAddr) -> bool {
        self.held.contains_key(&sender)
    }

    /// The socket of a sender, for a message.
    pub fn get(&mut self, sender: SocketAddr) -> Option<&UdpSocket> {
        let outlet = self.held.get_mut(&sender)?;
        outlet.used = Instant::now();
        outlet.read = None;
        Some(&outlet.socket)
    }

    /// Lets a socket stand for a sender.
    pub fn insert(&mut self, ends: Ends, socket: UdpSocket) -> io::Result<()> {
        names::note(Protocol::Udp, socket.local_addr()?, ends);
        let outlet = Outlet { socket, used: Instant::now(), read: None };
        self.held.insert(ends.peer, outlet);
        Ok(())
    }

    /// The host that has to give up a socket for the sender. `None`: there is room.
    pub fn crowded(&self, sender: SocketAddr, places: usize) -> Option<IpAddr> {
        hosts::crowded(self.held.keys().map(SocketAddr::ip), sender.ip(), places)
    }

    /// The program's socket is empty.
    pub fn note_read(&mut self, now: Instant) {
        let is_delivered = |outlet: &Outlet| now.duration_since(outlet.used) >= KEPT;
        let unread = self.held.values_mut().filter(|outlet| outlet.read.is_none());
        unread.filter(|outlet| is_delivered(outlet)).for_each(|outlet| outlet.read = Some(now));
    }

    /// Takes the socket of the host's sender that was idle longest, for another one. It isn't
    /// closed: a user of this host could get its port, and speak as that sender. It keeps its name
    /// until the program has read its datagrams: they would appear as another sender's.
    pub fn take(&mut self, host: IpAddr, now: Instant) -> Option<UdpSocket> {
        let is_free = |outlet: &Outlet| {
            outlet.read.is_some_and(|read| now.saturating_duration_since(read) >= KEPT)
        };
        let of_host = self.held.iter().filter(|(sender, _)| hosts::of(sender.ip()) == host);
        let free = of_host.filter(|(_, outlet)| is_free(outlet));
        let (sender, _) = free.min_by_key(|(_, outlet)| outlet.used)?;
        let sender = *sender;
        let outlet = self.held.remove(&sender)?;
        forget(&outlet.socket);
        Some(outlet.socket)
    }
}

/// The waits for free sockets. All messages of the port wait meanwhile, so they are bounded.
pub struct Waits {
    /// The beginning of the period.
    began: Instant,
    waited: Duration,
}

impl Waits {
    pub fn new() -> Self {
        Self { began: Instant::now(), waited: Duration::ZERO }
    }

    /// Waits a moment. False: the period has no time left for that.
    pub fn step(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.began) >= WAIT_PERIOD {
            *self = Self { began: now, waited: Duration::ZERO };
        }
        if self.waited >= WAIT_MAX {
            return false;
        }
        thread::sleep(WAIT_STEP);
        self.waited += now.elapsed();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(ip: &str, port: u16) -> SocketAddr {
        (ip.parse::<IpAddr>().unwrap(), port).into()
    }

    fn insert(outlets: &mut Outlets, peer: SocketAddr) {
        let ends = Ends { peer, local: peer, interface: 0 };
        outlets.insert(ends, UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    }

    #[test]
    fn take__only_what_the_program_has_read() {
        let (mut outlets, one) = (Outlets::default(), sender("10.0.0.1", 2_000));
        let host = one.ip();
        insert(&mut outlets, one);
        let now = Instant::now();
        // It may not be delivered yet.
        outlets.note_read(now);
        assert!(outlets.take(host, now + 10 * KEPT).is_none());
        outlets.note_read(now + KEPT);
        // A thread of the program may have read it, and be about to look up the sender.
        assert!(outlets.take(host, now + KEPT).is_none());
        assert!(outlets.take(sender("10.0.0.2", 0).ip(), now + 10 * KEPT).is_none());
        // It has another message.
        assert!(outlets.get(one).is_some());
        assert!(outlets.take(host, now + 10 * KEPT).is_none());
        let later = Instant::now() + KEPT;
        outlets.note_read(later);
        assert!(outlets.take(host, later + KEPT).is_some() && !outlets.contains(one));
    }

    #[test]
    fn crowded__is_the_host_beyond_its_share_or_with_most() {
        let mut outlets = Outlets::default();
        let [most, other, third] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let ip = |host: &str| Some(sender(host, 0).ip());
        (0..6).for_each(|port| insert(&mut outlets, sender(most, port)));
        assert_eq!(outlets.crowded(sender(most, 9), 8), ip(most));
        assert_eq!(outlets.crowded(sender(other, 9), 8), None);
        (0..2).for_each(|port| insert(&mut outlets, sender(other, port)));
        assert_eq!(outlets.crowded(sender(other, 9), 8), ip(most));
        assert_eq!(outlets.crowded(sender(third, 9), 8), ip(most));
    }
}
