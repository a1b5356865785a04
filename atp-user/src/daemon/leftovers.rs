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
    let (Some(parent), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Ok(leftovers);
    };
    // In another user's folder the name may mean another file after each look at it.
    let folder = Folder::open(parent).and_then(|folder| match folder {
        Some(folder) => folder.require_own().map(|()| Some(folder)),
        None => Ok(None),
    });
    let folder = folder.unwrap_or_else(|error| {
        leftovers.kept.push(format!("{error:#}"));
        None
    });
    if let Some(folder) = folder {
        let file = folder.through(name);
        if listener::inspect(&file)? == SocketFile::Stale {
            listener::remove(&file)?;
            leftovers.removed.push(format!("the socket {}", socket.display()));
        }
    }
    Ok(leftovers)
}
