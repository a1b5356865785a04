//! A small network on one machine: sending hosts, a switch with eight queues per port, a receiving
//! host, each a network namespace; a daemon in each host if wanted.
//!
//! Everything is gone when the [`Testbed`] is dropped. Should this process be killed, the kernel
//! ends what it had started, and the namespaces, which have no names, end with that; the folder is
//! removed by the next testbed.
//!
//! Build it, and start processes, from a thread that outlives them: the kernel ties a child to
//! the thread that started it.

mod daemon;
mod host;
pub mod interrupt;
mod namespace;
pub mod privilege;
mod process;
mod scratch;
mod switch;
mod tools;

use std::path::Path;

use anyhow::{Result, ensure};
use switch_profiles::{Fidelity, Profile};

pub use host::Host;
pub use namespace::NetNs;
pub use process::{Identity, Process, Signal};
pub use scratch::own_folder;
pub use switch::PortCounters;

use scratch::Scratch;
use switch::Switch;

/// Two cores carry every host.
pub const SENDERS_MAX: usize = 64;

/// What to build.
#[derive(Clone, Debug)]
pub struct Options {
    pub senders: usize,
    /// Of every port of the switch.
    pub rate_bits_per_s: u64,
    /// Of every host's NIC.
    pub nic_rate_bits_per_s: u64,
    pub profile: Profile,
}

/// The network.
#[derive(Debug)]
pub struct Testbed {
    // Dropped in this order: daemons before their hosts, the folder last.
    daemons: Vec<Process>,
    senders: Vec<Host>,
    receiver: Host,
    switch: Switch,
    scratch: Scratch,
    nic_rate_bits_per_s: u64,
    notes: Vec<String>,
}

impl Testbed {
    /// Builds the network: needs CAP_SYS_ADMIN and CAP_NET_ADMIN in its user namespace, and `ip`
    /// and `tc`.
    ///
    /// # Errors
    /// A missing privilege or program, or what the kernel refused.
    pub fn build(options: &Options) -> Result<Testbed> {
        let &Options { senders, rate_bits_per_s, nic_rate_bits_per_s, .. } = options;
        ensure!(
            (1..=SENDERS_MAX).contains(&senders),
            "{senders} senders are outside 1 to {SENDERS_MAX}"
        );
        for rate in [rate_bits_per_s, nic_rate_bits_per_s] {
            ensure!(rate >= 8_000, "{rate} bit/s is below 8 kbit/s");
        }
        let mut testbed = Testbed {
            daemons: Vec::new(),
            switch: Switch::new()?,
            senders: (1..=senders)
                .map(|number| Host::new(&format!("sender{number}"), number))
                .collect::<Result<_>>()?,
            receiver: Host::new("receiver", senders + 1)?,
            scratch: Scratch::new()?,
            nic_rate_bits_per_s,
            notes: Vec::new(),
        };
        testbed.wire(options)?;
        Ok(testbed)
    }

    fn wire(&mut self, options: &Options) -> Result<()> {
        let hosts: Vec<&Host> = self.hosts().collect();
        self.switch.plug_in(&hosts)?;
        let notes = self.switch.apply(&hosts, options)?;
        hosts.iter().try_for_each(|host| host.configure())?;
        let missing = notes.iter().filter_map(|note| match &note.fidelity {
            Fidelity::Exact => None,
            Fidelity::NotExpressed(what) => Some((note.queue, what)),
        });
        self.notes = missing
            .map(|(queue, what)| {
                format!("queue {queue} goes without what the profile asks: {what}")
            })
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

    /// What the switch's ports can't hold to of the profile on this kernel, a line per queue.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the switch's port towards `host` has sent and dropped since it was built, queue 0 first.
    ///
    /// # Errors
    /// `tc` failed.
    pub fn port_counters(&self, host: &Host) -> Result<Vec<PortCounters>> {
        self.switch.counters(host)
    }

    /// Starts a daemon in each host and waits until all answer at their hosts' `control_socket`. `extra` goes to each one's command line.
    ///
    /// # Errors
    /// A daemon ended or didn't answer in time, with its own last words; then none runs.
    pub fn start_daemons(
        &mut self,
        binary: &Path,
        profile: Option<&Path>,
        extra: &[String],
    ) -> Result<()> {
        let started = self.try_start_daemons(binary, profile, extra);
        if started.is_err() {
            self.stop_daemons();
        }
        started
    }

    fn try_start_daemons(
        &mut self,
        binary: &Path,
        profile: Option<&Path>,
        extra: &[String],
    ) -> Result<()> {
        let launch = daemon::Launch {
            binary,
            profile,
            extra,
            rate_bits_per_s: self.nic_rate_bits_per_s,
            scratch: &self.scratch,
        };
        let hosts = self.senders.iter_mut().chain([&mut self.receiver]);
        for host in hosts {
            self.daemons.push(launch.start(host)?);
            host.control_socket = Some(launch.socket(host));
        }
        let hosts = self.senders.iter().chain([&self.receiver]);
        for (host, process) in hosts.zip(&mut self.daemons) {
            launch.wait_until_ready(host, process)?;
        }
        Ok(())
    }

    /// Ends the daemons, if they run.
    pub fn stop_daemons(&mut self) {
        for host in self.senders.iter_mut().chain([&mut self.receiver]) {
            host.control_socket = None;
        }
        daemon::stop(&mut self.daemons);
    }

    /// What a host's daemon has logged.
    pub fn daemon_log(&self, host: &Host) -> String {
        daemon::log(&self.scratch, host)
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        daemon::stop(&mut self.daemons);
    }
}
