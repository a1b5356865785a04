//! The receiving host: the datapath acknowledges packets, and the library receives and answers.

use super::{Application, AtpBody, GROUP, ack, control};
use crate::{
    engine::NS,
    net::FlowId,
    scheme::{Body, Context, Endpoint, Packet, Route},
};
use atp_common::{
    laws::advice::Span,
    wire::{FinBody, Flags, HEADER_LEN, Header, Kind, TermsBody, member_header},
};
use atp_proto::{Adviser, Receiver, ReceiverConfig};

/// The bytes of messages: only their lengths matter here.
static ZEROS: [u8; 65_536] = [0; 65_536];

/// More than the length of any control packet.
const CONTROL_BYTES_MAX: usize = 1_196;

/// The receiver of a flow.
#[derive(Debug)]
pub struct AtpReceiver {
    /// The route back to the sender.
    route: Route,
    config: ReceiverConfig,
    receiver: Option<Receiver>,
    application: Option<Box<dyn Application>>,
    /// Whether the host gives advice, and how.
    advice: Option<HostAdvice>,
    /// Whether the flow is an approximate lane.
    is_lane: bool,
}

/// The advice of a receiving host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostAdvice {
    /// The time between two computations, nanoseconds.
    pub interval_ns: u64,
    /// The packets that an approximate queue of the switch's port to the host holds.
    pub depth_packets: u32,
    /// The line's rate that the host knows, as a share of the right one.
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
        let route = route.back();
        let config = ReceiverConfig { gives_advice: advice.is_some(), ..config };
        let (receiver, application) = (None, None);
        Self { route, config, receiver, application, advice, is_lane: false }
    }

    /// The receiver of an application.
    #[must_use]
    pub fn with_application(self, application: Box<dyn Application>) -> Self {
        Self { application: Some(application), ..self }
    }

    /// The host's adviser, if it gives advice.
    fn adviser<'a>(&self, context: &'a mut Context<'_>) -> Option<&'a mut Adviser<FlowId>> {
        let advice = self.advice?;
        Some(context.host.adviser(advice))
    }

    /// Does the work of the host's datapath: counts a DATA packet.
    fn count(&mut self, context: &mut Context<'_>, packet: &Packet, flags: Flags) {
        let (now_ns, wire_bytes) = (context.now_ns(), packet.label.wire_bytes);
        if flags.contains(Flags::ORDERED) {
            return;
        }
        self.is_lane = true;
        if let Some(adviser) = self.adviser(context) {
            let backlogged = flags.contains(Flags::BACKLOGGED);
            adviser.on_data(Span::at(now_ns), self.route.flow, wire_bytes.into(), backlogged);
        }
    }

    fn answer(&self, context: &mut Context<'_>, payload: &[u8]) {
        context.out.push(control(self.route, payload));
    }

    fn write_receipt(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        if self.is_lane
            && let Some(adviser) = self.adviser(context)
        {
            let advice = adviser.advice(now_ns, self.route.flow);
            if let Some(receiver) = &mut self.receiver {
                receiver.set_advice(GROUP, advice);
            }
        }
        let Some(receiver) = self.receiver.as_mut() else { return };
        if receiver.receipt_due(context.now_ns()) {
            let mut out = [0; CONTROL_BYTES_MAX];
            let len = receiver.write_receipt(context.now_ns(), &mut out);
            if len > 0 {
                self.answer(context, &out[..len]);
            }
        }
    }

    /// Hands the complete messages over to the application.
    fn deliver(&mut self, context: &mut Context<'_>) {
        let Some(receiver) = self.receiver.as_mut() else { return };
        while let Some(message) = receiver.next_message() {
            *context.delivered += 1;
            if let Some(application) = &mut self.application {
                application.take(message);
            }
        }
        if let Some(application) = &mut self.application {
            application.run(context.now_ns(), receiver);
        }
    }

    fn write_request(&mut self, context: &mut Context<'_>) {
        let Some(receiver) = self.receiver.as_mut() else { return };
        if receiver.request_due(context.now_ns()) {
            let mut out = [0; CONTROL_BYTES_MAX];
            let len = receiver.write_request(context.now_ns(), &mut out);
            if len > 0 {
                self.answer(context, &out[..len]);
            }
        }
    }

    fn take_fin(&mut self, context: &mut Context<'_>, header: &Header, body: &[u8]) {
        let (Some(receiver), Some(body)) = (self.receiver.as_mut(), FinBody::parse(body)) else {
            return;
        };
        let mut out = [0; CONTROL_BYTES_MAX];
        let len = receiver.on_fin(context.now_ns(), header, &body, &mut out);
        if len > 0 {
            self.answer(context, &out[..len]);
        }
    }
}

impl Endpoint for AtpReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Atp(AtpBody { header, payload_bytes, members, control, .. }) = &packet.body
        else {
            return;
        };
        let now_ns = context.now_ns();
        if header.kind() == Ok(Kind::Data) {
            self.count(context, packet, header.flags());
        }
        if self.receiver.is_none() && header.kind() == Ok(Kind::Terms) {
            return;
        }
        let receiver =
            self.receiver.get_or_insert_with(|| Receiver::new(self.config, now_ns, header));
        match header.kind() {
            Ok(Kind::Data) => {
                match members {
                    Some(members) => {
                        let mut data = Vec::with_capacity(*payload_bytes as usize);
                        for &(message, len) in members {
                            data.extend_from_slice(&member_header(message, len));
                            data.extend_from_slice(&ZEROS[..usize::from(len)]);
                        }
                        receiver.on_data(now_ns, header, &data);
                    }
                    None => {
                        receiver.on_data(now_ns, header, &ZEROS[..*payload_bytes as usize]);
                    }
                }
                let marked = packet.label.ecn.is_marked();
                let data_len = payload_bytes + HEADER_LEN as u32;
                context.out.push(ack(self.route, *header, data_len, marked, now_ns));
            }
            Ok(Kind::Fin) => {
                if let Some(adviser) = self.adviser(context) {
                    adviser.remove(self.route.flow);
                }
                self.take_fin(context, header, control.as_deref().unwrap_or(&[]));
            }
            Ok(Kind::Terms) => {
                if let Some(body) = TermsBody::parse(control.as_deref().unwrap_or(&[])) {
                    receiver.on_terms(now_ns, header, &body);
                }
            }
            _ => {}
        }
        self.deliver(context);
        self.write_receipt(context);
        self.write_request(context);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        self.write_receipt(context);
        self.write_request(context);
    }

    fn wake_ps(&self) -> Option<u64> {
        Some(self.receiver.as_ref()?.poll_timeout()?.saturating_mul(NS))
    }
}
