//! The receiving host: adapts the simulated packets to the library's endpoint, and does the
//! counting of its daemon.

use super::{Application, AtpBody, GROUP, control};
use crate::{
    engine::NS,
    net::{FlowId, HostId, Label},
    scheme::{Body, Context, Endpoint, HostState, Packet, PacketBody, Route},
};
use atp_common::{
    laws::advice::Span,
    wire::{Advice, Flags, member_header},
};
use atp_proto::{
    ReceiverConfig,
    endpoint::{self, Admission, Arrived, Datagram, Ends, EventKind, Host, Lanes},
};
use std::net::{Ipv4Addr, SocketAddr};

/// The bytes of messages: only their lengths matter here.
static ZEROS: [u8; 65_536] = [0; 65_536];

/// Every sending host uses this port.
const PORT: u16 = 1;

/// The receiver of a flow, with a port of its own. The tests of `atp_proto::pair` cover ports whose
/// places and memory other senders hold.
pub struct AtpReceiver {
    /// The route back to the sender.
    route: Route,
    endpoint: endpoint::Endpoint<FlowLane>,
    application: Option<Box<dyn Application>>,
    /// Whether the host gives advice, and how.
    advice: Option<HostAdvice>,
    /// Whether the adviser knows the flow.
    is_advised: bool,
}

/// The advice of a receiving host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostAdvice {
    /// The time between two computations, nanoseconds.
    pub interval_ns: u64,
    /// The packets that an approximate queue of the switch's port to the host holds.
    pub depth_packets: u32,
    /// The rate that the host takes its line to have, divided by the true one.
    pub known_line_share: f64,
}

impl HostAdvice {
    /// Advice by a host that knows its line.
    pub fn new(interval_ns: u64, depth_packets: u32) -> Self {
        Self { interval_ns, depth_packets, known_line_share: 1.0 }
    }
}

impl AtpReceiver {
    /// Makes a receiver without data. `route` is the flow's.
    pub fn new(route: Route, config: ReceiverConfig, advice: Option<HostAdvice>) -> Self {
        let transport = ReceiverConfig { gives_advice: advice.is_some(), ..config };
        let admission = Admission { transport, ..Admission::new(0) };
        Self {
            route: route.back(),
            endpoint: endpoint::Endpoint::new(admission),
            application: None,
            advice,
            is_advised: false,
        }
    }

    /// The receiver of an application.
    #[must_use]
    pub fn with_application(self, application: Box<dyn Application>) -> Self {
        Self { application: Some(application), ..self }
    }

    /// Gives a packet to the endpoint.
    fn take(&mut self, context: &mut Context<'_>, label: &Label, packet: &AtpBody) {
        let AtpBody { header, payload_bytes, members, control, .. } = packet;
        let packed;
        let body = match (members, control) {
            (Some(members), _) => {
                packed = packed_body(members, *payload_bytes);
                &packed
            }
            (None, Some(control)) => &control[..],
            (None, None) => &ZEROS[..*payload_bytes as usize],
        };
        let datagram = Datagram {
            head: header.as_bytes(),
            body,
            ends: Ends { source: address(self.route.destination), local: None },
            traffic_class: label.traffic_class(),
        };
        let mut arrival = Arrival {
            now_ns: context.now_ns(),
            flow: self.route.flow,
            wire_bytes: label.wire_bytes,
            advice: self.advice,
            host: context.host,
            is_counted: false,
        };
        self.endpoint.on_packet(arrival.now_ns, &datagram, &mut arrival);
        if packet.is_approximate() && !arrival.is_counted {
            arrival.count_unadvised();
        }
    }

    /// Hands the events over to the application, and takes its requests.
    fn deliver(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        for event in self.endpoint.take_events() {
            *context.delivered += u32::from(matches!(event.kind, EventKind::Message(_)));
            if let Some(application) = &mut self.application {
                application.take(now_ns, event);
            }
        }
        let Some(application) = &mut self.application else { return };
        while let Some(request) = application.next_request() {
            self.endpoint.request(now_ns, &request);
        }
    }

