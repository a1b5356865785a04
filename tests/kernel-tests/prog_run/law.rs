//! Tests epochs in the kernel: the programs run a lane's rate law on departures and ACKs, and
//! decide the same as the daemon's functions.

use crate::NEEDS;
use anyhow::{Result, ensure};
use atp_common::{
    laws::{
        RateLaw, Rules,
        lane::{Counters, EpochCount, Lane, Settings, View},
        queue,
    },
    maps::{LaneControl, LaneLaw, ReceivedAdvice},
    units::{PodBool, Rate, Share},
    wire::{Advice, Fields, Flags, Header, Kind},
};
use atp_datapath::{Lanes, LawInputs};
use atp_tests::{
    capability::Suite,
    packets::{Parsed, Shape, data_fields},
    prog_run::{LANE, Rig, TC_DROP, TC_PASS, XDP_DROP, control, now_ns},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

pub fn add(suite: &mut Suite) {
    suite.add("law__decides_as_the_daemon_would", NEEDS, decides_as_the_daemon_would);
    suite.add("law__a_held_lane_is_left_alone", NEEDS, a_held_lane_is_left_alone);
    suite.add("law__a_closed_lane_is_left_alone", NEEDS, a_closed_lane_is_left_alone);
    suite.add("law__a_rise_frees_the_next_packet", NEEDS, a_rise_frees_the_next_packet);
    suite.add("law__a_lane_with_a_window_drains", NEEDS, a_lane_with_a_window_drains);
    suite.add("law__without_a_law_nothing_is_evaluated", NEEDS, without_a_law_nothing_is_evaluated);
}

const RATE_MAX: Rate = Rate::from_bytes_per_s(1_000_000_000);
const DSCP_BY_QUEUE: [u8; 8] = [0, 11, 12, 13, 14, 15, 16, 17];
const EPOCH_NS: u64 = 50_000;
/// Packets per law.
const PACKETS: u32 = 4_000;
/// A drain begins in each second. On a busy machine the law may miss some.
const DRAINS_AWAITED_MAX: Duration = Duration::from_secs(60);
/// Packets per law, at the end, that request no ACK.
const PACKETS_NO_ACK: u32 = 300;

fn settings(law: RateLaw, exact: bool) -> Settings {
    Settings {
        rate_max: RATE_MAX,
        packet_bytes: 1_474,
        epoch_ns_min: EPOCH_NS,
        rules: Rules::new(law),
        exact: exact.into(),
        deep_queues: PodBool::FALSE,
    }
}

/// A rig with the programs of the laws, which the verifier takes long to check.
fn rig() -> Result<Rig> {
    let mut rig = Rig::new()?;
    rig.datapath.load_laws()?;
    Ok(rig)
}

/// Opens the lane with a law that is due at once.
fn open(rig: &Rig, settings: Settings) -> Lane {
    // Some laws begin so slowly that no ACK would come for seconds.
    let lane = Lane::new(settings, Share::ZERO, now_ns()).at_rate(settings.rate_max);
    open_as(rig, lane);
    lane
}

fn open_as(rig: &Rig, lane: Lane) {
    let laws = rig.datapath.laws().expect("`rig` loaded them");
    let held = laws.lock(LANE).expect("no program runs meanwhile");
    rig.datapath.lanes().reset(LANE);
    held.write(&LaneLaw {
        holder: LaneLaw::DAEMON,
        lane,
        ran_ns: 0,
        runs: 0,
        tlr_q16: 0,
        advice: 0,
        acks_lost_q16: 0,
        reserved: 0,
        received_ns: 0,
        dscp_by_queue: DSCP_BY_QUEUE,
    });
    rig.datapath.lanes().store_control(
        LANE,
        &LaneControl {
            rate_bytes_per_s: lane.rate().bytes_per_s(),
            epoch: 0,
            due_ns: 1,
            ..control()
        },
    );
    drop(held);
}

/// The law as the programs left it, which gets this target from now on, and no advice.
fn law(rig: &Rig, tlr: Share) -> LaneLaw {
    exchange(rig, Given { tlr, advice: ReceivedAdvice::default(), rate_max: RATE_MAX })
}

/// The inputs of a law, from the daemon.
#[derive(Clone, Copy)]
struct Given {
    tlr: Share,
    advice: ReceivedAdvice,
    rate_max: Rate,
}

fn exchange(rig: &Rig, given: Given) -> LaneLaw {
    let Given { tlr, advice, rate_max } = given;
    let inputs = LawInputs { tlr, advice, rate_max, dscp_by_queue: DSCP_BY_QUEUE };
    rig.datapath.laws().expect("loaded").exchange(LANE, &inputs)
}

/// The programs' counters. The programs also open the next epoch's cell.
struct Cells<'a>(&'a Lanes);

