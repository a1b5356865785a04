//! Lanes and epochs for the tests of laws.

use super::{DEFAULT_STEP, LawSettings, RateLaw};
use crate::{
    laws::sample::{EpochCount, EpochSample},
    units::{Rate, Share},
};

const MS: u64 = 1_000_000;
pub const RTT_NS: u64 = MS;

pub fn settings(law: RateLaw) -> LawSettings {
    LawSettings {
        law,
        exact: false,
        rate_max: Rate::from_bytes_per_s(25_000_000),
        step: DEFAULT_STEP,
        packet_bytes: 1_500,
        raise_at_target: true,
    }
}

pub fn exact() -> LawSettings {
    LawSettings { exact: true, ..settings(RateLaw::Paper) }
}

pub fn at(bytes_per_s: u64) -> Rate {
    Rate::from_bytes_per_s(bytes_per_s)
}

/// An epoch of one RTT, sent at the full rate.
pub fn sample(epoch: u16, rate: Rate, lost: u64, marked: u64) -> EpochSample {
    let sent_bytes = rate.bytes_in(RTT_NS);
    let sent_packets = (sent_bytes / 1_500).max(1);
    let acked_packets = sent_packets.saturating_sub(lost);
    EpochSample {
        epoch,
        // It is evaluated while the next epoch but one is open.
        open_epoch: epoch.wrapping_add(2),
        count: EpochCount {
            sent_packets,
            sent_bytes,
            acked_packets,
            marked_packets: marked.min(acked_packets),
        },
        tlr: Share::ZERO,
        duration_ns: RTT_NS,
        rtt_ns: RTT_NS,
        idle: false,
    }
}
