//! A port of the switch: classes, priorities, limits, rate.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use switch_profiles::{PortRole, Profile};
use testbed::{Options, PortCounters, Testbed};

use crate::Test;
use crate::traffic::{FRAME_BYTES, blast};

pub const TESTS: &[Test] = &[
    ("classes__every_dscp_to_its_queue_ipv4", classes__every_dscp_to_its_queue_ipv4),
    ("classes__every_dscp_to_its_queue_ipv6", classes__every_dscp_to_its_queue_ipv6),
    ("classes__one_queue_takes_every_dscp", classes__one_queue_takes_every_dscp),
    (
        "priority__overload_below_costs_queue_0_nothing",
        priority__overload_below_costs_queue_0_nothing,
    ),
    ("priority__a_higher_queue_goes_first", priority__a_higher_queue_goes_first),
    ("limit__a_burst_loses_what_does_not_fit", limit__a_burst_loses_what_does_not_fit),
    ("rate__the_port_carries_no_more", rate__the_port_carries_no_more),
    ("rate__the_receiver_s_may_be_lower", rate__the_receiver_s_may_be_lower),
];

/// Low enough for an emulated machine.
const RATE_BITS_PER_S: u64 = 8_000_000;
const NO_LIMIT: u64 = u64::MAX;

fn testbed(senders: usize, rate_bits_per_s: u64) -> Result<Testbed> {
    testbed_with_nics(senders, rate_bits_per_s, rate_bits_per_s)
}

fn testbed_with_nics(
    senders: usize,
    rate_bits_per_s: u64,
    nic_rate_bits_per_s: u64,
) -> Result<Testbed> {
    let profile = Profile::paper();
    Testbed::build(&Options {
        senders,
        rate_bits_per_s,
        nic_rate_bits_per_s,
        receiver_rate_bits_per_s: None,
        profile,
    })
}

fn counters(testbed: &Testbed) -> Result<Vec<PortCounters>> {
    testbed.port_counters(testbed.receiver())
}

fn classes__every_dscp_to_its_queue_ipv4() -> Result<()> {
    every_dscp_to_its_queue(|testbed| testbed.receiver().ipv4.into())
}

fn classes__every_dscp_to_its_queue_ipv6() -> Result<()> {
    every_dscp_to_its_queue(|testbed| testbed.receiver().ipv6.into())
}

/// Checks the profile's seven code points, and some that resemble them.
fn every_dscp_to_its_queue(address: fn(&Testbed) -> IpAddr) -> Result<()> {
    let testbed = testbed(1, RATE_BITS_PER_S)?;
    let to = address(&testbed);
    for (dscp, queue) in [
        (3, 1),
        (7, 2),
        (11, 3),
        (15, 4),
        (19, 5),
        (23, 6),
        (27, 7),
        (0, 0),
        (31, 0),
        (46, 0),
        (35, 0),
    ] {
        let before = counters(&testbed)?;
        // One packet at a time: queue 7 holds no more.
        for _ in 0..3 {
            blast(&testbed.senders()[0], to, dscp, 1, Duration::from_secs(1))?;
            thread::sleep(Duration::from_millis(2));
        }
        let after = settled(&testbed)?;
        for (number, (before, after)) in before.iter().zip(&after).enumerate() {
            let came = after.sent_packets - before.sent_packets;
            // Queue 0 also gets the hosts' multicast announcements.
            let as_expected = match number {
                0 if queue == 0 => came >= 3,
                0 => true,
                _ => came == if number == queue { 3 } else { 0 },
            };
            ensure!(as_expected, "DSCP {dscp}: {came} packets in queue {number}");
        }
    }
    Ok(())
}

fn classes__one_queue_takes_every_dscp() -> Result<()> {
    let testbed = Testbed::build(&Options {
        senders: 1,
        rate_bits_per_s: RATE_BITS_PER_S,
        nic_rate_bits_per_s: RATE_BITS_PER_S,
        receiver_rate_bits_per_s: None,
        profile: Profile::one_queue(),
    })?;
    let to = testbed.receiver().ipv4.into();
    for dscp in [0, 3, 27, 46] {
        let before = counters(&testbed)?;
        blast(&testbed.senders()[0], to, dscp, 3, Duration::from_secs(1))?;
        thread::sleep(Duration::from_millis(60));
        let after = counters(&testbed)?;
        ensure!(after.len() == 1, "{} queues", after.len());
        let came = after[0].sent_packets - before[0].sent_packets;
        ensure!(came >= 3, "DSCP {dscp}: {came} packets in the queue");
    }
    Ok(())
}

fn priority__overload_below_costs_queue_0_nothing() -> Result<()> {
    let testbed = testbed(3, RATE_BITS_PER_S)?;
    let to = testbed.receiver().ipv4.into();
    let duration = Duration::from_secs(2);
    let (exact, low) = testbed.senders().split_last().expect("there are three");
    let sent = thread::scope(|scope| -> Result<u64> {
        for host in low {
            scope.spawn(move || blast(host, to, 27, NO_LIMIT, duration));
        }
        // Exact traffic at a third of the port's rate, ten packets at a time.
        let deadline = Instant::now() + duration;
        let mut sent = 0;
        while Instant::now() < deadline {
            sent += blast(exact, to, 0, 10, duration)?;
            thread::sleep(Duration::from_millis(45));
        }
        Ok(sent)
    })?;
    let queues = settled(&testbed)?;
    let (top, bottom) = (queues[0], queues[7]);
    ensure!(top.sent_packets >= sent && top.dropped_packets == 0, "queue 0 of {sent}: {top:?}");
    // Two NICs' packets came to a port with two thirds of its rate left.
    ensure!(bottom.dropped_packets > bottom.sent_packets / 2, "queue 7: {bottom:?}");
    ensure!(bottom.sent_packets > 300, "queue 7 got nothing of what was free: {bottom:?}");
    Ok(())
}

