//! Identifies a process by id and start time, so that a signal never reaches another process.

use anyhow::{Context, Result};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

/// A process by id and start time. The kernel reuses ids, but not the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub pid: u32,
    /// Clock ticks from the machine's boot to the process's start.
    pub started: u64,
}

impl Identity {
    /// The process that has this id now. A zombie doesn't count: in a container it may stay
    /// a zombie.
    pub fn of(pid: u32) -> Option<Identity> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Identity { pid, started: start_of(&stat)? })
    }

    /// This process.
    pub fn this() -> Result<Identity> {
        Identity::of(std::process::id()).context("/proc is not mounted")
    }

    pub fn is_alive(self) -> bool {
        Identity::of(self.pid) == Some(self)
    }

    /// The identity as `PID-START`, which [`Self::from_name`] reads.
    pub fn name(self) -> String {
        format!("{}-{}", self.pid, self.started)
    }

    pub fn from_name(name: &str) -> Option<Identity> {
        let (pid, started) = name.split_once('-')?;
        Some(Identity { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Signals the process if it is still the same one.
    pub fn signal(self, signal: Signal) {
        if self.is_alive() {
            // The process may end before the signal; then there is nothing to do.
            let _ = signal::kill(Pid::from_raw(self.pid as i32), signal);
        }
    }
}

/// Field 22 of /proc/PID/stat, unless field 3 says that the process is dead. The program's name,
/// the second field, may hold anything, and ends with the last parenthesis.
fn start_of(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_of__a_name_may_hold_anything() {
        let stat = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 99 100";
        assert_eq!(start_of(stat), Some(4242));
        assert_eq!(start_of(&stat.replace(" S ", " Z ")), None);
        assert_eq!(start_of("12 (x"), None);
    }

    #[test]
    fn identity__round_trip_and_life() {
        let this = Identity::this().unwrap();
        assert_eq!(Identity::from_name(&this.name()), Some(this));
        assert!(this.is_alive());
        assert!(!Identity { started: this.started + 1, ..this }.is_alive());
        assert_eq!(Identity::from_name("12"), None);
        assert_eq!(Identity::from_name("12-x"), None);
    }
}
