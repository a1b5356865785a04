//! `atp-user send`: sends the messages of a file.

use super::shuffled::Shuffled;
use anyhow::{Context, Result, bail, ensure};
use approx_answers::{RecordOrder, Table};
use approxlib::{Group, Job, JobBuilder, JobId, Order};
use atp_common::laws::RateLaw;
use atp_options::{law, quantity};
use atp_output::{complain, note, say};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    iter,
    path::{Path, PathBuf},
    time::Duration,
};

/// The arguments of `send`.
#[derive(clap::Args)]
pub struct Args {
    /// The receiver's address or host name, and its port
    #[arg(value_name = "HOST:PORT")]
    destination: String,
    /// The file to send, or - for standard input
    #[arg(long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The size of a message; by default each line is a message
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64 << 20))]
    bytes: Option<u32>,
    /// Read a CSV file with a header. A message has as many records as fit a packet, and the header
    /// travels in an exact group. The whole file is read first. For `atp-user recv --query`
    #[arg(long, conflicts_with = "bytes")]
    csv: bool,
    /// The most records of a message of a CSV file
    #[arg(long, value_name = "N", requires = "csv", value_parser = clap::value_parser!(u32).range(1..))]
    rows: Option<u32>,
    /// Keep the order of the records or lines. On a good network, the last messages are then the
    /// ones that are not delivered, and answers have a warning. Without the option the records of a
    /// CSV file are shuffled, and so are lines if the MSR is below 1. A file is then read as a
    /// whole first. Of standard input and other streams, 1,024 lines are held back, from which each
    /// line is drawn
    #[arg(long, conflicts_with = "bytes")]
    ordered: bool,
    /// The minimal sampling rate: the share of messages that must arrive. At 1 all messages arrive,
    /// and lines in their order
    #[arg(long, default_value = "1", value_parser = quantity::msr)]
    msr: f64,
    /// Give every message a packet of its own; by default several short messages share one
    #[arg(long)]
    no_packing: bool,
    /// The job to send for, a number or a name; by default the job of this process's cgroup, or a
    /// new one
    #[arg(long, value_name = "ID")]
    job: Option<JobId>,
    /// Give up after this long without a packet from the receiver
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    timeout: Duration,
    #[command(flatten, next_help_heading = "Control laws (a daemon uses its own instead)")]
    law: law::Choice,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// The control socket of a daemon that must run. Without the option: the daemon at ATP_SOCKET
    /// or /run/atp/atp.sock; if none runs there, this process paces packets itself
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl Args {
    /// MRDF delivers short messages, which would be no fair sample of shuffled ones.
    fn mrdf(&self, order: Order) -> bool {
        self.law.variant.mrdf() && !matches!(order, Order::Shuffled { .. })
    }
}

/// Sends every message and prints a report.
pub fn main(args: Args) -> Result<()> {
    let mut builder = approxlib::Job::builder()
        .peer_timeout(args.timeout)
        .packing(!args.no_packing)
        .rules(args.law.rules_or(RateLaw::UNKNOWN_NETWORK));
    if let Some(id) = args.job {
        builder = builder.id(id);
    }
    if let Some(socket) = args.socket.clone() {
        builder = builder.control_socket(Some(socket));
    }
    let (job, order) = match args.csv {
        true => send_table(&args, builder)?,
        false => send_messages(&args, builder)?,
    };
    let report = job.finish()?;
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    for group in &report.groups {
        let of = if group.group == Table::HEADER_GROUP { ", header and totals" } else { "" };
        say!(
            "job {}{of}: {} of {} messages delivered (at least {} needed), {} not delivered, in {:.3} s",
            report.job,
            group.delivered,
            group.messages,
            group.needed,
            group.lost,
            report.elapsed_s
        );
    }
    if report.ended_by_receiver {
        say!("ended by the receiver, which needs no more");
    }
    if let Some(text) = order_text(order, args.msr) {
        say!("{text}");
    }
    say!(
        "{} packets sent, {} of them retransmitted; {} datapath, paced by {}",
        report.packets_sent,
        report.packets_retransmitted,
        report.datapath,
        report.pacing
    );
    Ok(())
}

/// Sends lines or pieces of a file.
fn send_messages(args: &Args, builder: JobBuilder) -> Result<(Job, Order)> {
    let mut messages = Messages::open(&args.file, args.bytes)?;
    let (source, mut count) = (messages.source(), messages.announced()?);
    let Some(first) = messages.next().transpose()? else {
        bail!("{source} holds no message: nothing was sent");
    };
    let is_stream = messages.is_stream();
    let messages = iter::once(Ok(first)).chain(messages);
    // Pieces of a file make no sense in another order, and an exact group keeps its order.
    let shuffles = !args.ordered && args.bytes.is_none() && args.msr < 1.0;
    let order = match (shuffles, is_stream) {
        (false, _) => Order::Ordered,
        (true, true) => Order::Shuffled { buffer: Some(STREAM_BUFFER as u32) },
        (true, false) => Order::Shuffled { buffer: None },
    };
    let mut builder = builder.msr(args.msr).order(order).mrdf(args.mrdf(order));
    type Lines = Box<dyn Iterator<Item = Result<Vec<u8>>>>;
    let mut messages: Lines = Box::new(messages);
    if shuffles && !is_stream {
        let shuffled = Shuffled::new(messages, usize::MAX)?;
        count =
            Some(u32::try_from(shuffled.len()).with_context(|| {
                format!("{source} holds more than 2^32 lines: send it in parts")
            })?);
        messages = Box::new(shuffled);
    }
    // Declares the number of messages before the first one, if it costs nothing to know.
    if let Some(count) = count {
        builder = builder.messages(count);
    }
    let mut job = builder.connect(args.destination.as_str())?;
    if shuffles && is_stream {
        complain!(
            "{source}: {STREAM_BUFFER} lines are held back, and each is drawn from them (--ordered \
             sends all at once, in their order)"
        );
        // The job is open by now: the buffer may take long to fill.
        messages = Box::new(Shuffled::new(messages, STREAM_BUFFER)?);
    }
    for message in messages {
        job.send(&message?)?;
    }
    Ok((job, order))
}

