//! One job: `atp-user send --csv` on one host, `atp-user recv --query` on the other.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use testbed::{Daemon, Host, PORT, Process};

use super::table::Table;

/// The exit codes of `recv --query` that come with an answer: it is good, in doubt, or misses the
/// accepted error.
const WITH_ANSWER: [i32; 3] = [0, 3, 4];

/// A row of the table: what is asked, and how the records travel.
pub struct Row {
    pub name: &'static str,
    pub query: &'static str,
    /// The key of the answer that is looked at, with a value for each of its columns.
    pub key: &'static [&'static str],
    pub truth: fn(&Table) -> f64,
    pub msr: f64,
    pub emax: Option<f64>,
    pub ordered: bool,
    /// Packets are lost at random, not in a short queue.
    pub drops: bool,
}

/// A host with its daemon.
pub struct Place<'a> {
    pub host: &'a Host,
    pub daemon: &'a Daemon,
    /// `atp-user`.
    pub program: &'a Path,
}

/// `recv --json`, as far as it is read here.
#[derive(Deserialize)]
struct Report {
    rows: Vec<Answer>,
    warnings: Vec<serde_json::Value>,
}

/// An answer with its interval.
#[derive(Deserialize)]
pub struct Answer {
    key: Option<Key>,
    pub low: f64,
    pub high: f64,
    /// Messages that arrived, of those sent.
    pub messages: u64,
    pub messages_sent: u64,
    /// Warnings about this answer and about the whole report.
    pub warnings: Vec<serde_json::Value>,
}

/// A key of one column, or of several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Key {
    One(String),
    Several(Vec<String>),
}

impl Answer {
    fn key(&self) -> &[String] {
        match &self.key {
            None => &[],
            Some(Key::One(value)) => std::slice::from_ref(value),
            Some(Key::Several(values)) => values,
        }
    }
}

impl Place<'_> {
    fn command(&self, subcommand: &str) -> Command {
        let mut command = self.host.namespace.command(self.program);
        command.arg(subcommand).arg("--socket").arg(self.daemon.socket()).arg("--json");
        command
    }
}

/// Sends a table and returns the answer of the row's query.
pub fn run(row: &Row, csv: &str, from: &Place<'_>, to: &Place<'_>) -> Result<Answer> {
    let file = from.host.folder().join("table.csv");
    fs::write(&file, csv).with_context(|| format!("can't write {}", file.display()))?;
    let address = SocketAddr::from((to.host.ipv4, PORT)).to_string();
    let mut receive = to.command("recv");
    receive.args(["--csv", "--query", row.query, &address]);
    if let Some(emax) = row.emax {
        receive.args(["--emax", &emax.to_string()]);
    }
    let mut receiving = Process::captured("the receiver", receive)?;
    receiving.wait_until_it_says("receiving")?;
    let mut send = from.command("send");
    send.args(["--csv", "--msr", &row.msr.to_string(), "--file"]).arg(&file).arg(&address);
    if row.ordered {
        send.arg("--ordered");
    }
    Process::captured("the sender", send)?.success()?;
    let ended = receiving.end(testbed::TIMEOUT)?;
    let has_answer = ended.status.code().is_some_and(|code| WITH_ANSWER.contains(&code));
    ensure!(has_answer, "the receiver failed ({}): {}", ended.status, ended.stderr.trim());
    let report: Report = serde_json::from_str(&ended.stdout)
        .with_context(|| format!("not the report of a query: {}", ended.stdout))?;
    let mut rows = report.rows.into_iter();
    let answer = rows.find(|answer| answer.key() == row.key);
    let mut answer = answer.with_context(|| format!("no answer for {:?}", row.key))?;
    answer.warnings.extend(report.warnings);
    Ok(answer)
}
