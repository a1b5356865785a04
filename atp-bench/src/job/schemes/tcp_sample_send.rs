//! SampleSend (NetApprox §2.2): `ceil(MSR * N)` messages are drawn before sending starts, and all
//! of them must be delivered.

use anyhow::Result;

use super::super::control::Control;
use super::super::messages::{needed, sample};
use super::super::protocol::SenderReport;
use super::{Received, ReceiverSetup, Scheme, SenderSetup, tcp};

pub struct TcpSampleSend;

impl Scheme for TcpSampleSend {
    fn receive(&self, setup: &ReceiverSetup, control: &mut Control) -> Result<Received> {
        tcp::receive(setup, control, setup.needed())
    }

    /// All senders draw the same sample from the job's seed. Each sends its part of the sample.
    fn send(&self, setup: &SenderSetup, control: &mut Control) -> Result<SenderReport> {
        let count = setup.messages.count();
        let senders = setup.job.sources.len();
        let sample = sample(count, needed(setup.job.msr, count), setup.job.seed);
        let own = sample.into_iter().filter(|index| index % senders == setup.sender);
        tcp::send(setup, control, own)
    }
}
