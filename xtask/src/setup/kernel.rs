//! Debian's 6.12 kernel for the virtual machine, and the static busybox of its initramfs:
//! downloaded and unpacked, never installed, so that this machine's boot loader, initramfs and
//! busybox stay as they are.

use std::process::Command;

use anyhow::{Context, Result};

use super::machine::{Machine, find_command};
use super::{Need, Provider, paths, shell};

/// Packages that only name the newest image: bookworm's (security archive), then trixie's.
const META_PACKAGES: [&str; 2] = ["linux-image-6.12-amd64", "linux-image-amd64"];

pub struct VmKernel;

impl Provider for VmKernel {
    fn name(&self) -> String {
        "guest kernel".to_owned()
    }

    fn requires(&self) -> &'static [Need] {
        // depmod
        &[&super::QEMU]
    }

    fn probe(&self) -> Option<String> {
        paths().vm_busybox()?;
        Some(paths().vm_kernel()?.display().to_string())
    }

    fn can_install(&self) -> bool {
        let has_apt = Machine::this().has_apt();
        cfg!(target_arch = "x86_64") && has_apt && find_command("dpkg-deb").is_some()
    }

    fn plan(&self) -> String {
        let root = paths().vm_root.display();
        format!("unpacking Debian's 6.12 kernel into {root} (not installing it), 107 MB")
    }

    fn install(&self) -> Result<()> {
        let machine = Machine::this();
        machine.apt_update();
        let package = image_package()?;
        let root = &paths().vm_root;
        std::fs::create_dir_all(root.parent().context("no folder for the kernel")?)?;
        machine.apt_unpack("busybox-static", &paths().vm_busybox_root)?;
        machine.apt_unpack(&package, root)?;
        let version = package.strip_prefix("linux-image-").unwrap_or(&package);
        let depmod = find_command("depmod").context("depmod is not there")?;
        shell::output(Command::new(depmod).args(["-a", "-b"]).arg(root).arg(version)).map(drop)
    }

    fn by_hand(&self) -> String {
        if !Machine::this().has_apt() {
            return "cargo xtask test without --full".to_owned();
        }
        let [root, busybox] = [&paths().vm_root, &paths().vm_busybox_root].map(|p| p.display());
        format!(
            "apt-get download linux-image-6.12.* busybox-static && dpkg-deb -x linux-image*.deb \
             {root} && dpkg-deb -x busybox-static*.deb {busybox} (or leave the virtual machine \
             out: cargo xtask test without --full)"
        )
    }
}

/// The package that holds the newest 6.12 image.
fn image_package() -> Result<String> {
    let depends = |meta| {
        let mut depends = Command::new("apt-cache");
        shell::output(depends.args(["depends", meta]).env("LC_ALL", "C")).ok()
    };
    let package = META_PACKAGES.into_iter().filter_map(depends).find_map(|said| image_of(&said));
    package.context("apt knows no linux-image-6.12 package")
}

fn image_of(depends: &str) -> Option<String> {
    let packages = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let mut images = packages.filter(|package| package.starts_with("linux-image-6.12."));
    images.next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_of_reads_the_meta_package() {
        let said = "linux-image-6.12-amd64\n  Depends: linux-image-6.12.117+deb12-amd64\n";
        assert_eq!(image_of(said).as_deref(), Some("linux-image-6.12.117+deb12-amd64"));
        assert_eq!(image_of("linux-image-amd64\n  Depends: linux-image-6.1.0-40-amd64\n"), None);
    }
}
