//! The processes of a training, one in each rank's host.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use testbed::{Finished, Host, Process, interrupt};

use super::row::Evaluation;
use crate::installed;

const SCRIPT: &str = "integrations/pytorch/bench/train.py";
const LOOK_UP: Duration = Duration::from_millis(20);
/// The time in which the other ranks of a broken training end.
const GRACE: Duration = Duration::from_secs(2);
/// The end of the sentence of a rank that lost another one, in the script.
const OTHER_ENDED: &str = "another rank ended";

/// A rank that ended well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trained {
    /// Only rank 0 has some.
    pub evaluations: Vec<Evaluation>,
    pub end: End,
}

/// The last line of a rank.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct End {
    pub seconds: f64,
    /// When it trained, nanoseconds of the shared clock.
    pub windows_ns: Vec<(u64, u64)>,
    pub step_ns: Vec<u64>,
    /// Bytes that its interface sent from the first to the last step.
    pub sent_bytes: u64,
    pub counters: BTreeMap<String, f64>,
}

/// A line of a rank.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Evaluation(Evaluation),
    End(End),
    Error { sentence: String },
}

/// Starts a rank in each host, and waits for all. `told` gives the orders of a rank.
///
/// # Errors
/// The outer one: no rank could be started, or the run was interrupted. The inner one is the
/// sentence of the first rank that failed.
pub fn train(
    hosts: &[&Host],
    told: impl Fn(usize) -> Value,
    limit: Duration,
) -> Result<Result<Vec<Trained>, String>> {
    let start = |(rank, host): (usize, &&Host)| {
        let mut command = host.namespace.command(testbed::collective_python()?);
        command.arg(installed::workspace().join(SCRIPT)).arg(told(rank).to_string());
        command.env("OMP_NUM_THREADS", "1").env_remove("ATP_SOCKET");
        Process::captured(&format!("rank {rank}"), command)
    };
    let ranks: Vec<Process> = hosts.iter().enumerate().map(start).collect::<Result<_>>()?;
    wait(ranks, Instant::now() + limit)
}

fn wait(ranks: Vec<Process>, mut deadline: Instant) -> Result<Result<Vec<Trained>, String>> {
    let mut ended: Vec<Option<Trained>> = vec![None; ranks.len()];
    let mut failed: Vec<Failure> = Vec::new();
    let mut running: Vec<(usize, Process)> = ranks.into_iter().enumerate().collect();
    while !running.is_empty() && Instant::now() < deadline {
        ensure!(!interrupt::interrupted(), "interrupted");
        let mut still = Vec::new();
        for (rank, mut process) in running {
            if process.is_running()? {
                still.push((rank, process));
                continue;
            }
            match outcome(&process.end(Duration::ZERO)?) {
                Ok(trained) => ended[rank] = Some(trained),
                Err(failure) => {
                    if failed.is_empty() {
                        deadline = deadline.min(Instant::now() + GRACE);
                    }
                    let sentence = format!("rank {rank}: {}", failure.sentence);
                    failed.push(Failure { sentence, ..failure });
                }
            }
        }
        running = still;
        thread::sleep(LOOK_UP);
    }
    if let Some(failure) = cause(&failed) {
        return Ok(Err(failure.sentence.clone()));
    }
    if !running.is_empty() {
        let late: Vec<String> = running.iter().map(|(rank, _)| rank.to_string()).collect();
        return Ok(Err(format!("rank {} did not end in time", late.join(", "))));
    }
    let all: Option<Vec<Trained>> = ended.into_iter().collect();
    all.map(Ok).context("a rank has no outcome")
}

/// Why a rank has no results.
struct Failure {
    sentence: String,
    /// Whether the rank ended without an error line, as one that was killed.
    is_silent: bool,
}

/// A rank that ended silently is the cause of what the others say, and then one whose sentence
/// isn't about the end of another rank.
fn cause(failed: &[Failure]) -> Option<&Failure> {
    let silent = failed.iter().find(|failure| failure.is_silent);
    let own = || failed.iter().find(|failure| !failure.sentence.ends_with(OTHER_ENDED));
    silent.or_else(own).or(failed.first())
}

