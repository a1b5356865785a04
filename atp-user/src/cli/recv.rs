//! `atp-user recv`: receives messages and writes them to a file.

mod windows;

use super::{csv_output::CsvOutput, query::LiveLine};
use crate::signals::is_ignored;
use anyhow::{Context, Error, Result, bail};
use approx_answers::{AcceptedError, Confidence, Query};
use approx_session::{Accepted, Next, Reception, Session, Verdict};
use approxlib::{Event, JobId, Receiver, ReceiverBuilder, Refusals, ScopedIp};
use atp_options::quantity;
use atp_output::{EndWith, Stdout, note, write};
use signal_hook::{consts::SIGINT, flag};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The arguments of `recv`.
#[derive(clap::Args)]
pub struct Args {
    /// The local address and port to receive on
    #[arg(value_name = "ADDRESS:PORT", default_value = "0.0.0.0:4747",
          value_parser = super::address::parse)]
    bind: SocketAddr,
    /// Receive only this job, a number or a name; repeat the option for several [default: any job]
    #[arg(long = "job", value_name = "ID")]
    jobs: Vec<JobId>,
    /// Receive only from this address; repeat the option for several [default: any address]
    #[arg(long = "from", value_name = "ADDRESS")]
    peers: Vec<ScopedIp>,
    /// The file to write messages to, or - for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// Write messages one after the other, without a line feed after each
    #[arg(long)]
    raw: bool,
    /// Answer a query of CSV records instead of writing messages, such as 'avg(dep_delay) by
    /// carrier' or 'SELECT avg(x), count(*) WHERE y > 3 GROUP BY a, b'. The functions are sum, avg,
    /// count, ratio, stddev, variance, median, quantile, min, max, count(distinct) and top. The
    /// senders send CSV with --csv, or data frames
    #[arg(long, value_name = "QUERY")]
    query: Option<Query>,
    /// Answer the query for each window of a stream, such as those of `atp-kafka send`. The columns
    /// are the fields of the records' values, which are JSON objects. The command ends after
    /// --timeout without a window, or with an interrupt
    #[arg(long, requires = "query", conflicts_with_all = ["emax", "csv", "raw", "out"])]
    windows: bool,
    /// The messages are CSV records, from `atp-user send --csv`. The output is a CSV file: the
    /// header first, no line feeds between messages, and without the sender's totals
    #[arg(long)]
    csv: bool,
    /// The accepted relative error of the query's answer, or of each function's and key's: how far
    /// its interval reaches to the farther side. The receiver then asks the senders for as much as
    /// it needs, or for the end. The exit code is 3 if a warning or a left-out message puts the
    /// answer in doubt, and 4 if the error isn't met
    #[arg(long, value_name = "SHARE", requires = "query", value_parser = accepted_error)]
    emax: Option<AcceptedError>,
    /// Also end the job while a warning puts the answer in doubt, such as records in order or a
    /// heavy tail. Without the option the job then continues up to the senders' MSRs
    #[arg(long, requires = "emax")]
    end_in_doubt: bool,
    /// The confidence of the query's intervals
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.95",
        requires = "query",
        value_parser = confidence
    )]
    confidence: Confidence,
    /// The number of senders to wait for. The command ends when so many have reached their MSRs.
    /// Each other sender that began before may then finish: until it has sent no message for 5 s,
    /// and for no longer than --timeout and twice the time that its messages take at its pace. A
    /// sender that ended early counts after --timeout, or at once with --job and --from. The exit
    /// code of a query is 3 if other senders are in its answer too, or one that hasn't ended or was
    /// canceled, or if messages or keys were left out
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    senders: u32,
    /// Give up after this long without a packet of any job
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::duration)]
    timeout: Duration,
    /// Print the report as JSON; it goes to standard error if standard output has the messages
    #[arg(long)]
    json: bool,
    /// Without a daemon: the rate of this host's line, of which senders are advised their share
    /// [default: unknown, and no advice]
    #[arg(long, value_name = "RATE", value_parser = quantity::rate_bytes_per_s)]
    line_rate: Option<u64>,
    /// Without a daemon, on a network with priority queues: the packets that each approximate queue
    /// holds at the switch's port to this host; the profile default has 96, and 0 stands for one
    /// queue
    #[arg(long, value_name = "PACKETS", default_value_t = 0)]
    queue_depth: u32,
    /// The control socket of a daemon that must run. Without the option: the daemon at ATP_SOCKET
    /// or /run/atp/atp.sock; while none runs there, this process acknowledges packets itself
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// A share, such as `0.05` or `5%`.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().map(|number| number / unit);
    share.map_err(|_| format!("`{text}` is not a share: use a number such as 0.05 or 5%"))
}

fn accepted_error(text: &str) -> Result<AcceptedError, String> {
    let share = share(text)?;
    if share >= 1.0 && !text.ends_with('%') {
        return Err(format!("`{text}` is {} %: write {text}%, or a share below 1", share * 100.0));
    }
    AcceptedError::relative(share).map_err(|error| error.to_string())
}

fn confidence(text: &str) -> Result<Confidence, String> {
    Confidence::new(share(text)?).map_err(|error| error.to_string())
}