    /// Writes the adviser's advice to the flow's lane, or removes an ended lane from the adviser.
    fn advise(&mut self, context: &mut Context<'_>) {
        let Some(advice) = self.advice else { return };
        let (now_ns, flow) = (context.now_ns(), self.route.flow);
        let lane = self.endpoint.lanes_mut().find_map(|(_, lane)| lane.open.as_mut());
        let was_advised = std::mem::replace(&mut self.is_advised, lane.is_some());
        match lane {
            Some(lane) => lane.advised = context.host.adviser(advice).advice(now_ns, flow),
            None if was_advised => context.host.adviser(advice).remove(flow),
            None => {}
        }
    }

    /// Does what is due, and sends the endpoint's packets.
    fn answer(&mut self, context: &mut Context<'_>) {
        self.advise(context);
        self.endpoint.handle_timeout(context.now_ns());
        let replies = self.endpoint.replies();
        context.out.extend(replies.packets().map(|(packet, _)| control(self.route, packet)));
        replies.clear();
    }
}

/// The address of a sending host.
fn address(host: HostId) -> SocketAddr {
    (Ipv4Addr::from_bits(10 << 24 | host), PORT).into()
}

/// The body of a packed packet.
fn packed_body(members: &[(u32, u16)], bytes: u32) -> Vec<u8> {
    let mut body = Vec::with_capacity(bytes as usize);
    for &(message, len) in members {
        body.extend_from_slice(&member_header(message, len));
        body.extend_from_slice(&ZEROS[..usize::from(len)]);
    }
    body
}

impl Endpoint for AtpReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Atp(body) = &packet.body else { return };
        self.take(context, &packet.label, body);
        self.deliver(context);
        self.answer(context);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        self.answer(context);
    }

    fn wake_ps(&self) -> Option<u64> {
        Some(self.endpoint.poll_timeout()?.saturating_mul(NS))
    }
}

/// The host's part in the arrival of a packet.
struct Arrival<'a> {
    now_ns: u64,
    flow: FlowId,
    wire_bytes: u32,
    advice: Option<HostAdvice>,
    host: &'a mut HostState,
    /// Whether the packet was counted as one of the flow's lane.
    is_counted: bool,
}

impl Arrival<'_> {
    /// Counts late DATA of an ended job, and DATA that the endpoint refused.
    fn count_unadvised(&mut self) {
        if let Some(advice) = self.advice {
            let adviser = self.host.adviser(advice);
            adviser.on_unadvised(Span::at(self.now_ns), self.wire_bytes.into());
        }
    }
}

impl Host for Arrival<'_> {
    type Lanes = FlowLane;

    fn acknowledges(&self) -> bool {
        true
    }

    fn on_data(&mut self, _: SocketAddr, lane: &mut FlowLane, arrived: &Arrived<'_>) {
        let flags = arrived.header.flags();
        if flags.contains(Flags::ORDERED) {
            return;
        }
        if let Some(advice) = self.advice {
            self.is_counted = true;
            lane.open.get_or_insert_default();
            let backlogged = flags.contains(Flags::BACKLOGGED);
            let span = Span::at(self.now_ns);
            let adviser = self.host.adviser(advice);
            adviser.on_data(span, self.flow, self.wire_bytes.into(), backlogged);
        }
    }
}

/// The only lane of a flow.
#[derive(Debug, Default)]
struct FlowLane {
    /// Set while approximate DATA arrives at a host that gives advice.
    open: Option<AdvisedLane>,
}

#[derive(Debug, Default)]
struct AdvisedLane {
    advised: Advice,
    /// The advice that the endpoint has.
    given: Advice,
}

impl Lanes for FlowLane {
    fn take_advice(&mut self, mut give: impl FnMut(u8, Advice)) {
        if let Some(AdvisedLane { advised, given }) = &mut self.open
            && advised != given
        {
            *given = *advised;
            give(GROUP, *advised);
        }
    }

    fn clear(&mut self) -> impl Iterator<Item = u8> {
        self.open.take().into_iter().map(|_| GROUP)
    }
}
