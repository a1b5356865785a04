//! Tests pacing: departure times, the horizon, HTB classes, and the safe rate without a heartbeat.

use crate::NEEDS;
use anyhow::{Result, ensure};
use atp_common::{
    laws::{
        advice::uneven_bytes,
        pacing::{CATCH_UP_NS, UNATTENDED_HORIZON_NS},
    },
    maps::{Config, LaneControl},
    wire::{Fields, Flags, Header},
};
use atp_datapath::pacing::Backend;
use atp_tests::{
    capability::Suite,
    packets::{Parsed, Shape, data_fields},
    prog_run::{
        ACK_MARK, EPOCH, HORIZON_NS, LANE, RATE_BYTES_PER_S, Rig, SAFE_RATE_BYTES_PER_S, TC_DROP,
        TC_PASS, control, now_ns,
    },
};

pub fn add(suite: &mut Suite) {
    suite.add("pacing__fq_departures_keep_the_rate", NEEDS, fq_departures_keep_the_rate);
    suite.add("pacing__uneven_gaps_keep_the_rate", NEEDS, uneven_gaps_keep_the_rate);
    suite.add(
        "pacing__too_far_drops_and_leaves_the_clock",
        NEEDS,
        too_far_drops_and_leaves_the_clock,
    );
    suite.add("pacing__an_idle_lane_saves_no_burst", NEEDS, an_idle_lane_saves_no_burst);
    suite.add("pacing__a_late_lane_catches_up", NEEDS, a_late_lane_catches_up);
    suite.add("pacing__htb_names_the_class", NEEDS, htb_names_the_class);
    suite.add(
        "pacing__unattended_falls_to_the_safe_rate",
        NEEDS,
        unattended_falls_to_the_safe_rate,
    );
    suite.add("pacing__unattended_htb_is_policed", NEEDS, unattended_htb_is_policed);
    suite.add("pacing__unattended_never_speeds_up", NEEDS, unattended_never_speeds_up);
}

fn data() -> Vec<u8> {
    Shape { body: 500, ..Shape::default() }.data(&Header::new(&data_fields(1)))
}

/// The duration of one packet at a rate.
fn duration_ns(rate_bytes_per_s: u64) -> u64 {
    data().len() as u64 * 1_000_000_000 / rate_bytes_per_s
}

/// Advances the lane's clock by a second, with one packet at a slow rate. The packets after it
/// follow the clock, even if an emulated machine pauses for longer than a packet's duration.
fn get_ahead(rig: &Rig) -> Result<()> {
    let slow = LaneControl { rate_bytes_per_s: data().len() as u64, ..control() };
    rig.datapath.lanes().store_control(LANE, &slow);
    ensure!(rig.egress(&data())?.verdict == TC_PASS);
    rig.datapath.lanes().store_control(LANE, &control());
    Ok(())
}

fn fq_departures_keep_the_rate() -> Result<()> {
    let rig = Rig::new()?;
    get_ahead(&rig)?;
    let first_ns = rig.egress(&data())?.skb.tstamp;
    for i in 1..30 {
        let outcome = rig.egress(&data())?;
        let expected_ns = first_ns + i * duration_ns(RATE_BYTES_PER_S);
        ensure!(
            outcome.skb.tstamp == expected_ns,
            "packet {i}: {} not {expected_ns}",
            outcome.skb.tstamp
        );
        let stamp = Parsed::of(&outcome.packet)?.header.time();
        ensure!(stamp == Header::time_of(expected_ns), "packet {i}: stamped {stamp}");
    }
    let clock_ns = rig.datapath.lanes().clock_ns(LANE);
    ensure!(clock_ns == first_ns + 30 * duration_ns(RATE_BYTES_PER_S), "{clock_ns}");
    Ok(())
}

