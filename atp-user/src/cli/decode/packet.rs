//! An ATP packet: its header and its body.

use super::datagram::Datagram;
use atp_common::wire::{
    FinBody, Flags, HEADER_LEN, Header, Kind, PROBE_LEN, PackedBody, ParseError, ProbeBody,
    ReceiptBody, RequestBody, TermsBody, arrival,
};
use std::net::SocketAddr;

/// An ATP packet of a capture.
pub struct Packet<'a> {
    /// The time of the capture, nanoseconds since 1970.
    pub time_ns: u64,
    /// The source address.
    pub source: SocketAddr,
    /// The destination address.
    pub destination: SocketAddr,
    /// The header, which can be invalid.
    pub header: Header,
    /// The part after the header.
    pub body: Body<'a>,
}

/// The part of a packet after its header.
pub enum Body<'a> {
    /// DATA: the number of bytes.
    Data(usize),
    /// DATA of several messages: the number of bytes, and the messages.
    Packed(usize, PackedBody<'a>),
    /// Nothing, as the kind requires.
    Empty,
    /// ACK: when its packet arrived.
    Ack(u32),
    /// PROBE: room for the answer.
    Probe,
    /// PROBE-ACK.
    ProbeAck(Box<ProbeBody>),
    /// RECEIPT.
    Receipt(ReceiptBody<'a>),
    /// FIN and FIN-ACK.
    Fin(FinBody<'a>),
    /// TERMS.
    Terms(TermsBody<'a>),
    /// REQUEST.
    Request(RequestBody<'a>),
    /// The capture lacks this number of bytes.
    Truncated(usize),
    /// The length or the contents don't match the kind.
    Malformed,
    /// Not read, because the header is invalid.
    Unknown,
}

impl<'a> Packet<'a> {
    /// The ATP packet in a datagram; `None` if it has another protocol or version.
    pub fn new(datagram: &Datagram<'a>) -> Option<Self> {
        let (header, body) = datagram.payload.split_first_chunk::<HEADER_LEN>()?;
        let header: Header = bytemuck::cast(*header);
        let body = match header.kind() {
            Err(ParseError::Short | ParseError::NotAtp | ParseError::Version) => return None,
            Err(_) => Body::Unknown,
            Ok(Kind::Data) if header.flags().contains(Flags::PACKED) && datagram.missing == 0 => {
                let packed = PackedBody::parse(&header, body);
                packed.map_or(Body::Malformed, |packed| Body::Packed(body.len(), packed))
            }
            Ok(Kind::Data) => Body::Data(body.len() + datagram.missing),
            Ok(_) if datagram.missing > 0 => Body::Truncated(datagram.missing),
            Ok(kind) => Body::parse(kind, body).unwrap_or(Body::Malformed),
        };
        let Datagram { time_ns, source, destination, .. } = *datagram;
        Some(Self { time_ns, source, destination, header, body })
    }
}

impl<'a> Body<'a> {
    fn parse(kind: Kind, body: &'a [u8]) -> Option<Self> {
        match kind {
            Kind::Data => Some(Self::Data(body.len())),
            // Earlier versions sent no time of arrival.
            Kind::Ack if !body.is_empty() => arrival(body).map(Self::Ack),
            Kind::Ack | Kind::Reset => body.is_empty().then_some(Self::Empty),
            Kind::Probe => (body.len() == PROBE_LEN - HEADER_LEN).then_some(Self::Probe),
            Kind::ProbeAck => ProbeBody::parse(body).map(|body| Self::ProbeAck(Box::new(body))),
            Kind::Receipt => ReceiptBody::parse(body).map(Self::Receipt),
            Kind::Fin | Kind::FinAck => FinBody::parse(body).map(Self::Fin),
            Kind::Terms => TermsBody::parse(body).map(Self::Terms),
            Kind::Request => RequestBody::parse(body).map(Self::Request),
        }
    }
}
