//! A network with a switch: sending hosts, a switch with eight queues or one per port, a receiving
//! host, and optionally a daemon in each host.
//!
//! Everything is removed when the [`Testbed`] is dropped. If the owning process is killed, the
//! kernel ends the testbed's processes and unnamed namespaces. The next testbed removes the
//! folders.

mod port;
mod switch;

use std::path::Path;

use anyhow::{Result, ensure};
use switch_profiles::{Fidelity, Profile};

pub use switch::PortCounters;

use crate::host::{Daemon, Host, Launch};
use crate::iproute;
use crate::scratch::Scratch;
use port::Port;
use switch::Switch;

/// A full frame on an Ethernet line, with preamble and gap.
const FRAME_BYTES_ON_WIRE: u64 = 1_538;
/// A full frame as Linux's shapers count it.
const FRAME_BYTES_OF_SHAPERS: u64 = 1_514;

/// The maximum number of senders: two cores carry every host.
pub const SENDERS_MAX: usize = 64;

/// The parameters of the network.
#[derive(Clone, Debug)]
pub struct Options {
    pub senders: usize,
    /// The rate of every port of the switch.
    pub rate_bits_per_s: u64,
    /// The rate of every host's NIC.
    pub nic_rate_bits_per_s: u64,
    /// The rate of the receiver's port and NIC, if it isn't that of the others.
    pub receiver_rate_bits_per_s: Option<u64>,
    pub profile: Profile,
}

impl Options {
    /// The rates of the port and the NIC of a host, bits per second.
    fn rates(&self, is_receiver: bool) -> (u64, u64) {
        let (port, nic) = (self.rate_bits_per_s, self.nic_rate_bits_per_s);
        match self.receiver_rate_bits_per_s.filter(|_| is_receiver) {
            Some(rate) => (rate, rate),
            None => (port, nic),
        }
    }
}

/// The network with its hosts and daemons.
#[derive(Debug)]
pub struct Testbed {
    // The order of drops: daemons before their hosts, the folder last.
    daemons: Vec<Daemon>,
    senders: Vec<Host>,
    receiver: Host,
    switch: Switch,
    scratch: Scratch,
    options: Options,
    notes: Vec<String>,
}

impl Testbed {
    /// Builds the network. This needs `ip`, `tc`, and CAP_SYS_ADMIN and CAP_NET_ADMIN in the
    /// process's user namespace.
    ///
    /// # Errors
    /// A missing privilege or program, or the kernel's refusal.
    pub fn build(options: &Options) -> Result<Testbed> {
        let senders = options.senders;
        let (receiver_port, receiver_nic) = options.rates(true);
        ensure!(
            (1..=SENDERS_MAX).contains(&senders),
            "{senders} senders are outside 1 to {SENDERS_MAX}"
        );
        let rates = [options.rate_bits_per_s, options.nic_rate_bits_per_s];
        for rate in rates.into_iter().chain([receiver_port, receiver_nic]) {
            ensure!(rate >= 8_000, "{rate} bit/s is below 8 kbit/s");
        }
        let mut testbed = Testbed {
            daemons: Vec::new(),
            switch: Switch::new()?,
            senders: (1..=senders)
                .map(|number| Port::new(number)?.host(&format!("sender{number}")))
                .collect::<Result<_>>()?,
            receiver: Port::new(senders + 1)?.host("receiver")?,
            scratch: Scratch::new()?,
            options: options.clone(),
            notes: Vec::new(),
        };
        testbed.wire()?;
        Ok(testbed)
    }

    fn wire(&mut self) -> Result<()> {
        let hosts: Vec<&Host> = self.hosts().collect();
        self.switch.plug_in(&hosts)?;
        let notes = self.switch.apply(&self.senders, &self.receiver, &self.options)?;
        hosts.iter().try_for_each(|host| port::configure(host))?;
        self.switch.wait_until_links_are_up()?;
        hosts.iter().try_for_each(|host| iproute::wait_until_links_are_up(&host.namespace))?;
        let missing = notes.iter().filter_map(|note| match &note.fidelity {
            Fidelity::Exact => None,
            Fidelity::NotExpressed(what) => Some((note.queue, what)),
        });
        self.notes = missing
            .map(|(queue, what)| format!("queue {queue} lacks a part of its profile: {what}"))
            .collect();
        Ok(())
    }

