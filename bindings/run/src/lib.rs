//! The library that `atp-run` loads into a program.
//!
//! A datagram to a port with a rule becomes a message of a stream, if the other end runs under
//! `atp-run` too. The other end's library receives the message, and sends it to the program's own
//! UDP socket over the loopback. The program therefore reads, polls, duplicates and inherits the
//! socket as it always does; only the address of the sender has to be put back in place.
//!
//! A connection to a TCP port with a rule is carried likewise: see `tcp`.

mod address;
mod claims;
mod cutter;
mod datagram;
mod descriptors;
mod destinations;
mod elsewhere;
mod ender;
mod framing;
mod holders;
mod hosts;
mod incoming;
mod interpose;
mod leaving;
mod limit;
mod map;
mod names;
mod next;
mod outgoing;
mod outlets;
mod port;
mod secret;
mod sending;
mod shared;
mod state;
mod tcp;
mod threads;