impl Counters for Cells<'_> {
    fn read(&self, epoch: u16) -> EpochCount {
        self.0.read_cell(LANE, epoch).count()
    }

    fn is_settled(&self, epoch: u16, now_ns: u64) -> bool {
        self.0.is_settled(LANE, epoch, now_ns)
    }

    fn open(&mut self, _: u16) {}
}

/// Runs one sequence of departures, ACKs, marks and losses for every law. After each run of the law
/// in the kernel, the daemon's functions get the same counters and the same time.
fn decides_as_the_daemon_would() -> Result<()> {
    let seed = crate::hostile::seed();
    let rig = rig()?;
    for (law, name) in RateLaw::ALL {
        for exact in [false, true] {
            // No slot is used twice, because its second ACK would be stale.
            let first_slot = (2 * law as u32 + u32::from(exact)) * PACKETS;
            decides_alike(&rig, settings(law, exact), seed, first_slot)
                .map_err(|error| error.context(format!("{name}, exact: {exact}, seed {seed}")))?;
        }
    }
    Ok(())
}

fn decides_alike(rig: &Rig, settings: Settings, seed: u64, first_slot: u32) -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut own = open(rig, settings);
    let lanes = rig.datapath.lanes();
    let (mut in_flight, mut runs, mut evaluated) = (VecDeque::new(), 0, 0);
    let mut rates = Vec::new();
    let advice = ReceivedAdvice::default();
    let mut given = Given { tlr: Share::ZERO, advice, rate_max: RATE_MAX };
    for slot in first_slot..first_slot + PACKETS {
        // Phases without loss, with some, and with heavy loss.
        let loss = [0.0, 0.1, 0.6][slot as usize / 300 % 3];
        if slot % 50 == 0 {
            given.tlr = Share::from_q16(rng.random_range(0..=65_536));
            // Phases with advice and without it.
            let bytes_per_s = rng.random_range(1_000..1_000_000_000);
            let advice = if rng.random() { Advice::of(bytes_per_s) } else { Advice::NONE };
            let acks_lost = Share::from_q16(rng.random_range(0..=65_536));
            given.advice = ReceivedAdvice::new(advice, now_ns(), acks_lost);
            // The operator's limits may change.
            let divisor = rng.random_range(1..9);
            given.rate_max = Rate::from_bytes_per_s(RATE_MAX.bytes_per_s() / divisor);
            exchange(rig, given);
        }
        // At the end, packets without ACKs and without probes: their epochs get no feedback.
        let mut fields = Fields { slot, ..data_fields(slot) };
        if slot - first_slot >= PACKETS - PACKETS_NO_ACK {
            fields.flags = Flags::NO_ACK;
            fields.epoch = lanes.control(LANE).epoch as u16;
        }
        let data = Shape { body: 1_000, ..Shape::default() }.data(&Header::new(&fields));
        let sent = rig.egress(&data)?;
        evaluated += u32::from(follow(rig, &mut own, &mut runs, given)?);
        // A busy machine has long RTTs, and lanes so slow that packets exceed the pacing horizon.
        let passed = sent.verdict == TC_PASS;
        if !rng.random_bool(loss) && fields.flags == Flags::NONE && passed {
            in_flight.push_back(Parsed::of(&sent.packet)?.header);
        }
        while in_flight.len() > 5 {
            let Some(header) = in_flight.pop_front() else { break };
            let ack = ack_of(&header, rng.random_bool(loss / 2.0));
            let (verdict, dropped) = match rng.random() {
                true => (rig.xdp(&ack)?.verdict, XDP_DROP),
                false => (rig.ingress(&ack)?.verdict, TC_DROP),
            };
            ensure!(verdict == dropped, "an ACK ended with {verdict}");
            evaluated += u32::from(follow(rig, &mut own, &mut runs, given)?);
        }
        rates.push(own.rate());
    }
    // A slow machine evaluates fewer epochs. These minimums ensure that there was something to
    // compare.
    ensure!(
        runs > 10 && evaluated > 3,
        "the law ran only {runs} times and evaluated only {evaluated} epochs"
    );
    rates.dedup();
    let fixed = settings.rules.law() == RateLaw::None && !settings.exact.is_true();
    ensure!(fixed || rates.len() > 1, "the rate did not change: {rates:?}");
    ensure!(lanes.control(LANE).epoch > 3, "too few epochs: {}", lanes.control(LANE).epoch);
    Ok(())
}

