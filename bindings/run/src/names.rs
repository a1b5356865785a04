//! The addresses that a program sees in the place of the library's own.
//!
//! A message and a carried connection come to the program over the loopback, each sender from
//! another port. The table by that port is memory that children of `fork` share: they read the
//! sockets that they inherit.

use crate::shared::canonical;
use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence},
};

/// The protocols, whose ports are each their own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Protocol {
    Udp,
    Tcp,
}

/// The addresses of both ends, as the program sees them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ends {
    pub peer: SocketAddr,
    pub local: SocketAddr,
    /// The index of the local address's interface; 0 if it has none.
    pub interface: u32,
}

const PORTS: usize = 65_536;
/// Entries for each protocol, of IPv4 and of IPv6.
const ENTRIES: usize = 4 * PORTS;
/// The library's IP address, the peer's and the local address, and the interface.
const WORDS: usize = 9;
/// A reader that always meets a writer gives up.
const TRIES: usize = 100;

/// All zero: no name.
struct Table {
    is_used: AtomicBool,
    entries: [Entry; ENTRIES],
}

struct Entry {
    /// Odd while the words change.
    version: AtomicU64,
    words: [AtomicU64; WORDS],
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());

/// Makes the table, unless it was inherited. Only ports that are used take memory.
pub fn begin() {
    if !TABLE.load(Ordering::Acquire).is_null() {
        return;
    }
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    );
    // SAFETY: new memory, which is all zero.
    let memory = unsafe { libc::mmap(null_mut(), size_of::<Table>(), protection, flags, -1, 0) };
    if memory != libc::MAP_FAILED {
        TABLE.store(memory.cast(), Ordering::Release);
    }
}

fn table() -> Option<&'static Table> {
    // SAFETY: the memory is never unmapped, and all zero is a table.
    unsafe { TABLE.load(Ordering::Acquire).as_ref() }
}

fn entry(protocol: Protocol, far: SocketAddr) -> Option<&'static Entry> {
    let part = 2 * protocol as usize + usize::from(far.is_ipv6());
    table()?.entries.get(part * PORTS + usize::from(far.port()))
}

/// Names the ends of what comes to the program from the library's address `far`.
pub fn note(protocol: Protocol, far: SocketAddr, ends: Ends) {
    let far = canonical(far);
    if let (Some(table), Some(entry)) = (table(), entry(protocol, far)) {
        let [peer, local] = [ends.peer, ends.local].map(words);
        let far = words(far);
        let [far, peer, local] = [&far[..2], &peer, &local];
        let mut words = [0; WORDS];
        let all = far.iter().chain(peer).chain(local).copied().chain([ends.interface.into()]);
        words.iter_mut().zip(all).for_each(|(place, word)| *place = word);
        entry.write(words);
        table.is_used.store(true, Ordering::Release);
    }
}

/// The names of what comes from `far`, if that is the library's.
pub fn of(protocol: Protocol, far: SocketAddr) -> Option<Ends> {
    if !are_there() {
        return None;
    }
    let far = canonical(far);
    let found = entry(protocol, far)?.read()?;
    (found[..2] == words(far)[..2]).then(|| Ends {
        peer: address([found[2], found[3], found[4]]),
        local: address([found[5], found[6], found[7]]),
        interface: found[8] as u32,
    })
}

pub fn forget(protocol: Protocol, far: SocketAddr) {
    if let Some(entry) = entry(protocol, canonical(far)) {
        entry.write([0; WORDS]);
    }
}

/// Whether there were names: a look without a system call.
pub fn are_there() -> bool {
    table().is_some_and(|table| table.is_used.load(Ordering::Acquire))
}

fn words(address: SocketAddr) -> [u64; 3] {
    let (ip, scope) = match address {
        SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
    };
    let ip = ip.to_bits();
    [(ip >> 64) as u64, ip as u64, u64::from(scope) << 16 | u64::from(address.port())]
}

fn address([high, low, rest]: [u64; 3]) -> SocketAddr {
    let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
    let port = rest as u16;
    match ip.to_canonical() {
        IpAddr::V4(ip) => (ip, port).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, (rest >> 16) as u32).into(),
    }
}

impl Entry {
    fn write(&self, words: [u64; WORDS]) {
        self.version.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.words.iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        self.version.fetch_add(1, Ordering::Release);
    }

    fn read(&self) -> Option<[u64; WORDS]> {
        for _ in 0..TRIES {
            let version = self.version.load(Ordering::Acquire);
            let words = std::array::from_fn(|index| self.words[index].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return (version > 0).then_some(words);
            }
            std::hint::spin_loop();
        }
        None
    }
}
