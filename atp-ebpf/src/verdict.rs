//! What becomes of a packet.

use crate::counters;
use atp_common::maps::Counter;
use aya_ebpf::bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC, xdp_action};

/// Why a packet's way through a program ended early.
#[derive(Clone, Copy)]
pub enum Refusal {
    /// Not ours: it goes on as it came.
    Foreign,
    /// It goes no further; the counter says why.
    Drop(Counter),
    /// It goes no further, and was counted already: a clone of ours that can't become an ACK, by who made
    /// it; an ACK that was consumed.
    Counted,
    /// It goes back to where it came from; what `bpf_redirect` returned.
    Turned(i32),
}

/// For tc: `TC_ACT_UNSPEC` lets whatever else is attached see the packet too.
#[inline(always)]
pub fn tc(outcome: Result<(), Refusal>) -> i32 {
    match outcome {
        Ok(()) | Err(Refusal::Foreign) => TC_ACT_UNSPEC,
        Err(Refusal::Drop(counter)) => {
            counters::count(counter);
            TC_ACT_SHOT
        }
        Err(Refusal::Counted) => TC_ACT_SHOT,
        Err(Refusal::Turned(action)) => action,
    }
}

/// For XDP.
#[inline(always)]
pub fn xdp(outcome: Result<(), Refusal>) -> u32 {
    match outcome {
        Ok(()) | Err(Refusal::Foreign) => xdp_action::XDP_PASS,
        Err(Refusal::Drop(counter)) => {
            counters::count(counter);
            xdp_action::XDP_DROP
        }
        Err(Refusal::Counted | Refusal::Turned(_)) => xdp_action::XDP_DROP,
    }
}
