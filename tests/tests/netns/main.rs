//! Tests complete jobs on the kernel datapath: daemons, senders and receivers in network
//! namespaces, run by their command line.
//!
//! | variable | meaning |
//! |---|---|
//! | `ATP_EBPF_OBJECT` | the eBPF object |
//! | `ATP_USER` | the daemon's binary |
//! | `ATP_BACKEND` | the pacing backend, if not the daemon's choice |
//! | `ATP_PACING_ONLY=1` | leaves out the tests that do not depend on pacing |
//!
//! The assertions compare counts and ratios rather than times, because the machine may be slow.

mod advice;
mod advice_lanes;
mod alternative_names;
mod answers;
mod bad_input;
mod bad_network;
mod cleanup;
mod clients;
mod collective;
mod congestion;
mod coverage;
mod doctor;
mod epochs;
mod forgery;
mod groups;
mod gso_buffers;
mod harness;
mod library;
mod link_local;
mod marking;
mod membership;
mod mixed;
mod network;
mod offload;
mod overlap;
mod pacing;
mod packet_log;
mod path_mtu;
mod polite;
mod requests;
mod sizes;
mod transfer;
mod unanswered;
mod unattended;
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
        gso_buffers::trials(),
        marking::trials(),
        pacing::trials(),
        unattended::trials(),
        congestion::trials(),
        advice::trials(),
        advice_lanes::trials(),
        epochs::trials(),
        epochs::refusals(),
        overlap::trials(),
        polite::trials(),
        requests::trials(),
        bad_network::trials(),
        membership::trials(),
        unprivileged::trials(),
        forgery::trials(),
        cleanup::trials(),
        network::trials(),
        coverage::trials(),
    ];
    let independent_of_pacing = [
        harness::trials(),
        clients::trials(),
        bad_input::trials(),
        link_local::trials(),
        alternative_names::trials(),
        unanswered::trials(),
        sizes::trials(),
        packet_log::trials(),
        path_mtu::trials(),
        gso_buffers::independent_of_pacing(),
        advice::not_emulated(),
        advice_lanes::not_emulated(),
        network::independent_of_pacing(),
        doctor::trials(),
        answers::trials(),
        collective::trials(),
    ];
    let others = independent_of_pacing.into_iter().filter(|_| !testbed::pacing_only());
    let trials = trials.into_iter().chain(others).flatten().collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test. It is skipped with a message if `missing` gives a reason.
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

/// The tests of a file, named after their functions.
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
