//! Serves metrics over HTTP to Prometheus and its like, on a thread of its own.
//!
//! A program gives a function that renders its page, as OpenMetrics text. Clients that are slow, or
//! that come by the hundred, keep no other client from its page: each [`Peer`] has its share of the
//! places.

#![deny(missing_docs)]

mod peer;
mod server;

pub use peer::Peer;
pub use server::{Scrapes, Server, TYPE};
