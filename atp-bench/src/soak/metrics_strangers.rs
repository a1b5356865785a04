//! Strangers of the metrics, and a user that scrapes them.

use anyhow::{Context, Result, ensure};
use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

/// The address of each daemon's metrics.
const METRICS: &str = "127.0.0.1:9747";
const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Holds idle connections to the metrics for so long.
pub fn hold_scrapes(time: Duration) -> Result<u64> {
    let held: Vec<_> = (0..150).filter_map(|_| TcpStream::connect(METRICS).ok()).collect();
    thread::sleep(time);
    Ok(held.len() as u64)
}

/// Asks for the metrics on many connections, and doesn't read the answers for so long.
pub fn hold_answers(time: Duration) -> Result<u64> {
    let ask = |_| {
        let mut connection = TcpStream::connect(METRICS).ok()?;
        connection.write_all(REQUEST).ok().map(|()| connection)
    };
    let held: Vec<_> = (0..20).filter_map(ask).collect();
    thread::sleep(time);
    Ok(held.len() as u64)
}

/// Scrapes the metrics as an honest user does, and again if this busy machine sent a request too
/// late.
pub fn scrape() -> Result<u64> {
    scrape_once().or_else(|_| scrape_once()).or_else(|_| scrape_once())
}

fn scrape_once() -> Result<u64> {
    let mut connection = TcpStream::connect(METRICS)?;
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    connection.write_all(REQUEST)?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).context("no answer to a scrape")?;
    ensure!(answer.starts_with("HTTP/1.1 200") && answer.contains("atp_"), "not metrics: {answer}");
    Ok(1)
}
