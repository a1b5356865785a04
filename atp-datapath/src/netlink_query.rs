//! Asks the kernel questions over netlink, of any family.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};
use std::{fmt::Debug, io};

/// A socket in the network namespace of the thread that opened it.
pub struct Query(Socket);

impl Query {
    /// Opens a socket for a protocol, for example `NETLINK_ROUTE`.
    pub fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// The kernel's answers to a question about one thing.
    pub fn one<T>(&self, question: T) -> io::Result<Vec<T>>
    where
        T: NetlinkSerializable + NetlinkDeserializable + Debug,
    {
        self.ask(question, NLM_F_ACK)
    }

    /// The kernel's list of all things that match a question.
    pub fn all<T>(&self, question: T) -> io::Result<Vec<T>>
    where
        T: NetlinkSerializable + NetlinkDeserializable + Debug,
    {
        self.ask(question, NLM_F_DUMP)
    }

    fn ask<T>(&self, question: T, flags: u16) -> io::Result<Vec<T>>
    where
        T: NetlinkSerializable + NetlinkDeserializable + Debug,
    {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = 1;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(question));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        self.answers()
    }

    /// Reads answers up to the end of a list, an acknowledgment or an error.
    fn answers<T: NetlinkDeserializable + Debug>(&self) -> io::Result<Vec<T>> {
        let mut found = Vec::new();
        loop {
            let (bytes, _) = self.0.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let message = NetlinkMessage::<T>::deserialize(rest).map_err(|error| {
                    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
                })?;
                match message.payload {
                    NetlinkPayload::Done(done) if done.code == 0 => return Ok(found),
                    NetlinkPayload::Done(done) => {
                        return Err(io::Error::from_raw_os_error(done.code.abs()));
                    }
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(found),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(inner) => found.push(inner),
                    _ => {}
                }
                let len = (message.header.length as usize).next_multiple_of(4);
                rest = &rest[len.clamp(16, rest.len())..];
            }
        }
    }
}
