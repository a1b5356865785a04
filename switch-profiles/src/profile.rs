//! The queues of a switch port (NetApprox §5.2), checked.

use super::read::{self, ProfileError};
use std::path::Path;

/// Queues of a port. Queue 0 is served first and carries exact traffic.
pub const QUEUES: usize = 8;

/// What the project ships, and what the daemon assumes unless told otherwise.
const DEFAULT: &str = include_str!("../default.toml");

/// The queues of a switch port: one brain for what the daemon marks and what the switch does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub(super) mtu_bytes: u32,
    pub(super) port_buffer_bytes: u64,
    pub(super) queues: [Queue; QUEUES],
}

/// One queue of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Code points that go here; queue 0 also takes every one that no queue names.
    pub dscp: Vec<u8>,
    /// How many packets may wait, the one being sent not included.
    pub limit_packets: u32,
    /// Packets from which on an ECN-capable packet is marked, if the queue marks.
    pub ecn_threshold_packets: Option<u32>,
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// The file can't be read, or is malformed: the error names file, line and reason.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let text = read::text(path)
            .map_err(|source| ProfileError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Parses a profile; `path` is for the errors only.
    ///
    /// # Errors
    /// As [`Profile::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ProfileError> {
        read::parse(text).map_err(|malformed| malformed.locate(text, path))
    }

    /// The code point that ATP's egress writes for queue 1 to 7: the first one of the queue. Queue 0
    /// keeps what the application set, 0 if it set nothing.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn dscp_of_queue(&self, queue: u8) -> u8 {
        self.queues[usize::from(queue)].dscp.first().copied().unwrap_or(0)
    }

    /// How many packets may wait in a queue.
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn depth_packets(&self, queue: u8) -> u32 {
        self.queues[usize::from(queue)].limit_packets
    }

    /// The longest IP packet.
    pub fn mtu_bytes(&self) -> u32 {
        self.mtu_bytes
    }

    /// The port's whole buffer.
    pub fn port_buffer_bytes(&self) -> u64 {
        self.port_buffer_bytes
    }

    /// All queues, queue 0 first.
    pub fn queues(&self) -> &[Queue; QUEUES] {
        &self.queues
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::parse(DEFAULT, Path::new("switch-profiles/default.toml"))
            .expect("the shipped profile is parsed by a test")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NetApprox §5.2
    #[test]
    fn default__is_the_paper_s() {
        let profile = Profile::default();
        for queue in 1..=7u8 {
            assert_eq!(profile.dscp_of_queue(queue), 4 * queue - 1);
            assert_eq!(profile.depth_packets(queue), 8 - u32::from(queue));
            assert_eq!(profile.queues()[usize::from(queue)].ecn_threshold_packets, None);
        }
        assert_eq!(profile.dscp_of_queue(0), 0);
        assert_eq!(profile.depth_packets(0), 256);
        assert_eq!(profile.queues()[0].ecn_threshold_packets, Some(65));
        assert_eq!(profile.mtu_bytes(), 1500);
    }

    #[test]
    fn load__missing_file_is_named() {
        let error = Profile::load(Path::new("no/such.toml")).unwrap_err().to_string();
        assert!(error.contains("no/such.toml") && error.contains("can't be read"), "{error}");
    }

    #[test]
    fn load__an_endless_file_is_refused() {
        let error = Profile::load(Path::new("/dev/zero")).unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.contains("longer than"), "{why}");
    }
}
