//! Metrics for Prometheus and its like: OpenMetrics text over HTTP, from the snapshot page.
//!
//! Labels are job id, group and names of fixed lists (event, program, outcome, state, limit), never
//! addresses or names that users choose.

mod families;
mod local_peers;

pub use families::text;

use anyhow::{Context, Result};
use approxlib::control::Snapshot;
use atp_metrics::Server;
use local_peers::PeerLookup;
use std::net::SocketAddr;

/// Serves the metrics of a host, from its snapshot page.
///
/// # Errors
/// If the address can't be bound, or the thread can't be started.
pub fn serve(address: SocketAddr, mut snapshot: Snapshot) -> Result<Server> {
    let mut lookup = PeerLookup::open();
    let find_peer = move |remote, local| lookup.peer(remote, local);
    let render = move |scrapes| text(&snapshot.read(), scrapes);
    Server::start(address, find_peer, render)
        .with_context(|| format!("can't serve metrics at {address}: choose another --metrics"))
}
