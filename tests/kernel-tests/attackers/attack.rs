//! Sends forged packets from an attacker's place, until the job ends.

use crate::table::{Attacker, Row};
use anyhow::Result;
use atp_common::wire::{Header, Kind};
use std::{
    net::{SocketAddrV4, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use testbed::{
    NOBODY, Star,
    privilege::become_user,
    wire::{Capture, Claim, forged, is_for_sender, spoof_v4, wrong_cookie},
};

/// Packets of one burst.
const BURST: u32 = 20;
/// The most bursts: 100 s of them.
const BURSTS_MAX: u32 = 10_000;
const PAUSE: Duration = Duration::from_millis(10);

/// An attack on the job from host 0 to host 1 of a star. Host 2 is the attacker's.
pub struct Attack<'a> {
    pub row: &'a Row,
    pub star: &'a Star,
    /// The ends of the job.
    pub sender: SocketAddrV4,
    pub receiver: SocketAddrV4,
    pub claim: Claim,
}

impl Attack<'_> {
    /// Attacks until `is_over`. Returns the number of packets that left.
    pub fn run(&self, is_over: &AtomicBool) -> Result<u32> {
        let namespace = match self.row.attacker {
            Attacker::LocalUser => &self.star.hosts[0].namespace,
            Attacker::Neighbor | Attacker::OffPath => &self.star.hosts[2].namespace,
            Attacker::OnPath => &self.star.router,
        };
        // The tap must be in the router's network as well, and outlives the bursts.
        let mut tap = match self.row.attacker {
            Attacker::OnPath => Some(Capture::start_at(&self.star.router, "port0")?),
            _ => None,
        };
        namespace.enter(|| {
            if self.row.attacker == Attacker::LocalUser {
                become_user(NOBODY)?;
            }
            let mut sent = 0;
            for burst in 0..BURSTS_MAX {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let claim = match &mut tap {
                    Some(tap) => self.overheard(tap)?,
                    None => None,
                };
                if tap.is_some() && claim.is_none() {
                    continue;
                }
                for number in burst * BURST..(burst + 1) * BURST {
                    let guess = Claim { cookie: wrong_cookie(number), ..self.claim };
                    let claim = claim.unwrap_or(guess);
                    let kinds = self.row.kinds.iter();
                    let packets = kinds.map(|kind| forged(*kind, claim, number));
                    sent += self.send(&packets.collect::<Result<Vec<_>>>()?)?;
                }
                thread::sleep(PAUSE);
            }
            Ok(sent)
        })
    }

    /// The claim of somebody who reads the job's packets: that of its latest DATA.
    fn overheard(&self, tap: &mut Capture) -> Result<Option<Claim>> {
        let frames = tap.take_whole(BURST as usize)?;
        let data = |(frame, _): &(testbed::wire::Frame, _)| {
            let of_job = frame.kind == Kind::Data && frame.header.job() == self.claim.job;
            (of_job && frame.source == self.sender.into()).then_some(frame.header)
        };
        let latest: Option<Header> = frames.iter().rev().find_map(data);
        Ok(latest.map(|header| Claim {
            cookie: header.cookie(),
            slot: header.slot(),
            ..self.claim
        }))
    }

    fn send(&self, packets: &[Vec<u8>]) -> Result<u32> {
        let (from, to) = match self.row.kinds.iter().copied().all(is_for_sender) {
            true => (self.receiver, self.sender),
            false => (self.sender, self.receiver),
        };
        match self.row.attacker {
            Attacker::OffPath | Attacker::OnPath => {
                spoof_v4(from, to, packets)?;
                Ok(packets.len() as u32)
            }
            Attacker::LocalUser | Attacker::Neighbor => {
                let socket = UdpSocket::bind("0.0.0.0:0")?;
                // Fails where an answer said that the last packet reached no socket.
                let left = packets.iter().filter(|packet| socket.send_to(packet, to).is_ok());
                Ok(left.count() as u32)
            }
        }
    }
}
