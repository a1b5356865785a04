//! Holds the kernel's lock of the network configuration (rtnl).

use anyhow::{Context, Result, ensure};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::{
    ffi::c_void,
    fs::File,
    io::Read,
    num::NonZeroUsize,
    os::fd::{AsFd, AsRawFd, FromRawFd},
    thread,
    time::Duration,
};

/// The kernel asks for the page at once, if it has an answer.
const ASKS_WITHIN_MS: u16 = 60_000;
const PAGE_BYTES: usize = 4096;
const ETHTOOL_GSET: u32 = 1;
/// `_IOWR(0xaa, ..)` of linux/userfaultfd.h
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_ZEROPAGE: libc::c_ulong = 0xc020_aa04;
const UFFD_API: u64 = 0xaa;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
/// `struct uffd_msg`
const MESSAGE_BYTES: usize = 32;

/// Why the lock can't be held here, in the test runner's format; `None` if it can.
pub fn missing() -> Option<String> {
    userfaultfd().err().map(|_| "needs userfaultfd".to_owned())
}

/// Holds the lock for `duration`, with an ethtool request about an interface of the calling
/// thread's namespace. Every change of every network waits for that long. Calls `held` once it has
/// the lock.
///
/// The kernel writes its answer while it holds the lock. The answer's page is missing, and another
/// thread takes its time to supply it.
///
/// # Errors
/// The kernel refuses one of the steps.
pub fn hold(interface: &str, duration: Duration, held: impl FnOnce() + Send) -> Result<()> {
    let faults = userfaultfd().context("userfaultfd")?;
    call(&faults, UFFDIO_API, &mut [UFFD_API, 0, 0])?;
    let bytes = NonZeroUsize::new(2 * PAGE_BYTES).context("no bytes")?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: new anonymous memory, which nothing else uses; it is unmapped below.
    let pages = unsafe { mmap_anonymous(None, bytes, access, MapFlags::MAP_PRIVATE)? };
    // SAFETY: the last four bytes of the first of two mapped pages, aligned.
    let command = unsafe { pages.cast::<u8>().add(PAGE_BYTES - size_of::<u32>()).cast::<u32>() };
    // SAFETY: as above.
    unsafe { command.write(ETHTOOL_GSET) };
    let second = pages.as_ptr() as u64 + PAGE_BYTES as u64;
    let len = PAGE_BYTES as u64;
    call(&faults, UFFDIO_REGISTER, &mut [second, len, UFFDIO_REGISTER_MODE_MISSING, 0])?;
    let supplied = thread::scope(|scope| {
        let supplier = scope.spawn(|| -> Result<()> {
            let asks = &mut [PollFd::new(faults.as_fd(), PollFlags::POLLIN)];
            let asked = poll(asks, ASKS_WITHIN_MS)?;
            ensure!(asked > 0, "the kernel wrote no answer");
            (&faults).read_exact(&mut [0; MESSAGE_BYTES])?;
            held();
            thread::sleep(duration);
            call(&faults, UFFDIO_ZEROPAGE, &mut [second, len, 0, 0])
        });
        ask(interface, command.as_ptr().cast())?;
        supplier.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    // SAFETY: mapped above, and used by nothing any more.
    unsafe { munmap(pages, bytes.get())? };
    supplied
}

fn userfaultfd() -> std::io::Result<File> {
    // SAFETY: a system call without pointers, whose result is checked.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
    match i32::try_from(fd) {
        // SAFETY: a new descriptor that nothing else owns.
        Ok(fd) if fd >= 0 => Ok(unsafe { File::from_raw_fd(fd) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn call<const WORDS: usize>(
    faults: &File,
    request: libc::c_ulong,
    argument: &mut [u64; WORDS],
) -> Result<()> {
    // SAFETY: `argument` has the size that the request's number says.
    let result = unsafe { libc::ioctl(faults.as_raw_fd(), request, argument.as_mut_ptr()) };
    ensure!(result == 0, "request {request:#x}: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Asks for the interface's link settings.
fn ask(interface: &str, data: *mut c_void) -> Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: all zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    ensure!(interface.len() < request.ifr_name.len(), "a long name");
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = data.cast();
    // SAFETY: a live ifreq whose data has room for the 44 bytes of the answer.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    // The interface need not know its settings; then the kernel writes no answer.
    ensure!(result == 0, "ethtool on {interface}: {}", std::io::Error::last_os_error());
    Ok(())
}
