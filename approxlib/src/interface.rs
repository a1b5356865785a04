//! Looks up network interfaces by name, alternative names included.

use nix::{
    net::if_::{if_indextoname, if_nametoindex},
    sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
        socket,
    },
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// The longest name that the system calls for interfaces take, without the final zero.
const SHORT_NAME_BYTES_MAX: usize = libc::IFNAMSIZ - 1;
/// The longest alternative name (ALTIFNAMSIZ), without the final zero.
const NAME_BYTES_MAX: usize = 127;
/// The attribute of an alternative name (`linux/if_link.h`).
const IFLA_ALT_IFNAME: u16 = 53;

/// An interface of this thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's own name, also if it was looked up by an alternative one.
    pub name: String,
    /// The interface's index, which is the scope of its link-local addresses.
    pub index: u32,
}

impl Interface {
    /// The interface with this name or alternative name; `None` if there is none.
    ///
    /// # Errors
    /// The kernel's, if it can't be asked for a long name.
    pub fn named(name: &str) -> io::Result<Option<Self>> {
        let index = match name.len() {
            // The kernel finds short alternative names too.
            1..=SHORT_NAME_BYTES_MAX => if_nametoindex(name).ok(),
            0 => None,
            _ => index_of_long_name(name)?,
        };
        // The interface may have gone meanwhile.
        Ok(index.and_then(|index| Some(Self { name: own_name(index)?, index })))
    }

    /// Whether an interface has this index.
    pub fn exists(index: u32) -> bool {
        own_name(index).is_some()
    }
}

pub(crate) fn own_name(index: u32) -> Option<String> {
    // nix takes the null pointer of an unknown index for success, with an empty name.
    if_indextoname(index).ok()?.into_string().ok().filter(|name| !name.is_empty())
}

/// Asks the kernel over netlink, as `ip link show` does. One message is little enough to be written
/// by hand: an application that links this library needs no crate for it.
fn index_of_long_name(name: &str) -> io::Result<Option<u32>> {
    if name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Ok(None);
    }
    let flags = SockFlag::SOCK_CLOEXEC;
    let kernel = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    let to_kernel = NetlinkAddr::new(0, 0);
    sendto(kernel.as_raw_fd(), &request(name), &to_kernel, MsgFlags::empty())?;
    answer(&kernel)
}

/// RTM_GETLINK with the alternative name: `struct nlmsghdr`, `struct ifinfomsg`, `struct rtattr`.
fn request(name: &str) -> Vec<u8> {
    const HEADERS: usize = 16 + 16 + 4;
    let attribute_bytes = 4 + name.len() + 1;
    let message_bytes = HEADERS - 4 + attribute_bytes.next_multiple_of(4);
    let mut message = Vec::with_capacity(message_bytes);
    message.extend((message_bytes as u32).to_ne_bytes());
    message.extend(libc::RTM_GETLINK.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend([0; 8 + 16]);
    message.extend((attribute_bytes as u16).to_ne_bytes());
    message.extend(IFLA_ALT_IFNAME.to_ne_bytes());
    message.extend(name.as_bytes());
    message.resize(message_bytes, 0);
    message
}

/// The index in the kernel's answer; `None` if there is no such interface.
fn answer(kernel: &OwnedFd) -> io::Result<Option<u32>> {
    // The attributes that don't fit are cut off.
    let mut bytes = [0; 4_096];
    let len = recv(kernel.as_raw_fd(), &mut bytes, MsgFlags::empty())?;
    let bytes = &bytes[..len];
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "no answer about an interface");
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| i32::from_ne_bytes(*word));
    let kind = bytes.get(4..6).and_then(<[u8]>::first_chunk).map(|kind| u16::from_ne_bytes(*kind));
    match (kind, kind.and(word(16)), word(20)) {
        (Some(libc::RTM_NEWLINK), _, Some(index)) => Ok(u32::try_from(index).ok()),
        // `struct nlmsgerr` begins with the negative error number.
        (Some(kind), Some(error), _) if i32::from(kind) == libc::NLMSG_ERROR => match -error {
            // A kernel before 5.5 has no alternative names.
            libc::ENODEV | libc::EINVAL | libc::EOPNOTSUPP => Ok(None),
            error => Err(io::Error::from_raw_os_error(error)),
        },
        _ => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named__finds_the_loopback_and_nothing_else() {
        let index = if_nametoindex("lo").unwrap();
        let lo = Interface { name: "lo".into(), index };
        assert_eq!(Interface::named("lo").unwrap(), Some(lo));
        assert!(Interface::exists(index) && !Interface::exists(u32::MAX));
        let long = ["x".repeat(15), "x".repeat(16), "x".repeat(127), "x".repeat(5_000)];
        let odd = ["", "\0", "lo\0", "name with a zero \0 inside", "é\u{feff}", "%", "../lo"];
        for name in long.iter().map(String::as_str).chain(odd) {
            assert_eq!(Interface::named(name).unwrap(), None, "{name:?}");
        }
    }
}
