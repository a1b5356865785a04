//! Faults of networks, hosts, programs and strangers, one by one, on the kernel's own datapath: is
//! the guarantee kept? A test is one row of docs/faults.md.
//!
//! Environment as for the tests of `netns`; `ATP_FAULTS_JSON` names a file to which every row is
//! added as a line of JSON, for `cargo xtask faults-table`. `ATP_PACING_ONLY=1` (the emulated
//! machine, in the test ladder) leaves a part of the rows out.

mod chance;
mod crash;
mod hostile;
mod link;
mod row;
mod runs;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use row::Row;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = [chance::trials(), link::trials(), crash::trials(), hostile::trials()];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}

/// A test that fills in a row; skipped, and says so, where `missing` says why it can't run.
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
        let outcome = test(&mut row);
        row.close(outcome.as_ref().err());
        let written = row.publish();
        match outcome.and(written) {
            Ok(()) => Ok(Completion::Completed),
            Err(error) => Err(Failed::from(format!("{error:#}\n{}", testbed::take_logs()))),
        }
    })
}

/// The tests of a file, by the names of their functions: those that every machine runs, and those
/// that an emulated one is spared.
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
