//! `cargo xtask bench answers`: the speed of answers with intervals. With `--frame`: the processor
//! time of a data frame from Python to its answer. With `--network`: how often intervals contain
//! the truth, of jobs between two hosts.

mod frame;
mod job;
mod network;
mod speed;
mod table;

use anyhow::{Result, ensure};

use super::options::{DaemonOption, JsonOption, require_root};

#[derive(clap::Args)]
pub struct Args {
    /// Number of rows [default: 3000000, with --frame 10000000]
    #[arg(long, conflicts_with = "network",
          value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    rows: Option<u32>,
    /// Number of runs; medians are printed
    #[arg(long, default_value = "5", conflicts_with = "network",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// Send a data frame from Python over loopback and answer a query of it, beside pandas and a
    /// transfer by Arrow Flight
    #[arg(long, conflicts_with = "network")]
    frame: bool,
    /// Send tables from host to host with `atp-user send`, answer with `atp-user recv --query`, and
    /// count the intervals that contain the truth
    #[arg(long)]
    network: bool,
    /// Number of jobs for each row of the table of `--network`
    #[arg(long, default_value = "50", requires = "network",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    jobs: u32,
    /// Only rows of `--network` whose names contain this
    #[arg(long, default_value = "", hide_default_value = true, requires = "network")]
    row: String,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    daemon: DaemonOption,
}

pub fn main(args: &Args) -> Result<()> {
    let json = args.json.open()?;
    if args.frame {
        return frame::run(args.rows.unwrap_or(10_000_000), args.repetitions, json);
    }
    if !args.network {
        return speed::run(args.rows.unwrap_or(3_000_000), args.repetitions, json);
    }
    require_root("makes network namespaces and loads eBPF programs")?;
    let faults = testbed::faults_object()?;
    ensure!(
        faults.is_file(),
        "{} is missing: `cargo xtask build` makes the fault injector",
        faults.display()
    );
    network::run(args.jobs, &args.row, &args.daemon.launch()?, json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_line::parse_line;

    #[test]
    fn args__of_the_network_and_of_speed_exclude_each_other() {
        assert!(parse_line::<Args>("--network --jobs 3").unwrap().network);
        for line in ["--network --rows 5000", "--jobs 3", "--network --jobs 0", "--network --frame"]
        {
            assert!(parse_line::<Args>(line).is_err(), "{line}");
        }
    }
}
