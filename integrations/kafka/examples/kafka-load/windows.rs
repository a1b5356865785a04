//! A receiver of windows over ATP, which answers each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use approx_windows::{Arrival, Counted, Inbox, ReceivedWindow};
use approxlib::Receiver;

use crate::line::{Answer, Line};
use crate::{now_ms, records, say};

const MEMORY_BYTES_MAX: u64 = 512 << 20;

#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    listen: String,
    /// The daemon's control socket; without it there is no daemon
    #[arg(long)]
    control_socket: Option<PathBuf>,
    /// The rate of the line to this host
    #[arg(long)]
    line_rate_bytes_per_s: u64,
}

pub fn main(args: &Args) -> Result<()> {
    let mut builder = Receiver::builder().control_socket(args.control_socket.clone());
    if args.control_socket.is_none() {
        builder = builder.line_rate_bytes_per_s(args.line_rate_bytes_per_s);
    }
    let mut inbox = Inbox::bind(builder, &*args.listen, Counted::default(), MEMORY_BYTES_MAX)?;
    say(&Line::Ready)?;
    let mut estimates: BTreeMap<(u32, i64), Estimate> = BTreeMap::new();
    loop {
        match inbox.next(None)? {
            Some(Arrival::Window(window)) => {
                let key = (window.header.stream.partition, window.header.number);
                estimates.entry(key).or_default().add(&window)?;
                if window.header.is_last_part {
                    let estimate = estimates.remove(&key).unwrap_or_default();
                    say(&Line::Answer(estimate.answer(key)))?;
                }
                inbox.confirm(&window);
            }
            Some(Arrival::Repeated(_) | Arrival::Unfinished(_) | Arrival::Ended(_)) | None => {}
            Some(other) => bail!("{other:?}"),
        }
    }
}

/// The estimate of a window from its groups, in all of its parts.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    received: u64,
    records: u64,
    sum: f64,
}

impl Estimate {
    fn add(&mut self, window: &ReceivedWindow) -> Result<()> {
        for group in window.groups.iter().filter(|group| !group.records.is_empty()) {
            let mut sum = 0.0;
            for record in &group.records {
                let number = records::number(record.value.as_deref());
                sum += number.context("a record without a number")?;
            }
            let received = group.records.len() as u64;
            self.received += received;
            self.records += group.header.records;
            self.sum += sum / received as f64 * group.header.records as f64;
        }
        Ok(())
    }

    fn answer(self, (partition, window): (u32, i64)) -> Answer {
        Answer {
            partition,
            window,
            received: self.received,
            count: self.records as f64,
            mean: self.sum / self.records as f64,
            at_ms: now_ms(),
        }
    }
}
