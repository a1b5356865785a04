//! How much of a host one user may take: a quarter of what there is, so that no user can lock the
//! others out. Root may take all.

use super::refuse;
use approxlib::control::{Refusal, RefusalKind};
use atp_common::maps::{FLOWS, JOBS, LANES};

/// Jobs.
pub const JOBS_MAX: usize = JOBS as usize / 4;

/// Sockets registered for sending.
pub const FLOWS_MAX: usize = FLOWS as usize / 4;

/// Lanes: one for each group of each sending socket.
pub const LANES_MAX: usize = LANES as usize / 4;

/// Ports registered for receiving. A receiver serves many senders.
pub const RECEIVER_PORTS_MAX: usize = 256;

/// Connections: one for each of these sockets, as the library opens them, and some to ask with.
pub const CONNECTIONS_MAX: usize = FLOWS_MAX + RECEIVER_PORTS_MAX + 64;

/// Connections above that which are told so; still more are closed without a word.
pub const CONNECTIONS_TOLD_MAX: usize = 32;

/// Refuses one more of `what` to user `uid`, who has `held`, if that is the most.
pub fn check(uid: u32, held: usize, max: usize, what: &str) -> Result<(), Refusal> {
    if uid == 0 || held < max {
        return Ok(());
    }
    refuse(
        RefusalKind::NoRoom,
        format!(
            "user {uid} has {max} {what}, the most that one user can have: end one, or ask as root"
        ),
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
