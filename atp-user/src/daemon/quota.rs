//! The limits per user: a quarter of the host's resources, so that no user can lock out the
//! others. Root has no limit.

use super::refuse;
use approxlib::control::{Refusal, RefusalKind};
use atp_common::maps::{ADVISED_LANES, FLOWS, JOBS, LANES};

/// The most jobs.
pub const JOBS_MAX: usize = JOBS as usize / 4;

/// The most sockets registered for sending.
pub const FLOWS_MAX: usize = FLOWS as usize / 4;

/// The most lanes: one for each group of each sending socket.
pub const LANES_MAX: usize = LANES as usize / 4;

/// The most arriving lanes that get advice.
pub const ADVISED_LANES_MAX: usize = ADVISED_LANES as usize / 4;

/// The most ports registered for receiving. A receiver serves many senders.
pub const RECEIVER_PORTS_MAX: usize = 256;

/// The most connections: the library opens one per socket. Some more are for the command line.
pub const CONNECTIONS_MAX: usize = FLOWS_MAX + RECEIVER_PORTS_MAX + 64;

/// The most connections above the limit that get a refusal. Further ones are closed without a
/// reply.
pub const CONNECTIONS_REFUSED_MAX: usize = 32;

/// Refuses one more of `what` to user `uid`, who uses `used` of `max`.
pub fn check(uid: u32, used: usize, max: usize, what: &str) -> Result<(), Refusal> {
    if uid == 0 || used < max {
        return Ok(());
    }
    refuse(
        RefusalKind::NoRoom,
        format!("user {uid} has {max} {what}, the limit for one user: end one, or ask as root"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check__refuses_one_too_many_but_not_to_root() {
        assert!(check(1000, 63, 64, "jobs").is_ok() && check(0, 64, 64, "jobs").is_ok());
        let refusal = check(1000, 64, 64, "jobs").unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::NoRoom);
        assert!(refusal.message.starts_with("user 1000 has 64 jobs"), "{}", refusal.message);
    }
}
