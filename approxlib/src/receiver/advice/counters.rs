//! The kernel's counts of what arrives on an interface.
//!
//! They come from `/proc/thread-self/net/dev`: that file shows the network namespace of the thread
//! that opens it, wherever `/proc` was mounted. `/sys` shows the namespace in which it was mounted.
//! Netlink is right too, but it takes the kernel's lock of the network configuration, which others
//! hold for seconds.

use crate::interface;
use std::{fs::File, io, os::unix::fs::FileExt};

const FILE: &str = "/proc/thread-self/net/dev";
/// Checksum, preamble and gap of an Ethernet frame: interfaces don't count them.
const FRAME_EXTRA_BYTES: u64 = 24;
/// The most that is read to find an interface: some 250 of them. Each line costs the kernel a sum
/// over all processors.
const BYTES_MAX: usize = 32_768;
const CHUNK_BYTES: usize = 4_096;

/// The counters of this thread's network namespace.
#[derive(Debug)]
pub struct Counters {
    file: File,
    text: Vec<u8>,
}

impl Counters {
    /// Opens the counters of the calling thread's network namespace, and keeps to it.
    pub fn open() -> io::Result<Self> {
        File::open(FILE).map(Self::of)
    }

    pub(super) const fn of(file: File) -> Self {
        Self { file, text: Vec::new() }
    }

    /// The bytes on the wire that have arrived on an interface; `None` if nobody counts them.
    pub fn wire_bytes(&mut self, interface: u32) -> Option<u64> {
        let name = interface::own_name(interface)?;
        self.text.clear();
        while self.text.len() < BYTES_MAX {
            let begin = self.text.len();
            self.text.resize(begin + CHUNK_BYTES, 0);
            let read = self.file.read_at(&mut self.text[begin..], begin as u64).ok()?;
            self.text.truncate(begin + read);
            let complete = self.text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
            let found = wire_bytes_of(&self.text[..complete], &name);
            if found.is_some() || read == 0 {
                return found;
            }
        }
        None
    }
}

/// Each line is a name, a colon, the bytes and the packets that arrived, and more.
fn wire_bytes_of(text: &[u8], name: &str) -> Option<u64> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let rest = lines.find_map(|line| {
        line.trim_ascii_start().strip_prefix(name.as_bytes())?.strip_prefix(b":")
    })?;
    let mut numbers = str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let mut next = || numbers.next()?.parse::<u64>().ok();
    let (bytes, packets) = (next()?, next()?);
    Some(bytes.wrapping_add(packets.wrapping_mul(FRAME_EXTRA_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    const TEXT: &[u8] = b"Inter-|   Receive                            |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo:  100       2    0    0    0     0          0         0   5 6 7
eth0:12345 10 0 0 0 0 0 0 9 9 9
 beth0: 1 1 0";

    #[test]
    fn wire_bytes_of__counts_frames_with_checksum_and_gap() {
        assert_eq!(wire_bytes_of(TEXT, "lo"), Some(148));
        assert_eq!(wire_bytes_of(TEXT, "eth0"), Some(12_585));
        assert_eq!(wire_bytes_of(TEXT, "beth0"), Some(25));
        for name in ["eth", "th0", "Inter-|", "", "face |bytes    packets"] {
            assert_eq!(wire_bytes_of(TEXT, name), None, "{name}");
        }
    }

    #[test]
    fn wire_bytes__of_the_loopback_grow_with_its_packets() {
        let lo = nix::net::if_::if_nametoindex("lo").unwrap();
        let mut counters = Counters::open().unwrap();
        let before = counters.wire_bytes(lo).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..10).for_each(|_| _ = socket.send_to(&[0; 1_000], socket.local_addr().unwrap()));
        let counted = counters.wire_bytes(lo).unwrap() - before;
        // The loopback counts no Ethernet header.
        assert!(counted >= 10 * (1_000 + 28 + 24), "{counted}");
        assert_eq!(counters.wire_bytes(u32::MAX), None);
    }

    #[test]
    fn wire_bytes__beyond_many_interfaces() {
        let name = interface::own_name(nix::net::if_::if_nametoindex("lo").unwrap()).unwrap();
        let lo = nix::net::if_::if_nametoindex("lo").unwrap();
        let path = tempfile::NamedTempFile::new().unwrap();
        for (others, expected) in [(100, Some(29)), (10_000, None)] {
            let mut text = "veth: 1 2 3\n".repeat(others);
            text.push_str(&format!("{name}: 5 1 0\n"));
            std::fs::write(path.path(), text).unwrap();
            let mut counters = Counters::of(File::open(path.path()).unwrap());
            assert_eq!(counters.wire_bytes(lo), expected);
        }
    }
}
