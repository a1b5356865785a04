//! Tests how XDP and tc ingress consume arriving ACKs.

use crate::NEEDS;
use anyhow::{Result, ensure};
use atp_common::{
    laws::path_delay::PathDelay,
    maps::{ACK_RING_WORDS, LaneControl},
    wire::{Fields, Flags, Header, Kind},
};
use atp_tests::{
    capability::Suite,
    packets::{COOKIE, End, GROUP, JOB, RECEIVER, SENDER, Shape, data_fields},
    prog_run::{
        EPOCH, JOB_INDEX, LANE, Rig, TC_DROP, TC_PASS, XDP_DROP, XDP_PASS, control, now_ns,
    },
};
use std::time::Duration;

pub fn add(suite: &mut Suite) {
    suite.add("consume__new_ack_sets_the_bit_and_counts", NEEDS, new_ack_sets_the_bit_and_counts);
    suite.add("consume__duplicate_is_stale", NEEDS, duplicate_is_stale);
    suite.add("consume__an_earlier_lap_changes_nothing", NEEDS, an_earlier_lap_changes_nothing);
    suite.add("consume__marks_are_counted", NEEDS, marks_are_counted);
    suite.add("consume__a_closed_epoch_counts_nothing", NEEDS, a_closed_epoch_counts_nothing);
    suite.add("consume__rtt_is_observed", NEEDS, rtt_is_observed);
    suite.add("consume__tells_the_wait_of_an_ack", NEEDS, tells_the_wait_of_an_ack);
    suite.add("consume__a_wrong_cookie_is_forged", NEEDS, a_wrong_cookie_is_forged);
    suite.add("consume__unknown_is_dropped", NEEDS, unknown_is_dropped);
    suite.add("consume__without_a_ring_is_unknown", NEEDS, without_a_ring_is_unknown);
    suite.add(
        "consume__other_kinds_and_other_flows_are_passed_up",
        NEEDS,
        other_kinds_and_other_flows_are_passed_up,
    );
}

/// Runs a test on both programs, each on a rig of its own.
fn at_both(test: fn(&Consumer) -> Result<()>) -> Result<()> {
    for xdp in [false, true] {
        let consumer = Consumer { rig: Rig::new()?, xdp };
        test(&consumer).map_err(|error| error.context(if xdp { "XDP" } else { "tc ingress" }))?;
    }
    Ok(())
}

struct Consumer {
    rig: Rig,
    xdp: bool,
}

impl Consumer {
    /// Whether the program consumed the packet. The packet must be unchanged in both cases.
    fn consumes(&self, packet: &[u8]) -> Result<bool> {
        let (outcome, dropped, passed) = if self.xdp {
            (self.rig.xdp(packet)?, XDP_DROP, XDP_PASS)
        } else {
            (self.rig.ingress(packet)?, TC_DROP, TC_PASS)
        };
        ensure!(outcome.packet == packet, "the packet changed");
        ensure!([dropped, passed].contains(&outcome.verdict), "verdict {}", outcome.verdict);
        Ok(outcome.verdict == dropped)
    }

    fn consumes_and_counts(&self, packet: &[u8], counter: &str) -> Result<()> {
        let before = self.rig.counter(counter)?;
        ensure!(self.consumes(packet)?, "{counter}: not consumed");
        ensure!(
            self.rig.counter(counter)? == before + 1,
            "{counter}: {:?}",
            self.rig.datapath.counters()?
        );
        Ok(())
    }

    fn acked_and_marked(&self) -> (u64, u64) {
        let cell = self.rig.datapath.lanes().read_cell(LANE, EPOCH);
        (cell.acked_packets, cell.marked_packets)
    }
}

fn fields(slot: u32) -> Fields {
    Fields { kind: Kind::Ack, epoch: EPOCH, ..data_fields(slot) }
}

fn ack(slot: u32) -> Vec<u8> {
    Shape::default().answer(&Header::new(&fields(slot)))
}

fn new_ack_sets_the_bit_and_counts() -> Result<()> {
    at_both(|consumer| {
        let mut acked = 0;
        for (i, shape) in Shape::all().into_iter().enumerate() {
            let slot = 1000 + 31 * i as u32;
            consumer.rig.use_flow(shape.ipv6)?;
            let packet = shape.answer(&Header::new(&fields(slot)));
            consumer.consumes_and_counts(&packet, "ack_news")?;
            acked += 1;
            ensure!(consumer.rig.delivered(shape.ipv6, slot), "{shape:?}: no bit");
            ensure!(!consumer.rig.delivered(shape.ipv6, slot + 1), "{shape:?}: another bit");
            ensure!(consumer.acked_and_marked() == (acked, 0), "{shape:?}");
        }
        Ok(())
    })
}

