//! What a crashed daemon leaves: its qdiscs, its locks and its socket. Its programs go with it.

use super::{
    instance::InterfaceLock,
    listener::{self, Found},
};
use crate::datapath;
use anyhow::Result;
use std::path::Path;

/// Removes what no daemon of this network namespace uses any more, and says what it was.
pub fn clean_up(socket: &Path, state_dir: &Path) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for interface in datapath::own_qdiscs()? {
        if datapath::is_attended(&interface)? {
            continue;
        }
        // A daemon that starts or ends just now holds the lock; a crashed one's goes with this.
        let _lock = match state_dir.is_dir() {
            true => Some(InterfaceLock::take(state_dir, &interface)?),
            false => None,
        };
        datapath::remove_own_qdisc(&interface)?;
        removed.push(format!("the qdisc of {interface}"));
    }
    if listener::look_at(socket)? == Found::Stale {
        listener::remove(socket)?;
        removed.push(format!("the socket {}", socket.display()));
    }
    Ok(removed)
}
