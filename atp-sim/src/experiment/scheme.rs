//! Schemes, and the ends of flows that they make.

use super::Point;
use crate::{
    net::{FlowId, PortQueues},
    scheme::{
        Endpoint, Route,
        aeolus::{AeolusReceiver, AeolusSender, AeolusSettings},
        atp::{AtpReceiver, AtpSender, AtpSettings},
        dctcp::{DctcpReceiver, DctcpSender, DctcpSettings},
        mlt::{MltReceiver, MltSender, MltSettings},
        ndp::{NdpReceiver, NdpSender, NdpSettings},
        pfabric::{PFabricReceiver, PFabricSender, PFabricSettings},
        udp::{UdpReceiver, UdpSender},
    },
};
use atp_common::{
    dscp::QUEUES,
    laws::{RateLaw, Rule, Rules, Variant},
    units::Rate,
};
use atp_proto::{GroupConfig, ReceiverConfig, SenderConfig};
use switch_profiles::Profile;

/// What a sender with more messages than it needs does about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// It sends all of them, and stops when enough have arrived (NetApprox §2.2's EarlySend).
    #[default]
    EarlySend,
    /// It sends as many as are needed, drawn before (SampleSend).
    SampleSend,
}

/// ATP, as it can be configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Atp {
    /// The paper's variants.
    pub variant: Variant,
    /// The rate law, for variants that have one: Base has none. Jobs of MSR 1 go by DCTCP's under any.
    pub law: RateLaw,
    /// A rule that is switched off.
    pub off: Option<Rule>,
}

/// What hosts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// ATP.
    Atp(Atp),
    /// UDP at line rate.
    Udp,
    /// DCTCP.
    Dctcp(Policy),
    /// pFabric.
    PFabric(Policy),
    /// NDP.
    Ndp(Policy),
    /// A bounded-loss transport, in the manner of MLT; its senders are of the kind of EarlySend.
    Mlt,
    /// Aeolus over ExpressPass.
    Aeolus(Policy),
}

impl Default for Scheme {
    fn default() -> Self {
        Self::Atp(Atp::default())
    }
}

/// From how many packets on DCTCP's are marked (NetApprox §7.1), also those of exact jobs beside others.
const MARK_FROM: u32 = 65;
/// The shortest epoch; with kernel epochs, an RTT on a fabric is longer.
const EPOCH_NS_MIN: u64 = 2_000;

