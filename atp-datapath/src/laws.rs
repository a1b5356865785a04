//! Epochs in the kernel: loads the programs that run the laws, and shares their memory.

use super::{
    Datapath,
    error::{DatapathError, error_chain, program_error},
    mapped::MappedArray,
    program,
    table::{Table, mismatch},
};
use atp_common::{
    laws::lane::Lane,
    maps::{LANES, LaneLaw, ReceivedAdvice},
    units::{Rate, Share},
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

/// Attempts to lock a law. A program holds the lock for microseconds, unless its processor is
/// stopped. The control loop doesn't wait for a stopped processor.
const ATTEMPTS_MAX: u32 = 1_000;

/// The tail call maps with the law programs. Dropping it removes the programs from them.
pub(super) struct LawPrograms(
    #[expect(dead_code, reason = "keeps the maps open")] [ProgramArray<MapData>; 2],
);

impl LawPrograms {
    fn load(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        // In the order of `After` in the programs.
        let of_tc = ["atp_law_pass", "atp_law_consume"].map(|name| {
            let tc: &mut SchedClassifier = program(ebpf, name)?;
            tc.load().map_err(|error| program_error(name, error))?;
            own_fd(tc.fd())
        });
        let name = "atp_law_xdp";
        let xdp: &mut Xdp = program(ebpf, name)?;
        xdp.load().map_err(|error| program_error(name, error))?;
        let of_xdp = own_fd(xdp.fd());
        Ok(Self([tail_calls(ebpf, "LAW_TC", of_tc)?, tail_calls(ebpf, "LAW_XDP", [of_xdp])?]))
    }
}

fn own_fd(fd: Result<&ProgramFd, aya::programs::ProgramError>) -> Result<ProgramFd, DatapathError> {
    let failed = |error: String| DatapathError::Load(error);
    fd.map_err(|error| failed(error.to_string()))?
        .try_clone()
        .map_err(|error| failed(error.to_string()))
}

fn tail_calls<const N: usize>(
    ebpf: &mut Ebpf,
    name: &'static str,
    programs: [Result<ProgramFd, DatapathError>; N],
) -> Result<ProgramArray<MapData>, DatapathError> {
    let map = ebpf.take_map(name).ok_or_else(|| mismatch(format!("it has no map {name}")))?;
    let mut map = ProgramArray::try_from(map)
        .map_err(|_| mismatch(format!("the map {name} has another type")))?;
    for (index, program) in (0..).zip(programs) {
        map.set(index, &program?, 0).map_err(|error| DatapathError::Load(error_chain(&error)))?;
    }
    Ok(map)
}

impl Datapath {
    /// Makes the programs run the laws of all lanes from now on.
    ///
    /// # Errors
    /// [`DatapathError::LawsNeedFq`] if the backend is HTB, whose rates programs can't set; the
    /// kernel's refusal of the programs.
    pub fn load_laws(&mut self) -> Result<(), DatapathError> {
        if !self.paces_by_departure() {
            return Err(DatapathError::LawsNeedFq);
        }
        self.law_programs = Some(LawPrograms::load(&mut self.programs.lock())?);
        Ok(())
    }
}

/// The memory of all lanes' laws, shared with the programs.
#[derive(Debug)]
pub struct Laws {
    memory: MappedArray,
    /// Keeps the map open until the law programs are loaded, if they are.
    _map: Table<u32, LaneLaw>,
}

impl Laws {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        let map = Table::<u32, LaneLaw>::take(ebpf, "LANE_LAW")?;
        let memory = MappedArray::new(map.as_fd(), size_of::<LaneLaw>(), LANES)
            .map_err(|error| DatapathError::map("map the memory of the laws", error))?;
        Ok(Self { memory, _map: map })
    }

    /// Locks a lane's law against the programs until the guard is dropped; `None` if a program
    /// holds it for too long.
    pub fn lock(&self, lane: u16) -> Option<LawGuard<'_>> {
        let holder = self.memory.u64(usize::from(lane), offset_of!(LaneLaw, holder));
        for _ in 0..ATTEMPTS_MAX {
            if holder.compare_exchange(LaneLaw::FREE, LaneLaw::DAEMON, AcqRel, Acquire).is_ok() {
                return Some(LawGuard { laws: self, lane });
            }
            std::thread::yield_now();
        }
        None
    }

    /// Writes the inputs of a lane's law, and returns the law as the programs left it. A program
    /// may be changing it: some fields can be older than others, and Rmax can be overwritten until
    /// the next exchange.
    pub fn exchange(&self, lane: u16, inputs: &LawInputs) -> LaneLaw {
        let LawInputs { tlr, advice, rate_max, dscp_by_queue } = *inputs;
        let word = |at| self.memory.u32(usize::from(lane), at);
        let words = |at| self.memory.u64(usize::from(lane), at);
        let rate_max_at = offset_of!(LaneLaw, lane) + Lane::RATE_MAX_AT;
        words(rate_max_at).store(rate_max.bytes_per_s(), Relaxed);
        let dscp_by_queue = u64::from_ne_bytes(dscp_by_queue);
        words(offset_of!(LaneLaw, dscp_by_queue)).store(dscp_by_queue, Relaxed);
        word(offset_of!(LaneLaw, tlr_q16)).store(tlr.q16(), Relaxed);
        word(offset_of!(LaneLaw, advice)).store(advice.advice, Relaxed);
        words(offset_of!(LaneLaw, received_ns)).store(advice.received_ns, Relaxed);
        word(offset_of!(LaneLaw, acks_lost_q16)).store(advice.acks_lost_q16, Relaxed);
        let mut law: LaneLaw = bytemuck::Zeroable::zeroed();
        let words: &mut [u64] = bytemuck::cast_slice_mut(bytemuck::bytes_of_mut(&mut law));
        for (at, word) in words.iter_mut().enumerate() {
            *word = self.memory.u64(usize::from(lane), at * size_of::<u64>()).load(Relaxed);
        }
        law
    }
}

/// The inputs of a lane's law that the daemon knows.
#[derive(Clone, Copy, Debug)]
pub struct LawInputs {
    /// The target loss rate.
    pub tlr: Share,
    /// The advice that the sender received.
    pub advice: ReceivedAdvice,
    /// Rmax.
    pub rate_max: Rate,
    /// The DSCP of each queue at the switches.
    pub dscp_by_queue: [u8; 8],
}

/// A lane's law, locked by the daemon.
pub struct LawGuard<'a> {
    laws: &'a Laws,
    lane: u16,
}

impl LawGuard<'_> {
    /// Overwrites the law.
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

impl Drop for LawGuard<'_> {
    fn drop(&mut self) {
        let holder = self.laws.memory.u64(usize::from(self.lane), offset_of!(LaneLaw, holder));
        holder.store(LaneLaw::FREE, Release);
    }
}

const _: () = assert!(offset_of!(LaneLaw, holder) == 0);