    pub fn senders(&self) -> &[Host] {
        &self.senders
    }

    pub fn receiver(&self) -> &Host {
        &self.receiver
    }

    /// All hosts, the receiver last.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.senders.iter().chain([&self.receiver])
    }

    /// A folder that lives as long as the testbed.
    pub fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// The parts of the profile that this kernel can't express, a line per queue.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The profile of the switch's ports.
    pub fn profile(&self) -> &Profile {
        &self.options.profile
    }

    /// Gives the switch's ports the queue limits of another profile.
    ///
    /// # Errors
    /// `tc` failed.
    pub fn set_profile(&mut self, profile: Profile) -> Result<()> {
        if self.options.profile == profile {
            return Ok(());
        }
        let dscps_of = |profile: &Profile| -> Vec<Vec<u8>> {
            profile.queues().iter().map(|queue| queue.dscp.clone()).collect()
        };
        ensure!(
            dscps_of(&self.options.profile) == dscps_of(&profile),
            "the profiles of the schemes have different code points: run them one by one"
        );
        let options = Options { profile, ..self.options.clone() };
        self.switch.limit(&self.senders, &self.receiver, &options)?;
        self.options = options;
        Ok(())
    }

    /// The counters of the switch's port towards `host`, queue 0 first, one for each queue of the
    /// profile.
    ///
    /// # Errors
    /// `tc` failed.
    pub fn port_counters(&self, host: &Host) -> Result<Vec<PortCounters>> {
        self.switch.counters(host, self.options.profile.queues().len())
    }

    /// The rate of the Ethernet line to the receiving host that the shapers stand for. They leave
    /// out a frame's checksum, preamble and gap, and advice is in bytes on the wire.
    pub fn receiver_line_rate_bits_per_s(&self) -> u64 {
        let (_, receiver_rate) = self.options.rates(true);
        receiver_rate * FRAME_BYTES_ON_WIRE / FRAME_BYTES_OF_SHAPERS
    }

    /// Starts a daemon in each host, at the rate of its NIC, and waits until all answer. The
    /// receiving host's daemon gets the rate of its line.
    ///
    /// # Errors
    /// A daemon ended or didn't answer in time; the error holds the end of its log. No daemon runs
    /// then.
    pub fn start_daemons(&mut self, launch: &Launch, profile: Option<&Path>) -> Result<()> {
        let mut launch = launch.clone();
        let profile = profile.unwrap_or(Path::new("default"));
        launch.options.extend(["--profile".into(), profile.into()]);
        let started = self.try_start_daemons(&launch);
        if started.is_err() {
            self.stop_daemons();
        }
        started
    }

    fn try_start_daemons(&mut self, launch: &Launch) -> Result<()> {
        let line_rate = self.receiver_line_rate_bits_per_s();
        let senders = self.senders.iter().map(|host| (host, self.options.nic_rate_bits_per_s));
        for (host, rate) in senders.chain([(&self.receiver, line_rate)]) {
            let mut launch = launch.clone();
            launch.options.splice(..0, ["--rate-max".into(), format!("{rate}bit").into()]);
            self.daemons.push(Daemon::spawn(host, &launch)?);
        }
        self.daemons.iter_mut().try_for_each(Daemon::wait_until_it_answers)
    }

    /// Ends the daemons that run.
    pub fn stop_daemons(&mut self) {
        Daemon::stop_all(&mut self.daemons);
    }

    /// The control socket of a host's daemon, while one runs.
    pub fn control_socket(&self, host: &Host) -> Option<&Path> {
        self.daemon(host).map(Daemon::socket)
    }

    /// The log of a host's daemon, while one runs.
    pub fn daemon_log(&self, host: &Host) -> String {
        self.daemon(host).map(Daemon::log).unwrap_or_default()
    }

    /// The process ids of the daemons that run.
    pub fn daemon_ids(&self) -> impl Iterator<Item = u32> {
        self.daemons.iter().map(Daemon::process_id)
    }

    fn daemon(&self, host: &Host) -> Option<&Daemon> {
        self.daemons.iter().find(|daemon| daemon.host() == host.name)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.stop_daemons();
    }
}