impl Scheme {
    /// All but ATP, with their names.
    pub const OTHERS: [(Self, &'static str); 10] = [
        (Self::Dctcp(Policy::EarlySend), "dctcp-es"),
        (Self::Dctcp(Policy::SampleSend), "dctcp-ss"),
        (Self::PFabric(Policy::EarlySend), "pfabric-es"),
        (Self::PFabric(Policy::SampleSend), "pfabric-ss"),
        (Self::Ndp(Policy::EarlySend), "ndp-es"),
        (Self::Ndp(Policy::SampleSend), "ndp-ss"),
        (Self::Mlt, "mlt-es"),
        (Self::Aeolus(Policy::EarlySend), "aeolus-es"),
        (Self::Aeolus(Policy::SampleSend), "aeolus-ss"),
        (Self::Udp, "udp"),
    ];

    /// The two ends of a flow of `total` messages.
    pub fn ends(
        self,
        route: Route,
        point: &Point,
        total: u32,
    ) -> (Box<dyn Endpoint>, Box<dyn Endpoint>) {
        match self {
            Self::Atp(atp) => {
                let rate_max = Rate::from_bytes_per_s(point.rate.bits_per_s() / 8);
                let group = GroupConfig { total: Some(total), ..GroupConfig::new(0, point.msr) };
                let mut settings = atp.settings(route.flow, group, rate_max, &point.profile);
                settings.config.timer_granularity_ns = point.timer_granularity_ns;
                let receipt_delay_ns = point.receipt_delay_ns;
                let config = ReceiverConfig { receipt_delay_ns, ..Default::default() };
                (
                    Box::new(AtpSender::new(route, settings, 0)),
                    Box::new(AtpReceiver::new(route, config)),
                )
            }
            Self::Udp => (Box::new(UdpSender::new(route)), Box::<UdpReceiver>::default()),
            Self::Dctcp(_) => (
                Box::new(DctcpSender::new(route, DctcpSettings::default())),
                Box::new(DctcpReceiver::new(route)),
            ),
            Self::PFabric(_) => (
                Box::new(PFabricSender::new(route, pfabric(point))),
                Box::new(PFabricReceiver::new(route)),
            ),
            Self::Ndp(_) => {
                let paths = point.network_spec.paths(route.source, route.destination);
                let seed = point.seed ^ u64::from(route.flow) << 32;
                (
                    Box::new(NdpSender::new(route, ndp(point), paths, seed)),
                    Box::new(NdpReceiver::new(route)),
                )
            }
            Self::Mlt => {
                let settings = mlt(point, total);
                (
                    Box::new(MltSender::new(route, settings)),
                    Box::new(MltReceiver::new(route, settings.needed)),
                )
            }
            Self::Aeolus(_) => {
                let settings = aeolus(point);
                (
                    Box::new(AeolusSender::new(route, settings)),
                    Box::new(AeolusReceiver::new(route, settings)),
                )
            }
        }
    }

    /// The queues of its switches. pFabric's and NDP's have small buffers of their own, whatever the point
    /// says.
    pub(super) fn port_queues(self, point: &Point) -> PortQueues {
        match self {
            Self::Atp(_) => PortQueues::of_profile(&point.profile, point.unit, point.buffer_bytes),
            Self::Dctcp(_) | Self::Udp | Self::Mlt => {
                PortQueues::single(MARK_FROM, point.buffer_bytes)
            }
            Self::PFabric(_) => PortQueues::pfabric(pfabric(point).port_bytes()),
            Self::Ndp(_) => {
                PortQueues::trimming(NdpSettings::limits(MARK_FROM), point.buffer_bytes)
            }
            Self::Aeolus(_) => PortQueues::credited(MARK_FROM, point.buffer_bytes),
        }
    }

    pub(crate) fn policy(self) -> Policy {
        match self {
            Self::Dctcp(policy)
            | Self::PFabric(policy)
            | Self::Ndp(policy)
            | Self::Aeolus(policy) => policy,
            Self::Atp(_) | Self::Udp | Self::Mlt => Policy::EarlySend,
        }
    }

    /// Whether the simulator tells a sender at once that its job has enough; ATP's and MLT's
    /// learn it from their receivers. It costs the others less than it would in a network.
    pub(super) fn is_told_to_stop(self) -> bool {
        !matches!(self, Self::Atp(_) | Self::Mlt)
    }
}

fn pfabric(point: &Point) -> PFabricSettings {
    let (there_bytes, back_bytes) = PFabricSettings::ROUND_TRIP_BYTES;
    let round_trip_ps = point.network_spec.round_trip_ps(point.rate, there_bytes, back_bytes);
    PFabricSettings::new(round_trip_ps, point.rate.bits_per_s())
}

fn ndp(point: &Point) -> NdpSettings {
    let (there_bytes, back_bytes) = NdpSettings::ROUND_TRIP_BYTES;
    let round_trip_ps = point.network_spec.round_trip_ps(point.rate, there_bytes, back_bytes);
    NdpSettings::new(round_trip_ps, point.rate.bits_per_s())
}

fn mlt(point: &Point, total: u32) -> MltSettings {
    let (there_bytes, back_bytes) = MltSettings::ROUND_TRIP_BYTES;
    MltSettings {
        round_trip_ps: point.network_spec.round_trip_ps(point.rate, there_bytes, back_bytes),
        bits_per_s: point.rate.bits_per_s(),
        needed: point.msr.needed(total),
    }
}

fn aeolus(point: &Point) -> AeolusSettings {
    let (there_bytes, back_bytes) = AeolusSettings::ROUND_TRIP_BYTES;
    let round_trip_ps = point.network_spec.round_trip_ps(point.rate, there_bytes, back_bytes);
    AeolusSettings::new(round_trip_ps, point.rate.bits_per_s())
}

impl Atp {
    /// What a sender of one job is told, on a network of such switches.
    pub(super) fn settings(
        self,
        flow: FlowId,
        group: GroupConfig,
        rate_max: Rate,
        profile: &Profile,
    ) -> AtpSettings {
        let mut config = SenderConfig::new(flow, 0x5eed_0000_u32.wrapping_add(flow), group);
        config.mrdf = self.variant.mrdf();
        // Applications never wait here, so that all schemes get the same messages at the same time.
        config.buffer_messages_max = config.messages_max;
        config.buffer_bytes_max = u64::MAX;
        let mut dscp_of_queue = [0; QUEUES];
        for (queue, dscp) in (0..).zip(&mut dscp_of_queue) {
            *dscp = profile.dscp_of_queue(queue);
        }
        AtpSettings {
            config,
            rules: self.rules(),
            rate_max,
            epoch_ns_min: EPOCH_NS_MIN,
            dscp_of_queue,
        }
    }

    /// What its lanes go by.
    pub(super) fn rules(self) -> Rules {
        let rules = Rules::variant(self.variant, self.law);
        self.off.map_or(rules, |off| rules.without(off))
    }
}
