//! Sends forged packets from an attacker's place, until the attack is over.

use crate::{
    container,
    table::{Attacker, Row, Time},
};
use anyhow::{Result, ensure};
use atp_common::wire::{Header, Kind};
use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};
use testbed::{
    DEVICE, NOBODY, Namespace, Star,
    privilege::become_user,
    wire::{Capture, Claim, Frame, forged, is_for_sender, spoof, wrong_cookie},
};

/// Packets of one burst.
const BURST: u32 = 20;
/// The most bursts: 100 s of them.
const BURSTS_MAX: u32 = 10_000;
const PAUSE: Duration = Duration::from_millis(10);
/// N of a job that goes on.
const ENDLESS: u32 = 1_000_000;

/// An attack on the job from host 0 to host 1 of a star. Host 2 is the attacker's.
pub struct Attack<'a> {
    pub row: Row,
    pub star: &'a Star,
    pub ends: Ends,
    pub is_over: &'a AtomicBool,
    /// The number of packets that left.
    pub sent: &'a AtomicU32,
}

/// The ends of the job, and what is known of it.
#[derive(Clone, Debug)]
pub struct Ends {
    /// The address of the sender, or those that it may have.
    pub senders: Vec<SocketAddr>,
    pub receiver: SocketAddr,
    pub claim: Claim,
}

