//! Removes the remains of a crashed daemon: its qdiscs, locks and socket. The kernel removes its
//! programs.

use super::{
    interface_lock::InterfaceLock,
    listener::{self, SocketFile},
};
use anyhow::Result;
use std::path::Path;

/// Removes everything that no running daemon of this network namespace uses; returns a list of it.
pub fn clean_up(socket: &Path, state_dir: &Path) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for interface in atp_datapath::own_qdiscs()? {
        if atp_datapath::has_daemon(&interface)? {
            continue;
        }
        // A daemon that is starting or stopping holds the lock. Dropping this one removes the file.
        let _lock = match state_dir.is_dir() {
            true => Some(InterfaceLock::take(state_dir, &interface)?),
            false => None,
        };
        atp_datapath::remove_own_qdisc(&interface)?;
        removed.push(format!("the qdisc of {interface}"));
    }
    if listener::inspect(socket)? == SocketFile::Stale {
        listener::remove(socket)?;
        removed.push(format!("the socket {}", socket.display()));
    }
    Ok(removed)
}
