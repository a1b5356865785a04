//! Runs every eBPF program by `BPF_PROG_TEST_RUN` on valid, short, foreign and hostile packets.
//! The daemon's loader loads the programs.

mod ack;
mod arrivals;
mod consume;
mod egress;
mod foreign;
mod hostile;
mod ingress;
mod law;
mod membership;
mod pacing;
mod packet_log;
mod probe;

use atp_tests::capability::{Need, Suite};
use libtest_mimic::Arguments;
use std::process::ExitCode;

/// The requirements of every test here.
const NEEDS: &[Need] = &[Need::Root, Need::EbpfObject];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut suite = Suite::new(&arguments);
    egress::add(&mut suite);
    pacing::add(&mut suite);
    membership::add(&mut suite);
    ack::add(&mut suite);
    ingress::add(&mut suite);
    arrivals::add(&mut suite);
    consume::add(&mut suite);
    probe::add(&mut suite);
    law::add(&mut suite);
    foreign::add(&mut suite);
    hostile::add(&mut suite);
    packet_log::add(&mut suite);
    suite.run(&arguments)
}