impl Attack<'_> {
    /// Attacks, and expects packets of each kind to arrive at the attacked host.
    pub fn run(self) -> Result<()> {
        let mut arriving = Capture::start_at(self.target(), self.interface())?;
        let payloads = match self.row.attacker {
            Attacker::OnPath => self.on_path()?,
            Attacker::SendersTenant => container::attack(&self)?,
            _ => self.namespace().enter(|| {
                if matches!(self.row.attacker, Attacker::SendersUser | Attacker::ReceiversUser) {
                    become_user(NOBODY)?;
                }
                self.blindly()
            })?,
        };
        // A capture has the packet's payload behind the headers of Ethernet, IP and UDP.
        let headers_len = if self.ends.receiver.is_ipv4() { 42 } else { 62 };
        let arrived: Vec<Kind> = arriving
            .take_whole(usize::MAX)?
            .into_iter()
            .filter(|(_, bytes)| payloads.contains(bytes.get(headers_len..).unwrap_or_default()))
            .map(|(frame, _)| frame.kind)
            .collect();
        // A busy machine sends fewer.
        println!("{}: {} packets", self.row.name(), payloads.len());
        for kind in self.row.kinds {
            ensure!(arrived.contains(kind), "no {} of the attacker arrived", kind.name());
        }
        Ok(())
    }

    fn namespace(&self) -> &Namespace {
        let hosts = &self.star.hosts;
        match self.row.attacker {
            Attacker::SendersUser | Attacker::SendersTenant => &hosts[0].namespace,
            Attacker::ReceiversUser => &hosts[1].namespace,
            Attacker::Neighbor | Attacker::OffPath => &hosts[2].namespace,
            Attacker::OnPath => &self.star.router,
        }
    }

    /// The attacked host.
    fn target(&self) -> &Namespace {
        &self.star.hosts[if self.row.is_for_sender() { 0 } else { 1 }].namespace
    }

    /// The interface by which the attacker's packets reach the host.
    fn interface(&self) -> &'static str {
        match (self.row.attacker, self.row.is_for_sender()) {
            (Attacker::SendersUser | Attacker::SendersTenant, true) => "lo",
            (Attacker::ReceiversUser, false) => "lo",
            _ => DEVICE,
        }
    }

    /// Attacks without knowing the job's cookie, from the calling thread's network. Returns the
    /// packets.
    fn blindly(&self) -> Result<HashSet<Vec<u8>>> {
        let mut bursts = Bursts::new(self.row, self.ends.clone());
        for _ in 0..BURSTS_MAX {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            self.sent.fetch_add(bursts.send()?, Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
        Ok(bursts.payloads)
    }

    /// Attacks with what the router reads.
    fn on_path(&self) -> Result<HashSet<Vec<u8>>> {
        let mut tap = Capture::start_at(&self.star.router, "port0")?;
        self.star.router.enter(|| {
            let mut payloads = HashSet::new();
            for burst in 0..BURSTS_MAX {
                if self.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let Some(claim) = self.overheard(&mut tap)? else { continue };
                for number in burst * BURST..(burst + 1) * BURST {
                    let packets = packets(self.row.kinds, claim, number)?;
                    let (from, to) = self.ends.addresses(self.row, 0);
                    spoof(from, to, &packets)?;
                    self.sent.fetch_add(packets.len() as u32, Ordering::Relaxed);
                    payloads.extend(packets);
                }
                thread::sleep(PAUSE);
            }
            Ok(payloads)
        })
    }

    /// The claim of somebody who reads the job's packets: that of its latest DATA.
    fn overheard(&self, tap: &mut Capture) -> Result<Option<Claim>> {
        let frames = tap.take_whole(BURST as usize)?;
        let data = |(frame, _): &(Frame, _)| {
            let of_job = frame.kind == Kind::Data && frame.header.job() == self.ends.claim.job;
            (of_job && self.ends.senders.contains(&frame.source)).then_some(frame.header)
        };
        let latest: Option<Header> = frames.iter().rev().find_map(data);
        Ok(latest.map(|header| Claim {
            cookie: header.cookie(),
            slot: header.slot(),
            ..self.ends.claim
        }))
    }
}

impl Ends {
    /// The ends of an attacker's packets, to the `index`th of the addresses.
    fn addresses(&self, row: Row, index: usize) -> (SocketAddr, SocketAddr) {
        let sender = self.senders[index % self.senders.len()];
        match row.is_for_sender() {
            true => (self.receiver, sender),
            false => (sender, self.receiver),
        }
    }
}

impl Row {
    fn is_for_sender(&self) -> bool {
        self.kinds.iter().copied().all(is_for_sender)
    }
}

/// The packets of an attacker that guesses cookies.
pub struct Bursts {
    row: Row,
    ends: Ends,
    number: u32,
    /// The socket of a sender that goes on.
    kept: Option<UdpSocket>,
    payloads: HashSet<Vec<u8>>,
}

impl Bursts {
    pub fn new(row: Row, ends: Ends) -> Self {
        Self { row, ends, number: 0, kept: None, payloads: HashSet::new() }
    }

    /// Sends one burst. Returns how many packets left.
    pub fn send(&mut self) -> Result<u32> {
        let mut left = 0;
        for _ in 0..BURST / self.row.kinds.len() as u32 {
            let packets = packets(self.row.kinds, self.claim(), self.number)?;
            let (from, to) = self.ends.addresses(self.row, self.number as usize);
            left += match self.row.attacker {
                Attacker::OffPath => spoof(from, to, &packets).map(|()| packets.len())?,
                _ => {
                    let socket = self.socket()?;
                    // Fails where an answer said that the last packet reached no socket.
                    packets.iter().filter(|packet| socket.send_to(packet, to).is_ok()).count()
                }
            };
            self.payloads.extend(packets);
            self.number += 1;
        }
        Ok(left as u32)
    }

    /// A guess. A sender that goes on is one run of one job.
    fn claim(&self) -> Claim {
        match self.row.time {
            Time::GoesOn => Claim { cookie: wrong_cookie(0), messages: ENDLESS, ..self.ends.claim },
            _ => Claim { cookie: wrong_cookie(self.number), ..self.ends.claim },
        }
    }

    fn socket(&mut self) -> Result<UdpSocket> {
        let any: IpAddr = match self.ends.receiver {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        match (&self.kept, self.row.time) {
            (Some(kept), _) => Ok(kept.try_clone()?),
            (None, Time::GoesOn) => {
                let kept = UdpSocket::bind((any, 0))?;
                Ok(self.kept.insert(kept).try_clone()?)
            }
            (None, _) => Ok(UdpSocket::bind((any, 0))?),
        }
    }

    /// The number of attempts so far, each with a packet of each kind.
    pub const fn attempts(&self) -> u32 {
        self.number
    }

    /// The packets of the first attempts, which another process made.
    pub fn of_attempts(row: Row, ends: Ends, attempts: u32) -> Result<HashSet<Vec<u8>>> {
        let mut bursts = Self::new(row, ends);
        while bursts.number < attempts {
            bursts.payloads.extend(packets(row.kinds, bursts.claim(), bursts.number)?);
            bursts.number += 1;
        }
        Ok(bursts.payloads)
    }
}

fn packets(kinds: &[Kind], claim: Claim, number: u32) -> Result<Vec<Vec<u8>>> {
    kinds.iter().map(|kind| forged(*kind, claim, number)).collect()
}
