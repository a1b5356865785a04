//! `atp-sim main-job`: the first command's job, in the simulator.

use super::values::{daemon_profile, number, profile, sampling_rate, whole_number};
use anyhow::{Result, bail};
use atp_output::say;
use atp_sim::{
    engine::US,
    experiment::{DaemonProfile, MainJob, MainJobOutcome, MainJobTransport, Scheme},
    parallel,
    scheme::{Additions, Features},
};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use switch_profiles::Profile;

#[derive(Debug, Args)]
pub struct Options {
    /// The transports of the job, separated by commas: names of ATP as in `run`, and dctcp-es,
    /// which is TCP here, because no queue marks packets
    #[arg(
        long = "scheme",
        value_name = "SCHEME,...",
        value_delimiter = ',',
        default_value = "atp,atp:paper,dctcp-es"
    )]
    schemes: Vec<Scheme>,
    /// The number of sending hosts, 1 to 100
    #[arg(long, value_name = "NUMBER", default_value = "4", value_parser = whole_number(1, 100))]
    senders: u64,
    /// The rate of every line, Mbit/s, 1 to 100,000
    #[arg(long, default_value = "200", value_parser = whole_number(1, 100_000))]
    mbit: u64,
    /// The latency of each line in each direction, microseconds, 1 to 100,000: a quarter of the RTT
    #[arg(long, value_name = "US", default_value = "20", value_parser = whole_number(1, 100_000))]
    latency_us: u64,
    /// The number of messages of all senders together, of 1,349 bytes each
    #[arg(
        long,
        value_name = "NUMBER",
        default_value = "23028",
        value_parser = whole_number(1, 10_000_000)
    )]
    messages: u64,
    /// The minimal sampling rate (MSR), above 0, up to 1
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = sampling_rate)]
    msr: f64,
    /// The share of the line that exact requests use, 0 to 0.9
    #[arg(long, value_name = "SHARE", default_value = "0.3", value_parser = number(0.0, 0.9))]
    exact: f64,
    /// The line's rate that the receiving host knows, as a share of the right one, 0.1 to 10
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = number(0.1, 10.0))]
    known_line: f64,
    /// The offset of each sending host's clock from the previous one's, milliseconds, 0 to 1,000:
    /// drains of the law yield depend on clocks
    #[arg(long, value_name = "MS", default_value = "0", value_parser = whole_number(0, 1_000))]
    clock_offset_ms: u64,
    /// The time between two reads of ACKs by a sending host, microseconds, up to 10,000; 0: each is
    /// read when it arrives
    #[arg(long, value_name = "US", default_value = "0", value_parser = whole_number(0, 10_000))]
    read_interval_us: u64,
    /// The number of long TCP flows from another host to each sending host, 0 to 10: ACKs wait in
    /// their queue
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = whole_number(0, 10))]
    reverse_flows: u64,
    /// The queue profile of the switch: default, paper, one-queue or a file [default: the scheme's
    /// own]
    #[arg(long, value_name = "FILE", value_parser = profile)]
    profile: Option<Profile>,
    /// The queue profile of the senders' daemons: a name or a file as above, or none for a daemon
    /// without one. It gives the scheme atp its law, as a daemon does; without a profile that is
    /// yield [default: the switch's]
    #[arg(long, value_name = "FILE", value_parser = daemon_profile)]
    sender_profile: Option<DaemonProfile>,
    /// The queue profile of the receiver's daemon, as above: one of one queue, or none, subtracts
    /// nothing for exact traffic in its advice [default: the switch's]
    #[arg(long, value_name = "FILE", value_parser = daemon_profile)]
    receiver_profile: Option<DaemonProfile>,
    /// The number of seeds, 1 to 10,000
    #[arg(long, value_name = "NUMBER", default_value = "3", value_parser = whole_number(1, 10_000))]
    seeds: u64,
}

/// The outcomes of a row, one for each seed.
struct Row {
    name: String,
    outcomes: Vec<MainJobOutcome>,
}

