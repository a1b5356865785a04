//! EarlySend (NetApprox §2.2): all senders send their messages, and stop once any MSR*N messages
//! are delivered.

use anyhow::Result;

use super::super::control::Control;
use super::super::protocol::SenderReport;
use super::{Received, ReceiverSetup, Scheme, SenderSetup, tcp};

pub struct TcpEarlySend;

impl Scheme for TcpEarlySend {
    fn receive(&self, setup: &ReceiverSetup, control: &mut Control) -> Result<Received> {
        tcp::receive(setup, control, setup.needed())
    }

    fn send(&self, setup: &SenderSetup, control: &mut Control) -> Result<SenderReport> {
        tcp::send(setup, control, setup.dealt())
    }
}
