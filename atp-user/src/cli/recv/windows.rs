//! `atp-user recv --windows`: the answers of a query for each window of a stream.

use super::{Args, interrupt};
use anyhow::{Result, bail};
use approx_answers::{Confidence, Query};
use approx_session::{Answered, Verdict};
use approx_windows::{Arrival, Counted, Inbox, ReceivedWindow};
use approxlib::ReceiverBuilder;
use atp_output::write;
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// The longest wait before an interrupt is looked at.
const WAIT: Duration = Duration::from_millis(200);
/// The most bytes of windows that are open.
const MEMORY_BYTES_MAX: u64 = 512 << 20;

/// Answers until no window comes for `--timeout`, or the user interrupts.
pub fn main(args: &Args, query: &Query, builder: ReceiverBuilder) -> Result<()> {
    let interrupted = interrupt(true)?;
    let mut inbox = Inbox::bind(builder, args.bind, Counted::default(), MEMORY_BYTES_MAX)?;
    tracing::info!(address = %inbox.local_addr()?, "receiving windows");
    let mut deadline = Instant::now() + args.timeout;
    while !interrupted.load(Ordering::Relaxed) {
        let arrival = inbox.next(Some(WAIT))?;
        if arrival.is_none() && Instant::now() >= deadline {
            break;
        }
        match arrival {
            None => continue,
            Some(Arrival::Window(window)) => {
                // A window is confirmed once its answer is written.
                write(answer(&window, query, args.confidence, args.json))?;
                inbox.confirm(&window);
            }
            Some(Arrival::Repeated(header)) => tracing::info!("{header}: counted before"),
            Some(Arrival::Unfinished(header)) => {
                tracing::info!("{header}: not finished, its sender will repeat it");
            }
            Some(Arrival::Ended(stream)) => tracing::info!("{stream}: its sender has ended"),
            Some(Arrival::Malformed { source, error }) => {
                tracing::warn!("{source} sends no windows: {error}");
            }
            Some(Arrival::NoMemory { source, bytes_max, .. }) => tracing::warn!(
                "a window of {source} needs more than {bytes_max} bytes: make windows smaller"
            ),
        }
        deadline = Instant::now() + args.timeout;
    }
    if inbox.stats().windows == 0 && !interrupted.load(Ordering::Relaxed) {
        bail!(
            "no window arrived for {} s: check that the senders run and reach this address, or \
             raise --timeout",
            args.timeout.as_secs_f64()
        );
    }
    Ok(())
}

/// The answers of a window as text, or as a line of JSON.
fn answer(window: &ReceivedWindow, query: &Query, confidence: Confidence, json: bool) -> String {
    let header = &window.header;
    let (received, lost) = (window.received(), window.lost.len());
    let records = received + lost;
    let (answered, error) = match window.answers_of_json(query.clone(), confidence) {
        Ok((answers, unreadable)) => {
            let note = format!("{unreadable} values are no JSON objects");
            let notes = (unreadable > 0).then_some(note).into_iter().collect();
            let (query, report, verdict) = (query.clone(), None, Verdict::default());
            (Some(Answered { query, answers, report, verdict, notes, left_out: 0 }), None)
        }
        Err(error) => (None, Some(error.to_string())),
    };
    if json {
        let line = serde_json::json!({
            "topic": header.stream.topic,
            "partition": header.stream.partition,
            "number": header.number,
            "part": header.part,
            "is_last_part": header.is_last_part,
            "start_ms": header.span_ms.map(|span| span.0),
            "end_ms": header.span_ms.map(|span| span.1),
            "records": records,
            "received": received,
            "lost": window.lost.ranges().map(|range| [range.start, range.end - 1]).collect::<Vec<_>>(),
            "refused": header.refused.len(),
            "late": header.late,
            "repeated": header.records() - records - header.refused.len(),
            "answers": answered.as_ref().map(Answered::json),
            "error": error,
        });
        return format!("{line}\n");
    }
    let text = answered.map(|answered| answered.text());
    let text = text.or(error.map(|error| format!("  no answer: {error}\n")));
    format!("{header}: {received} of {records} records\n{}", text.unwrap_or_default())
}
