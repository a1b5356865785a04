//! The sending host: the library's state machine and the datapath.

use super::{
    AtpBody, GROUP, LINK_HEADER_BYTES, OVERHEAD_BYTES, control,
    reader::Reader,
    small_job::{self, SmallJob},
};
use crate::{
    engine::NS,
    net::{Ecn, FlowId, Label},
    scheme::{Body, Context, Endpoint, LawChoice, Packet, Probe, Route, wire_bytes},
};
use atp_common::{
    dscp,
    laws::{
        Rules, advice,
        lane::{Lane, Settings, View},
        queue,
        yielding::{self, Window},
    },
    maps::LaneState,
    units::{Rate, Share},
    wire::{Flags, HEADER_LEN, Header, Kind},
};
use atp_proto::{GroupConfig, Pace, Sender, SenderConfig, State};
use switch_profiles::Profile;

/// Horizon of departures. The host asks for one packet at a time, so no departure comes close.
const HORIZON_NS: u64 = 1_000_000_000;
/// The ticks of controllers begin this much later from flow to flow.
const ADVICE_PHASE_NS: u64 = 700_001;
/// Minimum epoch. With kernel epochs, the RTT of a fabric is longer.
const EPOCH_NS_MIN: u64 = 2_000;

/// Settings of a sender.
#[derive(Clone, Debug)]
pub struct AtpSettings {
    /// Configuration of the transport.
    pub config: SenderConfig,
    /// Rules of the control laws.
    pub rules: Rules,
    /// Rmax of NetApprox's Eq. 2.
    pub rate_max: Rate,
    /// Minimum epoch.
    pub epoch_ns_min: u64,
    /// Whether the switches' approximate queues towards hosts are deep.
    pub deep_queues: bool,
    /// DSCP of each queue, from the switches' profile.
    pub dscp_of_queue: [u8; dscp::QUEUES],
    /// DSCP of the queue of small jobs, if there is such a queue.
    pub small_jobs_dscp: Option<u8>,
    /// The time between two ticks of the host's controller, at which it applies advice. 0: at once,
    /// as with `--epochs kernel`.
    pub advice_tick_ns: u64,
    /// What CLOCK_REALTIME of the host shows at the beginning, which drains depend on.
    pub clock_ns: u64,
    /// The time between two reads of ACKs and receipts. 0: each is read when it arrives.
    pub read_interval_ns: u64,
}

impl AtpSettings {
    /// The settings of one job's sender, on a network whose switches have `profile`.
    pub fn new(
        laws: LawChoice,
        flow: FlowId,
        group: GroupConfig,
        rate_max: Rate,
        profile: &Profile,
    ) -> Self {
        let mut config = SenderConfig::new(flow, 0x5eed_0000_u32.wrapping_add(flow), group);
        config.mrdf = laws.variant.mrdf();
        config.packing = !laws.additions.unpacked;
        config.rank_by_bytes = laws.additions.rank_by_bytes;
        config.initial_window_packets = laws.additions.window_packets.unwrap_or(0);
        // Applications never block here, so that all schemes get the same messages at the same
        // time.
        config.buffer_messages_max = config.messages_max;
        config.buffer_bytes_max = u64::MAX;
        let epoch_ns_min = laws.additions.epoch_ns_min.unwrap_or(EPOCH_NS_MIN);
        let mut dscp_of_queue = [0; dscp::QUEUES];
        for (queue, dscp) in (0..).zip(&mut dscp_of_queue) {
            *dscp = profile.dscp_of_queue(queue);
        }
        let small_jobs_dscp = laws.additions.small_jobs.then(|| small_job::dscp(profile));
        let rules = laws.rules();
        Self {
            config,
            rules,
            rate_max,
            epoch_ns_min,
            deep_queues: advice::queues_are_deep(profile.advised_depth_packets()),
            dscp_of_queue,
            small_jobs_dscp,
            advice_tick_ns: 0,
            clock_ns: 0,
            read_interval_ns: 0,
        }
    }
}

/// The sender of a flow.
#[derive(Debug)]
pub struct AtpSender {
    route: Route,
    sender: Sender,
    lane: Lane,
    state: LaneState,
    rules: Rules,
    dscp_of_queue: [u8; dscp::QUEUES],
    tlr: Share,
    /// The longest first window, and the bytes of its packets; `None` without a first window. A
    /// sender with one uses RTTs of earlier jobs.
    first_window: Option<(u32, u32)>,
    due_ns: u64,
    /// Whether the state machine may have a packet: an event came since it last had none.
    may_have: bool,
    numbers_sent: u32,
    sent_bytes: u64,
    /// The job's account of the small jobs' queue, if there is one.
    small_job: Option<SmallJob>,
    /// See [`AtpSettings::advice_tick_ns`].
    advice_tick_ns: u64,
    /// When the controller looks for advice next.
    advice_due_ns: u64,
    window: Window,
    /// See [`AtpSettings::clock_ns`].
    clock_ns: u64,
    reader: Reader,
}

