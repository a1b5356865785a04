//! The state that the endpoints of one host share.

use super::{Additions, atp::HostAdvice};
use crate::net::{FlowId, HostId};
use atp_common::{
    laws::{
        advice::Span,
        first_window::{self, EarlierRtt},
        rtt::Rtt,
        small_job::Budget,
    },
    units::Rate,
};
use atp_proto::{Adviser, AdviserConfig};
use std::collections::BTreeMap;

/// State that the endpoints of a host share: what a host's datapath and its daemon know.
#[derive(Debug)]
pub struct HostState {
    line_bytes_per_s: u64,
    /// Divides the host's line among lanes; `None` until a receiver gives advice.
    adviser: Option<Box<Adviser<FlowId>>>,
    /// The measurements of any sender to a host.
    rtts: BTreeMap<HostId, EarlierRtt>,
    small_jobs: Budget,
}

impl HostState {
    /// The state of a host without traffic.
    pub fn new(bits_per_s: u64) -> Self {
        Self {
            line_bytes_per_s: bits_per_s / 8,
            adviser: None,
            rtts: BTreeMap::new(),
            small_jobs: Budget::new(0),
        }
    }

    /// Notes a packet that arrived for any endpoint and that isn't approximate DATA.
    pub fn note_other(&mut self, now_ns: u64, wire_bytes: u32) {
        if let Some(adviser) = &mut self.adviser {
            adviser.on_other(Span::at(now_ns), wire_bytes.into());
        }
    }

    /// The host's adviser. The first receiver's settings are the host's.
    pub fn adviser(&mut self, advice: HostAdvice) -> &mut Adviser<FlowId> {
        let line_bytes_per_s = self.line_bytes_per_s;
        self.adviser.get_or_insert_with(|| {
            let HostAdvice { interval_ns, depth_packets, known_line_share } = advice;
            let line_bytes_per_s = (line_bytes_per_s as f64 * known_line_share) as u64;
            let window_ns = Additions::advice_window_ns(interval_ns);
            Box::new(Adviser::new(AdviserConfig {
                line_bytes_per_s,
                interval_ns,
                window_ns,
                depth_packets,
            }))
        })
    }

    /// Takes `wire_bytes` of the deep queue for a small job, if the host's budget has them.
    pub fn take_for_small_job(&mut self, now_ns: u64, wire_bytes: u32) -> bool {
        let line = Rate::from_bytes_per_s(self.line_bytes_per_s);
        self.small_jobs.take(now_ns, line, wire_bytes)
    }

    /// Notes the RTT to a host: a sender's estimate, and its newest sample.
    pub fn note_rtt(&mut self, host: HostId, now_ns: u64, rtt: Rtt, sample_ns: u64) {
        self.rtts.entry(host).or_default().note(now_ns, rtt, sample_ns);
    }

    /// The last known RTT to a host, or an unknown one.
    pub fn rtt(&self, host: HostId) -> Rtt {
        self.rtts.get(&host).map(|earlier| earlier.last()).unwrap_or_default()
    }

    /// The packets of a first window to a host, of `packet_bytes`, and `packets_max` at most.
    pub fn first_window_packets(
        &mut self,
        host: HostId,
        now_ns: u64,
        packets_max: u32,
        packet_bytes: u32,
    ) -> u32 {
        let line = Rate::from_bytes_per_s(self.line_bytes_per_s);
        let min_ns = self.rtts.get_mut(&host).map_or(0, |earlier| earlier.min_ns(now_ns));
        first_window::packets(packets_max, line, packet_bytes, min_ns)
    }

    /// The packets in flight of a sender that awaits its first advice, of `packet_bytes`.
    pub fn awaiting_packets(&self, packet_bytes: u32) -> u32 {
        first_window::awaiting_packets(Rate::from_bytes_per_s(self.line_bytes_per_s), packet_bytes)
    }
}