/// The results of an ended rank, or why it has none.
fn outcome(finished: &Finished) -> Result<Trained, Failure> {
    let parsed = parse(&finished.stdout);
    match parsed {
        Ok(trained) if finished.status.success() => Ok(trained),
        Ok(_) | Err(None) => {
            let last = finished.stderr.lines().rfind(|line| !line.trim().is_empty());
            let last = last.unwrap_or("it wrote nothing").trim();
            Err(Failure { sentence: format!("{}: {last}", finished.status), is_silent: true })
        }
        Err(Some(sentence)) => Err(Failure { sentence, is_silent: false }),
    }
}

/// Reads a rank's lines. The error is the rank's sentence, if it has one.
fn parse(text: &str) -> Result<Trained, Option<String>> {
    let mut evaluations = Vec::new();
    let mut end = None;
    // PyTorch may write lines of its own.
    for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match line {
            Line::Evaluation(evaluation) => evaluations.push(evaluation),
            Line::End(last) => end = Some(last),
            Line::Error { sentence } => return Err(Some(sentence)),
        }
    }
    let end = end.ok_or(None)?;
    Ok(Trained { evaluations, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const EVALUATION: &str = r#"{"evaluation": {"step": 5, "seconds": 0.5, "accuracy": 0.9}}"#;
    const END: &str = r#"{"end": {"seconds": 0.5, "windows_ns": [[1, 9]], "step_ns": [7],
        "sent_bytes": 3, "counters": {"chunks": 2}}}"#;

    /// A rank that runs these words of a shell.
    fn shell(words: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", words]);
        Process::captured("a rank", command).unwrap()
    }

    fn waited(words: &[&str], limit: Duration) -> Result<Vec<Trained>, String> {
        let ranks = words.iter().map(|words| shell(words)).collect();
        wait(ranks, Instant::now() + limit).unwrap()
    }

    #[test]
    fn parse__takes_the_rank_s_lines_only() {
        let end = END.replace('\n', " ");
        let trained = parse(&format!("[W] a warning\n{EVALUATION}\n{end}\n")).unwrap();
        assert_eq!(trained.evaluations[0].accuracy, 0.9);
        assert_eq!((trained.end.windows_ns[0], trained.end.counters["chunks"]), ((1, 9), 2.0));
        assert_eq!(parse(EVALUATION), Err(None));
        let error = r#"{"error": {"sentence": "it fell"}}"#;
        assert_eq!(parse(error), Err(Some("it fell".to_owned())));
    }

    #[test]
    fn wait__has_the_results_by_rank() {
        let end = END.replace('\n', " ");
        let (first, second) =
            (format!("sleep 0.1; echo '{EVALUATION}'; echo '{end}'"), format!("echo '{end}'"));
        let trained = waited(&[&first, &second], Duration::from_secs(30)).unwrap();
        assert_eq!((trained[0].evaluations.len(), trained[1].evaluations.len()), (1, 0));
    }

    #[test]
    fn wait__says_why_a_rank_failed_and_stops_the_others() {
        let end = END.replace('\n', " ");
        let begun = Instant::now();
        let other = r#"echo '{"error": {"sentence": "another rank ended"}}'; exit 1"#;
        let (broken, asleep) =
            ("echo oh >&2; sleep 0.1; exit 3", format!("sleep 60; echo '{end}'"));
        let failed = waited(&[other, broken, &asleep], Duration::from_secs(50)).unwrap_err();
        assert_eq!(failed, "rank 1: exit status: 3: oh");
        assert!(begun.elapsed() < Duration::from_secs(40));
    }

    #[test]
    fn wait__blames_a_killed_rank_before_one_that_noticed() {
        let noticed = r#"echo '{"error": {"sentence": "connection closed"}}'; exit 1"#;
        let failed = waited(&[noticed, "sleep 0.2; kill -9 $$"], Duration::from_secs(30));
        assert_eq!(failed.unwrap_err(), "rank 1: signal: 9 (SIGKILL): it wrote nothing");
    }

    #[test]
    fn wait__names_ranks_that_are_late() {
        let end = END.replace('\n', " ");
        let failed = waited(&[&format!("echo '{end}'"), "sleep 60"], Duration::from_secs(1));
        assert_eq!(failed.unwrap_err(), "rank 1 did not end in time");
    }
}
