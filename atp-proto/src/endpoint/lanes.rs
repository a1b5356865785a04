//! The lanes that arrive at a host, which counts and advises them.

use atp_common::wire::{Advice, Header};
use std::net::SocketAddr;

/// One sender's lanes, as the host keeps them to advise them. Dropping them ends the advice.
pub trait Lanes: Default {
    /// Calls `give` with each group's advice that has changed since the last call.
    fn take_advice(&mut self, give: impl FnMut(u8, Advice));

    /// Removes all lanes, and returns their groups.
    fn clear(&mut self) -> impl Iterator<Item = u8>;
}

/// A host without advice.
impl Lanes for () {
    fn take_advice(&mut self, _: impl FnMut(u8, Advice)) {}

    fn clear(&mut self) -> impl Iterator<Item = u8> {
        std::iter::empty()
    }
}

/// The host's part in the arrival of packets.
pub trait Host {
    /// The lanes of one sender, as it keeps them.
    type Lanes: Lanes;

    /// Whether the endpoint acknowledges the packets. The host's kernel does so otherwise.
    fn acknowledges(&self) -> bool;

    /// Takes note of DATA from the sender at `source`, which has the lanes `lanes`.
    fn on_data(&mut self, source: SocketAddr, lanes: &mut Self::Lanes, arrived: &Arrived<'_>);
}

/// DATA of one lane that arrived together.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The header of one of the packets.
    pub header: &'a Header,
    /// Their number.
    pub packets: u32,
    /// Their bytes, without headers.
    pub body_bytes: usize,
}
