//! The verdict on a packet, and its meaning for each hook.

use crate::counters::note;
use atp_common::maps::Event;
use aya_ebpf::{
    bindings::{TC_ACT_SHOT, TC_ACT_UNSPEC, xdp_action},
    programs::{TcContext, XdpContext},
};

/// A verdict that ends a packet's path through a program early. Packets that get to the end pass.
#[derive(Clone, Copy)]
pub enum Verdict {
    /// Not ATP's: the packet passes unchanged.
    Foreign,
    /// The packet is dropped; the event says why.
    Drop(Event),
    /// The packet ends here and was counted already: an ACK that was consumed.
    Consumed,
    /// The packet goes back to its source; the value is that of `bpf_redirect`.
    Redirected(i32),
}

/// The verdict for tc. With `TC_ACT_UNSPEC`, other attached programs see the packet too.
#[inline(always)]
pub fn tc(ctx: &TcContext, outcome: Result<(), Verdict>) -> i32 {
    match outcome {
        Ok(()) | Err(Verdict::Foreign) => TC_ACT_UNSPEC,
        Err(Verdict::Drop(event)) => {
            note(ctx, event);
            TC_ACT_SHOT
        }
        Err(Verdict::Consumed) => TC_ACT_SHOT,
        Err(Verdict::Redirected(action)) => action,
    }
}

/// The verdict for XDP.
#[inline(always)]
pub fn xdp(ctx: &XdpContext, outcome: Result<(), Verdict>) -> u32 {
    match outcome {
        Ok(()) | Err(Verdict::Foreign) => xdp_action::XDP_PASS,
        Err(Verdict::Drop(event)) => {
            note(ctx, event);
            xdp_action::XDP_DROP
        }
        Err(Verdict::Consumed | Verdict::Redirected(_)) => xdp_action::XDP_DROP,
    }
}
