//! Tests random faults of packets: loss, reordering, duplication, corruption and delay. Most rows
//! have them in both directions, so DATA, ACKs, receipts and FINs meet them alike.

use crate::{
    row::Row,
    runs::{Plan, through, through_and_leave, through_one_way, through_or_error},
};
use anyhow::{Result, ensure};
use std::time::Duration;
use testbed::{Family, Load, faults::Trouble};

crate::trials! { if missing:
    loss__30_percent_of_1000_messages,
    loss__70_percent_of_1000_messages,
    reordering__a_tenth_held_back,
    corruption__v4,
    everything_at_once__v4,
    ; not emulated:
    loss__0_percent_of_1000_messages,
    loss__0_percent_of_100000_messages,
    loss__10_percent_of_100000_messages,
    loss__30_percent_of_100000_messages,
    loss__50_percent_of_100000_messages,
    loss__70_percent_of_100000_messages,
    loss__90_percent_of_100000_messages,
    loss__10_percent_everything_must_arrive,
    loss__50_percent_more_than_the_job_can_lose,
    loss__90_percent_more_than_the_job_can_lose,
    loss__70_percent_of_data_only,
    loss__90_percent_of_answers_only,
    loss__in_bursts,
    loss__in_bursts_and_the_receiver_leaves_at_once,
    loss__25_percent_and_the_receivers_of_100_jobs_leave_at_once,
    loss__messages_of_many_packets,
    duplication__half_comes_twice,
    corruption__v6,
    delay__with_jitter,
    everything_at_once__v6,
}

/// Two of these messages don't fit into one packet.
const SMALL: Load = Load::lines(1_000, 800);

fn loss__0_percent_of_1000_messages(row: &mut Row) -> Result<()> {
    lossy(row, 0.0, Plan::new(SMALL, 0.9))
}

fn loss__30_percent_of_1000_messages(row: &mut Row) -> Result<()> {
    lossy(row, 0.3, Plan::new(SMALL, 0.6))
}

fn loss__70_percent_of_1000_messages(row: &mut Row) -> Result<()> {
    lossy(row, 0.7, Plan::new(SMALL, 0.2))
}

fn loss__0_percent_of_100000_messages(row: &mut Row) -> Result<()> {
    lossy(row, 0.0, Plan::new(Load::lines(100_000, 100), 0.9))
}

fn loss__10_percent_of_100000_messages(row: &mut Row) -> Result<()> {
    lossy(row, 0.1, Plan::new(Load::lines(100_000, 100), 0.8))
}

fn loss__30_percent_of_100000_messages(row: &mut Row) -> Result<()> {
    lossy(row, 0.3, Plan::new(Load::lines(100_000, 100), 0.6))
}

fn loss__50_percent_of_100000_messages(row: &mut Row) -> Result<()> {
    lossy(row, 0.5, Plan::new(Load::pieces(100_000, 100), 0.4))
}

fn loss__70_percent_of_100000_messages(row: &mut Row) -> Result<()> {
    lossy(row, 0.7, Plan::new(Load::pieces(100_000, 100), 0.2))
}

fn loss__90_percent_of_100000_messages(row: &mut Row) -> Result<()> {
    nearly_all_lost(row, Plan::new(Load::pieces(100_000, 100), 0.05))
}

fn loss__10_percent_everything_must_arrive(row: &mut Row) -> Result<()> {
    lossy(row, 0.1, Plan::new(Load::lines(1_000, 500), 1.0))
}

fn loss__50_percent_more_than_the_job_can_lose(row: &mut Row) -> Result<()> {
    lossy(row, 0.5, Plan::new(Load::lines(1_000, 500), 0.9))
}

fn loss__90_percent_more_than_the_job_can_lose(row: &mut Row) -> Result<()> {
    nearly_all_lost(row, Plan::new(Load::lines(1_000, 500), 0.8))
}

fn loss__70_percent_of_data_only(row: &mut Row) -> Result<()> {
    through_one_way(row, &Trouble::loss(0.7), false, Plan::new(SMALL, 0.8)).map(drop)?;
    expect_some(row, "lost", 500)
}

fn loss__90_percent_of_answers_only(row: &mut Row) -> Result<()> {
    through_one_way(row, &Trouble::loss(0.9), true, Plan::new(SMALL, 0.8)).map(drop)?;
    expect_some(row, "lost", 500)
}

fn loss__in_bursts(row: &mut Row) -> Result<()> {
    let trouble = Trouble { burst: 20.0, ..Trouble::loss(0.3) };
    through(row, &trouble, Plan::new(Load::lines(10_000, 500), 0.6))?;
    expect_loss(row, &trouble)
}

/// The answer to a FIN may be lost when its receiver has left already.
fn loss__in_bursts_and_the_receiver_leaves_at_once(row: &mut Row) -> Result<()> {
    let trouble = Trouble { burst: 5.0, ..Trouble::loss(0.3) };
    through_and_leave(row, &trouble, 10, Plan::new(SMALL, 0.6))?;
    expect_loss(row, &trouble)
}

fn loss__25_percent_and_the_receivers_of_100_jobs_leave_at_once(row: &mut Row) -> Result<()> {
    let trouble = Trouble::loss(0.25);
    through_and_leave(row, &trouble, 100, Plan::new(Load::lines(100, 500), 0.7))?;
    expect_loss(row, &trouble)
}