/// The gap after a packet follows from its header, so the test knows each.
fn uneven_gaps_keep_the_rate() -> Result<()> {
    let rig = Rig::new()?;
    get_ahead(&rig)?;
    rig.datapath.lanes().store_control(LANE, &LaneControl { uneven_gaps: 1, ..control() });
    let begun_ns = rig.datapath.lanes().clock_ns(LANE);
    let mut expected_ns = begun_ns;
    let count = 200;
    for slot in 0..count {
        let flags = if slot % 2 == 0 { Flags::NONE } else { Flags::NO_ACK };
        let header = Header::new(&Fields { slot, flags, epoch: EPOCH, ..data_fields(1) });
        let packet = Shape { body: 500, ..Shape::default() }.data(&header);
        let outcome = rig.egress(&packet)?;
        ensure!(outcome.skb.tstamp == expected_ns, "packet {slot}: {}", outcome.skb.tstamp);
        let bytes = uneven_bytes(packet.len() as u32, header.pacing_number());
        expected_ns += u64::from(bytes) * 1_000_000_000 / RATE_BYTES_PER_S;
    }
    let mean_ns = (expected_ns - begun_ns) as f64 / f64::from(count);
    let ratio = mean_ns / duration_ns(RATE_BYTES_PER_S) as f64;
    ensure!((0.97..1.03).contains(&ratio), "{ratio}");
    Ok(())
}

fn too_far_drops_and_leaves_the_clock() -> Result<()> {
    let rig = Rig::new()?;
    // One byte a second: the first packet fills the horizon.
    rig.datapath.lanes().store_control(LANE, &LaneControl { rate_bytes_per_s: 1, ..control() });
    ensure!(rig.egress(&data())?.verdict == TC_PASS);
    let clock_ns = rig.datapath.lanes().clock_ns(LANE);
    ensure!(clock_ns > now_ns() + HORIZON_NS);
    for _ in 0..3 {
        let outcome = rig.egress(&data())?;
        ensure!(outcome.verdict == TC_DROP && outcome.packet == data());
    }
    ensure!(rig.datapath.lanes().clock_ns(LANE) == clock_ns);
    ensure!(rig.datapath.lanes().too_far_packets(LANE) == 3);
    ensure!((rig.counter("too_far")?, rig.counter("paced")?) == (3, 1));
    ensure!(rig.datapath.lanes().read_cell(LANE, EPOCH).sent_packets == 1);
    Ok(())
}

fn an_idle_lane_saves_no_burst() -> Result<()> {
    let rig = Rig::new()?;
    rig.egress(&data())?;
    std::thread::sleep(std::time::Duration::from_nanos(2 * duration_ns(RATE_BYTES_PER_S)));
    let before_ns = now_ns();
    let first_ns = rig.egress(&data())?.skb.tstamp;
    ensure!(first_ns >= before_ns, "leaves {} ns in the past", before_ns - first_ns);
    ensure!(rig.datapath.lanes().clock_ns(LANE) == first_ns + duration_ns(RATE_BYTES_PER_S));
    Ok(())
}

fn htb_names_the_class() -> Result<()> {
    let rig = Rig::with_backend(Backend::Htb)?;
    for _ in 0..20 {
        let before_ns = now_ns();
        let outcome = rig.egress(&data())?;
        ensure!(outcome.verdict == TC_PASS && outcome.skb.priority == control().htb_class);
        ensure!(outcome.skb.tstamp == 0, "a departure time under HTB");
        let age_ns = Parsed::of(&outcome.packet)?.header.age_ns(now_ns());
        ensure!(age_ns.is_some_and(|age| age <= now_ns() - before_ns + 2048), "{age_ns:?}");
    }
    ensure!(rig.counter("paced")? == 20);
    Ok(())
}

/// Sets the last heartbeat just beyond the permitted age. The permitted age is short, because the
/// clock begins at boot and a virtual machine may be up for only seconds.
fn fall_silent(rig: &Rig) {
    const SILENCE_NS_MAX: u64 = 5_000_000_000;
    rig.datapath.set_config(&Config {
        heartbeat_ns: now_ns() - SILENCE_NS_MAX - 1,
        heartbeat_ns_max: SILENCE_NS_MAX,
        safe_rate_bytes_per_s: SAFE_RATE_BYTES_PER_S,
        horizon_ns: HORIZON_NS,
        backend: 0,
        generation: 0,
        ack_mark: ACK_MARK,
        counts_arrivals: 0,
        approximate_dscps: 0,
    });
}

