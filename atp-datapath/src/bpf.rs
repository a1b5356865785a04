//! The bpf(2) commands that are simpler to call directly than through a typed map.

use bytemuck::{Pod, Zeroable};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const PROG_QUERY: libc::c_long = 16;
const MAP_FREEZE: libc::c_long = 22;
const MAP_UPDATE_BATCH: libc::c_long = 26;

const TYPE_ARRAY: u32 = 2;
/// Makes the map's memory mappable.
const F_MMAPABLE: u32 = 1 << 10;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct CreateAttr {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ElementAttr {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    element_flags: u64,
    flags: u64,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct InfoAttr {
    fd: u32,
    info_bytes: u32,
    info: u64,
}

/// `struct bpf_prog_info` up to the fields that are read here. Zero in the fields before them asks
/// for no list.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ProgramInfo {
    before: [u64; 24],
    run_ns: u64,
    runs: u64,
}

const _: () = assert!(std::mem::offset_of!(ProgramInfo, run_ns) == 192);

/// The most programs of a hook (BPF_MPROG_MAX).
const HOOK_PROGRAMS_MAX: usize = 64;
const TCX_INGRESS: u32 = 46;
const TCX_EGRESS: u32 = 47;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct QueryAttr {
    ifindex: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    ids: u64,
    count: u32,
    padding: u32,
    program_flags: u64,
    link_ids: u64,
    link_flags: u64,
    revision: u64,
}

/// The numbers of the programs on an interface's tc hook, the first that runs first. Needs
/// CAP_NET_ADMIN; to open programs by their numbers would need CAP_SYS_ADMIN.
pub fn tcx_programs(ifindex: u32, egress: bool) -> io::Result<Vec<u32>> {
    let mut ids = [0u32; HOOK_PROGRAMS_MAX];
    let mut attr = QueryAttr {
        ifindex,
        attach_type: if egress { TCX_EGRESS } else { TCX_INGRESS },
        ids: ids.as_mut_ptr() as u64,
        count: HOOK_PROGRAMS_MAX as u32,
        ..QueryAttr::zeroed()
    };
    match bpf(PROG_QUERY, &mut attr) {
        // Nothing was ever attached.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Vec::new()),
        queried => queried.map(|_| ids.into_iter().take(attr.count as usize).collect()),
    }
}

/// The time of all runs of a program that the kernel measured, nanoseconds, and their number.
pub fn program_runs(program: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    let mut info = ProgramInfo::zeroed();
    let mut attr = InfoAttr {
        fd: program.as_raw_fd() as u32,
        info_bytes: size_of::<ProgramInfo>() as u32,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    bpf(OBJ_GET_INFO_BY_FD, &mut attr)?;
    Ok((info.run_ns, info.runs))
}

/// Creates a mappable array of `entries` values of `value_size` bytes.
pub fn create_array(name: &str, value_size: usize, entries: u32) -> io::Result<OwnedFd> {
    let mut attr = CreateAttr {
        map_type: TYPE_ARRAY,
        key_size: size_of::<u32>() as u32,
        value_size: value_size as u32,
        max_entries: entries,
        map_flags: F_MMAPABLE,
        ..CreateAttr::zeroed()
    };
    let len = name.len().min(attr.name.len() - 1);
    attr.name[..len].copy_from_slice(&name.as_bytes()[..len]);
    let fd = bpf(MAP_CREATE, &mut attr)?;
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Makes a map read-only for userspace, permanently. eBPF programs can still write it.
pub fn freeze(map: BorrowedFd<'_>) -> io::Result<()> {
    bpf(MAP_FREEZE, &mut (map.as_raw_fd() as u32)).map(drop)
}

/// Sets the element at `key`.
pub fn update<K: Pod, V: Pod>(map: BorrowedFd<'_>, key: &K, value: &V) -> io::Result<()> {
    element(MAP_UPDATE_ELEM, map, key, std::ptr::from_ref(value) as u64)
}

/// Sets an element for each of `keys`, of which there are as many as `values`.
///
/// # Errors
/// How many of the first elements are set, and the error of the next one.
pub fn update_batch<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    keys: &[K],
    values: &[V],
) -> Result<(), (usize, io::Error)> {
    assert_eq!(keys.len(), values.len());
    if keys.is_empty() {
        return Ok(());
    }
    let mut attr = BatchAttr {
        keys: keys.as_ptr() as u64,
        values: values.as_ptr() as u64,
        count: keys.len() as u32,
        map_fd: map.as_raw_fd() as u32,
        ..BatchAttr::zeroed()
    };
    match bpf(MAP_UPDATE_BATCH, &mut attr) {
        Ok(_) => Ok(()),
        // An early error leaves the count as it was given.
        Err(error) if attr.count as usize >= keys.len() => Err((0, error)),
        Err(error) => Err((attr.count as usize, error)),
    }
}

/// Reads the element at `key` of a per-CPU map, whose values have eight bytes. `values` has room
/// for one of each processor that the host could have.
pub fn lookup<K: Pod>(map: BorrowedFd<'_>, key: &K, values: &mut [u64]) -> io::Result<()> {
    element(MAP_LOOKUP_ELEM, map, key, values.as_mut_ptr() as u64)
}

/// Removes the element at `key`, if there is one.
pub fn delete<K: Pod>(map: BorrowedFd<'_>, key: &K) -> io::Result<()> {
    match element(MAP_DELETE_ELEM, map, key, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        outcome => outcome,
    }
}

fn element<K: Pod>(
    command: libc::c_long,
    map: BorrowedFd<'_>,
    key: &K,
    value: u64,
) -> io::Result<()> {
    let mut attr = ElementAttr {
        map_fd: map.as_raw_fd() as u32,
        key: std::ptr::from_ref(key) as u64,
        value,
        ..ElementAttr::zeroed()
    };
    bpf(command, &mut attr).map(drop)
}

fn bpf<T: Pod>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` is a live structure of the given size, laid out as the kernel's union for this
    // command; the addresses in it point at values that outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
