//! Finds the user who made the user namespace of a process (ioctl_ns(2)).

use nix::{ioctl_none_bad, ioctl_read_bad};
use std::{
    fs::File,
    io,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::fs::MetadataExt,
    },
};

ioctl_none_bad!(get_parent, libc::NS_GET_PARENT);
ioctl_read_bad!(get_owner, libc::NS_GET_OWNER_UID, libc::uid_t);

/// The user who made the user namespace of process `pid`; `None` if it is that of this process. Of
/// nested namespaces it is the outermost: users of a namespace make further ones in it.
///
/// # Errors
/// This process may not look (ptrace(2), PTRACE_MODE_READ), as without CAP_SYS_PTRACE at processes
/// of others. Or its own namespace doesn't contain the other one.
pub fn owner(pid: i32) -> io::Result<Option<u32>> {
    let own = File::open("/proc/self/ns/user")?;
    let mut namespace = File::open(format!("/proc/{pid}/ns/user"))?;
    if is_same(&own, &namespace)? {
        return Ok(None);
    }
    loop {
        // SAFETY: the call returns a new descriptor, which belongs to the new file.
        let outer = unsafe { File::from_raw_fd(get_parent(namespace.as_raw_fd())?) };
        if is_same(&own, &outer)? {
            let mut owner = 0;
            // SAFETY: the call writes a user id.
            unsafe { get_owner(namespace.as_raw_fd(), &raw mut owner)? };
            return Ok(Some(owner));
        }
        namespace = outer;
    }
}

fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner__none_in_the_own_namespace() {
        assert_eq!(owner(std::process::id() as i32).unwrap(), None);
        owner(-1).unwrap_err();
    }
}