/// The time that one packet occupies the lane: from its departure to the lane's clock afterwards.
/// Unlike the difference of two departures it does not depend on the speed of the test. An
/// unattended lane's clock must not be far ahead, so [`get_ahead`] does not help there.
fn occupancy_ns(rig: &Rig) -> Result<u64> {
    let before_ns = rig.datapath.lanes().clock_ns(LANE);
    let outcome = rig.egress(&data())?;
    ensure!(outcome.verdict == TC_PASS, "the packet was dropped");
    ensure!(outcome.skb.tstamp >= before_ns, "the packet leaves before the lane's clock");
    Ok(rig.datapath.lanes().clock_ns(LANE) - outcome.skb.tstamp)
}

/// A lane whose clock lies in the past makes up for as much as the burst allows, and for 10 ms.
fn a_late_lane_catches_up() -> Result<()> {
    let len = data().len() as u32;
    // A packet takes longer than 10 ms.
    for (burst_bytes_max, late_ns) in
        [(0, 0), (len / 4, duration_ns(RATE_BYTES_PER_S) / 4), (4 * len, CATCH_UP_NS)]
    {
        let rig = Rig::new()?;
        let control = LaneControl { burst_bytes_max, ..control() };
        rig.datapath.lanes().store_control(LANE, &control);
        // The clock stands at zero.
        let occupied_ns = occupancy_ns(&rig)?;
        let expected_ns = duration_ns(RATE_BYTES_PER_S) - late_ns;
        // Rates are rounded, and a burst of a quarter of a packet is too.
        ensure!(
            occupied_ns.abs_diff(expected_ns) <= 100_000,
            "a burst of {burst_bytes_max} bytes: {occupied_ns} ns, not {expected_ns}"
        );
    }
    Ok(())
}

fn unattended_falls_to_the_safe_rate() -> Result<()> {
    let rig = Rig::new()?;
    fall_silent(&rig);
    for _ in 0..2 {
        ensure!(occupancy_ns(&rig)? == duration_ns(SAFE_RATE_BYTES_PER_S));
    }
    ensure!(rig.counter("unattended")? == 2);

    rig.datapath.heartbeat(now_ns());
    ensure!(occupancy_ns(&rig)? == duration_ns(RATE_BYTES_PER_S));
    ensure!(rig.counter("unattended")? == 2);
    Ok(())
}

fn unattended_htb_is_policed() -> Result<()> {
    let rig = Rig::with_backend(Backend::Htb)?;
    fall_silent(&rig);
    // The horizon acts as a bucket at the safe rate, which refills while the test empties it.
    let started_ns = now_ns();
    let mut passed = 0;
    while rig.egress(&data())?.verdict == TC_PASS {
        passed += 1;
        ensure!(passed < 1000, "nothing is dropped");
    }
    let bucket_ns = UNATTENDED_HORIZON_NS..=UNATTENDED_HORIZON_NS + now_ns() - started_ns;
    let expected = |ns: u64| ns / duration_ns(SAFE_RATE_BYTES_PER_S) + 1;
    let bounds = expected(*bucket_ns.start())..=expected(*bucket_ns.end());
    ensure!(bounds.contains(&passed), "{passed} passed, not {bounds:?}");
    ensure!(rig.datapath.lanes().too_far_packets(LANE) == 1);
    rig.datapath.heartbeat(now_ns());
    ensure!(rig.egress(&data())?.verdict == TC_PASS);
    Ok(())
}

fn unattended_never_speeds_up() -> Result<()> {
    let rig = Rig::new()?;
    let slower = SAFE_RATE_BYTES_PER_S / 4 * 3;
    rig.datapath
        .lanes()
        .store_control(LANE, &LaneControl { rate_bytes_per_s: slower, ..control() });
    fall_silent(&rig);
    for _ in 0..2 {
        ensure!(occupancy_ns(&rig)? == duration_ns(slower));
    }
    ensure!(rig.counter("unattended")? == 2);
    Ok(())
}
