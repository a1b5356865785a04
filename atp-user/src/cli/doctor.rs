//! `atp-user doctor`: checks whether this host, and the path to a peer, have what ATP needs.

use super::address;
use crate::doctor::{
    self, Finding, LocalOptions,
    path::{self, Answerer, ProbeOptions},
};
use anyhow::{Result, bail};
use approxlib::ScopedIp;
use atp_options::quantity;
use atp_output::{has_color, say, write};
use std::{io::stdout, net::SocketAddr, path::PathBuf, time::Duration};
use switch_profiles::Profile;

/// The arguments of `doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// An interface to check, by name or alternative name; repeat the option for several. By
    /// default every Ethernet interface that is up
    #[arg(long = "iface", value_name = "DEV")]
    interfaces: Vec<String>,
    /// An address: check whether the interfaces cover the route to it; may be repeated
    #[arg(long = "to", value_name = "ADDR", value_parser = address::destination)]
    addresses: Vec<ScopedIp>,
    /// Probe the path to `atp-user doctor --answer` on another host
    ///
    /// Sends 80 small packets, then fills the path at --probe-rate for one and a half times
    /// --probe-time: 3.75 MB by default. Other traffic on the path waits meanwhile. With a profile
    /// of one queue it sends 10 small packets only.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address::parse, requires = "token")]
    peer: Option<SocketAddr>,
    /// Answer the probes of another host at this address and port, for --answer-time
    ///
    /// Prints a random token, and answers only probes with it. No answer is longer than its
    /// question.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = address::parse,
        conflicts_with_all = ["peer", "interfaces", "addresses", "profile", "object", "json"]
    )]
    answer: Option<SocketAddr>,
    /// The token of the answerer, 16 hexadecimal digits; --answer prints a random one by default
    #[arg(long, value_name = "HEX", value_parser = token)]
    token: Option<u64>,
    /// The end of an answerer's life
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "600s")]
    answer_time: Duration,
    /// The rate at which a probe fills the path, at most 1gbit. A bottleneck shows its queues only
    /// below this rate
    #[arg(long, value_name = "RATE", value_parser = probe_rate, default_value = "100mbit")]
    probe_rate: u64,
    /// How long a probe fills the path, at most 2s
    #[arg(long, value_name = "TIME", value_parser = probe_time, default_value = "200ms")]
    probe_time: Duration,
    /// The queue profile of the switches: a file, or `default`, `paper` or `one-queue`, which the
    /// project ships [default: default]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// The eBPF object to try; by default the object that is built into this program
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the checks, or answers probes. Fails if something is missing that ATP needs.
pub fn main(args: Args) -> Result<()> {
    if let Some(address) = args.answer {
        return answer(address, args.token.unwrap_or_else(rand::random), args.answer_time);
    }
    let profile = match &args.profile {
        Some(path) => Profile::load(path)?,
        None => Profile::default(),
    };
    let mut addresses = args.addresses;
    addresses.extend(args.peer.map(ScopedIp::from));
    let options = LocalOptions { interfaces: args.interfaces, addresses, object: args.object };
    let mut findings = doctor::local(&options, &profile)?;
    if let (Some(peer), Some(token)) = (args.peer, args.token) {
        let (rate_bytes_per_s, time) = (args.probe_rate, args.probe_time);
        let options = ProbeOptions { peer, token, rate_bytes_per_s, time };
        findings.extend(path::findings(&options, &profile));
    }
    print(&findings, args.json)
}

fn answer(address: SocketAddr, token: u64, time: Duration) -> Result<()> {
    let mut answerer = Answerer::bind(address, token)?;
    let local = answerer.local_addr()?;
    let host = match address.ip().is_unspecified() {
        true => format!("ADDRESS-OF-THIS-HOST:{}", local.port()),
        false => path::from_another_host(local),
    };
    say!("answering probes for {} s; run on the other host:", time.as_secs());
    say!("atp-user doctor --peer {host} --token {token:016x}");
    answerer.run(time)
}

fn token(text: &str) -> Result<u64, String> {
    let is_token = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match u64::from_str_radix(text, 16) {
        Ok(token) if is_token => Ok(token),
        _ => Err("give the 16 hexadecimal digits that --answer printed".into()),
    }
}

fn probe_rate(text: &str) -> Result<u64, String> {
    match quantity::rate_bytes_per_s(text)? {
        rate if rate > path::RATE_BYTES_PER_S_MAX => {
            Err(format!("`{text}` is above 1gbit, the most that a probe may send"))
        }
        rate => Ok(rate),
    }
}

fn probe_time(text: &str) -> Result<Duration, String> {
    match quantity::duration(text)? {
        time if time > path::TIME_MAX => {
            Err(format!("`{text}` is above 2s, the longest that a probe may fill a path"))
        }
        time => Ok(time),
    }
}

fn print(findings: &[Finding], json: bool) -> Result<()> {
    if json {
        say!("{}", doctor::to_json(findings)?);
    } else {
        write(doctor::text(findings, has_color(&stdout())))?;
    }
    match findings.iter().filter(|finding| finding.is_missing()).count() {
        0 => Ok(()),
        missing => bail!("{missing} of the checks found something missing: do as they advise"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token__has_sixteen_digits() {
        assert_eq!(token("0123456789abcdef"), Ok(0x0123_4567_89ab_cdef));
        for text in ["", "123", "0123456789abcdeg", "+123456789abcdef"] {
            assert!(token(text).is_err(), "{text}");
        }
    }

    #[test]
    fn probe_rate_and_time__are_bounded() {
        assert_eq!(probe_rate("1gbit"), Ok(125_000_000));
        assert!(probe_rate("1.1gbit").is_err());
        assert_eq!(probe_time("2s"), Ok(Duration::from_secs(2)));
        assert!(probe_time("2100ms").is_err());
    }
}
