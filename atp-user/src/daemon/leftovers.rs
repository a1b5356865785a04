//! Removes the remains of a crashed daemon: its qdiscs, locks and socket. The kernel removes its
//! programs.

use super::{
    folder::{Folder, Planted},
    interface_lock::InterfaceLock,
    listener::{self, SocketFile},
};
use anyhow::Result;
use std::path::Path;

/// The remains of a crashed daemon, in words.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Things that were removed.
    pub removed: Vec<String>,
    /// Names in the daemon's folders that have something else than the daemon's files.
    pub kept: Vec<String>,
}

/// Removes everything that no running daemon of this network namespace uses.
///
/// The folders may belong to the daemon's user, who is not trusted.
pub fn clean_up(socket: &Path, state_dir: &Path) -> Result<Leftovers> {
    let mut leftovers = Leftovers::default();
    for interface in atp_datapath::own_qdiscs()? {
        if atp_datapath::has_daemon(&interface)? {
            continue;
        }
        // A daemon that is starting or stopping holds the lock. Dropping this one removes the file.
        let lock = Folder::open(state_dir)?.map(|folder| InterfaceLock::borrow(folder, &interface));
        let _lock = match lock.transpose() {
            Err(error) if error.is::<Planted>() => {
                leftovers.kept.push(error.to_string());
                None
            }
            lock => lock?,
        };
        atp_datapath::remove_own_qdisc(&interface)?;
        leftovers.removed.push(format!("the qdisc of {interface}"));
    }
    let folder = Folder::open(socket.parent().unwrap_or(socket)).ok().flatten();
    // In another user's folder the name may mean another file after each look at it.
    let own = folder.filter(|folder| folder.require_own().is_ok()).zip(socket.file_name());
    if let Some((folder, name)) = own {
        let file = folder.through(name);
        if listener::inspect(&file)? == SocketFile::Stale {
            listener::remove(&file)?;
            leftovers.removed.push(format!("the socket {}", socket.display()));
        }
    }
    Ok(leftovers)
}
