//! Packets, and where they are kept while they are under way.

use crate::waste::Piece;
use atp_common::wire::{Header, Kind};

/// A host's number.
pub type HostId = u32;
/// A flow's number: one sender and one receiver.
pub type FlowId = u32;
/// A packet's place among those under way.
pub type PacketId = u32;

/// Bytes around an IP packet on the wire: header, check sequence, preamble and gap.
pub const ETHERNET_BYTES: u32 = 14 + 4 + 20;

/// A packet.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Whose it is. Both directions have the flow's number.
    pub flow: FlowId,
    /// Where it was sent.
    pub source: HostId,
    /// Where it goes.
    pub destination: HostId,
    /// What it takes on the wire, [`ETHERNET_BYTES`] included.
    pub wire_bytes: u32,
    /// Which of several equal ways it takes.
    pub path: u32,
    /// Its code point.
    pub dscp: u8,
    /// What pFabric's switches look at: the less, the sooner. Others don't.
    pub rank: u32,
    /// Which of its flow's messages it belongs to; pFabric's switches keep the packets of one in order.
    pub message: u32,
    /// Switches may mark it.
    pub ecn_capable: bool,
    /// A switch did.
    pub marked: bool,
    /// What the hosts say to each other.
    pub body: Body,
}

impl Packet {
    /// Which part of its sender's data it carries; `None` if it carries none.
    pub fn piece(&self) -> Option<Piece> {
        match self.body {
            Body::Atp { ref header, .. } => {
                let (message, part, parts) = (header.message(), header.index(), header.count());
                (header.kind() == Ok(Kind::Data)).then_some(Piece::Message { message, part, parts })
            }
            Body::Datagram { message, number, count } => {
                Some(Piece::Message { message, part: number, parts: count })
            }
            Body::Dctcp(Dctcp::Segment { sequence, bytes, messages, .. }) => {
                Some(Piece::Stream { begin: sequence, end: sequence + u64::from(bytes), messages })
            }
            Body::PFabric(PFabric::Segment { number, count }) => {
                Some(Piece::Message { message: self.message, part: number, parts: count })
            }
            Body::Ndp(Ndp::Data(NdpData { cut, trimmed: false, .. }))
            | Body::Mlt(Mlt::Data { cut, .. }) => Some(Piece::Cut(cut)),
            Body::Dctcp(Dctcp::Ack { .. })
            | Body::PFabric(PFabric::Probe | PFabric::Ack { .. })
            | Body::Ndp(_)
            | Body::Mlt(_) => None,
        }
    }
}

/// What is in a packet, as far as a scheme looks at it.
#[derive(Clone, Debug)]
pub enum Body {
    /// ATP's own header, and the body of a control packet. Messages have lengths, no content.
    Atp {
        /// As on the wire.
        header: Header,
        /// Bytes of a message that it carries.
        payload_bytes: u32,
        /// What follows the header of a receipt, a FIN or its answer.
        control: Option<Box<[u8]>>,
    },
    /// UDP's: one datagram of a message.
    Datagram {
        /// The message.
        message: u32,
        /// Which of its datagrams.
        number: u32,
        /// Of how many datagrams it is.
        count: u32,
    },
    /// DCTCP's segments and acknowledgements.
    Dctcp(Dctcp),
    /// pFabric's.
    PFabric(PFabric),
    /// NDP's.
    Ndp(Ndp),
    /// MLT's.
    Mlt(Mlt),
}

/// A byte stream's packets.
#[derive(Clone, Copy, Debug)]
pub enum Dctcp {
    /// Bytes of the stream.
    Segment {
        /// Where they begin.
        sequence: u64,
        /// How many.
        bytes: u32,
        /// Messages that end in or before it.
        messages: u32,
        /// Which transmission of the flow it is.
        turn: u64,
        /// When it left, picoseconds.
        sent_ps: u64,
    },
    /// What has come of it.
    Ack {
        /// All bytes below are here.
        cumulative: u64,
        /// Where the segment that it answers began.
        sequence: u64,
        /// It was marked.
        echo: bool,
        /// Which transmission it answers.
        turn: u64,
        /// When that had left.
        sent_ps: u64,
    },
}

/// What pFabric's ends say of the message that a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PFabric {
    /// A part of it.
    Segment {
        /// Which.
        number: u32,
        /// Of how many.
        count: u32,
    },
    /// Does anything come through?
    Probe,
    /// A part, or a probe, is here.
    Ack {
        /// Which part; of a probe, none.
        number: Option<u32>,
    },
}

/// What NDP's ends say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ndp {
    /// Part of the flow's stream of messages.
    Data(NdpData),
    /// The packet of this number is here.
    Ack {
        /// Which.
        number: u32,
        /// How many packets the receiver has asked for so far.
        pulled: u32,
    },
    /// The header of the packet of this number is here.
    Nack {
        /// Which.
        number: u32,
        /// As in an acknowledgement.
        pulled: u32,
    },
    /// More is asked for.
    Pull {
        /// As in an acknowledgement.
        pulled: u32,
    },
    /// Nothing more comes, whatever is missing: to whom still asks.
    End,
}

