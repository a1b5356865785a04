//! Epochs in the kernel: the programs that run the laws, and the memory in which they do.

use super::{
    Datapath, DatapathError,
    mapped::Mapped,
    program,
    table::{Table, mismatch},
};
use atp_common::{
    laws::RateLaw,
    maps::{LANES, LaneLaw},
    units::Share,
};
use aya::{
    Ebpf,
    maps::{MapData, ProgramArray},
    programs::{ProgramFd, SchedClassifier, Xdp},
};
use std::{
    mem::offset_of,
    os::fd::AsFd,
    sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// A program holds a law for microseconds. One that holds it for longer was stopped in the middle, by
/// a machine that stands still: the control loop doesn't wait for that.
const TRIES_MAX: u32 = 1_000;

/// Where tail calls find the programs of laws. They find none once this is dropped.
pub(super) struct LawPrograms(#[expect(dead_code, reason = "held")] [ProgramArray<MapData>; 2]);

impl LawPrograms {
    fn load(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let (tc, xdp) = ("atp_law_tc", "atp_law_xdp");
        let refused = super::load::program_error;
        let of_tc: &mut SchedClassifier = program(ebpf, tc)?;
        of_tc.load().map_err(|error| refused(tc, error))?;
        let fd = own_fd(of_tc.fd())?;
        let of_tc = reachable(ebpf, "LAW_TC", &fd)?;
        let of_xdp: &mut Xdp = program(ebpf, xdp)?;
        of_xdp.load().map_err(|error| refused(xdp, error))?;
        let fd = own_fd(of_xdp.fd())?;
        Ok(Self([of_tc, reachable(ebpf, "LAW_XDP", &fd)?]))
    }
}

fn own_fd(fd: Result<&ProgramFd, aya::programs::ProgramError>) -> Result<ProgramFd, DatapathError> {
    let failed = |error: String| DatapathError::Load(error);
    fd.map_err(|error| failed(error.to_string()))?
        .try_clone()
        .map_err(|error| failed(error.to_string()))
}

fn reachable(
    ebpf: &mut Ebpf,
    name: &'static str,
    program: &ProgramFd,
) -> Result<ProgramArray<MapData>, DatapathError> {
    let map = ebpf.take_map(name).ok_or_else(|| mismatch(format!("it has no map {name}")))?;
    let mut map = ProgramArray::try_from(map)
        .map_err(|_| mismatch(format!("the map {name} has another type")))?;
    map.set(0, program, 0).map_err(|error| DatapathError::Load(super::chain(&error)))?;
    Ok(map)
}

impl Datapath {
    /// From now on the programs run the laws of lanes, of which `law` is the approximate ones'.
    ///
    /// # Errors
    /// [`DatapathError::LawsNeedFq`] where rates are HTB's, which programs can't set;
    /// [`DatapathError::LawNotInPrograms`]; what the kernel has against the programs.
    pub fn load_laws(&mut self, law: RateLaw) -> Result<(), DatapathError> {
        if !law.runs_in_kernel() {
            return Err(DatapathError::LawNotInPrograms);
        }
        if !self.paces_by_departure() {
            return Err(DatapathError::LawsNeedFq);
        }
        self.law_programs = Some(LawPrograms::load(&mut self.ebpf)?);
        Ok(())
    }
}

/// The memory of all lanes' laws, shared with the programs.
#[derive(Debug)]
pub struct Laws {
    memory: Mapped,
    /// Open until the programs of laws are loaded, if they are.
    _map: Table<u32, LaneLaw>,
}

impl Laws {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let map = Table::<u32, LaneLaw>::take(ebpf, "LANE_LAW")?;
        let memory = Mapped::new(map.as_fd(), size_of::<LaneLaw>(), LANES)
            .map_err(|error| DatapathError::map("map the memory of the laws", error))?;
        Ok(Self { memory, _map: map })
    }

    /// Keeps the programs from working on a lane's law until the guard is dropped; `None` if one is at
    /// it and doesn't come to its end.
    pub fn hold(&self, lane: u16) -> Option<Held<'_>> {
        let holder = self.memory.u64(usize::from(lane), offset_of!(LaneLaw, holder));
        for _ in 0..TRIES_MAX {
            if holder.compare_exchange(LaneLaw::FREE, LaneLaw::DAEMON, AcqRel, Acquire).is_ok() {
                return Some(Held { laws: self, lane });
            }
            std::thread::yield_now();
        }
        None
    }

    /// Tells a lane's law its target, and returns the law as the programs left it. They may be at work
    /// on it: of its fields, some can be older than others.
    pub fn exchange(&self, lane: u16, tlr: Share) -> LaneLaw {
        let tlr_at = offset_of!(LaneLaw, tlr_q16);
        self.memory.u32(usize::from(lane), tlr_at).store(tlr.q16(), Relaxed);
        let mut law: LaneLaw = bytemuck::Zeroable::zeroed();
        let words: &mut [u64] = bytemuck::cast_slice_mut(bytemuck::bytes_of_mut(&mut law));
        for (at, word) in words.iter_mut().enumerate() {
            *word = self.memory.u64(usize::from(lane), at * size_of::<u64>()).load(Relaxed);
        }
        law
    }
}

/// A lane's law in the daemon's hands.
pub struct Held<'a> {
    laws: &'a Laws,
    lane: u16,
}

impl Held<'_> {
    /// Writes the law anew.
    pub fn write(&self, law: &LaneLaw) {
        let words: &[u64] = bytemuck::cast_slice(bytemuck::bytes_of(law));
        let own = size_of_val(&law.holder) / size_of::<u64>();
        for (at, word) in words.iter().enumerate().skip(own) {
            self.laws
                .memory
                .u64(usize::from(self.lane), at * size_of::<u64>())
                .store(*word, Relaxed);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let holder = self.laws.memory.u64(usize::from(self.lane), offset_of!(LaneLaw, holder));
        holder.store(LaneLaw::FREE, Release);
    }
}

const _: () = assert!(offset_of!(LaneLaw, holder) == 0);
