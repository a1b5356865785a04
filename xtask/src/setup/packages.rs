//! Installs programs from a distribution's packages.

use std::process::Command;

use super::machine::find_command;
use super::{Provider, shell};

/// Programs, the Debian packages that bring them, and what to do elsewhere.
pub struct Packages {
    name: &'static str,
    commands: &'static [&'static str],
    /// A library with its headers, as pkg-config names it.
    library: Option<&'static str>,
    debian: &'static [&'static str],
    elsewhere: &'static str,
}

pub const IPROUTE2: Packages = Packages {
    name: "iproute2",
    commands: &["ip", "tc"],
    library: None,
    debian: &["iproute2"],
    elsewhere: " (Fedora: `dnf install iproute-tc`)",
};
pub const ETHTOOL: Packages = program(&["ethtool"], " (Fedora: `dnf install ethtool`)");
pub const IPERF3: Packages = program(&["iperf3"], " (Fedora: `dnf install iperf3`)");
pub const TSHARK: Packages = program(&["tshark"], " (Fedora: `dnf install wireshark-cli`)");
/// The first makes a system. The others boot it, or make the image of a virtual machine.
pub const CLEAN_DEBIAN: Packages = Packages {
    name: "mmdebstrap, systemd-nspawn and mkfs.ext4",
    commands: &["mmdebstrap", "systemd-nspawn", "mkfs.ext4"],
    library: None,
    debian: &["mmdebstrap", "systemd-container", "e2fsprogs"],
    elsewhere: "",
};
/// kmod finds the modules of the guest's initramfs; QEMU runs the guest.
pub const QEMU: Packages = Packages {
    name: "QEMU (x86) and kmod",
    commands: &["qemu-system-x86_64", "modprobe", "depmod"],
    library: None,
    debian: &["qemu-system-x86", "kmod"],
    elsewhere: ", or leave out the virtual machine: `cargo xtask test` without --full",
};
/// Rust's binding builds its own librdkafka, with `configure` and `make`, against the system's
/// OpenSSL. It carries zstd, and zlib for systems without it. The tests make certificates with the
/// last program.
pub const LIBRDKAFKA: Packages = Packages {
    name: "the compilers, make, pkg-config and OpenSSL's headers for librdkafka",
    commands: &["cc", "c++", "make", "pkg-config", "openssl"],
    library: Some("openssl"),
    debian: &["g++", "make", "pkg-config", "libssl-dev", "openssl"],
    elsewhere: " (Fedora: `dnf install gcc-c++ make pkgconf openssl openssl-devel`)",
};

/// A program of its own, whose package has the same name.
const fn program(name: &'static [&'static str; 1], elsewhere: &'static str) -> Packages {
    Packages { name: name[0], commands: name, library: None, debian: name, elsewhere }
}

impl Provider for Packages {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn probe(&self) -> Option<String> {
        let place = |command: &&str| Some(find_command(command)?.display().to_string());
        let places: Option<Vec<String>> = self.commands.iter().map(place).collect();
        let mut has_library = Command::new("pkg-config");
        let has = |library| shell::output(has_library.args(["--exists", library])).is_ok();
        places.filter(|_| self.library.is_none_or(has)).map(|places| places.join(", "))
    }

    fn debian_packages(&self) -> Vec<String> {
        self.debian.iter().map(ToString::to_string).collect()
    }

    fn by_hand(&self) -> String {
        format!("your package manager for {}{}", self.name, self.elsewhere)
    }
}