impl AtpSender {
    /// Makes a sender without messages.
    ///
    /// # Panics
    /// If the configuration is invalid.
    pub fn new(route: Route, settings: AtpSettings, now_ps: u64) -> Self {
        let AtpSettings { config, rules, rate_max, epoch_ns_min, advice_tick_ns, .. } = settings;
        let AtpSettings { dscp_of_queue, small_jobs_dscp, deep_queues, clock_ns, .. } = settings;
        let group = config.groups[0];
        let payload_bytes = config.payload_bytes_max + HEADER_LEN as u32;
        let lane = Settings {
            rate_max,
            packet_bytes: payload_bytes + OVERHEAD_BYTES + LINK_HEADER_BYTES,
            epoch_ns_min,
            rules,
            exact: group.msr.is_exact().into(),
            deep_queues: deep_queues.into(),
        };
        let tlr = group.msr.slack_share();
        let small_job =
            small_jobs_dscp.and_then(|dscp| SmallJob::of(&group, config.payload_bytes_max, dscp));
        let packets = config.initial_window_packets;
        let first_window = (packets > 0).then_some((packets, lane.packet_bytes));
        let starts_at_once = first_window.is_some() && group.msr.is_exact();
        let packet_bytes = lane.packet_bytes;
        let lane = Lane::new(lane, tlr, now_ps / NS);
        let lane = if starts_at_once { lane.with_first_window() } else { lane };
        Self {
            route,
            lane,
            first_window,
            sender: Sender::new(config).expect("a valid configuration"),
            state: LaneState { rtt_meter: lane.rtt_meter(), ..LaneState::default() },
            rules,
            dscp_of_queue,
            tlr,
            due_ns: now_ps / NS,
            may_have: false,
            numbers_sent: 0,
            sent_bytes: 0,
            small_job,
            advice_tick_ns,
            window: Window::new(packet_bytes),
            clock_ns,
            reader: Reader::new(route.flow, settings.read_interval_ns),
            // Controllers of different hosts don't tick at the same time.
            advice_due_ns: u64::from(route.flow) * ADVICE_PHASE_NS % advice_tick_ns.max(1),
        }
    }

    /// Runs the control laws, if they are due, and sets the lane's window.
    fn tick(&mut self, now_ns: u64) {
        let is_due = now_ns >= self.due_ns;
        if self.lane.has_window() {
            self.drain(now_ns);
        } else if !is_due {
            return;
        }
        if is_due {
            self.run_laws(now_ns);
        }
        let window_packets = self.window_packets();
        let rtt = self.state.rtt_meter.rtt;
        let overdue_ns = yielding::overdue_ns(rtt, self.reader.mean_late_ns());
        self.sender.set_pace(GROUP, Pace { rtt, backlog_ns: 0, window_packets, overdue_ns });
    }

    /// Begins and ends drains.
    fn drain(&mut self, now_ns: u64) {
        let before = self.lane.rate();
        let shared_ns = self.clock_ns + now_ns;
        self.lane.set_draining(yielding::drains(shared_ns, self.state.path.idle_ns()));
        self.state.hasten(now_ns, before, self.lane.rate());
    }

    /// The lane's window.
    fn window_packets(&self) -> u32 {
        let (path_ns, read_late_ns) = (self.state.path.covered_ns(), self.reader.mean_late_ns());
        match self.lane.has_window() {
            true => self.window.packets(self.lane.rate(), path_ns, read_late_ns),
            false => 0,
        }
    }

    fn run_laws(&mut self, now_ns: u64) {
        let progress = self.sender.progress(GROUP).unwrap_or_default();
        self.tlr = progress.target_loss_rate(self.rules);
        let rtt = self.state.rtt_meter.rtt;
        let last_departure_ns = self.state.left_ns;
        let view = View { now_ns, last_departure_ns, rtt, tlr: self.tlr };
        let before = self.lane.rate();
        self.lane.set_acks_lost(self.sender.acks_lost());
        self.lane.tick(&view, &mut self.state);
        self.state.hasten(now_ns, before, self.lane.rate());
        self.due_ns = self.lane.due_ns(now_ns, rtt);
    }

    /// Takes in the advice of receipts.
    fn take_advice(&mut self, now_ns: u64) {
        if let Some((advice, heard_ns)) = self.sender.advice(GROUP) {
            let before = self.lane.rate();
            self.lane.advise(advice, heard_ns);
            self.state.hasten(now_ns, before, self.lane.rate());
        }
    }

