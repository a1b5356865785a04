//! The sending host: adapts simulated packets to the library's sender, and to a lane in the memory
//! of the kernel's programs.

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
        lane::{Lane, Settings},
        queue,
    },
    maps::LaneState,
    units::Rate,
    wire::{HEADER_LEN, Header, Kind},
};
use atp_proto::{
    GroupConfig, Sender, SenderConfig, State,
    flow::{Clock, LaneMemory, LaneNews, LawInput, PacedLane},
};
use switch_profiles::Profile;

/// Each flow's controller begins its ticks this much after that of the flow before it.
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
    lane: PacedLane<LaneState>,
    dscp_of_queue: [u8; dscp::QUEUES],
    /// The longest first window, and the bytes of its packets; `None` without a first window. A
    /// sender with one uses RTTs of earlier jobs.
    first_window: Option<(u32, u32)>,
    due_ns: u64,
    /// Whether to ask the state machine for a packet: something happened since it last had none.
    may_have: bool,
    numbers_sent: u32,
    sent_bytes: u64,
    /// The job's account of the small jobs' queue, if there is one.
    small_job: Option<SmallJob>,
    /// See [`AtpSettings::advice_tick_ns`].
    advice_tick_ns: u64,
    /// When the controller looks for advice next.
    advice_due_ns: u64,
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
        let packet_bytes = payload_bytes + OVERHEAD_BYTES + LINK_HEADER_BYTES;
        let of_law = Settings {
            rate_max,
            packet_bytes,
            epoch_ns_min,
            rules,
            exact: group.msr.is_exact().into(),
            deep_queues: deep_queues.into(),
        };
        let tlr = group.msr.slack_share();
        let small_job =
            small_jobs_dscp.and_then(|dscp| SmallJob::of(&group, config.payload_bytes_max, dscp));
        let packets = config.initial_window_packets;
        let first_window = (packets > 0).then_some((packets, packet_bytes));
        let law = Lane::new(of_law, tlr, now_ps / NS);
        let law = if first_window.is_some() { law.with_first_window() } else { law };
        let memory = LaneState { rtt_meter: law.rtt_meter(), ..LaneState::default() };
        Self {
            route,
            lane: PacedLane::new(law, memory, tlr, packet_bytes),
            first_window,
            sender: Sender::new(config).expect("a valid configuration"),
            dscp_of_queue,
            due_ns: now_ps / NS,
            may_have: false,
            numbers_sent: 0,
            sent_bytes: 0,
            small_job,
            advice_tick_ns,
            clock_ns,
            reader: Reader::new(route.flow, settings.read_interval_ns),
            // Controllers of different hosts don't tick at the same time.
            advice_due_ns: u64::from(route.flow) * ADVICE_PHASE_NS % advice_tick_ns.max(1),
        }
    }

    /// Runs the control laws, if they are due, and sets the lane's window.
    fn tick(&mut self, now_ns: u64) {
        let is_due = now_ns >= self.due_ns;
        if !is_due && !self.lane.law().has_window() {
            return;
        }
        let law = is_due.then(|| LawInput {
            progress: self.sender.progress(GROUP).unwrap_or_default(),
            acks_lost: self.sender.acks_lost(),
        });
        self.lane.tick(self.clock(now_ns), LaneNews { advice: None, law });
        if is_due {
            self.due_ns = self.lane.law().due_ns(now_ns, self.lane.memory().rtt());
        }
        self.sender.set_pace(GROUP, self.lane.pace(0, self.reader.mean_late_ns()));
    }

    /// Takes in the advice of receipts.
    fn take_advice(&mut self, now_ns: u64) {
        let advice = self.sender.advice(GROUP);
        self.lane.tick(self.clock(now_ns), LaneNews { advice, law: None });
    }

    fn clock(&self, now_ns: u64) -> Clock {
        Clock { now_ns, shared_ns: self.clock_ns + now_ns }
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
        self.lane.on_ack(now_ns, header, arrived);
        if self.first_window.is_some()
            && let Some(age_ns) = header.age_ns(now_ns)
        {
            let rtt = self.lane.memory().rtt();
            context.host.note_rtt(self.route.destination, now_ns, rtt, age_ns);
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
        // The laws also run while a packet waits for its departure, because a higher rate lets it
        // leave earlier.
        let is_busy = (self.sender.in_flight() > 0 || self.may_have) && !self.sender.has_ended();
        let law_ns = is_busy.then_some(self.due_ns);
        let read_ns = self.reader.wake_ns(self.sender.poll_timeout(), self.sender.has_ended());
        let timeouts = [law_ns, read_ns];
        timeouts.into_iter().flatten().min().map(|at_ns| at_ns.saturating_mul(NS))
    }

    fn ready_ps(&self) -> Option<u64> {
        self.may_have.then_some(self.lane.memory().clock_ns * NS)
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
        let mut header = packet.header;
        self.lane.depart(now_ns, &mut header, paced_bytes);
        self.numbers_sent = self.numbers_sent.wrapping_add(1);
        self.sent_bytes += u64::from(paced_bytes);
        let queue = self.lane.law().queue();
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
        let law = self.lane.law();
        Some(Probe {
            tlr: self.lane.tlr(),
            loss: law.loss(),
            rate: law.rate(),
            queue: law.queue(),
            epochs_evaluated: law.epochs_evaluated(),
            sent_bytes: self.sent_bytes,
        })
    }
}
