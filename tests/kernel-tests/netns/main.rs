//! Tests complete jobs on the kernel datapath: daemons, senders and receivers in network
//! namespaces, run by their command line.
//!
//! | variable | meaning |
//! |---|---|
//! | `ATP_EBPF_OBJECT` | the eBPF object |
//! | `ATP_USER` | the daemon's binary |
//! | `ATP_BACKEND` | the pacing backend, if not the daemon's choice |
//! | `ATP_PACING_ONLY=1` | leaves out the tests that do not depend on pacing |
//! | `ATP_EMULATED=1` | the machine is too slow for a lane's rate |
//!
//! The tests run beside each other, so the assertions compare counts and ratios rather than times.
//! Tests that need a quiet machine run alone.

mod advice;
mod advice_lanes;
mod alternative_names;
mod answers;
mod bad_input;
mod bad_network;
mod beside_tcp;
mod cleanup;
mod clients;
mod closed_sockets;
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
mod metrics;
mod mixed;
mod network;
mod offload;
mod overlap;
mod pacing;
mod packet_log;
mod path_mtu;
mod planted;
mod policy;
mod polite;
mod requests;
mod sizes;
mod tenants;
mod transfer;
mod unanswered;
mod unattended;
mod unprivileged;

use atp_tests::took::timed;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // Tests that run alone stand together: each waits for the others to end.
    let independent_of_pacing = [
        collective::trials(),
        harness::trials(),
        clients::trials(),
        closed_sockets::trials(),
        bad_input::trials(),
        link_local::trials(),
        alternative_names::trials(),
        unanswered::trials(),
        advice::independent_of_pacing(),
        sizes::trials(),
        packet_log::trials(),
        path_mtu::trials(),
        planted::trials(),
        mixed::trials(),
        marking::trials(),
        offload::trials(),
        overlap::trials(),
        requests::trials(),
        membership::trials(),
        metrics::trials(),
        unprivileged::trials(),
        tenants::trials(),
        forgery::trials(),
        coverage::trials(),
        transfer::independent_of_pacing(),
        groups::independent_of_pacing(),
        pacing::independent_of_pacing(),
        congestion::not_emulated(),
        gso_buffers::independent_of_pacing(),
        cleanup::independent_of_pacing(),
        network::independent_of_pacing(),
        doctor::trials(),
        answers::trials(),
        polite::not_emulated(),
        beside_tcp::not_emulated(),
        advice::not_emulated(),
        advice_lanes::not_emulated(),
        network::alone(),
    ];
    let trials = [
        policy::trials(),
        polite::trials(),
        transfer::trials(),
        groups::trials(),
        gso_buffers::trials(),
        pacing::trials(),
        unattended::trials(),
        advice::trials(),
        advice_lanes::trials(),
        epochs::trials(),
        epochs::refusals(),
        bad_network::trials(),
        cleanup::trials(),
        network::trials(),
        network::with_fq(),
    ];
    let others = independent_of_pacing.into_iter().filter(|_| !testbed::pacing_only());
    let trials = trials.into_iter().chain(others).flatten().collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Held by a test that runs alone, and shared by the others.
static MACHINE: RwLock<()> = RwLock::new(());

/// A test. It is skipped with a message if `missing` gives a reason.
fn trial(
    name: &'static str,
    missing: fn() -> Option<String>,
    test: fn() -> anyhow::Result<()>,
) -> Trial {
    Trial::ignorable_test(name, move || {
        let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
        run(name, missing, test)
    })
}

/// Like [`trial`], for a test that loads the machine or the kernel so much that others would fail
/// beside it.
fn trial_alone(
    name: &'static str,
    missing: fn() -> Option<String>,
    test: fn() -> anyhow::Result<()>,
) -> Trial {
    Trial::ignorable_test(name, move || {
        let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        run(name, missing, test)
    })
}

fn run(
    name: &str,
    missing: fn() -> Option<String>,
    test: fn() -> anyhow::Result<()>,
) -> Result<Completion, Failed> {
    if let Some(reason) = missing() {
        println!("skipped: {name}: {reason}");
        return Ok(Completion::ignored_with(reason));
    }
    testbed::take_logs();
    match timed(name, test) {
        Ok(()) => Ok(Completion::Completed),
        Err(error) => Err(Failed::from(format!("{error:#}\n{}", testbed::take_logs()))),
    }
}

/// The tests of a file, named after their functions.
macro_rules! trials {
    (fn $list:ident, if $missing:ident: $($test:ident,)*) => {
        pub fn $list() -> Vec<libtest_mimic::Trial> {
            let missing = testbed::$missing;
            vec![$(crate::trial(stringify!($test), missing, $test)),*]
        }
    };
    (fn $list:ident: $($test:ident,)*) => {
        crate::trials! { fn $list, if missing: $($test,)* }
    };
    (if $missing:ident: $($test:ident,)*) => {
        crate::trials! { fn trials, if $missing: $($test,)* }
    };
    ($($test:ident,)*) => { crate::trials! { fn trials, if missing: $($test,)* } };
}
use trials;