/// A duplicate from the network must not hide the loss of another packet.
fn duplicate_is_stale() -> Result<()> {
    at_both(|consumer| {
        consumer.consumes_and_counts(&ack(5), "ack_news")?;
        consumer.consumes_and_counts(&ack(5), "ack_stale")?;
        ensure!(consumer.rig.delivered(false, 5) && consumer.acked_and_marked() == (1, 0));
        Ok(())
    })
}

fn an_earlier_lap_changes_nothing() -> Result<()> {
    at_both(|consumer| {
        let lap = ACK_RING_WORDS * 32;
        consumer.consumes_and_counts(&ack(lap + 64), "ack_news")?;
        consumer.consumes_and_counts(&ack(65), "ack_stale")?;
        ensure!(consumer.rig.delivered(false, lap + 64));
        ensure!(!consumer.rig.delivered(false, 65) && !consumer.rig.delivered(false, lap + 65));
        Ok(())
    })
}

fn marks_are_counted() -> Result<()> {
    at_both(|consumer| {
        for (slot, flags) in [
            Flags::NONE,
            Flags::CONGESTION,
            Flags::RETRANSMIT,
            Flags::CONGESTION.with(Flags::RETRANSMIT),
            Flags::PACKED,
            Flags::PACKED.with(Flags::CONGESTION),
        ]
        .into_iter()
        .enumerate()
        {
            let header = Header::new(&Fields { flags, ..fields(slot as u32) });
            consumer.consumes_and_counts(&Shape::default().answer(&header), "ack_news")?;
        }
        ensure!(consumer.acked_and_marked() == (6, 3));
        Ok(())
    })
}

fn a_closed_epoch_counts_nothing() -> Result<()> {
    at_both(|consumer| {
        for epoch in [EPOCH - 16, EPOCH + 16, EPOCH + 1] {
            let header = Header::new(&Fields { epoch, ..fields(u32::from(epoch)) });
            consumer.consumes_and_counts(&Shape::default().answer(&header), "ack_news")?;
            ensure!(consumer.rig.delivered(false, u32::from(epoch)));
        }
        ensure!(consumer.acked_and_marked() == (0, 0));
        Ok(())
    })
}

fn rtt_is_observed() -> Result<()> {
    at_both(|consumer| {
        const RTT_NS: u64 = 3_000_000;
        let mut header = Header::new(&fields(1));
        header.stamp(EPOCH, now_ns() - RTT_NS);
        ensure!(consumer.consumes(&Shape::default().answer(&header))?);
        let rtt = consumer.rig.datapath.lanes().rtt(LANE);
        ensure!((RTT_NS - 2048..RTT_NS + 500_000_000).contains(&rtt.smoothed_ns), "{rtt:?}");
        ensure!(rtt.min_ns == rtt.smoothed_ns, "{rtt:?}");
        // Time stamps in the future, or older than any round trip, are ignored.
        for stamp_ns in [now_ns() + 1_000_000_000_000, now_ns() - 20_000_000_000] {
            header.stamp(EPOCH, stamp_ns);
            ensure!(consumer.consumes(&Shape::default().answer(&header))?);
            ensure!(consumer.rig.datapath.lanes().rtt(LANE) == rtt, "stamp {stamp_ns}");
        }
        Ok(())
    })
}

/// A packet waits on its way in one round trip, and its ACK in another of the same RTT. The
/// receiver's clock has nothing to do with the sender's.
fn tells_the_wait_of_an_ack() -> Result<()> {
    at_both(|consumer| {
        for first_slot in (0..).step_by(8) {
            let began_ns = now_ns();
            let outcome = tells_the_wait_in_time(consumer, first_slot);
            // Delays of the idle path are forgotten if this host stands still.
            if outcome.is_ok() || now_ns() - began_ns < PathDelay::PERIOD_NS {
                return outcome;
            }
        }
        Ok(())
    })
}