/// The exit code of an answer in doubt: its interval is narrow enough, and a warning puts it in
/// doubt, or one of its senders hasn't ended, was canceled, or is one too many.
const IN_DOUBT: u8 = 3;
/// The exit code of an answer whose interval is wider than accepted.
const NOT_MET: u8 = 4;

/// The longest wait for an event before the line of a query is due.
const WAIT: Duration = Duration::from_millis(200);

/// The report about one sender.
#[derive(serde::Serialize)]
struct SenderReport {
    source: SocketAddr,
    job: u32,
    summary: approxlib::Summary,
    /// Packets that the receiver had refused by the end of the command, from any address.
    refused: Refusals,
}

/// Receives until the senders have finished and prints a report.
pub fn main(args: Args) -> Result<()> {
    if let (true, Some(query)) = (args.windows, &args.query) {
        return windows::main(&args, query, builder(&args));
    }
    let accepted = args.emax.map(|error| Accepted { error, ends_in_doubt: args.end_in_doubt });
    let of_query = |query| Session::of_query(query, args.senders, args.confidence, accepted);
    let mut session = args.query.clone().map(of_query).transpose()?;
    let writes = session.is_none() || args.out.as_os_str() != "-";
    let mut out = output(&args.out)?;
    let written = |outcome: io::Result<()>| outcome.map_err(|error| lost(&args.out, error));
    // Before the first message may arrive.
    let interrupted = interrupt(session.is_some())?;
    let receiver = builder(&args).bind(args.bind)?;
    if args.line_rate.is_some() && receiver.datapath() != "userspace" {
        note!(
            "--line-rate has no use: a daemon runs, and advises by the line's rate that it knows"
        );
    }
    tracing::info!(address = %receiver.local_addr()?, "receiving");
    let mut reports = Vec::new();
    let (mut messages, mut table) = (0u64, CsvOutput::default());
    // Named senders are awaited, and no others can take their places.
    let is_named = !args.jobs.is_empty() && !args.peers.is_empty();
    let mut reception = Reception::new(receiver, args.senders, args.timeout, is_named);
    let mut live = LiveLine::new();
    let mut has_said_why = false;
    loop {
        if let (true, Some(session)) = (interrupted.load(Ordering::Relaxed), &mut session) {
            session.cut_short("interrupted: the answer has what had arrived by then");
            reception.interrupt();
        }
        if reception.awaits_others() && !std::mem::replace(&mut has_said_why, true) {
            tracing::warn!(
                "a sender ended before its sampling rate: waiting {} s for another one, as this \
                 may have been a stranger (--job and --from name the senders)",
                args.timeout.as_secs_f64()
            );
        }
        let ends_by_plan = session.as_ref().is_some_and(Session::has_asked_for_the_end);
        let event = match reception.next(WAIT, ends_by_plan)? {
            Next::Event(event) => Some(event),
            Next::Ended => break,
            Next::Silent => None,
            _ => continue,
        };
        if let (Some(session), Some(event)) = (&mut session, &event) {
            session.on_event(event, reception.receiver())?;
            live.show(session);
            if session.has_refused_all() && !writes {
                break;
            }
        }
        match event {
            Some(Event::Message { source, group, message, data, .. }) => {
                messages += 1;
                if !writes {
                    continue;
                }
                if args.csv || args.query.is_some() {
                    let taken = table.take(&mut out, source, (group, message), &data);
                    taken.map_err(|error| lost_or(&args.out, error))?;
                    continue;
                }
                written(out.write_all(&data))?;
                if !args.raw {
                    written(out.write_all(b"\n"))?;
                }
            }
            Some(Event::Finished { source, job, summary, .. }) => {
                let refused = Refusals::default();
                reports.push(SenderReport { source, job, summary, refused });
            }
            // The job goes on. The report covers its last window.
            Some(
                Event::Started { .. } | Event::TermsChanged { .. } | Event::WindowEnded { .. },
            ) => {}
            None => {
                table.end(&mut out).map_err(|error| lost_or(&args.out, error))?;
                written(out.flush())?;
                // The records that arrived have an answer, also if a sender failed.
                live.clear();
                match session.map(|session| finish(session, args.json)) {
                    Some(Ok((answers, _))) => write(answers)?,
                    Some(Err(error)) => tracing::warn!("{error:#}"),
                    None => {}
                }
                warn_of_refusals(reception.receiver());
                bail!(
                    "no packet arrived for {} s, after {messages} messages and the end of {} of {} senders: check that the senders run and reach this address, or raise --timeout",
                    args.timeout.as_secs_f64(),
                    reports.len(),
                    args.senders
                );
            }
        }
    }
    table.end(&mut out).map_err(|error| lost_or(&args.out, error))?;
    written(out.flush())?;
    live.clear();
    let is_refused = !writes && session.as_ref().is_some_and(Session::has_refused_all);
    match reception.go_on() {
        left @ 1.. if !is_refused && !interrupted.load(Ordering::Relaxed) => tracing::warn!(
            "{left} more senders were still sending, and got an error: name the senders to receive \
             from with --job and --from"
        ),
        _ => {}
    }
    if let Some(session) = session {
        let (answers, verdict) = finish(session, args.json)?;
        write(answers)?;
        warn_of_refusals(reception.receiver());
        return end(verdict);
    }
    let refused = reception.receiver().stats().refusals;
    reports.iter_mut().for_each(|report| report.refused = refused);
    report(&reports, args.json, args.out.as_os_str() == "-")
}

