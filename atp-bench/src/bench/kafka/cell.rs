//! Measures one cell.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use kafka_broker::Broker;
use testbed::{Launch, Options, Process, Profile, Testbed, interrupt};

use super::engine::Engine;
use super::programs::{self, Times};
use super::receivers::{self, Receivers};
use super::row::{Cell, Outcome, PARTITIONS, Processor, WINDOW_MS};
use super::scheme::Scheme;
use super::summary::Span;
use crate::job::clock;
use crate::job::exact::{self, Load, Window};
use crate::job::exact_traffic::Traffic;
use crate::job::progress::Progress;
use crate::machine_state::{ProcessorTime, machine_load};
use crate::process_state::processor_s;

/// The share of the receiver's port that exact traffic uses.
pub const EXACT_LOAD: f64 = 0.3;
/// The bytes of a record beside its value: lengths, times, and its part of a batch's header.
const RECORD_BYTES: f64 = 15.0;
/// The bytes on the wire of a full packet, and those of them that are records. The port's counters
/// show 1,393 over ATP, and 1,448 over TCP, which sends shorter segments at low loads.
const PACKET_BYTES: (f64, f64) = (1_514.0, 1_420.0);
/// The load before windows are measured: the broker's JVM compiles, and control loops settle.
const WARM_UP_WINDOWS: i64 = 10;
/// JVMs of an engine compile for longer.
const WARM_UP_WINDOWS_OF_ENGINES: i64 = 25;
/// Windows after those that are measured, so that a record closes the last one.
const AFTER_WINDOWS: i64 = 1;
/// The time for the load generator to start.
const START: Duration = Duration::from_millis(1_500);
/// The time for the last answers.
const DRAIN: Duration = Duration::from_secs(5);
/// The time of measuring exact traffic alone.
const ALONE: Duration = Duration::from_secs(10);
const LOOK_UP: Duration = Duration::from_millis(100);

/// The conditions that all cells share.
pub struct Conditions {
    /// The daemon; `None` without eBPF programs.
    pub launch: Option<Launch>,
    pub jars: PathBuf,
}

impl Conditions {
    /// Measures a cell on a network and with a broker of its own.
    ///
    /// # Errors
    /// The network, the broker or a program failed, or the run was interrupted.
    pub fn measure(&self, cell: &Cell, progress: &Progress) -> Result<Outcome> {
        let begun = Instant::now();
        let machine_load = machine_load()?;
        let mut testbed = Testbed::build(&network(cell))?;
        let mut outcome = match cell.scheme {
            None => alone(cell, &testbed)?,
            Some(scheme) => self.carry(cell, scheme, &mut testbed, progress)?,
        };
        outcome.machine_load = machine_load;
        outcome.took_s = begun.elapsed().as_secs_f64();
        Ok(outcome)
    }

    fn carry(
        &self,
        cell: &Cell,
        scheme: Scheme,
        testbed: &mut Testbed,
        progress: &Progress,
    ) -> Result<Outcome> {
        let launch = self.launch.as_ref().filter(|_| scheme == Scheme::Atp);
        if let Some(launch) = launch {
            testbed.start_daemons(launch, None)?;
        }
        let host = &testbed.senders()[0];
        let inside = host.namespace.clone();
        let builder = Broker::builder(&self.jars).listen(host.ipv4).port(programs::BROKER_PORT);
        let builder = builder.partitions_default(PARTITIONS);
        let broker = builder.command(move |program| inside.command(program)).start()?;
        ensure!(!interrupt::interrupted(), "interrupted");
        programs::make_topic(host)?;
        let receivers = receivers::start(cell, testbed)?;
        let traffic = start_exact(cell, testbed)?;
        let mut outcome = self.load(cell, testbed, receivers, traffic, progress)?;
        outcome.has_daemons = launch.is_some();
        drop(broker);
        Ok(outcome)
    }