/// Sends a CSV file: the header and the totals, then messages of whole records.
fn send_table(args: &Args, builder: JobBuilder) -> Result<(Job, Order)> {
    let messages = Messages::open(&args.file, None)?;
    let source = messages.source();
    let (of_file, order) = match args.ordered {
        true => (RecordOrder::OfFile, Order::Ordered),
        false => (RecordOrder::Shuffled, Order::Shuffled { buffer: None }),
    };
    let table = Table::read(messages.reader, args.rows, of_file)
        .with_context(|| format!("can't send {source}"))?;
    let heads = table.heads();
    if let Some(text) = table.note() {
        note!("{source}: {text}");
    }
    let messages = table.messages;
    ensure!(!messages.is_empty(), "{source} holds no record: nothing was sent");
    let number = u32::try_from(messages.len())
        .with_context(|| format!("{source} has more than 2^32 messages: raise --rows"))?;
    let rows = Group::new(Table::ROWS_GROUP).msr(args.msr).messages(number).order(order);
    let of_heads = Group::new(Table::HEADER_GROUP).messages(heads.len() as u32).name("header");
    let groups = [rows.name("rows"), of_heads];
    let builder = builder.groups(groups).mrdf(args.mrdf(order));
    let mut job = builder.connect(args.destination.as_str())?;
    for head in &heads {
        job.send_in(Table::HEADER_GROUP, head)?;
    }
    for message in &messages {
        job.send_in(Table::ROWS_GROUP, message)?;
    }
    Ok((job, order))
}

/// The lines among which each line of standard input is drawn.
const STREAM_BUFFER: usize = 1_024;

/// The order of the messages, for the report; `None` if all arrived as they are in the file.
fn order_text(order: Order, msr: f64) -> Option<&'static str> {
    match order {
        Order::Shuffled { .. } => Some("sent in a random order (--ordered keeps it)"),
        Order::Ordered | Order::Unknown if msr < 1.0 => {
            Some("sent in their order: the last messages are the first to be left out")
        }
        Order::Ordered | Order::Unknown => None,
    }
}

/// The messages of a file: lines, or pieces of a fixed size.
struct Messages {
    reader: Box<dyn BufRead>,
    path: PathBuf,
    bytes: Option<u32>,
}

impl Messages {
    fn open(path: &Path, bytes: Option<u32>) -> Result<Self> {
        let reader: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(BufReader::new(io::stdin()))
        } else {
            let file = File::open(path)
                .with_context(|| format!("can't open the input file {}", path.display()))?;
            Box::new(BufReader::with_capacity(1 << 20, file))
        };
        Ok(Self { reader, path: path.into(), bytes })
    }

    /// The number of messages in the file, if it follows from the file's size.
    fn announced(&self) -> Result<Option<u32>> {
        let Some(bytes) = self.bytes else { return Ok(None) };
        let Ok(metadata) = std::fs::metadata(&self.path) else { return Ok(None) };
        if !metadata.is_file() {
            return Ok(None);
        }
        let count = metadata.len().div_ceil(u64::from(bytes));
        let count = u32::try_from(count).with_context(|| {
            format!("{} holds more than 2^32 messages: raise --bytes", self.path.display())
        })?;
        Ok(Some(count))
    }

    /// Whether the number of its messages isn't known before its end.
    fn is_stream(&self) -> bool {
        !std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.is_file())
    }

    /// The source of the messages, for error messages.
    fn source(&self) -> String {
        match self.path.as_os_str().to_str() {
            Some("-") => "standard input".to_owned(),
            _ => self.path.display().to_string(),
        }
    }

    fn read_error(&self) -> String {
        format!("can't read {}", self.source())
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let mut message = Vec::new();
        match self.bytes {
            Some(bytes) => {
                let mut piece = self.reader.by_ref().take(u64::from(bytes));
                piece.read_to_end(&mut message).with_context(|| self.read_error())?;
            }
            None => {
                let line = self.reader.read_until(b'\n', &mut message);
                line.with_context(|| self.read_error())?;
                if message.is_empty() {
                    return Ok(None);
                }
                if message.last() == Some(&b'\n') {
                    message.pop();
                }
                return Ok(Some(message));
            }
        }
        Ok((!message.is_empty()).then_some(message))
    }
}

impl Iterator for Messages {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &[u8], bytes: Option<u32>) -> Vec<Vec<u8>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut messages = Messages::open(file.path(), bytes).unwrap();
        let known = messages.announced().unwrap();
        let all: Vec<_> = messages.by_ref().map(Result::unwrap).collect();
        assert!(known.is_none_or(|known| known as usize == all.len()));
        all
    }

    #[test]
    fn next__lines() {
        assert_eq!(messages(b"a\n\nbc", None), [&b"a"[..], b"", b"bc"]);
        assert!(messages(b"", None).is_empty());
    }

    #[test]
    fn next__pieces() {
        assert_eq!(messages(b"abcde", Some(2)), [&b"ab"[..], b"cd", b"e"]);
        assert_eq!(messages(b"abcd", Some(2)), [&b"ab"[..], b"cd"]);
    }
}