/// The options of the receiver.
fn builder(args: &Args) -> ReceiverBuilder {
    let mut builder = Receiver::builder();
    if let Some(socket) = &args.socket {
        builder = builder.control_socket(Some(socket.clone()));
    }
    builder = args.jobs.iter().fold(builder, |builder, id| builder.job(*id));
    builder = args.peers.iter().fold(builder, |builder, address| builder.peer(*address));
    if let Some(rate) = args.line_rate {
        builder = builder.line_rate_bytes_per_s(rate);
    }
    builder.queue_depth_packets(args.queue_depth)
}

/// The end of a query: an answer that isn't as good as was asked for has an exit code of its own.
fn end(verdict: Verdict) -> Result<()> {
    let code = match verdict {
        Verdict::Fine => return Ok(()),
        Verdict::InDoubt => IN_DOUBT,
        Verdict::NotMet => NOT_MET,
    };
    let message = verdict.sentence().unwrap_or_default().to_owned();
    Err(EndWith { code, message }.into())
}

/// Whether the user has interrupted a query. A second interrupt ends the program. Shells start
/// background jobs with interrupts ignored: they stay so.
fn interrupt(is_query: bool) -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    if is_query && !is_ignored(SIGINT) {
        flag::register_conditional_default(SIGINT, Arc::clone(&interrupted))?;
        flag::register(SIGINT, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// The answers as text or JSON, and whether they are as good as was asked for.
fn finish(session: Session, json: bool) -> Result<(String, Verdict)> {
    let answered = session.finish()?;
    let text = if json { format!("{}\n", answered.json()) } else { answered.text() };
    Ok((text, answered.verdict))
}

fn output(path: &PathBuf) -> Result<Box<dyn Write>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufWriter::new(Stdout)));
    }
    let file = File::create(path)
        .with_context(|| format!("can't create the output file {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}

/// The error of an output that lost messages. That of standard output names it.
fn lost(path: &Path, error: io::Error) -> Error {
    match path.as_os_str().to_str() {
        Some("-") => error.into(),
        _ => Error::from(error).context(format!("can't write the output file {}", path.display())),
    }
}

/// As [`lost`], of an error that may be another one.
fn lost_or(path: &Path, error: Error) -> Error {
    error.downcast::<io::Error>().map_or_else(|other| other, |error| lost(path, error))
}

fn report(reports: &[SenderReport], json: bool, to_stderr: bool) -> Result<()> {
    let mut text = String::new();
    if json {
        text = serde_json::to_string(reports)? + "\n";
    } else {
        let refused = reports.first().and_then(|report| refusals_text(&report.refused));
        for SenderReport { source, job, summary, .. } in reports {
            text += &format!(
                "{source} job {job}: {} of {} messages{}\n",
                summary.delivered,
                summary.messages,
                if summary.complete { "" } else { ", canceled by its sender" }
            );
        }
        text.extend(refused.map(|refused| refused + "\n"));
    }
    if to_stderr {
        io::stderr().write_all(text.as_bytes())?
    } else {
        write(text)?
    }
    Ok(())
}

fn warn_of_refusals(receiver: &Receiver) {
    if let Some(text) = refusals_text(&receiver.stats().refusals) {
        tracing::warn!("{text}");
    }
}

/// Packets that were refused, by reason, and what to do; `None` if there are none.
fn refusals_text(refused: &Refusals) -> Option<String> {
    let Refusals { malformed, unwanted, too_large, no_room, forgotten } = *refused;
    let reasons = [
        (no_room, "without room (their senders try again: start fewer at a time)"),
        (unwanted, "not of --job or --from (if they should be received: correct these options)"),
        (too_large, "of messages that are too long or too many (divide them at their senders)"),
        (forgotten, "of senders that were silent for too long (start their jobs again)"),
        (malformed, "malformed (find the program that sends them to this port)"),
    ];
    let named = reasons.into_iter().filter(|(packets, _)| *packets > 0);
    let named: Vec<_> = named.map(|(packets, what)| format!("{packets} {what}")).collect();
    (!named.is_empty()).then(|| format!("refused packets: {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_text__names_each_reason_and_its_remedy() {
        assert_eq!(refusals_text(&Refusals::default()), None);
        let refused = Refusals { no_room: 7, unwanted: 2, ..Refusals::default() };
        assert_eq!(
            refusals_text(&refused).unwrap(),
            "refused packets: 7 without room (their senders try again: start fewer at a time), 2 \
             not of --job or --from (if they should be received: correct these options)"
        );
        let all = Refusals { malformed: 1, unwanted: 1, too_large: 1, no_room: 1, forgotten: 1 };
        assert_eq!(refusals_text(&all).unwrap().matches(", 1 ").count(), 4);
    }
}
