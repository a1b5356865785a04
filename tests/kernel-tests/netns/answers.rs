//! Tests queries of CSV files from host to host: `atp-user send --csv`, `atp-user recv --query`.

use anyhow::{Context, Result, ensure};
use approxlib::Report;
use serde_json::Value;
use std::{fmt::Write, fs};
use testbed::{Daemon, Family, Host, PORT, Pair, Process, Signal, TIMEOUT, wait_for};

crate::trials! {
    answers__accepted_error_ends_the_job_v4,
    answers__accepted_error_ends_the_job_v6,
    answers__arrived_records_outlive_their_sender,
}

const ROWS: u32 = 40_000;
/// A packet for each record: the accepted error needs some thousand of them.
const ROWS_OPTIONS: [&str; 3] = ["--rows", "1", "--no-packing"];
/// Slow enough that the request to end a job arrives long before its last message.
const RATE: [&str; 2] = ["--rate-max", "4mbit"];

fn answers__accepted_error_ends_the_job_v4() -> Result<()> {
    accepted_error(Family::V4)
}

fn answers__accepted_error_ends_the_job_v6() -> Result<()> {
    accepted_error(Family::V6)
}

fn accepted_error(family: Family) -> Result<()> {
    const EMAX: f64 = 0.05;
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&RATE)?, pair.b.daemon(&[])?);
    // One of a million intervals may miss the mean.
    let options = ["--emax", &EMAX.to_string(), "--confidence", "0.999999"];
    let receiving = receive(&pair.b, &b, family, "avg(delay)", &options)?;
    let (sending, true_mean) = send(&pair.a, &a, &pair.b, family, &[])?;
    // Its exit status says success.
    let report: Report = serde_json::from_str(&sending.success()?.stdout)?;
    let received = receiving.success()?;
    let answer: Value = serde_json::from_str(&received.stdout)?;

    let row = &answer["rows"][0];
    let number = |name: &str| row[name].as_f64().with_context(|| format!("{name}: {answer}"));
    let (value, low, high) = (number("value")?, number("low")?, number("high")?);
    ensure!((low..=high).contains(&true_mean), "{true_mean}: {answer}");
    ensure!((high - low) / 2.0 <= EMAX * value, "{answer}");
    ensure!(answer["accepted_error"]["met"] == true, "{answer}");
    let (arrived, sent) = (number("messages")?, number("messages_sent")?);
    ensure!(sent == f64::from(ROWS) && (30.0..sent).contains(&arrived), "{answer}");
    ensure!(answer["messages_left_out"] == 0, "{answer}");
    // The sender knows why.
    let rows = &report.groups[0];
    ensure!(report.ended_by_receiver && rows.delivered < rows.messages, "{report:?}");
    ensure!(report.datapath == "ebpf", "the datapath is {}", report.datapath);
    Ok(())
}

/// The sender of ordered records dies: the answer warns, and the command fails.
fn answers__arrived_records_outlive_their_sender() -> Result<()> {
    let pair = Pair::new()?;
    let (a, b) = (pair.a.daemon(&RATE)?, pair.b.daemon(&[])?);
    let options = ["--timeout", "2s"];
    let receiving = receive(&pair.b, &b, Family::V4, "sum(delay) by airport", &options)?;
    let (sending, _) = send(&pair.a, &a, &pair.b, Family::V4, &["--ordered"])?;
    wait_for("a live line", || Ok(receiving.stderr()?.contains("sum(delay)").then_some(())))?;
    sending.signal(Signal::SIGKILL)?;
    let received = receiving.end(TIMEOUT)?;
    ensure!(!received.status.success(), "{received:?}");
    ensure!(received.stderr.contains("no packet arrived for 2 s"), "{received:?}");
    let answer: Value = serde_json::from_str(&received.stdout)?;
    let rows = answer["rows"].as_array().with_context(|| answer.to_string())?;
    ensure!(rows.len() == 2 && rows[0]["key"] == "a", "{answer}");
    let messages = rows[0]["messages"].as_u64().context("no messages")?;
    ensure!((1..u64::from(ROWS)).contains(&messages), "{answer}");
    let warnings = answer["rows"].to_string() + &answer["warnings"].to_string();
    ensure!(warnings.contains("follow the order of the data"), "{answer}");
    Ok(())
}

/// Starts a receiver, and waits until it listens.
fn receive(
    host: &Host,
    daemon: &Daemon,
    family: Family,
    query: &str,
    options: &[&str],
) -> Result<Process> {
    let mut command = host.atp()?;
    command.args(["recv", &host.endpoint(family, PORT).to_string()]);
    command.args(["--query", query, "--csv", "--json", "--socket"]).arg(daemon.socket());
    command.args(options);
    let mut process = Process::captured("the receiver", command)?;
    process.wait_until_it_says("receiving")?;
    Ok(process)
}

/// Starts a sender of a table. Returns the true mean of its delays too.
fn send(
    host: &Host,
    daemon: &Daemon,
    to: &Host,
    family: Family,
    options: &[&str],
) -> Result<(Process, f64)> {
    // Delays grow with time, and few are long.
    let delay = |row: u32| row / 1_000 + row.wrapping_mul(2_654_435_761) / (1 << 26);
    let mut table = "airport,delay\n".to_owned();
    for row in 0..ROWS {
        writeln!(table, "{},{}", ["a", "b"][row as usize % 2], delay(row))?;
    }
    let file = host.folder().join("flights.csv");
    fs::write(&file, table)?;
    let mut command = host.atp()?;
    command.args(["send", &to.endpoint(family, PORT).to_string(), "--csv", "--json"]);
    command.args(ROWS_OPTIONS).args(options);
    command.arg("--file").arg(file).arg("--socket").arg(daemon.socket());
    let true_mean = (0..ROWS).map(|row| f64::from(delay(row))).sum::<f64>() / f64::from(ROWS);
    Ok((Process::captured("the sender", command)?, true_mean))
}
