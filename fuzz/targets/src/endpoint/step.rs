//! The steps of hostile senders. There are few addresses, jobs and runs, so packets often meet.

use arbitrary::Arbitrary;
use atp_common::{
    units::Msr,
    wire::{Fields, Flags, Header, Kind},
};
use std::net::SocketAddr;

/// Bits of [`Flags`].
const PACKED: u8 = 8;
const MORE: u8 = 16;
const WHOLE_WINDOW: u8 = 64;
const WINDOW: u8 = 128;

/// Runs of each job at each address.
const COOKIES: u8 = 4;

/// One step.
#[derive(Debug, Arbitrary)]
pub enum Step {
    /// A packet.
    Packet(Origin, Packet),
    /// A packet that comes in this many runs, from all addresses.
    Flood(u8, Origin, Packet),
    /// A message whose packets come in one buffer.
    Complete(Origin, Complete),
    /// The packet that came this many before the last one comes again.
    Again(u8),
    /// A pause, milliseconds.
    Wait(u16),
    /// The library's housekeeping.
    Expire,
    /// A request of the application: a group and a rate, or the end.
    Request(Origin, Option<(u8, u16)>),
    /// The adviser has gone.
    EndAdvice,
    /// The application drops the receiver.
    Leave,
}

/// Where a packet comes from.
#[derive(Clone, Copy, Debug, Default, Arbitrary)]
pub struct Origin {
    pub host: u8,
    pub job: bool,
    pub cookie: u8,
}

impl Origin {
    /// Two networks of IPv4, and two hosts of one network of IPv6.
    pub fn address(&self) -> SocketAddr {
        let text = ["10.0.0.1:1", "10.0.0.2:1", "[fd00::1]:1", "[fd00::2]:1"];
        text[usize::from(self.host % 4)].parse().expect("an address")
    }

    pub fn job(&self) -> u32 {
        1 + u32::from(self.job)
    }

    fn cookie(&self) -> u8 {
        self.cookie % COOKIES
    }

    /// The bytes of all messages of this run.
    pub fn content(&self) -> u8 {
        1 + self.host % 4 + 4 * u8::from(self.job) + 8 * self.cookie()
    }
}

/// The content of the messages of a run.
pub fn content_of(from: SocketAddr, job: u32, cookie: u32) -> u8 {
    let of_host = |host: &u8| Origin { host: *host, ..Origin::default() }.address() == from;
    let host = (0..4).find(of_host).expect("an address of the steps");
    Origin { host, job: job == 2, cookie: cookie as u8 }.content()
}

/// Whether the content of a message is that of a run of this sender.
pub fn is_content_of(content: u8, from: SocketAddr, job: u32) -> bool {
    let bits = content - 1;
    let origin = Origin { host: bits % 4, job: bits / 4 % 2 == 1, cookie: 0 };
    (origin.address(), origin.job()) == (from, job)
}

/// One packet. Its body repeats the content of its run, so that the application knows the run.
#[derive(Clone, Debug, Arbitrary)]
pub struct Packet {
    pub kind: PacketKind,
    pub group: u8,
    pub message: u8,
    pub index: u8,
    pub count: u8,
    pub flags: u8,
    pub slot: u8,
}

#[derive(Clone, Debug, Arbitrary)]
pub enum PacketKind {
    Data(u8),
    /// A body of one group: messages, needed and delivered.
    Fin(u8, u8, u8),
    /// A body of any bytes.
    Other(u8, Vec<u8>),
    /// Cut before the header's end.
    Cut(u8),
}

