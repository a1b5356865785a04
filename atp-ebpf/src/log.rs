//! Logs what happens to single packets. Off by default: the daemon sets the level, a constant, when
//! it loads the programs. The verifier then removes this code from them.
//!
//! A line holds the number of an [`Event`] and the packet's headers. Userspace has the words.

use crate::{atomic, maps::LOG_LINES, parse};
use atp_common::{maps::Event, wire::HEADER_LEN};
use aya_ebpf::{
    bindings::{__sk_buff, xdp_md},
    programs::{TcContext, XdpContext},
};
use aya_log_ebpf::{
    log,
    macro_support::{Level, level_enabled},
};

/// A hook whose packets can be logged.
pub trait Hook {
    /// Writes a line about the packet at hand.
    fn write(&self, event: Event);
}

impl Hook for TcContext {
    #[inline(always)]
    fn write(&self, event: Event) {
        write_tc(self.skb.skb, event as u32);
    }
}

impl Hook for XdpContext {
    #[inline(always)]
    fn write(&self, event: Event) {
        write_xdp(self.ctx, event as u32);
    }
}

/// Logs an event, if the daemon wants to know.
#[inline(always)]
pub fn write(hook: &impl Hook, event: Event) {
    if level_enabled(Level::Debug) {
        hook.write(event);
    }
}

/// Not inlined, because the caller's stack is full, and so that the verifier removes all of it.
#[inline(never)]
fn write_tc(skb: *mut __sk_buff, event: u32) {
    let ctx = TcContext::new(skb);
    // SAFETY: a field of the program's context.
    let ifindex = unsafe { (*skb).ifindex };
    write_line("tc", &ctx, ctx.data(), ctx.data_end(), ifindex, event);
}

/// As [`write_tc`].
#[inline(never)]
fn write_xdp(frame: *mut xdp_md, event: u32) {
    let ctx = XdpContext::new(frame);
    // SAFETY: a field of the program's context.
    let ifindex = unsafe { (*frame).ingress_ifindex };
    write_line("xdp", &ctx, ctx.data(), ctx.data_end(), ifindex, event);
}

#[inline(always)]
fn write_line<C>(hook: &str, ctx: &C, data: usize, end: usize, ifindex: u32, event: u32) {
    let level = if Event::is_ordinary(event) { Level::Trace } else { Level::Debug };
    if !level_enabled(level) {
        return;
    }
    let Some(datagram) = parse::again(data, end) else { return };
    if let Some(lines) = LOG_LINES.get_ptr_mut(0) {
        // SAFETY: an aligned u64 in a map.
        unsafe { atomic::add(lines, 1) };
    }
    let (source, destination) = datagram.addresses();
    let (from, to) = (datagram.source_port, datagram.destination_port);
    // Bytes too few for a header are logged as zeros.
    let header = datagram.header_words().unwrap_or_default();
    // SAFETY: 32 bytes of plain data.
    let header: [u8; HEADER_LEN] = unsafe { core::mem::transmute(header) };
    if datagram.ipv6 {
        // SAFETY: 16 bytes of plain data, each.
        let [source, destination]: [[u8; 16]; 2] =
            unsafe { core::mem::transmute([source, destination]) };
        log!(
            ctx, target: "datapath", level, "{} {} {} {:i} {} {:i} {} {:x}",
            hook, event, ifindex, source, from, destination, to, &header[..]
        );
    } else {
        let [source, destination] = [source[3], destination[3]].map(u32::from_be);
        log!(
            ctx, target: "datapath", level, "{} {} {} {:i} {} {:i} {} {:x}",
            hook, event, ifindex, source, from, destination, to, &header[..]
        );
    }
}
