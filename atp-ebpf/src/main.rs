//! The eBPF datapath.
//!
//! | program | hook | task |
//! |---|---|---|
//! | `atp_egress` | tc egress | paces, marks, stamps and counts DATA; turns marked clones into ACKs |
//! | `atp_ingress` | tc ingress | acknowledges or records DATA; answers PROBEs; consumes ACKs without XDP |
//! | `atp_xdp` | XDP | consumes ACKs and answers to PROBEs before the kernel makes an skb of them |
//! | `atp_law_pass`, `atp_law_consume`, `atp_law_xdp` | tail call from those | evaluates epochs and sets the rate, with `--epochs kernel` |
//!
//! Every hook has one function for a packet's path. It returns `Ok` if the packet passes, or a
//! [`verdict::Verdict`]. Laws, header, map layouts and checksums come from `atp-common`.
//!
//! Programs run beside each other: on several processors, and under PREEMPT_RT also on one, in the
//! middle of each other. `acknowledge` in `ingress` runs egress inside itself on every kernel. So
//! shared memory is changed by atomic operations or by single stores, and no program leaves a value
//! in memory of its processor that it has to find again.

#![no_std]
#![no_main]
#![feature(asm_experimental_arch, core_intrinsics)]
#![expect(internal_features, reason = "the only atomics that eBPF's v3 instruction set has here")]

mod ack;
mod arrived;
mod atomic;
mod cgroup;
mod consume;
mod counters;
mod egress;
mod flow;
mod ingress;
mod law;
mod line;
mod log;
mod maps;
mod mark_dscp;
mod membership;
mod pace;
mod packet;
mod parse;
mod parse_hidden;
mod probe;
mod stamp;
mod swap_endpoints;
mod verdict;

use aya_ebpf::{
    bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC, xdp_action},
    macros::{classifier, xdp},
    programs::{TcContext, XdpContext},
};

#[classifier]
pub fn atp_egress(ctx: TcContext) -> i32 {
    verdict::tc(&ctx, egress::run(&ctx))
}

#[classifier]
pub fn atp_ingress(ctx: TcContext) -> i32 {
    verdict::tc(&ctx, ingress::run(&ctx))
}

#[xdp(frags)]
pub fn atp_xdp(ctx: XdpContext) -> u32 {
    let verdict = verdict::xdp(&ctx, consume::run(&ctx));
    line::count_dropped(&ctx, verdict);
    verdict
}

#[classifier]
pub fn atp_law_pass(_: TcContext) -> i32 {
    law::run();
    TC_ACT_UNSPEC
}

#[classifier]
pub fn atp_law_consume(_: TcContext) -> i32 {
    law::run();
    TC_ACT_SHOT
}

#[xdp(frags)]
pub fn atp_law_xdp(_: XdpContext) -> u32 {
    law::run();
    xdp_action::XDP_DROP
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    // Never linked in, or the verifier would reject the loop.
    loop {}
}
