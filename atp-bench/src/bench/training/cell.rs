//! Measures one cell.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testbed::{Host, Launch, Testbed, interrupt};

use super::rank::{self, Trained};
use super::row::{Cell, Outcome};
use super::scheme::Scheme;
use crate::job::clock;
use crate::job::exact::{self, Requests, Window};
use crate::job::exact_traffic::Traffic;
use crate::machine_state::machine_load;

/// The port of PyTorch's store on the first rank's host.
const STORE_PORT: u16 = 29_500;
/// Steps between two evaluations: a quarter of an epoch.
const EVALUATE_EVERY: usize = 5;
/// The time for ranks to start, to find each other and to end.
const PREPARATION_MAX: Duration = Duration::from_secs(90);
/// Bytes that a host sends for an exact request that it answers: the response and ACKs.
const ANSWER_BYTES: f64 = 417.0;

/// The conditions that all cells share.
pub struct Conditions {
    pub launch: Launch,
    /// The training time after which a cell ends early.
    pub limit: Duration,
    /// The time of measuring exact traffic alone.
    pub alone: Duration,
}

impl Conditions {
    /// Measures a cell on a network of its own.
    ///
    /// # Errors
    /// The network, its traffic or its daemons failed, or the run was interrupted. A failed rank
    /// is an outcome.
    pub fn measure(&self, cell: &Cell) -> Result<Outcome> {
        let begun = Instant::now();
        let machine_load = machine_load()?;
        let mut testbed = Testbed::build(&cell.scenario.network(cell.ranks)?)?;
        let mut outcome = match cell.model {
            None => self.alone(cell, &testbed)?,
            Some(_) => self.training(cell, &mut testbed)?,
        };
        outcome.definition = cell.definition();
        outcome.limit_s = self.limit.as_secs_f64();
        outcome.machine_load = machine_load;
        outcome.took_s = begun.elapsed().as_secs_f64();
        Ok(outcome)
    }

    fn alone(&self, cell: &Cell, testbed: &Testbed) -> Result<Outcome> {
        let traffic = Beside::start(cell, testbed)?;
        thread::sleep(Duration::from_secs(1));
        let from_ns = clock::now_ns();
        let until = Instant::now() + self.alone;
        while Instant::now() < until {
            ensure!(!interrupt::interrupted(), "interrupted");
            thread::sleep(Duration::from_millis(20));
        }
        let window = Window { from_ns, to_ns: clock::now_ns() };
        let requests = traffic.finish()?;
        Ok(Outcome {
            seconds: window.seconds(),
            exact_ms: exact::times_ms(&requests.light.times_ns, &[window]),
            exact_unanswered: requests.light.unanswered,
            ..Outcome::default()
        })
    }

    fn training(&self, cell: &Cell, testbed: &mut Testbed) -> Result<Outcome> {
        let scheme = Scheme::named(&cell.scheme).context("a scheme that isn't there")?;
        if scheme.is_atp() {
            testbed.start_daemons(&self.launch, None)?;
        }
        let hosts = hosts(testbed, cell.ranks);
        let told = |rank: usize| self.told(cell, scheme, testbed, rank);
        let traffic = Beside::start(cell, testbed)?;
        let trained = match rank::train(&hosts, told, self.limit + PREPARATION_MAX)? {
            Ok(trained) => trained,
            Err(sentence) => return Ok(Outcome::failure(sentence)),
        };
        Ok(outcome(trained, &traffic.finish()?, cell.steps))
    }

    /// The orders of a rank.
    fn told(&self, cell: &Cell, scheme: &Scheme, testbed: &Testbed, rank: usize) -> Value {
        let hosts = hosts(testbed, cell.ranks);
        let mut told = json!({
            "device": testbed::DEVICE,
            "rank": rank,
            "ranks": cell.ranks,
            "master": hosts[0].ipv4.to_string(),
            "port": STORE_PORT,
            "barrier": testbed.folder().join("barrier"),
            "model": cell.model,
            "seed": cell.seed,
            "steps": cell.steps,
            "evaluate_every": EVALUATE_EVERY,
            "limit_s": self.limit.as_secs_f64(),
            "control_socket": testbed.control_socket(hosts[rank]),
        });
        if let (Value::Object(told), Value::Object(scheme)) = (&mut told, scheme.told()) {
            told.extend(scheme);
        }
        told
    }
}