fn tells_the_wait_in_time(consumer: &Consumer, first_slot: u32) -> Result<()> {
    const IDLE_NS: u64 = 1_000_000_000;
    const WAIT_NS: u64 = 4_000_000_000;
    const ACK_PERIOD: Duration = Duration::from_nanos(5_000_000);
    let consume = |slot: u32, rtt_ns, forward_ns| {
        let departed_ns = now_ns() - rtt_ns;
        let mut header = Header::new(&fields(first_slot + slot));
        header.stamp(EPOCH, departed_ns);
        let arrived = Header::time_of(departed_ns + forward_ns).wrapping_add(0xdead_beef);
        let payload = [&header.as_bytes()[..], &arrived.to_be_bytes()].concat();
        ensure!(consumer.consumes(&Shape::default().udp(&RECEIVER, &SENDER, &payload))?);
        let path = consumer.rig.datapath.lanes().path(LANE);
        ensure!(path.idle_ns() >= IDLE_NS - 2_048, "{path:?}");
        // The next packet is alone in its period of ACKs.
        std::thread::sleep(ACK_PERIOD);
        Ok(path.covered_ns() - path.idle_ns())
    };
    consume(0, IDLE_NS, IDLE_NS / 2)?;
    consume(1, IDLE_NS + WAIT_NS, IDLE_NS / 2 + WAIT_NS)?;
    let wait_ns = consume(2, IDLE_NS + WAIT_NS, IDLE_NS / 2 + WAIT_NS)?;
    ensure!(wait_ns < WAIT_NS / 2, "the packet waited, not its ACK: {wait_ns}");
    let wait_ns = consume(3, IDLE_NS + WAIT_NS, IDLE_NS / 2)?;
    ensure!(wait_ns < WAIT_NS / 2, "one ACK waited: {wait_ns}");
    consume(4, IDLE_NS + WAIT_NS, IDLE_NS / 2)?;
    let wait_ns = consume(5, IDLE_NS + WAIT_NS, IDLE_NS / 2)?;
    ensure!(wait_ns > WAIT_NS / 2, "the ACKs waited: {wait_ns}");
    // A short packet's ACK names no time.
    let mut header = Header::new(&fields(first_slot + 6));
    header.stamp(EPOCH, now_ns() - IDLE_NS - WAIT_NS);
    ensure!(consumer.consumes(&Shape::default().udp(&RECEIVER, &SENDER, header.as_bytes()))?);
    let path = consumer.rig.datapath.lanes().path(LANE);
    ensure!(path.covered_ns() > path.idle_ns() + WAIT_NS / 2, "{path:?}");
    Ok(())
}

fn a_wrong_cookie_is_forged() -> Result<()> {
    at_both(|consumer| {
        for bit in 0..32 {
            let header = Header::new(&Fields { cookie: COOKIE ^ 1 << bit, ..fields(bit) });
            consumer.consumes_and_counts(&Shape::default().answer(&header), "ack_forged")?;
            ensure!(!consumer.rig.delivered(false, bit));
        }
        ensure!(consumer.acked_and_marked() == (0, 0));
        ensure!(consumer.rig.datapath.lanes().rtt(LANE).smoothed_ns == 0);
        Ok(())
    })
}

fn unknown_is_dropped() -> Result<()> {
    at_both(|consumer| {
        let shape = Shape::default();
        let unknown = |packet: &[u8]| consumer.consumes_and_counts(packet, "ack_unknown");
        let header = Header::new(&fields(1));
        unknown(&shape.answer(&Header::new(&Fields { job: JOB + 1, ..fields(1) })))?;
        unknown(&shape.answer(&Header::new(&Fields { group: GROUP + 1, ..fields(1) })))?;
        let rig = &consumer.rig;
        rig.datapath.lanes().store_control(LANE, &LaneControl::default());
        unknown(&shape.answer(&header))?;
        rig.datapath.lanes().store_control(LANE, &control());
        rig.datapath.remove_job(JOB_INDEX, JOB, 0)?;
        unknown(&shape.answer(&header))?;
        ensure!(!rig.delivered(false, 1) && consumer.acked_and_marked() == (0, 0));
        Ok(())
    })
}

fn without_a_ring_is_unknown() -> Result<()> {
    at_both(|consumer| {
        consumer.rig.datapath.remove_ack_ring(2)?;
        consumer.consumes_and_counts(&ack(1), "ack_unknown")
    })
}

fn other_kinds_and_other_flows_are_passed_up() -> Result<()> {
    at_both(|consumer| {
        // For example, the same port in another container, whose library reads its ACKs itself.
        let (shape, header) = (Shape::default(), Header::new(&fields(1)));
        let elsewhere = End { ipv4: [10, 0, 0, 3], ..RECEIVER };
        let other_port = End { port: RECEIVER.port + 1, ..RECEIVER };
        let other_ipv4 = End { ipv4: [10, 0, 0, 3], ..SENDER };
        for packet in [
            shape.atp(&elsewhere, &SENDER, &header),
            shape.atp(&other_port, &SENDER, &header),
            shape.atp(&RECEIVER, &other_ipv4, &header),
            Shape { ipv6: true, ..shape }.answer(&header),
        ] {
            ensure!(!consumer.consumes(&packet)?);
        }
        for kind in [Kind::Data, Kind::Probe, Kind::Receipt, Kind::Fin, Kind::FinAck, Kind::Reset] {
            let header = Header::new(&Fields { kind, ..fields(32) });
            ensure!(!consumer.consumes(&Shape::default().answer(&header))?, "{kind:?}");
        }
        // An unregistered port may belong to a library without a daemon.
        let unregistered = End { port: SENDER.port + 1, ..SENDER };
        let header = Header::new(&fields(1));
        ensure!(!consumer.consumes(&Shape::default().atp(&RECEIVER, &unregistered, &header))?);
        ensure!(!consumer.consumes(&Shape::default().udp(&RECEIVER, &SENDER, &[7; 64]))?);
        Ok(())
    })
}