    /// Runs the load, and waits for the answers.
    fn load(
        &self,
        cell: &Cell,
        testbed: &Testbed,
        mut receivers: Receivers,
        traffic: Traffic,
        progress: &Progress,
    ) -> Result<Outcome> {
        let records_per_s = records_per_s(cell);
        let (times, span) = times_and_span(cell, now_ms()?);
        let before = processor(testbed, &receivers)?;
        let host = &testbed.senders()[0];
        let mut producer = programs::start_producer(cell, host, records_per_s, times)?;
        progress.begin_windows(&cell.name(), span.count());
        let measured = measured_time(span)?;
        let mut looks: Vec<Look> = Vec::new();
        loop {
            let lines = receivers.lines()?;
            let answered = span.answers(&lines).len();
            progress.delivered(answered);
            let is_due = |at: &u64| clock::now_ns() >= *at;
            if [measured.from_ns, measured.to_ns].get(looks.len()).is_some_and(is_due) {
                looks.push(Look::now(testbed)?);
            }
            let has_ended = !producer.is_running()?;
            let is_late = now_ms()? > times.end_ms + DRAIN.as_millis() as i64;
            if is_late || has_ended && answered == span.count() {
                break;
            }
            receivers.require_running()?;
            thread::sleep(LOOK_UP);
        }
        let after = processor(testbed, &receivers)?;
        let received = receivers.lines()?;
        let produced = producer_lines(producer)?;
        // Before the requests are waited for: records that nobody answers in time delay them.
        drop(receivers);
        let requests = traffic.finish()?;
        let mut outcome = Outcome { records_per_s, ..Outcome::new() };
        outcome.add_answers(span, &received, &produced);
        outcome.processor_s = Processor {
            bridge: after.bridge - before.bridge,
            receiver: after.receiver - before.receiver,
            daemons: after.daemons - before.daemons,
        };
        if let [from, to] = looks[..] {
            outcome.add_looks(from, to);
        }
        outcome.exact_ms = rounded(exact::times_ms(&requests.times_ns, &[measured]));
        outcome.exact_unanswered = requests.unanswered;
        outcome.latency_ms = rounded(outcome.latency_ms);
        Ok(outcome)
    }
}

/// The first sender has the broker, the second one sends exact requests.
fn network(cell: &Cell) -> Options {
    Options {
        senders: 2,
        rate_bits_per_s: cell.others_rate_bits_per_s(),
        nic_rate_bits_per_s: cell.others_rate_bits_per_s(),
        receiver_rate_bits_per_s: Some(cell.rate_bits_per_s),
        profile: Profile::default(),
    }
}

/// The state of the port and of the processors at a time.
#[derive(Clone, Copy)]
struct Look {
    at_ns: u64,
    port_bytes: u64,
    processor: ProcessorTime,
}

impl Look {
    fn now(testbed: &Testbed) -> Result<Look> {
        let processor = ProcessorTime::now()?;
        Ok(Look { at_ns: clock::now_ns(), port_bytes: sent_bytes(testbed)?, processor })
    }
}

impl Outcome {
    fn add_looks(&mut self, from: Look, to: Look) {
        let seconds = clock::seconds_between(from.at_ns, to.at_ns);
        self.port_bytes_per_s = ((to.port_bytes - from.port_bytes) as f64 / seconds).round();
        self.idle = to.processor.idle_share_since(from.processor);
    }
}

fn start_exact(cell: &Cell, testbed: &Testbed) -> Result<Traffic> {
    let requests_per_s = exact::requests_per_s(EXACT_LOAD, cell.rate_bits_per_s / 8);
    let load = Load { requests_per_s, at_once: 1 };
    Traffic::between(&testbed.senders()[1..], testbed.receiver(), load, cell.round.into())
}

fn alone(cell: &Cell, testbed: &Testbed) -> Result<Outcome> {
    let traffic = start_exact(cell, testbed)?;
    thread::sleep(Duration::from_secs(1));
    let from = Look::now(testbed)?;
    let until = Instant::now() + ALONE;
    while Instant::now() < until {
        ensure!(!interrupt::interrupted(), "interrupted");
        thread::sleep(LOOK_UP);
    }
    let to = Look::now(testbed)?;
    let window = Window { from_ns: from.at_ns, to_ns: to.at_ns };
    let requests = traffic.finish()?;
    let mut outcome = Outcome {
        exact_ms: rounded(exact::times_ms(&requests.times_ns, &[window])),
        exact_unanswered: requests.unanswered,
        ..Outcome::new()
    };
    outcome.add_looks(from, to);
    Ok(outcome)
}

