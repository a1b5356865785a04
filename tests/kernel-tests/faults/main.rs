//! Tests the guarantee under faults of networks, hosts, processes and attackers, on the kernel
//! datapath. Each test is one row of `docs/src/results/faults.md`.
//!
//! | variable | effect |
//! |---|---|
//! | `ATP_EBPF_OBJECT`, `ATP_USER`, `ATP_BACKEND` | as for the tests of `netns` |
//! | `ATP_FAULTS_JSON` | a file for the rows, as JSON for `cargo xtask faults-table` |
//! | `ATP_PACING_ONLY=1` | leaves out the rows that the emulated machine does not run |

mod chance;
mod crash;
mod hostile;
mod link;
mod row;
mod runs;

use atp_tests::took::timed;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use row::Row;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = [chance::trials(), link::trials(), crash::trials(), hostile::trials()];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}

/// A test that fills in a row. It is skipped with a message if `missing` gives a reason.
fn trial(
    name: &'static str,
    missing: fn() -> Option<String>,
    test: fn(&mut Row) -> anyhow::Result<()>,
) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(reason) = missing() {
            println!("skipped: {name}: {reason}");
            return Ok(Completion::ignored_with(reason));
        }
        testbed::take_logs();
        let mut row = Row::new(name);
        let outcome = timed(name, || test(&mut row));
        row.close(outcome.as_ref().err());
        let written = row.publish();
        match outcome.and(written) {
            Ok(()) => Ok(Completion::Completed),
            Err(error) => Err(Failed::from(format!("{error:#}\n{}", testbed::take_logs()))),
        }
    })
}

/// The tests of a file, named after their functions: those that every machine runs, and those that
/// an emulated machine leaves out.
macro_rules! trials {
    (if $missing:ident: $($test:ident,)*; not emulated: $($more:ident,)*) => {
        pub fn trials() -> Vec<libtest_mimic::Trial> {
            let missing = testbed::$missing;
            let mut trials = vec![$(crate::trial(stringify!($test), missing, $test)),*];
            if !testbed::pacing_only() {
                trials.extend([$(crate::trial(stringify!($more), missing, $more)),*]);
            }
            trials
        }
    };
}
use trials;