    /// Reads what arrived, handles timeouts, and sends control packets.
    fn run_timers(&mut self, context: &mut Context<'_>) {
        let now_ns = context.now_ns();
        let unread = self.reader.read(now_ns);
        let has_read = unread.is_some();
        unread.iter().flatten().for_each(|body| self.take(now_ns, body));
        if self.advice_tick_ns > 0 && now_ns >= self.advice_due_ns {
            let late_ns = (now_ns - self.advice_due_ns) % self.advice_tick_ns;
            self.advice_due_ns = now_ns - late_ns + self.advice_tick_ns;
            self.take_advice(now_ns);
        }
        self.tick(now_ns);
        if !has_read {
            return;
        }
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

    /// Applies what earlier jobs learned. An exact lane always has the longest window: queue 0 has
    /// room for it.
    fn limit_first_window(&mut self, context: &mut Context<'_>) {
        let Some((packets_max, packet_bytes)) = self.first_window else { return };
        let (host, now_ns) = (self.route.destination, context.now_ns());
        self.sender.set_earlier_rtt(context.host.rtt(host));
        self.sender.set_awaiting_packets(context.host.awaiting_packets(packet_bytes));
        if !self.sender.config().groups[0].msr.is_exact() {
            let packets =
                context.host.first_window_packets(host, now_ns, packets_max, packet_bytes);
            self.sender.set_initial_window_packets(packets);
        }
    }

    /// Does the work of the host's datapath: counts an ACK, and measures the RTT.
    fn count_ack(&mut self, context: &mut Context<'_>, header: &Header, arrived: Option<u32>) {
        let now_ns = context.now_ns();
        self.state.note_acked(header.epoch(), header.flags().contains(Flags::CONGESTION));
        if let Some(age_ns) = header.age_ns(now_ns) {
            self.state.rtt_meter = self.state.rtt_meter.on_ack(now_ns, age_ns);
            let forward = header.forward_delay(arrived);
            self.state.path = self.state.path.observe(now_ns, age_ns, forward);
            if self.first_window.is_some() {
                let rtt = self.state.rtt_meter.rtt;
                context.host.note_rtt(self.route.destination, now_ns, rtt, age_ns);
            }
        }
    }

    /// Gives an ACK or a control packet to the state machine, which counts those that it refuses.
    fn take(&mut self, now_ns: u64, AtpBody { header, control, .. }: &AtpBody) {
        if header.kind() == Ok(Kind::Ack) {
            let _ = self.sender.on_ack(now_ns, header);
            return;
        }
        let mut payload = header.as_bytes().to_vec();
        payload.extend_from_slice(control.as_deref().unwrap_or(&[]));
        let _ = self.sender.on_packet(now_ns, &payload);
        if self.advice_tick_ns == 0 {
            self.take_advice(now_ns);
        }
    }
}

impl Endpoint for AtpSender {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Atp(body) = &packet.body else { return };
        if body.header.kind() == Ok(Kind::Ack) {
            self.count_ack(context, &body.header, body.arrived);
        }
        if !self.reader.keep(body) {
            self.take(context.now_ns(), body);
        }
        self.run_timers(context);
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        self.run_timers(context);
    }

    fn wake_ps(&self) -> Option<u64> {
        // The laws also run while a packet waits for its departure, because a higher rate advances
        // it.
        let is_busy = (self.sender.in_flight() > 0 || self.may_have) && !self.sender.has_ended();
        let law_ns = is_busy.then_some(self.due_ns);
        let read_ns = self.reader.wake_ns(self.sender.poll_timeout(), self.sender.has_ended());
        let timeouts = [law_ns, read_ns];
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
        // The line is free at the packet's departure time, so the packet leaves now.
        let rate = self.lane.rate();
        let mut header = packet.header;
        let clock_bytes = self.lane.paced_bytes(paced_bytes, header.pacing_number());
        let _ = self.state.depart(now_ns, clock_bytes, rate, HORIZON_NS);
        header.stamp(self.lane.epoch(), now_ns);
        self.state.note_sent(self.lane.epoch(), paced_bytes);
        self.window.on_sent(paced_bytes);
        self.numbers_sent = self.numbers_sent.wrapping_add(1);
        self.sent_bytes += u64::from(paced_bytes);
        let queue = self.lane.queue();
        let granted = self.small_job.as_mut().and_then(|job| job.spend(packet.len));
        let path = self.route.path(self.numbers_sent);
        let label = Label {
            dscp: granted.unwrap_or(self.dscp_of_queue[usize::from(queue)]),
            ecn: Ecn::capable(queue == queue::EXACT),
            ..self.route.label(wire_bytes(payload_bytes + OVERHEAD_BYTES), path)
        };
        let members = packet.is_packed().then(|| {
            let members = self.sender.packed_messages(&packet);
            members.map(|member| (member.message.id, member.len)).collect()
        });
        let payload_bytes = packet.len;
        let body = AtpBody { header, arrived: None, payload_bytes, members, control: None };
        Some(Packet { label, body: body.into() })
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        self.limit_first_window(context);
        // A complete or failed job refuses the message.
        if self.sender.queue(GROUP, bytes).is_ok()
            && let Some(job) = &mut self.small_job
        {
            job.queue(context, bytes);
        }
        self.run_timers(context);
    }

    fn finish(&mut self, context: &mut Context<'_>) {
        self.sender.finish();
        self.run_timers(context);
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
