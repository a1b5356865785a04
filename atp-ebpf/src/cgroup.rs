//! Finds the job of a packet's socket by its cgroup, and caches it in the socket's storage.
//!
//! A socket's cgroup is that of the process that made it, and never changes. The jobs of cgroups
//! change, and `Config::generation` with them.

use crate::maps::CGROUPS;
use atp_common::maps::{CGROUP_LEVELS, Config};
use aya_ebpf::{
    bindings::BPF_SK_STORAGE_GET_F_CREATE,
    btf_maps::SkStorage,
    helpers::generated::{bpf_sk_storage_get, bpf_skb_ancestor_cgroup_id, bpf_skb_cgroup_id},
    macros::btf_map,
    programs::TcContext,
};
use core::ffi::c_void;

/// The socket's cgroup belongs to no job.
pub const NO_JOB: u32 = u32::MAX;

/// The cached job of a socket: the generation of the lookup in the upper half, in the lower one the
/// index of the job of its cgroup, or [`NO_JOB`]. One word, so that programs that look up at once
/// never leave the job of one generation with the number of another.
type Annotation = u64;

#[btf_map]
static SOCKETS: SkStorage<Annotation> = SkStorage::new();

/// Whether a cgroup was ever given to a job.
#[inline(always)]
pub fn are_bound(config: &Config) -> bool {
    // SAFETY: a field of a map value, whole in one load.
    unsafe { (&raw const config.generation).read_volatile() != 0 }
}

/// Whether the packet comes from a socket of this host.
#[inline(always)]
pub fn has_socket(ctx: &TcContext) -> bool {
    // SAFETY: as in `job_of_socket`.
    !unsafe { (*ctx.skb.skb).__bindgen_anon_2.sk }.is_null()
}

/// The index of the job to whose cgroup the packet's socket belongs, or [`NO_JOB`].
#[inline(always)]
pub fn job_of_socket(ctx: &TcContext, config: &Config) -> u32 {
    // Read once, before the lookup, so that the lookup's result is of this generation or a later
    // one.
    // SAFETY: a field of a map value, whole in one load.
    let generation = unsafe { (&raw const config.generation).read_volatile() };
    // No cgroup was ever given to a job.
    if generation == 0 {
        return NO_JOB;
    }
    let skb = ctx.skb.skb;
    // SAFETY: `skb` is the program's context; the verifier checks the field's use.
    let socket = unsafe { (*skb).__bindgen_anon_2.sk };
    if socket.is_null() {
        return NO_JOB;
    }
    let storage = (&raw const SOCKETS).cast_mut().cast::<c_void>();
    let flags = u64::from(BPF_SK_STORAGE_GET_F_CREATE);
    // SAFETY: a map, a socket that isn't null, and a new element that is all zero.
    let annotation =
        unsafe { bpf_sk_storage_get(storage, socket.cast(), core::ptr::null_mut(), flags) }
            .cast::<Annotation>();
    if annotation.is_null() {
        return look_up(ctx);
    }
    // SAFETY: an aligned u64, whole in one load. It lives as long as its socket, which the packet
    // holds.
    let cached = unsafe { annotation.read_volatile() };
    if (cached >> 32) as u32 == generation {
        return cached as u32;
    }
    let job_index = look_up(ctx);
    // SAFETY: as above, in one store.
    unsafe { annotation.write_volatile(u64::from(generation) << 32 | u64::from(job_index)) };
    job_index
}

/// The job of the nearest cgroup that has one, from the socket's own cgroup upwards.
#[inline(always)]
fn look_up(ctx: &TcContext) -> u32 {
    // SAFETY: the program's context; 0 if the packet has no socket.
    let own = unsafe { bpf_skb_cgroup_id(ctx.skb.skb) };
    if let Some(job_index) = job_of_cgroup(own) {
        return job_index;
    }
    // The root is level 0.
    for level in 0..=CGROUP_LEVELS {
        // SAFETY: as above; 0 if the socket's cgroup isn't that deep.
        let id = unsafe { bpf_skb_ancestor_cgroup_id(ctx.skb.skb, CGROUP_LEVELS - level) };
        if let Some(job_index) = job_of_cgroup(id) {
            return job_index;
        }
    }
    NO_JOB
}

#[inline(always)]
fn job_of_cgroup(id: u64) -> Option<u32> {
    // SAFETY: the element is read at once; a concurrent removal changes the generation.
    unsafe { CGROUPS.get(id) }.copied()
}
