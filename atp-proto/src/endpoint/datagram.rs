//! Packets as they come from a socket.

use super::Ends;

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The header, or its beginning if the packet is shorter.
    pub head: &'a [u8],
    /// The bytes after the header.
    pub body: &'a [u8],
    /// Where it came from, and where to.
    pub ends: Ends,
    /// The traffic class: DSCP and ECN bits.
    pub traffic_class: u8,
}

/// One or more packets of one sender that the kernel merged (GRO).
pub trait Buffer {
    /// Where its packets came from, and where to.
    fn ends(&self) -> Ends;

    /// The traffic class of all its packets.
    fn traffic_class(&self) -> u8;

    /// The packets, in order.
    fn packets(&self) -> impl ExactSizeIterator<Item = Datagram<'_>>;

    /// The total length of the bodies, bytes, if they lie in one piece.
    fn contiguous_bytes(&self) -> Option<usize>;

    /// Takes the bodies out of the buffer, in one piece.
    fn take_contiguous(&mut self) -> Vec<u8>;
}
