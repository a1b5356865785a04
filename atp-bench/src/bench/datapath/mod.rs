//! `cargo xtask bench datapath`: the time of every program on every kind of packet. The kernel runs
//! the programs on test packets.

mod cases;
mod fixture;
mod packet;
mod summary;
mod test_run;

use std::ops::RangeFrom;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use atp_datapath::PacingRequest;

use super::options::{JsonOption, require_root};
use crate::installed;
use crate::median::median;
use cases::Case;
use fixture::{Fixture, Program};
use summary::{Measured, Results};
use test_run::{Hook, SkbFields, load_empty, test_run};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    json: JsonOption,
    /// Number of rounds; medians are printed
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Number of runs of a program on one packet in each round
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    repeat: u32,
    /// Count arrivals, as a daemon that gives advice does
    #[arg(long)]
    advice: bool,
    /// Use these compiled eBPF programs instead of building them
    #[arg(long, value_name = "FILE")]
    object: Option<PathBuf>,
}

/// Single runs of one case in each round: enough for a median.
const SINGLE_RUNS: u32 = 300;
/// The packet for a program that does nothing; any packet works.
const EMPTY_PACKET: [u8; 64] = [0; 64];

pub fn main(args: &Args) -> Result<()> {
    let json = args.json.open()?;
    require_root("loads eBPF programs")?;
    let object = args.object.clone().map_or_else(installed::object, Ok)?;
    fixture::enter_own_namespace()?;
    let cases = cases::all();
    // A job bound to a cgroup changes the cost of every packet. These cases come last, with
    // their own programs.
    let mut measured = measure(
        &Fixture::load(&object, PacingRequest::Auto, false, args.advice)?,
        &cases,
        args,
        false,
    )?;
    let fixture = Fixture::load(&object, PacingRequest::Auto, true, args.advice)?;
    measured.extend(measure(&fixture, &cases, args, true)?);
    let results = Results {
        kernel: nix::sys::utsname::uname()?.release().to_string_lossy().into_owned(),
        pacing: fixture.datapath.pacing_name(),
        rounds: args.rounds,
        repeat: args.repeat,
        empty: [Hook::Tc, Hook::Xdp]
            .map(|hook| measure_empty(hook, args))
            .into_iter()
            .collect::<Result<_>>()?,
        programs: fixture.datapath.program_stats()?.into_iter().map(Into::into).collect(),
        packets: measured,
    };
    summary::print(&results);
    json.map_or(Ok(()), |file| file.write_json(&results))
}

/// Samples of one case.
#[derive(Default)]
struct Samples {
    repeated_ns: Vec<f64>,
    single_ns: Vec<f64>,
}

/// Measures every case in each round, so that a slow moment of the machine affects all of them.
fn measure(fixture: &Fixture, cases: &[Case], args: &Args, bound: bool) -> Result<Vec<Measured>> {
    let cases: Vec<&Case> = cases.iter().filter(|case| case.bound == bound).collect();
    let mut samples: Vec<Samples> = cases.iter().map(|_| Samples::default()).collect();
    let mut slots = 0..;
    for _ in 0..args.rounds {
        for (case, samples) in cases.iter().zip(&mut samples) {
            run(fixture, case, args.repeat, &mut slots, samples)
                .with_context(|| format!("{} on {}", case.program.name(), case.packet))?;
        }
    }
    Ok(cases.iter().zip(samples).map(|(case, samples)| samples.summary(case)).collect())
}

/// Runs one case, first in single runs, then repeatedly. No two packets have the same slot.
fn run(
    fixture: &Fixture,
    case: &Case,
    repeat: u32,
    slots: &mut RangeFrom<u32>,
    samples: &mut Samples,
) -> Result<()> {
    let program = fixture.program(case.program)?;
    let skb = (case.program != Program::Xdp)
        .then_some(SkbFields { mark: case.mark, ifindex: fixture.ifindex });
    let mut run = |repeat| -> Result<f64> {
        let frame = case.frame(slots.next().context("there are no more slots")?);
        let outcome = test_run(program.as_fd(), &frame, skb, repeat)?;
        ensure!(
            outcome.verdict == case.verdict,
            "the program returned {} instead of {}",
            outcome.verdict as i32,
            case.verdict as i32
        );
        Ok(f64::from(outcome.ns))
    };
    // Discard the first run: caches are cold, and the slot of a stale ACK is still unknown.
    run(1)?;
    let counted = |name: &str| fixture.counter(name);
    let before = case.counter.map(counted).transpose()?.unwrap_or_default();
    let mut runs_done = u64::from(SINGLE_RUNS);
    for _ in 0..SINGLE_RUNS {
        samples.single_ns.push(run(1)?);
    }
    if case.repeats {
        samples.repeated_ns.push(run(repeat)?);
        runs_done += u64::from(repeat);
    }
    if let Some(name) = case.counter {
        let counted = counted(name)? - before;
        ensure!(counted == runs_done, "{counted} of {runs_done} runs were counted as {name}");
    }
    Ok(())
}

impl Samples {
    fn summary(self, case: &Case) -> Measured {
        Measured {
            program: case.program.name(),
            packet: case.packet,
            outcome: case.counter.unwrap_or("passed on"),
            ns_per_run: case.repeats.then(|| median(self.repeated_ns)).flatten(),
            ns_single_run: median(self.single_ns).unwrap_or(f64::NAN),
        }
    }
}

/// A program that does nothing, measured in the same way.
fn measure_empty(hook: Hook, args: &Args) -> Result<Measured> {
    let program = load_empty(hook)?;
    let program: BorrowedFd<'_> = program.as_fd();
    let mut samples = Samples::default();
    for _ in 0..args.rounds {
        for _ in 0..SINGLE_RUNS {
            let outcome = test_run(program, &EMPTY_PACKET, None, 1)?;
            samples.single_ns.push(f64::from(outcome.ns));
        }
        let outcome = test_run(program, &EMPTY_PACKET, None, args.repeat)?;
        samples.repeated_ns.push(f64::from(outcome.ns));
    }
    Ok(Measured {
        program: if hook == Hook::Tc { "(empty, tc)" } else { "(empty, XDP)" },
        packet: "any",
        outcome: "nothing",
        ns_per_run: median(samples.repeated_ns),
        ns_single_run: median(samples.single_ns).unwrap_or(f64::NAN),
    })
}
