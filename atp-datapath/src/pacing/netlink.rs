//! Sends requests to the kernel's traffic control over a netlink socket.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// Requests per batch. The kernel answers only failed requests and the last one, and its socket
/// buffer holds that many errors.
pub const BATCH: usize = 64;

/// A socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

type Message = NetlinkMessage<RouteNetlinkMessage>;

impl Netlink {
    /// Opens a socket.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends one request and waits for the kernel's answer.
    pub fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut bytes = Vec::new();
        let sequence = self.push(&mut bytes, message, NLM_F_REQUEST | NLM_F_ACK | flags);
        self.socket.send(&bytes, 0)?;
        self.outcome_until(sequence)
    }

    /// Sends requests in batches of [`BATCH`]; the first error is returned after all were sent.
    pub fn request_all(&mut self, messages: Vec<RouteNetlinkMessage>) -> io::Result<()> {
        let mut outcome = Ok(());
        let mut messages = messages.into_iter().peekable();
        while messages.peek().is_some() {
            let mut bytes = Vec::new();
            let mut batch = messages.by_ref().take(BATCH).peekable();
            let mut sequence = self.sequence;
            while let Some(message) = batch.next() {
                let ack = if batch.peek().is_none() { NLM_F_ACK } else { 0 };
                sequence = self.push(&mut bytes, message, NLM_F_REQUEST | ack);
            }
            self.socket.send(&bytes, 0)?;
            outcome = outcome.and(self.outcome_until(sequence));
        }
        outcome
    }

    /// Requests one object, such as a route, and returns it.
    pub fn get(&mut self, message: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        let mut bytes = Vec::new();
        self.push(&mut bytes, message, NLM_F_REQUEST);
        self.socket.send(&bytes, 0)?;
        loop {
            for message in self.receive()? {
                match message.payload {
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(inner) => return Ok(inner),
                    _ => {}
                }
            }
        }
    }

    /// Requests a dump and returns its messages.
    pub fn dump(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut bytes = Vec::new();
        self.push(&mut bytes, message, NLM_F_REQUEST | NLM_F_DUMP);
        self.socket.send(&bytes, 0)?;
        let mut found = Vec::new();
        loop {
            for message in self.receive()? {
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(found),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(inner) => found.push(inner),
                    _ => {}
                }
            }
        }
    }

    fn push(&mut self, bytes: &mut Vec<u8>, message: RouteNetlinkMessage, flags: u16) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = Message::new(header, NetlinkPayload::from(message));
        message.finalize();
        let at = bytes.len();
        bytes.resize(at + message.buffer_len(), 0);
        message.serialize(&mut bytes[at..]);
        self.sequence
    }

    /// Reads answers up to that for `sequence`; returns the first error among them.
    fn outcome_until(&self, sequence: u32) -> io::Result<()> {
        let mut outcome = Ok(());
        loop {
            for message in self.receive()? {
                if let NetlinkPayload::Error(error) = message.payload {
                    if error.code.is_some() {
                        outcome = outcome.and(Err(error.to_io()));
                    }
                    if message.header.sequence_number == sequence {
                        return outcome;
                    }
                }
            }
        }
    }

    fn receive(&self) -> io::Result<Vec<Message>> {
        let (bytes, _) = self.socket.recv_from_full()?;
        let mut messages = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let message = Message::deserialize(rest)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            let len = (message.header.length as usize).next_multiple_of(4).clamp(16, rest.len());
            messages.push(message);
            rest = &rest[len..];
        }
        Ok(messages)
    }
}
