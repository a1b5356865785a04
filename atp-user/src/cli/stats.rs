//! `atp-user stats`: prints the daemon's lanes, rates and counters.

use super::ControlSocket;
use anyhow::Result;
use approxlib::control::{Client, HostStats};
use std::{thread, time::Duration};

/// The arguments of `stats`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    control: ControlSocket,
    /// Print once and exit; by default print every second
    #[arg(long)]
    once: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// Prints statistics, once or every second.
pub fn main(args: &Args) -> Result<()> {
    let client = Client::connect(&args.control.socket)?;
    loop {
        let stats = client.stats()?;
        if args.json {
            println!("{}", serde_json::to_string(&stats)?);
        } else {
            print!("{}", text(&stats));
        }
        if args.once {
            return Ok(());
        }
        thread::sleep(Duration::from_secs(1));
    }
}

fn text(stats: &HostStats) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for (interface, kind) in &stats.interfaces {
        _ = match kind.as_str() {
            "gone" | "not covered" => writeln!(out, "{interface}: {kind}"),
            kind => {
                let pacing = &stats.pacing;
                writeln!(out, "{interface}: ACKs consumed by {kind}, packets paced by {pacing}")
            }
        };
    }
    _ = writeln!(
        out,
        "up {:.0} s, {} jobs, {} lanes",
        stats.uptime_s,
        stats.jobs.len(),
        stats.lanes.len()
    );
    for lane in &stats.lanes {
        let group = &lane.group;
        _ = writeln!(
            out,
            "lane {} job {} group {}: {}/{} delivered (MSR {}), TLR {:.3}, loss {:.3}, {:.1} Mbit/s, queue {}, RTT {:.0} us",
            lane.lane,
            lane.job,
            group.group,
            group.delivered,
            group.messages,
            group.msr,
            lane.tlr,
            lane.loss,
            lane.rate_bytes_per_s as f64 * 8e-6,
            lane.queue,
            lane.rtt_us,
        );
    }
    for (name, count) in stats.counters.iter().filter(|(_, count)| **count > 0) {
        _ = writeln!(out, "{name} {count}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text__names_interfaces_and_nonzero_counters() {
        let stats = HostStats {
            interfaces: [("eth0", "native"), ("eth1", "gone")]
                .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
                .into(),
            pacing: "fq".into(),
            counters: [("paced".to_owned(), 3), ("too_far".to_owned(), 0)].into(),
            ..HostStats::default()
        };
        let text = text(&stats);
        assert!(text.contains("eth0: ACKs consumed by native, packets paced by fq"));
        assert!(text.contains("eth1: gone\n"));
        assert!(text.contains("paced 3") && !text.contains("too_far"));
    }
}
