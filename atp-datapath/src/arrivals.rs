//! The memory of receiver advice: the programs' counts of what arrives, and the lanes that a
//! receiving library has admitted.

use super::{DatapathError, bpf, mapped::MappedArray, table::Table};
use atp_common::{
    maps::{
        ADVISED_LANES, ArrivedBytes, ArrivedLane, ArrivingLane, ArrivingLanes, RECEIVER_LANES,
        arrivals::ArrivalKey,
    },
    wire::Advice,
};
use atp_proto::WireBytes;
use aya::Ebpf;
use std::{
    mem::offset_of,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

/// Bytes that arrived, by interface and by lane. Reading makes no system call.
#[derive(Debug)]
pub struct ArrivalCounts {
    keys: Table<ArrivalKey, u32>,
    lanes: MappedArray,
    lines: MappedArray,
    cpus: usize,
    /// Keeps the maps open until the programs that use them are loaded.
    _maps: (Table<u32, ArrivedLane>, Table<u32, ArrivedBytes>),
}

impl ArrivalCounts {
    pub(super) fn take(ebpf: &mut Ebpf, cpus: usize) -> Result<Self, DatapathError> {
        let lanes = Table::<u32, ArrivedLane>::take(ebpf, "ARRIVED_LANES")?;
        let lines = Table::<u32, ArrivedBytes>::take(ebpf, "ARRIVED_BYTES")?;
        let mapping = |error| DatapathError::map("map the memory of arrivals", error);
        Ok(Self {
            keys: Table::take(ebpf, "ADVISED")?,
            lanes: MappedArray::new(lanes.as_fd(), size_of::<ArrivedLane>(), ADVISED_LANES)
                .map_err(mapping)?,
            lines: MappedArray::new(lines.as_fd(), size_of::<ArrivedBytes>(), cpus as u32)
                .map_err(mapping)?,
            cpus,
            _maps: (lanes, lines),
        })
    }

    /// Counts the packets with `key` as those of `lane` from now on.
    pub fn add(&self, lane: u16, key: &ArrivalKey) -> Result<(), DatapathError> {
        self.keys.set(*key, &u32::from(lane))
    }

    /// Counts the packets with `key` as unadvised traffic from now on.
    pub fn remove(&self, key: &ArrivalKey) -> Result<(), DatapathError> {
        self.keys.remove(*key)
    }

    /// The arrivals of a lane, and of those that had its index before.
    pub fn lane(&self, lane: u16) -> ArrivedLane {
        let word = |offset| self.lanes.u32(usize::from(lane), offset).load(Relaxed);
        let bytes = |offset| self.lanes.u64(usize::from(lane), offset).load(Relaxed);
        ArrivedLane {
            bytes: bytes(offset_of!(ArrivedLane, bytes)),
            interface: word(offset_of!(ArrivedLane, interface)),
            backlogged: word(offset_of!(ArrivedLane, backlogged)),
            approximate_bytes: bytes(offset_of!(ArrivedLane, approximate_bytes)),
            reserved: [0; _],
        }
    }

    /// The bytes that arrived on a line.
    pub fn line_bytes(&self, line: usize) -> WireBytes {
        let at = line * size_of::<u64>();
        let sum = |field: usize| {
            let bytes = |cpu| self.lines.u64(cpu, field + at).load(Relaxed);
            (0..self.cpus).map(bytes).fold(0, u64::wrapping_add)
        };
        WireBytes {
            all: sum(offset_of!(ArrivedBytes, all)),
            approximate: sum(offset_of!(ArrivedBytes, approximate)),
        }
    }
}

/// A receiver's map of lanes that its library has admitted. The library maps it read-write, so
/// every value that it writes may be hostile.
#[derive(Debug)]
pub struct ArrivingMap {
    fd: OwnedFd,
    memory: MappedArray,
}

impl ArrivingMap {
    pub(super) fn new() -> Result<Self, DatapathError> {
        const ACTION: &str = "create a map of arriving lanes";
        let size = size_of::<ArrivingLane>();
        let fd = bpf::create_array("atp_arriving", size, RECEIVER_LANES as u32)
            .map_err(|error| DatapathError::map(ACTION, error))?;
        let memory = MappedArray::new(fd.as_fd(), size, RECEIVER_LANES as u32)
            .map_err(|error| DatapathError::map(ACTION, error))?;
        Ok(Self { fd, memory })
    }

    /// A number that changes with the lanes.
    pub fn changes(&self) -> u64 {
        self.memory.u64(0, offset_of!(ArrivingLanes, changes)).load(Acquire)
    }

    /// Tells the library whether it has to wake the daemon.
    pub fn set_asleep(&self, asleep: bool) {
        self.memory.u64(0, offset_of!(ArrivingLanes, asleep)).store(asleep.into(), Relaxed);
    }

    /// The number of an element's lane; 0 if the element is not in use.
    pub fn number(&self, element: usize) -> u32 {
        self.memory.u32(element, offset_of!(ArrivingLane, number)).load(Acquire)
    }

    /// An element's lane, as the key of packets to `local_port`.
    pub fn key(&self, element: usize, local_port: u16) -> ArrivalKey {
        let word = |offset| self.memory.u64(element, offset).load(Relaxed);
        let words: [u64; 4] = std::array::from_fn(|at| word(at * size_of::<u64>()));
        let [s0, s1, s2, _] = words;
        let mut source = [0; 16];
        source[..8].copy_from_slice(&s0.to_ne_bytes());
        source[8..].copy_from_slice(&s1.to_ne_bytes());
        let [c0, c1, c2, c3, p0, p1, g0, g1] = s2.to_ne_bytes();
        ArrivalKey {
            source,
            cookie: u32::from_ne_bytes([c0, c1, c2, c3]),
            source_port: u16::from_ne_bytes([p0, p1]),
            local_port,
            group: u32::from(u16::from_ne_bytes([g0, g1])),
        }
    }

    /// Writes the advice to the lane with this number.
    pub fn advise(&self, element: usize, number: u32, advice: Advice) {
        let word = |offset| self.memory.u32(element, offset);
        word(offset_of!(ArrivingLane, advice)).store(advice.to_wire(), Relaxed);
        word(offset_of!(ArrivingLane, advised)).store(number, Release);
    }
}

impl AsFd for ArrivingMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