/// Each message has 36 packets.
fn loss__messages_of_many_packets(row: &mut Row) -> Result<()> {
    lossy(row, 0.1, Plan::new(Load::pieces(200, 50_000), 0.8))
}

fn reordering__a_tenth_held_back(row: &mut Row) -> Result<()> {
    let delay = (Duration::from_millis(1), Duration::from_millis(4));
    let trouble = Trouble { detour: 0.1, delay, ..Trouble::default() };
    through(row, &trouble, Plan::new(Load::lines(2_000, 500), 0.8))?;
    // 73 to 89 of 800, with a standard deviation of 9.
    expect_some(row, "packets overtaken", 19)
}

fn duplication__half_comes_twice(row: &mut Row) -> Result<()> {
    let trouble = Trouble { duplicate: 0.5, ..Trouble::default() };
    through(row, &trouble, Plan::new(Load::lines(5_000, 500), 0.8))?;
    // Half of the DATA and half of the ACKs come twice, so many ACKs are stale.
    let (stale, arrived) =
        (row.counter("ack_stale at the sender"), row.counter("data_arrived at the receiver"));
    ensure!(stale * 4 > arrived, "{stale} stale ACKs of {arrived} packets: no duplicates");
    Ok(())
}

fn corruption__v4(row: &mut Row) -> Result<()> {
    corrupted(row, Family::V4)
}

fn corruption__v6(row: &mut Row) -> Result<()> {
    corrupted(row, Family::V6)
}

fn delay__with_jitter(row: &mut Row) -> Result<()> {
    let trouble = Trouble::delay_ms(5, 15);
    let report = through(row, &trouble, Plan::new(Load::lines(2_000, 500), 0.8))?;
    let rtt_us = report.timeline.iter().filter_map(|sample| sample.rtt_us).fold(0.0, f64::max);
    row.count("RTT, us", rtt_us as u64);
    ensure!(rtt_us > 10_000.0, "the RTT is {rtt_us} us: no packet was delayed");
    Ok(())
}

fn everything_at_once__v4(row: &mut Row) -> Result<()> {
    all_at_once(row, Family::V4)
}

fn everything_at_once__v6(row: &mut Row) -> Result<()> {
    all_at_once(row, Family::V6)
}

fn lossy(row: &mut Row, loss: f64, plan: Plan) -> Result<()> {
    let trouble = Trouble::loss(loss);
    through(row, &trouble, plan)?;
    expect_loss(row, &trouble)
}

/// With 90 % loss both ways, one FIN in a hundred is answered. The end may stay unconfirmed; the
/// sender must then say so.
fn nearly_all_lost(row: &mut Row, plan: Plan) -> Result<()> {
    let trouble = Trouble::loss(0.9);
    through_or_error(row, &trouble, Plan { timeout_s: 30, ..plan })?;
    expect_loss(row, &trouble)
}

/// Checks the share of packets that the injector lost. It may differ by six standard deviations: a
/// normal distribution does so twice in a thousand million runs, which leaves room for `seen`, the
/// number of packets, that depends on the losses.
fn expect_loss(row: &Row, trouble: &Trouble) -> Result<()> {
    let (lost, seen) = (row.counter("lost"), row.counter("seen"));
    let (loss, share) = (trouble.loss, lost as f64 / seen as f64);
    let tolerance = 6.0 * (loss * (1.0 - loss) * clustering(trouble) / seen as f64).sqrt();
    ensure!(
        (share - loss).abs() <= tolerance,
        "{lost} of {seen} packets were lost: not {loss} ± {tolerance:.3}"
    );
    Ok(())
}

/// How much more the number of losses varies than with independent losses. Losses in bursts are a
/// chain of two states with a correlation of `r` from one packet to the next, whose sum varies
/// (1 + r) / (1 - r) times as much.
fn clustering(trouble: &Trouble) -> f64 {
    if trouble.burst == 0.0 {
        return 1.0;
    }
    let after_loss = 1.0 - 1.0 / trouble.burst;
    let after_arrival = (1.0 - after_loss) * trouble.loss / (1.0 - trouble.loss);
    let r = after_loss - after_arrival;
    (1.0 + r) / (1.0 - r)
}

/// `least` is six standard deviations or more below the mean that results/faults.md shows.
fn expect_some(row: &Row, counter: &str, least: u64) -> Result<()> {
    let count = row.counter(counter);
    ensure!(count >= least, "{counter} is {count}, below {least}: the fault was not there");
    Ok(())
}

fn corrupted(row: &mut Row, family: Family) -> Result<()> {
    let trouble = Trouble { corrupt: 0.1, ..Trouble::default() };
    let load = Load::lines(2_000, 500);
    through(row, &trouble, Plan { family, ..Plan::new(load, 0.8) })?;
    // 107 to 119, with a standard deviation of 10.
    expect_some(row, "wrong checksums", 44)
}

fn all_at_once(row: &mut Row, family: Family) -> Result<()> {
    let trouble = Trouble {
        loss: 0.1,
        burst: 3.0,
        duplicate: 0.1,
        corrupt: 0.05,
        delay: (Duration::from_millis(1), Duration::from_millis(6)),
        ..Trouble::default()
    };
    let load = Load::lines(2_000, 500);
    through(row, &trouble, Plan { family, ..Plan::new(load, 0.6) })?;
    expect_loss(row, &trouble)?;
    // 45 to 51, with a standard deviation of 7.
    expect_some(row, "wrong checksums", 3)?;
    expect_some(row, "ack_stale at the sender", 10)
}