fn priority__a_higher_queue_goes_first() -> Result<()> {
    let testbed = testbed(2, RATE_BITS_PER_S)?;
    let to = testbed.receiver().ipv4.into();
    let duration = Duration::from_millis(1_500);
    thread::scope(|scope| {
        for (host, dscp) in testbed.senders().iter().zip([3, 27]) {
            scope.spawn(move || blast(host, to, dscp, NO_LIMIT, duration));
        }
    });
    let queues = counters(&testbed)?;
    let (high, low) = (queues[1], queues[7]);
    // Queue 1 alone fills the port. The other queue gets a fifth only if its sender is held up for
    // 300 of 1,500 ms, beyond the 130 ms that its socket's buffer lasts: by delays of 10 ms on
    // average, with probability e^-30.
    ensure!(high.sent_packets > 4 * low.sent_packets, "queue 1: {high:?}, queue 7: {low:?}");
    ensure!(low.dropped_packets > low.sent_packets, "queue 7: {low:?}");
    Ok(())
}

fn limit__a_burst_loses_what_does_not_fit() -> Result<()> {
    // A packet takes 120 ms, so nothing leaves the port during the burst.
    let testbed = testbed_with_nics(1, 100_000, 1_000_000_000)?;
    let to = testbed.receiver().ipv4.into();
    let profile = Profile::paper();
    for (dscp, queue) in [(27, 7u8), (15, 4), (3, 1)] {
        // Let the queue drain and its burst allowance of two packets refill.
        thread::sleep(Duration::from_millis(500 + 130 * u64::from(9 - queue)));
        let before = counters(&testbed)?[usize::from(queue)].dropped_packets;
        blast(&testbed.senders()[0], to, dscp, 20, Duration::from_secs(1))?;
        let dropped = counters(&testbed)?[usize::from(queue)].dropped_packets - before;
        let fitted = 20 - dropped;
        // The depth, one packet in service, and the burst allowance. Another packet fits if the
        // burst takes 240 ms instead of one: with delays of 10 ms on average, e^-24 of an
        // exponential tail.
        let depth = u64::from(profile.depth_packets(queue, PortRole::ToHost));
        ensure!(
            (depth + 1..=depth + 4).contains(&fitted),
            "queue {queue} took {fitted} of 20 packets at once, its depth is {depth}"
        );
    }
    Ok(())
}

/// The counters once no packet is in flight.
fn settled(testbed: &Testbed) -> Result<Vec<PortCounters>> {
    let mut last = counters(testbed)?;
    loop {
        thread::sleep(Duration::from_millis(60));
        let now = counters(testbed)?;
        // Queue 0 also has the hosts' own packets, such as neighbor discovery.
        if now[1..] == last[1..] {
            return Ok(now);
        }
        last = now;
    }
}

/// Sends from all senders for two seconds; returns the number of packets sent.
fn blast_from_all(testbed: &Testbed, to: IpAddr, dscp: u8) -> Result<u64> {
    thread::scope(|scope| {
        let start =
            |host| scope.spawn(move || blast(host, to, dscp, NO_LIMIT, Duration::from_secs(2)));
        let running: Vec<_> = testbed.senders().iter().map(start).collect();
        running.into_iter().map(|one| one.join().expect("does not panic")).sum()
    })
}

fn rate__the_port_carries_no_more() -> Result<()> {
    let testbed = testbed(2, RATE_BITS_PER_S)?;
    let to = testbed.receiver().ipv4.into();
    let started = Instant::now();
    let sent = blast_from_all(&testbed, to, 0)?;
    let queue = counters(&testbed)?[0];
    let seconds = started.elapsed().as_secs_f64();
    let rate_bits_per_s = queue.sent_bytes as f64 * 8.0 / seconds;
    let full = RATE_BITS_PER_S as f64;
    // A slow machine makes the rate smaller only: the time contains all that was sent.
    ensure!(
        rate_bits_per_s <= 1.03 * full,
        "the port of {full} bit/s carried {rate_bits_per_s:.0}"
    );
    // Some packets are the hosts' own, such as neighbor discovery.
    let mean_bytes = queue.sent_bytes / queue.sent_packets.max(1);
    ensure!((FRAME_BYTES - 30..=FRAME_BYTES).contains(&mean_bytes), "not MTU-sized: {queue:?}");
    ensure!(queue.dropped_packets > 0, "the port was never full: {sent} sent, {queue:?}");
    Ok(())
}

/// Both ways: a host's own port and NIC.
fn rate__the_receiver_s_may_be_lower() -> Result<()> {
    let testbed = Testbed::build(&Options {
        senders: 1,
        rate_bits_per_s: RATE_BITS_PER_S,
        nic_rate_bits_per_s: RATE_BITS_PER_S,
        receiver_rate_bits_per_s: Some(RATE_BITS_PER_S / 4),
        profile: Profile::default(),
    })?;
    let (sender, receiver) = (&testbed.senders()[0], testbed.receiver());
    for (from, to) in [(sender, receiver), (receiver, sender)] {
        let started = Instant::now();
        blast(from, to.ipv4.into(), 0, NO_LIMIT, Duration::from_secs(2))?;
        let sent_bytes = testbed.port_counters(to)?[0].sent_bytes;
        let rate_bits_per_s = sent_bytes as f64 * 8.0 / started.elapsed().as_secs_f64();
        let full = RATE_BITS_PER_S as f64 / 4.0;
        ensure!(
            rate_bits_per_s <= 1.1 * full && sent_bytes > 0,
            "from {} to {}: {rate_bits_per_s:.0} bit/s, not {full}",
            from.name,
            to.name
        );
    }
    Ok(())
}
