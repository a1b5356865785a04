//! What arrives: DATA for a registered receiver is acknowledged and goes up; ACKs are consumed.

use crate::{
    consume,
    counters::count,
    flow::{self, End},
    maps,
    parse::{self, Datagram},
    verdict::Refusal,
};
use atp_common::{maps::Counter, wire::Kind};
use aya_ebpf::programs::TcContext;

/// `pkt_type` of what is addressed to this interface (linux/if_packet.h).
const PACKET_HOST: u32 = 0;

/// The way of a packet that arrives.
#[inline(always)]
pub fn run(ctx: &TcContext) -> Result<(), Refusal> {
    let datagram = parse::of_skb(ctx).ok_or(Refusal::Foreign)?;
    let (_, address) = datagram.addresses();
    let end = End { address, port: datagram.destination_port };
    if is_for_this_host(ctx) && flow::receives_at(&end) {
        return receive(ctx, &datagram);
    }
    // With XDP attached none is left; where it can't be, they are consumed here.
    consume::acknowledgement(&datagram)
}

/// A promiscuous interface also sees what goes to others: that is theirs to acknowledge.
#[inline(always)]
fn is_for_this_host(ctx: &TcContext) -> bool {
    // SAFETY: a field of the program's context.
    unsafe { (*ctx.skb.skb).pkt_type == PACKET_HOST }
}

/// Every packet of a registered receiver goes up, whatever it is: the library refuses with reasons.
#[inline(always)]
fn receive(ctx: &TcContext, datagram: &Datagram) -> Result<(), Refusal> {
    match datagram.header() {
        Ok((_, Kind::Data)) => {
            count(Counter::DataArrived);
            acknowledge(ctx)
        }
        Ok(_) => Ok(()),
        Err(_) => {
            count(Counter::Malformed);
            Ok(())
        }
    }
}

/// Sends a clone to the egress of the same device, where [`crate::ack`] knows it by its mark.
#[inline(always)]
fn acknowledge(ctx: &TcContext) -> Result<(), Refusal> {
    let config = maps::config()?;
    if config.ack_mark == 0 {
        return Ok(());
    }
    let skb = ctx.skb.skb;
    // SAFETY: fields of the program's context.
    let (mark, ifindex) = unsafe { ((*skb).mark, (*skb).ifindex) };
    ctx.set_mark(config.ack_mark);
    let sent = ctx.clone_redirect(ifindex, 0);
    ctx.set_mark(mark);
    if sent.is_err() {
        count(Counter::AckFailed);
    }
    Ok(())
}
