//! The programs of a cell at the receiving host.

use std::net::SocketAddr;

use anyhow::Result;
use testbed::{Process, Testbed};

use super::engine::Engine;
use super::flink;
use super::programs::{lines, load, require_running, start_bridge, topic_share, wait_until};
use super::row::{Cell, PARTITIONS, WINDOW_MS};
use super::scheme::Scheme;
use super::summary::Line;
use crate::installed;
use crate::process_state::processor_s;

const WINDOWS_PORT: u16 = 4_747;

/// The programs that carry windows to the receiving host and answer them.
pub struct Receivers {
    /// The bridge, if there is one.
    pub bridge: Option<Process>,
    /// One, or the processes of an engine.
    pub receivers: Vec<Process>,
}

impl Receivers {
    /// The lines of all receivers.
    pub fn lines(&self) -> Result<Vec<Line>> {
        let lines = self.receivers.iter().map(lines).collect::<Result<Vec<_>>>()?;
        Ok(lines.concat())
    }

    /// Fails if one of them has ended.
    pub fn require_running(&mut self) -> Result<()> {
        for receiver in &mut self.receivers {
            require_running(receiver, "the receiver")?;
        }
        self.bridge.iter_mut().try_for_each(|bridge| require_running(bridge, "atp-kafka send"))
    }

    /// The processor time of the bridge and of the receivers, seconds.
    pub fn processor_s(&self) -> Result<(f64, f64)> {
        let bridge = self.bridge.as_ref().map_or(Ok(0.0), |bridge| processor_s(bridge.id()))?;
        let receivers = self.receivers.iter().map(|receiver| processor_s(receiver.id()));
        Ok((bridge, receivers.sum::<Result<f64>>()?))
    }
}

/// Starts the receiver, and for ATP the bridge, and waits until records would arrive.
pub fn start(cell: &Cell, testbed: &Testbed) -> Result<Receivers> {
    let (broker, host) = (&testbed.senders()[0], testbed.receiver());
    if cell.engine == Engine::Flink {
        let receivers = flink::start(cell, testbed)?;
        let peers: Vec<_> = flink::addresses(host).collect();
        let is_atp = cell.scheme == Some(Scheme::Atp);
        let bridge = is_atp.then(|| start_bridge(cell, testbed, &peers)).transpose()?;
        return Ok(Receivers { bridge, receivers });
    }
    if cell.scheme != Some(Scheme::Atp) {
        let mut command = load(host, broker, "consume")?;
        command.args(["--partitions", &PARTITIONS.to_string()]);
        command.args(["--window-ms", &WINDOW_MS.to_string()]);
        command.args(["--share", &topic_share(cell).to_string()]);
        let mut receiver = Process::captured("the plain consumer", command)?;
        wait_until(&mut receiver, "the plain consumer", |process| {
            Ok(lines(process)?.contains(&Line::Ready))
        })?;
        return Ok(Receivers { bridge: None, receivers: vec![receiver] });
    }
    let address = SocketAddr::new(host.ipv4.into(), WINDOWS_PORT);
    let line_rate = testbed.receiver_line_rate_bits_per_s() / 8;
    let mut command = host.namespace.command(installed::kafka_load()?);
    command.env_remove("ATP_SOCKET").arg("windows").args(["--listen", &address.to_string()]);
    command.args(["--line-rate-bytes-per-s", &line_rate.to_string()]);
    if let Some(socket) = testbed.control_socket(host) {
        command.arg("--control-socket").arg(socket);
    }
    let mut receiver = Process::captured("the receiver of windows", command)?;
    wait_until(&mut receiver, "the receiver of windows", |process| {
        Ok(lines(process)?.contains(&Line::Ready))
    })?;
    let bridge = start_bridge(cell, testbed, &[address])?;
    Ok(Receivers { bridge: Some(bridge), receivers: vec![receiver] })
}