/// The offered records per second.
fn records_per_s(cell: &Cell) -> f64 {
    let free_bytes_per_s = (1.0 - EXACT_LOAD) * cell.rate_bits_per_s as f64 / 8.0;
    cell.load * free_bytes_per_s / wire_bytes(cell.value_bytes)
}

/// The bytes of a record on the wire to the receiver.
fn wire_bytes(value_bytes: u32) -> f64 {
    let (all, records) = PACKET_BYTES;
    (f64::from(value_bytes) + RECORD_BYTES) * all / records
}

/// The event times of a load that begins soon, and the windows that are measured.
fn times_and_span(cell: &Cell, now_ms: i64) -> (Times, Span) {
    let length_ms = WINDOW_MS as i64;
    let first = (now_ms + START.as_millis() as i64) / length_ms + 1;
    let warm_up = match cell.engine {
        Engine::Plain => WARM_UP_WINDOWS,
        Engine::Flink => WARM_UP_WINDOWS_OF_ENGINES,
    };
    let from = first + warm_up;
    let to = from + i64::from(cell.seconds) * 1_000 / length_ms;
    let end = to + AFTER_WINDOWS;
    let times = Times { begin_ms: first * length_ms, end_ms: end * length_ms };
    (times, Span { windows: (from, to), partitions: PARTITIONS, length_ms: WINDOW_MS })
}

/// The time of the measured windows on the clock of exact requests.
fn measured_time(span: Span) -> Result<Window> {
    let (now_ms, now_ns) = (now_ms()?, clock::now_ns());
    let at = |window: i64| {
        let left_ms = window * span.length_ms as i64 - now_ms;
        now_ns.saturating_add_signed(left_ms * 1_000_000)
    };
    Ok(Window { from_ns: at(span.windows.0), to_ns: at(span.windows.1) })
}

/// Processor time so far.
fn processor(testbed: &Testbed, receivers: &Receivers) -> Result<Processor> {
    let (bridge, receiver) = receivers.processor_s()?;
    Ok(Processor {
        bridge,
        receiver,
        daemons: testbed.daemon_ids().map(processor_s).sum::<Result<f64>>()?,
    })
}

/// Bytes that the switch's port has sent to the receiver.
fn sent_bytes(testbed: &Testbed) -> Result<u64> {
    let queues = testbed.port_counters(testbed.receiver())?;
    Ok(queues.iter().map(|queue| queue.sent_bytes).sum())
}

fn producer_lines(producer: Process) -> Result<Vec<super::summary::Line>> {
    let lines = programs::lines(&producer)?;
    let has_ended = lines.iter().any(|line| matches!(line, super::summary::Line::Produced(_)));
    ensure!(has_ended, "the load generator didn't end in time: {}", producer.stderr()?.trim());
    Ok(lines)
}

fn now_ms() -> Result<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(now.as_millis() as i64)
}

/// Microseconds are enough, and shorter in the file.
fn rounded(times_ms: Vec<f64>) -> Vec<f64> {
    times_ms.into_iter().map(|ms| (ms * 1e3).round() / 1e3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::kafka::row::tests::cell;

    #[test]
    fn records_per_s__leaves_room_for_exact_traffic() {
        let cell = cell(Scheme::Atp, Some(0.8), 1);
        // 6.25 MB/s, of which 70 % are free.
        assert!((records_per_s(&cell) * wire_bytes(100) / (0.5 * 4.375e6) - 1.0).abs() < 1e-9);
        assert!((wire_bytes(100) - 122.6).abs() < 0.1 && (wire_bytes(1_000) - 1_082.2).abs() < 0.1);
    }

    #[test]
    fn times_and_span__whole_windows_after_a_warm_up() {
        let (times, span) = times_and_span(&cell(Scheme::Atp, Some(0.8), 1), 50_300);
        assert_eq!((times.begin_ms, times.end_ms), (52_000, 83_000));
        assert_eq!(span.windows, (62, 82));
        assert_eq!(span.count(), 80);
    }
}
