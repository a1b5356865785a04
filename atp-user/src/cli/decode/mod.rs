//! `atp-user decode`: prints the ATP packets of a capture.

mod capture;
mod datagram;
mod packet;
mod print;

use anyhow::{Context, Result, anyhow};
use atp_common::wire::Kind;
use packet::Packet;
use std::{
    fs::File,
    io::{self, BufWriter, Read, Write},
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

/// The number of packets in a capture.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Packets with an ATP header, also those that the filter hides.
    atp: u64,
    /// All others.
    other: u64,
}

/// Prints the ATP packets of a capture.
pub fn main(args: &Args) -> Result<()> {
    let name = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("can't open the capture {name}"))?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut counts = Counts::default();
    let outcome = decode(file, &args.filter, args.json, &mut out, &mut counts);
    out.flush().context("can't write to standard output")?;
    if counts.atp + counts.other > 0 {
        eprintln!("{} ATP packets, {} other packets", counts.atp, counts.other);
    }
    outcome.with_context(|| format!("can't decode the capture {name}"))
}

/// Prints the ATP packets of `capture` to `out`. Counts the packets up to the first error.
fn decode(
    capture: impl Read + Send,
    filter: &Filter,
    json: bool,
    out: &mut impl Write,
    counts: &mut Counts,
) -> Result<()> {
    capture::read(capture, |frame| {
        let Some(packet) = datagram::find(&frame).and_then(|datagram| Packet::new(&datagram))
        else {
            counts.other += 1;
            return Ok(());
        };
        counts.atp += 1;
        if !filter.accepts(&packet) {
            return Ok(());
        }
        match json {
            true => writeln!(out, "{}", print::json(&packet)),
            false => writeln!(out, "{packet}"),
        }
    })
}

impl Filter {
    fn accepts(&self, packet: &Packet<'_>) -> bool {
        let header = &packet.header;
        let ports = [packet.source.port(), packet.destination.port()];
        is_listed(&self.jobs, |job| *job == header.job())
            && is_listed(&self.kinds, |kind| header.kind() == Ok(*kind))
            && is_listed(&self.ports, |port| ports.contains(port))
    }
}

/// Whether an element matches. An empty list accepts everything.
fn is_listed<T>(list: &[T], matches: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(matches)
}

fn kind(name: &str) -> Result<Kind> {
    let named = Kind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name));
    let names = Kind::ALL.map(|kind| kind.name().to_lowercase()).join(", ");
    named.ok_or_else(|| anyhow!("`{name}` is not a kind of packet: use one of {names}"))
}

#[cfg(test)]
mod tests;
