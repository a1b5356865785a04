//! Reads a bridge's metrics.

use crate::process::{Bridge, TIMEOUT};
use anyhow::{Context, Result, ensure};
use std::{
    collections::HashMap,
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

/// Names with labels, and values.
pub type Metrics = HashMap<String, f64>;

/// A bridge's page, at the port that its log names.
pub fn scrape(bridge: &Bridge) -> Result<Metrics> {
    bridge.wait_for_log("/metrics", TIMEOUT)?;
    let log = bridge.log();
    let address = log.split_once("http://").context("no URL")?.1;
    let address = address.split_once('/').context("no path")?.0;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bridge\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
    ensure!(head.starts_with("HTTP/1.1 200 OK") && body.ends_with("# EOF\n"), "{answer}");
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').with_context(|| line.to_owned())?;
            Ok((name.to_owned(), value.parse()?))
        })
        .collect()
}

/// Waits until the metrics are so.
pub fn wait_until(bridge: &Bridge, is_so: impl Fn(&Metrics) -> bool) -> Result<Metrics> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let metrics = scrape(bridge)?;
        if is_so(&metrics) {
            return Ok(metrics);
        }
        ensure!(Instant::now() < deadline, "{metrics:#?}\n{}", bridge.log());
        thread::sleep(Duration::from_millis(50));
    }
}

/// The metric of a sender's partition of the topic `readings`.
pub fn of(metrics: &Metrics, name: &str, partition: i32) -> Option<f64> {
    let labels = format!("{{topic=\"readings\",partition=\"{partition}\"}}");
    metrics.get(&format!("atp_kafka_send_{name}{labels}")).copied()
}
