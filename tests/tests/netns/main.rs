//! The whole path on the kernel's own datapath: daemons, senders and receivers, run by their command
//! line in network namespaces.
//!
//! `ATP_EBPF_OBJECT` names the eBPF object, `ATP_USER` the daemon's binary, `ATP_BACKEND` the pacing
//! backend if it isn't to be the kernel's best; `ATP_PACING_ONLY=1` leaves out what has nothing to do
//! with pacing. What is asserted are counts and ratios, for the
//! machine may be slow.

mod attendance;
mod bad_input;
mod bad_network;
mod cleanup;
mod clients;
mod congestion;
mod epochs;
mod forgery;
mod groups;
mod harness;
mod library;
mod marking;
mod membership;
mod mixed;
mod offload;
mod pacing;
mod path_mtu;
mod polite;
mod sizes;
mod superpackets;
mod transfer;
mod unprivileged;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = [
        transfer::trials(),
        groups::trials(),
        mixed::trials(),
        offload::trials(),
        superpackets::trials(),
        marking::trials(),
        pacing::trials(),
        attendance::trials(),
        congestion::trials(),
        epochs::trials(),
        epochs::refusals(),
        polite::trials(),
        bad_network::trials(),
        membership::trials(),
        unprivileged::trials(),
        forgery::trials(),
        cleanup::trials(),
    ];
    let not_about_pacing = [
        harness::trials(),
        clients::trials(),
        bad_input::trials(),
        sizes::trials(),
        path_mtu::trials(),
        superpackets::others(),
    ];
    let others = not_about_pacing.into_iter().filter(|_| !testbed::pacing_only());
    let trials = trials.into_iter().chain(others).flatten().collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test that is skipped, and says so, where `missing` says why it can't run.
fn trial(
    name: &'static str,
    missing: fn() -> Option<String>,
    test: fn() -> anyhow::Result<()>,
) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(reason) = missing() {
            println!("skipped: {name}: {reason}");
            return Ok(Completion::ignored_with(reason));
        }
        testbed::take_logs();
        match test() {
            Ok(()) => Ok(Completion::Completed),
            Err(error) => Err(Failed::from(format!("{error:#}\n{}", testbed::take_logs()))),
        }
    })
}

/// Every test of a file, by the name of its function.
macro_rules! trials {
    (if $missing:ident: $($test:ident,)*) => {
        pub fn trials() -> Vec<libtest_mimic::Trial> {
            let missing = testbed::$missing;
            vec![$(crate::trial(stringify!($test), missing, $test)),*]
        }
    };
    ($($test:ident,)*) => { crate::trials! { if missing: $($test,)* } };
}
use trials;