pub fn run(options: &Options) -> Result<()> {
    options.refuse_without_effect()?;
    let mut rows = Vec::new();
    for scheme in &options.schemes {
        rows.push((scheme.to_string(), options.job(scheme)?));
    }
    let alone = MainJob { transport: MainJobTransport::Alone, ..rows[0].1.clone() };
    if options.exact > 0.0 {
        rows.push(("exact traffic alone".to_owned(), alone));
    }
    let ideal_s = rows[0].1.ideal_s();
    let seeds = 1..=options.seeds;
    let mut jobs = Vec::new();
    for (_, job) in &rows {
        jobs.extend(seeds.clone().map(|seed| MainJob { seed, ..job.clone() }));
    }
    let outcomes = parallel::map(&jobs, |job, _| job.run());
    let rows = rows.into_iter().zip(outcomes.chunks(options.seeds as usize));
    let rows = rows.map(|((name, _), of)| Row { name, outcomes: of.to_vec() });
    say!("{}", table(rows));
    say!(
        "{} senders, {} Mbit/s, MSR {}, exact requests {} of the line; ideal {ideal_s:.3} s\n\
         Means over {} seeds; the worst of them in parentheses.",
        options.senders,
        options.mbit,
        options.msr,
        options.exact,
        options.seeds
    );
    Ok(())
}

impl Options {
    /// Refuses a profile that no scheme uses, because the user expects an effect.
    fn refuse_without_effect(&self) -> Result<()> {
        let mut laws = self.schemes.iter().filter(|scheme| scheme.spec().takes_laws);
        if self.sender_profile.is_some() && laws.clone().next().is_none() {
            bail!("--sender-profile has no effect here: no scheme is ATP; leave it out")
        }
        let advises = |scheme: &Scheme| scheme.laws().additions.advice_interval_ns.is_some();
        if self.receiver_profile.is_some() && !laws.any(advises) {
            bail!("--receiver-profile has no effect here: no scheme has advice; leave it out")
        }
        Ok(())
    }

    fn job(&self, scheme: &Scheme) -> Result<MainJob> {
        let profile = match &self.profile {
            Some(profile) => profile.clone(),
            None => scheme.profile().clone(),
        };
        let Additions { advice_interval_ns, epoch_ns_min, small_jobs, .. } =
            scheme.laws().additions;
        let own = Additions::default().advice_interval_ns;
        if epoch_ns_min.is_some()
            || small_jobs
            || advice_interval_ns.is_some_and(|_| advice_interval_ns != own)
        {
            bail!(
                "{scheme}: the main job has the testbed's epochs and intervals of 2 ms, and no queue \
                 for small jobs: leave out these additions"
            )
        }
        let transport = match scheme.name() {
            "dctcp-es" if scheme.features() == Features::default() => MainJobTransport::Tcp,
            _ if scheme.spec().takes_laws => MainJobTransport::Atp(scheme.laws()),
            other => bail!("{other} has no main job: choose names of ATP, or dctcp-es"),
        };
        Ok(MainJob {
            senders: self.senders as u32,
            rate_bytes_per_s: self.mbit * 125_000,
            latency_ps: self.latency_us * US,
            messages: (self.messages / self.senders).max(1) as u32,
            msr: self.msr,
            exact_load: self.exact,
            known_line_share: self.known_line,
            clock_offset_ns: self.clock_offset_ms * 1_000_000,
            read_interval_ns: self.read_interval_us * 1_000,
            reverse_flows: self.reverse_flows as u32,
            profile,
            sender_profile: self.sender_profile.clone().unwrap_or_default(),
            receiver_profile: self.receiver_profile.clone().unwrap_or_default(),
            transport,
            ..MainJob::default()
        })
    }
}

fn table(rows: impl Iterator<Item = Row>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header([
        "scheme",
        "completion",
        "of ideal",
        "first",
        "dropped",
        "exact p50",
        "exact p99",
    ]);
    for Row { name, outcomes } in rows {
        let mean = |of: fn(&MainJobOutcome) -> f64| {
            outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64
        };
        let worst = outcomes.iter().map(|outcome| outcome.of_ideal).fold(0.0, f64::max);
        let cell = |value: f64, text: String| if value.is_nan() { String::new() } else { text };
        let completion = mean(|outcome| outcome.completion_s);
        let job = |text| cell(completion, text);
        let ms = |seconds: f64| cell(seconds, format!("{:.2} ms", seconds * 1e3));
        table.add_row([
            name,
            job(format!("{completion:.3} s")),
            job(format!("{:.3} ({worst:.3})", mean(|outcome| outcome.of_ideal))),
            job(format!("{:.3} s", mean(|outcome| outcome.first_s))),
            job(format!("{:.1} %", 100.0 * mean(|outcome| outcome.dropped_share))),
            ms(mean(|outcome| outcome.exact_median_s)),
            ms(mean(|outcome| outcome.exact_p99_s)),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
