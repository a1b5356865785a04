//! `BPF_PROG_TEST_RUN`: the kernel runs a program on a test packet and returns the time it took.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const PROG_LOAD: libc::c_long = 5;
const PROG_TEST_RUN: libc::c_long = 10;

/// The hook that a program is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// `BPF_PROG_TYPE_SCHED_CLS`
    Tc,
    /// `BPF_PROG_TYPE_XDP`
    Xdp,
}

impl Hook {
    const fn program_type(self) -> u32 {
        match self {
            Self::Tc => 3,
            Self::Xdp => 6,
        }
    }
}

/// The `__sk_buff` fields of a packet under tc.
#[derive(Clone, Copy, Debug, Default)]
pub struct SkbFields {
    pub mark: u32,
    pub ifindex: u32,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The last return value of the program.
    pub verdict: u32,
    /// Nanoseconds per run, on average.
    pub ns: u32,
}

/// The part of `union bpf_attr` that test runs use.
#[repr(C)]
struct TestRunAttr {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    padding: u32,
}

const _: () = assert!(size_of::<TestRunAttr>() == 80);

/// The first fields of `struct __sk_buff`; the kernel accepts a shorter struct.
#[repr(C)]
struct SkBuff {
    len: u32,
    pkt_type: u32,
    mark: u32,
    queue_mapping: u32,
    protocol: u32,
    vlan_present: u32,
    vlan_tci: u32,
    vlan_proto: u32,
    priority: u32,
    ingress_ifindex: u32,
    ifindex: u32,
}

/// Runs `program` on `packet`, `repeat` times in a row. Each run changes the packet for the next.
pub fn test_run(
    program: BorrowedFd<'_>,
    packet: &[u8],
    skb: Option<SkbFields>,
    repeat: u32,
) -> io::Result<Outcome> {
    let skb = skb.map(|SkbFields { mark, ifindex }| SkBuff {
        mark,
        ifindex,
        // SAFETY: plain numbers, for which all zero is valid.
        ..unsafe { std::mem::zeroed() }
    });
    let mut attr = TestRunAttr {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: packet.len() as u32,
        data_in: packet.as_ptr() as u64,
        repeat,
        // SAFETY: plain numbers, for which all zero is valid.
        ..unsafe { std::mem::zeroed() }
    };
    if let Some(skb) = &skb {
        attr.ctx_in = std::ptr::from_ref(skb) as u64;
        attr.ctx_size_in = size_of::<SkBuff>() as u32;
    }
    bpf(PROG_TEST_RUN, &mut attr)?;
    Ok(Outcome { verdict: attr.retval, ns: attr.duration })
}

/// The part of `union bpf_attr` that loading needs.
#[repr(C)]
struct LoadAttr {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
}

/// A program that does nothing, to measure the cost of a run itself.
pub fn load_empty(hook: Hook) -> io::Result<OwnedFd> {
    // r0 = 2 (XDP_PASS; tc drops, which makes no difference here); exit
    const INSTRUCTIONS: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];
    let license = c"GPL";
    let mut attr = LoadAttr {
        prog_type: hook.program_type(),
        insn_cnt: INSTRUCTIONS.len() as u32,
        insns: INSTRUCTIONS.as_ptr() as u64,
        license: license.as_ptr() as u64,
    };
    let fd = bpf(PROG_LOAD, &mut attr)?;
    // SAFETY: the kernel just made this descriptor for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn bpf<T>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: `attr` has the layout of the kernel's union for this command. Every address in it
    // points at memory of the given length that outlives the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