fn ack_of(header: &Header, marked: bool) -> Vec<u8> {
    let flags = if marked { Flags::CONGESTION } else { Flags::NONE };
    let fields = Fields {
        kind: Kind::Ack,
        flags,
        epoch: header.epoch(),
        time: header.time(),
        ..data_fields(header.slot())
    };
    Shape::default().answer(&Header::new(&fields))
}

/// If the programs ran the law on the last packet, runs it here too and compares the complete
/// state. Returns whether an epoch was evaluated.
fn follow(rig: &Rig, own: &mut Lane, runs: &mut u64, given: Given) -> Result<bool> {
    let theirs = exchange(rig, given);
    let Given { tlr, advice, rate_max } = given;
    ensure!(theirs.holder == LaneLaw::FREE, "it is held by {}", theirs.holder);
    if theirs.runs == *runs {
        return Ok(false);
    }
    *runs += 1;
    ensure!(theirs.runs == *runs, "{} runs with one packet", theirs.runs - *runs + 1);
    let lanes = rig.datapath.lanes();
    let rtt = lanes.rtt(LANE);
    let view = View { now_ns: theirs.ran_ns, last_departure_ns: lanes.left_ns(LANE), rtt, tlr };
    let evaluated = own.epochs_evaluated();
    // The programs have Rmax before the advice, which it limits.
    own.set_rate_max(rate_max);
    own.advise(advice.advice(), advice.received_ns);
    own.set_acks_lost(advice.acks_lost());
    // The moment when the program read the clock of drains isn't known.
    own.set_draining(theirs.lane.is_draining());
    own.step(&view, &mut Cells(lanes));
    ensure!(theirs.lane == *own, "run {runs}: {:?} instead of {own:?}", theirs.lane);
    let control_entry = lanes.control(LANE);
    let dscp = match own.queue() {
        queue::EXACT => LaneControl::DSCP_KEEP,
        queue => u32::from(DSCP_BY_QUEUE[usize::from(queue)]),
    };
    let expected = LaneControl {
        rate_bytes_per_s: own.rate().bytes_per_s(),
        dscp,
        epoch: u32::from(own.epoch()),
        due_ns: own.due_ns(theirs.ran_ns, rtt),
        uneven_gaps: own.has_uneven_gaps().into(),
        ..control()
    };
    ensure!(control_entry == expected, "control is {control_entry:?} instead of {expected:?}");
    ensure!(lanes.read_cell(LANE, own.epoch()).epoch == u32::from(own.epoch()));
    Ok(own.epochs_evaluated() > evaluated)
}

fn some_data() -> Vec<u8> {
    Shape::default().data(&Header::new(&data_fields(1)))
}

fn a_held_lane_is_left_alone() -> Result<()> {
    let rig = rig()?;
    let lane = open(&rig, settings(RateLaw::Paper, false));
    let laws = rig.datapath.laws().expect("loaded");
    let held = laws.lock(LANE);
    ensure!(laws.lock(LANE).is_none(), "held twice");
    ensure!(rig.egress(&some_data())?.verdict == TC_PASS);
    let left = law(&rig, Share::ZERO);
    ensure!(left.runs == 0 && left.lane == lane && left.holder == LaneLaw::DAEMON, "{left:?}");
    drop(held);
    ensure!(rig.egress(&some_data())?.verdict == TC_PASS);
    ensure!(law(&rig, Share::ZERO).runs == 1);
    Ok(())
}