impl Packet {
    /// `windows`: whether the packet may be of a job with several windows.
    pub fn bytes(&self, origin: &Origin, slot: &mut u32, windows: bool) -> Vec<u8> {
        *slot = slot.wrapping_add(1);
        let (kind, body) = match &self.kind {
            PacketKind::Data(len) => (Kind::Data, vec![origin.content(); usize::from(*len)]),
            PacketKind::Fin(messages, needed, delivered) => (Kind::Fin, {
                let counts = [messages, needed, delivered].map(|count| u32::from(*count));
                fin(self.group, counts)
            }),
            PacketKind::Other(kind, body) => {
                let kinds = [Kind::Terms, Kind::Probe, Kind::Fin, Kind::Ack, Kind::Receipt];
                (kinds[usize::from(*kind) % kinds.len()], body.clone())
            }
            PacketKind::Cut(_) => (Kind::Data, Vec::new()),
        };
        let unwanted = match (kind, windows) {
            // A packed packet would hold messages of other contents.
            (Kind::Data, true) => PACKED,
            (Kind::Data, false) => PACKED | WHOLE_WINDOW | WINDOW,
            (_, true) => 0,
            (_, false) => MORE,
        };
        let flags = crate::wire::flags(kind, self.flags & !unwanted);
        let count = u32::from(self.count % 4 + 1);
        let (message, index, count) = match self.kind {
            // The sum of all groups' messages, the attempt, and the only page.
            PacketKind::Fin(messages, ..) => (messages, self.index.into(), 1),
            _ => (self.message, u32::from(self.index) % count, count),
        };
        let header = Header::new(&Fields {
            flags,
            group: self.group % 3,
            job: origin.job(),
            cookie: origin.cookie().into(),
            message: message.into(),
            index,
            count,
            slot: slot.wrapping_sub(u32::from(self.slot % 8)),
            ..Fields::of(kind)
        });
        let mut bytes = [header.as_bytes(), &body[..]].concat();
        if let PacketKind::Cut(len) = self.kind {
            bytes.truncate(usize::from(len) % bytes.len());
        }
        bytes
    }
}

/// A body of one group.
fn fin(group: u8, [messages, needed, delivered]: [u32; 3]) -> Vec<u8> {
    use atp_common::wire::{FinBody, FinGroup};
    let group = FinGroup { group: group % 3, messages, needed, delivered };
    let mut body = vec![0; 20];
    FinBody::write(&mut body, 0, &[group]).expect("a body of one group");
    body
}

/// A message that comes complete.
#[derive(Clone, Debug, Arbitrary)]
pub struct Complete {
    pub group: u8,
    pub message: u8,
    pub packets: u8,
    pub len: u8,
    /// The window's number, if the packets name it.
    pub window: Option<u8>,
    /// Whether the last packet is missing.
    pub is_short: bool,
}

impl Complete {
    /// `windows`: whether the message may be of a job with several windows.
    pub fn packets(&self, origin: &Origin, slot: &mut u32, windows: bool) -> Vec<Vec<u8>> {
        let count = u32::from(self.packets % 8) + 1;
        let here = count - u32::from(self.is_short && count > 1);
        let packet = |index| {
            *slot = slot.wrapping_add(1);
            let header = Header::new(&Fields {
                flags: Flags::NO_ACK,
                group: self.group % 3,
                job: origin.job(),
                cookie: origin.cookie().into(),
                message: self.message.into(),
                index,
                count,
                slot: *slot,
                ..Fields::of(Kind::Data)
            });
            let header = match self.window.filter(|_| windows) {
                Some(window) => header.with_window(u32::from(window % 4)),
                None => header,
            };
            let body = vec![origin.content(); 1 + usize::from(self.len)];
            [header.as_bytes(), &body[..]].concat()
        };
        (0..here).map(packet).collect()
    }
}

/// A request's group and rate.
pub fn rate((group, parts): (u8, u16)) -> (u8, Msr) {
    let parts = u32::from(parts) * 15_000;
    (group % 3, Msr::from_parts_per_billion(parts).expect("at most 0.98"))
}

/// A message of one packet, of a run that no step names.
pub fn first_message(origin: &Origin) -> Vec<u8> {
    let header = Header::new(&Fields {
        job: origin.job(),
        cookie: u32::MAX,
        count: 1,
        ..Fields::of(Kind::Data)
    });
    [header.as_bytes(), &[origin.content()][..]].concat()
}
