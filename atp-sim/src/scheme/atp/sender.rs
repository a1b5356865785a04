//! The sending host: its library's state machine, and its datapath.

use super::{LINK_HEADER_BYTES, OVERHEAD_BYTES, Route, control};
use crate::{
    engine::NS,
    net::{Body, Ecn, Label, Packet},
    scheme::{Context, Endpoint, Probe, wire_bytes},
};
use atp_common::{
    dscp,
    laws::{
        Rules,
        lane::{Lane, Settings, View},
        queue, rate,
    },
    maps::LaneState,
    units::{Rate, Share},
    wire::{Flags, HEADER_LEN, Header, Kind},
};
use atp_proto::{Pace, Sender, SenderConfig, State};

/// Farther ahead no departure is: the line is asked for one packet at a time.
const HORIZON_NS: u64 = 1_000_000_000;
/// A job's only group.
const GROUP: u8 = 0;

/// What a sender is told at its start.
#[derive(Clone, Debug)]
pub struct AtpSettings {
    /// The transport's.
    pub config: SenderConfig,
    /// The laws'.
    pub rules: Rules,
    /// Rmax of Eq. 2.
    pub rate_max: Rate,
    /// The shortest epoch.
    pub epoch_ns_min: u64,
    /// The code point of each queue, from the switches' profile.
    pub dscp_of_queue: [u8; dscp::QUEUES],
}

/// The sending end of a flow.
#[derive(Debug)]
pub struct AtpSender {
    route: Route,
    sender: Sender,
    lane: Lane,
    state: LaneState,
    rules: Rules,
    dscp_of_queue: [u8; dscp::QUEUES],
    tlr: Share,
    due_ns: u64,
    /// The state machine may have a packet: something happened since it last had none.
    may_have: bool,
    numbers_sent: u32,
    sent_bytes: u64,
}

impl AtpSender {
    /// A sender with nothing to send.
    ///
    /// # Panics
    /// If the configuration makes no sense.
    pub fn new(route: Route, settings: AtpSettings, now_ps: u64) -> Self {
        let AtpSettings { config, rules, rate_max, epoch_ns_min, dscp_of_queue } = settings;
        let group = config.groups[0];
        let payload_bytes = config.payload_bytes_max + HEADER_LEN as u32;
        let lane = Settings {
            rate_max,
            step: rate::DEFAULT_STEP,
            packet_bytes: payload_bytes + OVERHEAD_BYTES + LINK_HEADER_BYTES,
            epoch_ns_min,
            rules,
            exact: group.msr.is_exact().into(),
        };
        let tlr = group.msr.slack_share();
        Self {
            route,
            lane: Lane::new(lane, tlr, now_ps / NS),
            sender: Sender::new(config).expect("a configuration that makes sense"),
            state: LaneState::default(),
            rules,
            dscp_of_queue,
            tlr,
            due_ns: now_ps / NS,
            may_have: false,
            numbers_sent: 0,
            sent_bytes: 0,
        }
    }

    /// Runs the laws, if they are due.
    fn tick(&mut self, now_ns: u64) {
        if now_ns < self.due_ns {
            return;
        }
        let progress = self.sender.progress(GROUP).unwrap_or_default();
        self.tlr = progress.target_loss_rate(self.rules);
        let rtt = self.state.rtt;
        let last_departure_ns = self.state.left_ns;
        let view = View { now_ns, last_departure_ns, rtt, tlr: self.tlr };
        let before = self.lane.rate();
        self.lane.tick(&view, &mut self.state);
        self.state.hasten(now_ns, before, self.lane.rate());
        self.sender.set_pace(GROUP, Pace { rtt, backlog_ns: 0 });
        self.due_ns = self.lane.due_ns(now_ns, rtt);
    }

    /// What may have become possible: timeouts, the end's packets.
    fn settle(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        self.tick(now_ns);
        if self.sender.poll_timeout().is_some_and(|at_ns| at_ns <= now_ns) {
            self.sender.handle_timeout(now_ns);
        }
        let mut out = [0; 484];
        while let Some(len) = self.sender.next_control(now_ns, &mut out) {
            context.out.push(control(self.route, &out[..len]));
        }
        self.sender.released().for_each(drop);
        self.may_have = !self.sender.has_ended();
    }

    fn take_ack(&mut self, now_ns: u64, header: &Header) {
        self.state.note_acked(header.epoch(), header.flags().contains(Flags::CONGESTION));
        if let Some(age_ns) = header.age_ns(now_ns) {
            self.state.rtt = self.state.rtt.observe(age_ns);
        }
        // What it refuses it counts.
        let _ = self.sender.on_ack(now_ns, header);
    }
}

impl Endpoint for AtpSender {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Atp { header, control, .. } = &packet.body else { return };
        if header.kind() == Ok(Kind::Ack) {
            self.take_ack(context.now_ns(), header);
        } else {
            let mut payload = header.as_bytes().to_vec();
            payload.extend_from_slice(control.as_deref().unwrap_or(&[]));
            // What it refuses it counts.
            let _ = self.sender.on_packet(context.now_ns(), &payload);
        }
        self.settle(context);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        self.settle(context);
    }

    fn wake_ps(&self) -> Option<u64> {
        // A packet that waits for its departure leaves sooner when the rate rises.
        let is_busy = (self.sender.in_flight() > 0 || self.may_have) && !self.sender.has_ended();
        let law_ns = is_busy.then_some(self.due_ns);
        let timeouts = [law_ns, self.sender.poll_timeout()];
        timeouts.into_iter().flatten().min().map(|at_ns| at_ns.saturating_mul(NS))
    }

    fn ready_ps(&self) -> Option<u64> {
        self.may_have.then_some(self.state.clock_ns * NS)
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        let now_ns = now_ps / NS;
        self.tick(now_ns);
        let Some(packet) = self.sender.next_packet(now_ns) else {
            self.may_have = false;
            return None;
        };
        let payload_bytes = packet.len + HEADER_LEN as u32;
        let paced_bytes = payload_bytes + OVERHEAD_BYTES + LINK_HEADER_BYTES;
        // The line was free at its time: it leaves now.
        let _ = self.state.depart(now_ns, paced_bytes, self.lane.rate(), HORIZON_NS);
        let mut header = packet.header;
        header.stamp(self.lane.epoch(), now_ns);
        self.state.note_sent(self.lane.epoch(), paced_bytes);
        self.numbers_sent = self.numbers_sent.wrapping_add(1);
        self.sent_bytes += u64::from(paced_bytes);
        let queue = self.lane.queue();
        let path = self.route.path(self.numbers_sent);
        let label = Label {
            dscp: self.dscp_of_queue[usize::from(queue)],
            ecn: Ecn::capable(queue == queue::EXACT),
            ..self.route.label(wire_bytes(payload_bytes + OVERHEAD_BYTES), path)
        };
        let body = Body::Atp { header, payload_bytes: packet.len, control: None };
        Some(Packet { label, body })
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        // A job that has enough, or has failed, takes no more.
        let _ = self.sender.queue(GROUP, bytes);
        self.settle(context);
    }

    fn finish(&mut self, context: &mut Context<'_>) {
        self.sender.finish();
        self.settle(context);
    }

    fn has_ended(&self) -> bool {
        *self.sender.state() == State::Done
    }

    fn probe(&self) -> Option<Probe> {
        Some(Probe {
            tlr: self.tlr,
            loss: self.lane.loss(),
            rate: self.lane.rate(),
            queue: self.lane.queue(),
            epochs_evaluated: self.lane.epochs_evaluated(),
            sent_bytes: self.sent_bytes,
        })
    }
}
