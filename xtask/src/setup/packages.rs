//! Installs programs from a distribution's packages.

use super::Provider;
use super::machine::find_command;

/// Programs, the Debian packages that bring them, and how to get them elsewhere.
pub(super) struct Packages {
    name: &'static str,
    commands: &'static [&'static str],
    debian: &'static [&'static str],
    elsewhere: &'static str,
}

pub(super) const IPROUTE2: Packages = Packages {
    name: "iproute2",
    commands: &["ip", "tc"],
    debian: &["iproute2"],
    elsewhere: "your package manager for iproute2 (Fedora: `dnf install iproute-tc`)",
};

pub(super) const ETHTOOL: Packages = Packages {
    name: "ethtool",
    commands: &["ethtool"],
    debian: &["ethtool"],
    elsewhere: "your package manager for ethtool (Fedora: `dnf install ethtool`)",
};

pub(super) const IPERF3: Packages = Packages {
    name: "iperf3",
    commands: &["iperf3"],
    debian: &["iperf3"],
    elsewhere: "your package manager for iperf3 (Fedora: `dnf install iperf3`)",
};

pub(super) const TSHARK: Packages = Packages {
    name: "tshark",
    commands: &["tshark"],
    debian: &["tshark"],
    elsewhere: "your package manager for tshark (Fedora: `dnf install wireshark-cli`)",
};

/// kmod finds the modules of the guest's initramfs; QEMU runs the guest.
pub(super) const QEMU: Packages = Packages {
    name: "QEMU",
    commands: &["qemu-system-x86_64", "modprobe", "depmod"],
    debian: &["qemu-system-x86", "kmod"],
    elsewhere: "your package manager for QEMU (x86) and kmod, or leave out the virtual machine: `cargo xtask test --no-vm`",
};

impl Provider for Packages {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn probe(&self) -> Option<String> {
        let place = |command: &&str| Some(find_command(command)?.display().to_string());
        let places: Option<Vec<String>> = self.commands.iter().map(place).collect();
        Some(places?.join(", "))
    }

    fn debian_packages(&self) -> Vec<String> {
        self.debian.iter().map(ToString::to_string).collect()
    }

    fn by_hand(&self) -> String {
        self.elsewhere.to_owned()
    }
}
