//! `atp-user decode`: prints the ATP packets of a capture.

mod capture;
mod datagram;
mod packet;
mod print;

use anyhow::{Context, Error, Result, anyhow, bail};
use atp_common::wire::Kind;
use atp_output::{OutputError, Stdout, complain};
use datagram::UnsupportedLink;
use packet::Packet;
use std::{
    collections::BTreeSet,
    fs::File,
    io::{BufWriter, Read, Write},
    ops::ControlFlow,
    path::PathBuf,
};

/// The arguments of `decode`.
#[derive(clap::Args)]
pub struct Args {
    /// The capture: a pcap or pcapng file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    filter: Filter,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// The packets to print. Each option that is given must match.
#[derive(clap::Args, Default)]
struct Filter {
    /// Print only packets of these jobs
    #[arg(long = "job", value_name = "ID", value_delimiter = ',')]
    jobs: Vec<u32>,
    /// Print only packets of these kinds: data, ack, probe, probe-ack, receipt, fin, fin-ack, reset
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    kinds: Vec<Kind>,
    /// Print only packets from or to these UDP ports
    #[arg(long = "port", value_name = "PORT", value_delimiter = ',')]
    ports: Vec<u16>,
}

/// The packets of a capture, counted, and the link types of those that can't be read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Packets with an ATP header, also those that the filter hides.
    atp: u64,
    /// All others.
    other: u64,
    /// The link types that aren't supported. Their packets count as others.
    unsupported_links: BTreeSet<i32>,
}

/// The reason why decoding ended early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The capture is no capture, is damaged or ends within a packet.
    #[error(transparent)]
    Read(Error),
    /// The output refuses bytes.
    #[error(transparent)]
    Write(OutputError),
}

/// Prints the ATP packets of a capture.
pub fn main(args: &Args) -> Result<()> {
    let name = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("can't open the capture {name}"))?;
    let mut out = BufWriter::new(Stdout);
    let mut counts = Counts::default();
    let decoded = decode(file, &args.filter, args.json, &mut out, &mut counts);
    let flushed = out.flush().map_err(|error| Failure::Write(error.into()));
    let outcome = match decoded.and(flushed) {
        Err(Failure::Write(lost)) => return Err(lost.into()),
        Err(Failure::Read(error)) => Err(error.context(format!("can't decode the capture {name}"))),
        Ok(()) => Ok(()),
    };
    if outcome.is_ok() || counts.atp + counts.other > 0 {
        complain!("{} ATP packets, {} other packets", counts.atp, counts.other);
    }
    outcome?;
    match counts.unsupported_links.first() {
        Some(link) => bail!(
            "{name} has packets of link type {link}, which is not supported: capture on Ethernet, \
             `any` or raw IP"
        ),
        None => Ok(()),
    }
}

/// Prints the ATP packets of `capture` to `out`. Counts the packets up to the first error.
fn decode(
    capture: impl Read + Send,
    filter: &Filter,
    json: bool,
    out: &mut impl Write,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let mut written = Ok(());
    let read = capture::read(capture, |frame| {
        let datagram = datagram::find(&frame).unwrap_or_else(|UnsupportedLink(link)| {
            counts.unsupported_links.insert(link);
            None
        });
        let Some(packet) = datagram.and_then(|datagram| Packet::new(&datagram)) else {
            counts.other += 1;
            return ControlFlow::Continue(());
        };
        counts.atp += 1;
        if !filter.accepts(&packet) {
            return ControlFlow::Continue(());
        }
        written = match json {
            true => writeln!(out, "{}", print::json(&packet)),
            false => writeln!(out, "{packet}"),
        };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    written.map_err(|error| Failure::Write(error.into()))?;
    read.map_err(Failure::Read)
}

impl Filter {
    fn accepts(&self, packet: &Packet<'_>) -> bool {
        let header = &packet.header;
        let ports = [packet.source.port(), packet.destination.port()];
        accepts(&self.jobs, |job| *job == header.job())
            && accepts(&self.kinds, |kind| header.kind() == Ok(*kind))
            && accepts(&self.ports, |port| ports.contains(port))
    }
}

/// Whether a list accepts a packet: an element matches, or the list is empty.
fn accepts<T>(list: &[T], matches: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(matches)
}

fn kind(name: &str) -> Result<Kind> {
    let named = Kind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
    let names = Kind::ALL.map(|kind| kind.name().to_lowercase()).join(", ");
    named.ok_or_else(|| anyhow!("`{name}` is not a kind of packet: use one of {names}"))
}

#[cfg(test)]
mod tests;