/// A packet of NDP's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NdpData {
    /// What is in it.
    pub cut: Cut,
    /// When it left, its sender had nothing after it.
    pub last: bool,
    /// A switch has cut off its payload.
    pub trimmed: bool,
}

/// What a packet carries of a stream of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Its number in its flow.
    pub number: u32,
    /// How many messages are in it from beginning to end.
    pub whole: u32,
    /// What it has of messages that are in several packets: one that began before it, one that goes on.
    pub parts: [Option<Part>; 2],
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its message.
    pub message: u32,
    /// In how many packets that is.
    pub packets: u32,
}

/// What the ends of a bounded-loss transport in the manner of MLT say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mlt {
    /// Part of the flow's stream of messages.
    Data {
        /// What is in it.
        cut: Cut,
        /// Which transmission of the flow it is.
        turn: u64,
    },
    /// A packet is here.
    Ack {
        /// Which transmission.
        turn: u64,
        /// What it took on the wire.
        wire_bytes: u32,
        /// It was marked.
        echo: bool,
    },
    /// All was sent: what is missing?
    Probe {
        /// Which probe it is.
        probe: u32,
        /// How many packets there are.
        packets: u32,
    },
    /// Packets that are missing.
    Missing {
        /// Which probe it answers.
        probe: u32,
        /// Their numbers.
        numbers: Box<[u32]>,
    },
    /// Enough is here.
    Stop,
}

impl Packet {
    /// NDP's switches may cut off what it carries, and its ends know what to make of the rest.
    pub const fn is_trimmable(&self) -> bool {
        matches!(self.body, Body::Ndp(Ndp::Data(NdpData { trimmed: false, .. })))
    }

    /// NDP's switches let it go before data: a header, or what NDP's ends say to each other.
    pub const fn is_urgent(&self) -> bool {
        matches!(self.body, Body::Ndp(_)) && !self.is_trimmable()
    }
}

/// Packets under way, each with a number for as long as it is.
#[derive(Debug, Default)]
pub struct Packets {
    slots: Vec<Option<Packet>>,
    /// By slot: switches that its packet has come to.
    switches: Vec<u8>,
    free: Vec<PacketId>,
    trimmed: Vec<Trimmed>,
}

/// What was cut off a packet: as much as if it had been dropped and a header sent in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// Its flow.
    pub flow: FlowId,
    /// Its bytes on the wire before.
    pub wire_bytes: u32,
    /// Switches that it had come to.
    pub switches: u8,
}

impl Packets {
    /// Takes in a packet.
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = Some(packet);
                self.switches[id as usize] = 0;
                id
            }
            None => {
                self.slots.push(Some(packet));
                self.switches.push(0);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Gives it back.
    ///
    /// # Panics
    /// If it isn't under way.
    pub fn remove(&mut self, id: PacketId) -> Packet {
        self.free.push(id);
        self.slots[id as usize].take().expect("a packet under way")
    }

    /// Looks at it.
    ///
    /// # Panics
    /// If it isn't under way.
    pub fn packet(&self, id: PacketId) -> &Packet {
        self.slots[id as usize].as_ref().expect("a packet under way")
    }

    /// It came to one more switch; returns to how many that makes.
    pub fn note_switch(&mut self, id: PacketId) -> u8 {
        let switches = &mut self.switches[id as usize];
        *switches = switches.saturating_add(1);
        *switches
    }

    /// How many switches it has come to.
    pub fn switches(&self, id: PacketId) -> u8 {
        self.switches[id as usize]
    }

    /// Marks it: congestion was experienced.
    ///
    /// # Panics
    /// If it isn't under way.
    pub fn mark(&mut self, id: PacketId) {
        self.slots[id as usize].as_mut().expect("a packet under way").marked = true;
    }

    /// One of the packets that were trimmed since it was asked for last.
    pub fn next_trimmed(&mut self) -> Option<Trimmed> {
        self.trimmed.pop()
    }

    /// Leaves so much of it on the wire. Nothing happens to what can't be trimmed.
    ///
    /// # Panics
    /// If it isn't under way.
    pub fn trim(&mut self, id: PacketId, wire_bytes: u32) {
        let switches = self.switches(id);
        let packet = self.slots[id as usize].as_mut().expect("a packet under way");
        if let Body::Ndp(Ndp::Data(data)) = &mut packet.body {
            self.trimmed.push(Trimmed {
                flow: packet.flow,
                wire_bytes: packet.wire_bytes,
                switches,
            });
            data.trimmed = true;
            packet.wire_bytes = wire_bytes;
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