fn a_closed_lane_is_left_alone() -> Result<()> {
    let rig = rig()?;
    open(&rig, settings(RateLaw::Paper, false));
    rig.datapath.lanes().store_control(LANE, &LaneControl::default());
    ensure!(rig.egress(&some_data())?.verdict == TC_DROP, "a packet passed without a lane");
    ensure!(law(&rig, Share::ZERO).runs == 0);
    let control = rig.datapath.lanes().control(LANE);
    ensure!((control.active, control.due_ns) == (0, 0), "{control:?}");
    Ok(())
}

/// An exact lane begins with ten packets per assumed RTT of 10 ms (very short packets here). The
/// first ACK gives the real RTT, and the rate rises. Packets that have a departure time keep it,
/// and the next packet follows them at the new rate.
fn a_rise_frees_the_next_packet() -> Result<()> {
    let rig = rig()?;
    // 15 kB/s: packets wait for seconds, even if each run of a program takes milliseconds.
    let slow = Settings { packet_bytes: 15, ..settings(RateLaw::Paper, true) };
    let lane = Lane::new(slow, Share::ZERO, now_ns());
    open_as(&rig, lane);
    let lanes = rig.datapath.lanes();
    let mut first = None;
    for slot in 0..40 {
        let data = Shape { body: 1_000, ..Shape::default() }.data(&Header::new(&data_fields(slot)));
        let sent = rig.egress(&data)?;
        ensure!(sent.verdict == TC_PASS, "packet {slot} was dropped");
        first = first.or(Some(Parsed::of(&sent.packet)?.header));
    }
    let (clock_ns, left_ns) = (lanes.clock_ns(LANE), lanes.left_ns(LANE));
    ensure!(clock_ns > left_ns && left_ns > now_ns(), "no packet waits at {:?}", lane.rate());
    let mut first = first.expect("some were sent");
    // The first ACK gives the RTT. The law runs on the first packet after its due time.
    let mut rate = lane.rate();
    for _ in 0..20 {
        first.stamp(first.epoch(), now_ns());
        rig.xdp(&ack_of(&first, false))?;
        std::thread::sleep(Duration::from_nanos(2 * EPOCH_NS));
        rate = law(&rig, Share::ZERO).lane.rate();
        if rate > lane.rate() {
            break;
        }
    }
    ensure!(rate > lane.rate(), "the rate stayed at {rate:?}");
    let (before_ns, after_ns) = (clock_ns - left_ns, lanes.clock_ns(LANE) - left_ns);
    ensure!(lanes.left_ns(LANE) == left_ns, "a packet left meanwhile");
    ensure!(
        after_ns < before_ns,
        "the next packet waits {after_ns} ns after the last one, {before_ns} ns before the rise"
    );
    Ok(())
}

/// At each full second. An RTT of 50 ms makes a drain last 204 ms, and the law runs every 50 ms.
fn a_lane_with_a_window_drains() -> Result<()> {
    const RTT_NS: u64 = 50_000_000;
    let rig = rig()?;
    open(&rig, settings(RateLaw::Yield, false));
    let (mut seen, began) = ([false; 2], Instant::now());
    for slot in 0.. {
        let data = Shape { body: 1_000, ..Shape::default() }.data(&Header::new(&data_fields(slot)));
        let sent = rig.egress(&data)?;
        ensure!(sent.verdict == TC_PASS, "packet {slot} was dropped");
        let mut header = Parsed::of(&sent.packet)?.header;
        header.stamp(header.epoch(), now_ns() - RTT_NS);
        ensure!(rig.xdp(&ack_of(&header, false))?.verdict == XDP_DROP);
        seen[usize::from(law(&rig, Share::ZERO).lane.is_draining())] = true;
        if seen == [true; 2] {
            break;
        }
        ensure!(began.elapsed() < DRAINS_AWAITED_MAX, "seen without and with a drain: {seen:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The laws are not loaded if the daemon runs them itself.
fn without_a_law_nothing_is_evaluated() -> Result<()> {
    let rig = Rig::new()?;
    let stored = LaneControl { due_ns: 1, ..control() };
    rig.datapath.lanes().store_control(LANE, &stored);
    ensure!(rig.egress(&some_data())?.verdict == TC_PASS);
    ensure!(rig.datapath.lanes().control(LANE) == stored);
    ensure!(rig.counter("paced")? == 1);
    Ok(())
}