/// The hosts of the ranks: the last rank is at the receiver.
fn hosts(testbed: &Testbed, ranks: usize) -> Vec<&Host> {
    testbed.senders().iter().take(ranks - 1).chain([testbed.receiver()]).collect()
}

/// The exact traffic of a cell.
struct Beside {
    light: Traffic,
    bursts: Option<Traffic>,
}

/// All requests of a cell.
struct AllRequests {
    light: Requests,
    bursts: Requests,
}

impl Beside {
    fn start(cell: &Cell, testbed: &Testbed) -> Result<Beside> {
        let (server, scenario) = (testbed.receiver(), cell.scenario);
        // Those after the hosts of the first ranks.
        let others = &testbed.senders()[cell.ranks.saturating_sub(1)..];
        let light = Traffic::between(&others[..1], server, scenario.light(), cell.seed)?;
        let bursts = scenario.bursts();
        // Another seed: bursts and requests are independent.
        let bursts = bursts
            .map(|load| Traffic::between(&others[1..2], server, load, cell.seed.wrapping_add(500)))
            .transpose()?;
        Ok(Beside { light, bursts })
    }

    fn finish(self) -> Result<AllRequests> {
        let bursts = self.bursts.map(Traffic::finish).transpose()?.unwrap_or_default();
        Ok(AllRequests { light: self.light.finish()?, bursts })
    }
}

fn outcome(mut trained: Vec<Trained>, requests: &AllRequests, steps: usize) -> Outcome {
    let sent: u64 = trained.iter().map(|rank| rank.end.sent_bytes).sum();
    let Trained { evaluations, end } = trained.remove(0);
    let windows: Vec<Window> =
        end.windows_ns.iter().map(|&(from_ns, to_ns)| Window { from_ns, to_ns }).collect();
    let whole = windows.first().zip(windows.last());
    let whole = whole.map(|(first, last)| Window { from_ns: first.from_ns, to_ns: last.to_ns });
    let all = requests.light.times_ns.iter().chain(&requests.bursts.times_ns);
    let answered = all.filter(|(due_ns, _)| whole.is_some_and(|whole| whole.contains(*due_ns)));
    let answers_bytes = ANSWER_BYTES * answered.count() as f64;
    Outcome {
        ended_early: end.step_ns.len() < steps,
        seconds: end.seconds,
        evaluations,
        step_ms: end.step_ns.iter().map(|&ns| rounded_ms(ns as f64 / 1e6)).collect(),
        sent_bytes: (sent as f64 - answers_bytes).max(0.0),
        exact_ms: exact::times_ms(&requests.light.times_ns, &windows)
            .into_iter()
            .map(rounded_ms)
            .collect(),
        exact_unanswered: requests.light.unanswered,
        counters: end.counters,
        ..Outcome::default()
    }
}

/// Microseconds are enough, and shorter in the file.
fn rounded_ms(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::training::rank::End;

    fn rank(sent_bytes: u64) -> Trained {
        let end = End {
            seconds: 2.0,
            windows_ns: vec![(100, 200), (300, 400)],
            step_ns: vec![1_000_000, 3_000_000],
            sent_bytes,
            ..End::default()
        };
        Trained { evaluations: Vec::new(), end }
    }

    #[test]
    fn outcome__bytes_without_those_of_answers() {
        let light = Requests {
            times_ns: vec![(150, 2_000_000), (250, 1), (350, 1_000_000)],
            unanswered: 0,
        };
        let bursts = Requests { times_ns: vec![(160, 1), (900, 1)], unanswered: 0 };
        let requests = AllRequests { light, bursts };
        let trained = outcome(vec![rank(5_000), rank(7_000)], &requests, 3);
        // Four requests were due between the first and the last step.
        assert_eq!(trained.sent_bytes, 12_000.0 - 4.0 * ANSWER_BYTES);
        assert_eq!(trained.exact_ms, [1.0, 2.0], "none that was due during an evaluation");
        assert!(trained.ended_early, "two of three steps");
        assert_eq!(trained.step_ms, [1.0, 3.0]);
    }
}
