//! `BPF_PROG_TEST_RUN` of every program, through the daemon's loader: good, short, foreign and
//! hostile packets.

mod ack;
mod consume;
mod egress;
mod foreign;
mod hostile;
mod ingress;
mod law;
mod membership;
mod pacing;
mod probe;

use atp_tests::capability::{Need, Suite};
use libtest_mimic::Arguments;
use std::process::ExitCode;
use testbed::privilege::is_root;

/// What every test here needs.
const NEEDS: &[Need] = &[Need::Root, Need::EbpfObject];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    if is_root() && !arguments.list {
        own_network();
    }
    let mut suite = Suite::new(&arguments);
    egress::add(&mut suite);
    pacing::add(&mut suite);
    membership::add(&mut suite);
    ack::add(&mut suite);
    ingress::add(&mut suite);
    consume::add(&mut suite);
    probe::add(&mut suite);
    law::add(&mut suite);
    foreign::add(&mut suite);
    hostile::add(&mut suite);
    suite.run(&arguments)
}

/// Clones that the programs send go to a loopback that nobody else has. Before any thread starts, so
/// that all of them are there.
fn own_network() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("root may do this");
}
