//! The virtual machine: virtme-ng boots the unpacked kernel on this machine's root file system,
//! which is read-only but for one folder. A script goes in through that folder and its output comes
//! out.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::setup;
use crate::test::capability::Place;
use crate::test::kernel::{KernelTests, Start};
use crate::test::{host, logs};

use super::script::{self, TEST_LIMIT, quoted};
use super::{FAULT_ROWS, programs};
use test_report::{GuestReader, Tally, watch};

/// A kernel boots under KVM in two or three seconds.
const KVM_PROBE_LIMIT: Duration = Duration::from_secs(25);
const BOOT_LIMIT: Duration = Duration::from_secs(3 * 60);
/// Emulation without CMPXCHG16B, which Linux allocates memory with. With it, its kernel now and
/// then dies there with impossible flags, as another did with CMPXCHG8B
/// (github.com/ClangBuiltLinux/linux/issues/1437).
const EMULATED_PROCESSOR: &str = "-cpu max,-cx16";

/// The results of the tests in a guest.
pub struct Ran {
    /// One for each start of a binary.
    pub tallies: Vec<Tally>,
    /// The guest ended by itself, before any limit.
    pub ended_by_itself: bool,
    /// The guest ended by itself before the tests did.
    pub death: Option<Death>,
}

#[derive(Clone, Copy)]
pub struct Death {
    /// The number of the first test without an end.
    pub at: usize,
    /// The console shows that the emulator is at fault.
    pub is_of_emulator: bool,
}

pub struct Guest {
    kernel: PathBuf,
    pub release: String,
    /// The only folder that the guest can write to.
    shared: PathBuf,
    /// A script that runs QEMU and says how it ended: vng doesn't.
    qemu: PathBuf,
    /// The reason why QEMU emulates; `None` with KVM.
    pub emulated: Option<String>,
}

impl Guest {
    /// Boots once with KVM to find out whether it works here.
    pub fn new() -> Result<Guest> {
        let kernel = setup::paths().vm_kernel().context("the guest's kernel is gone")?;
        let name = kernel.file_name().and_then(|name| name.to_str()?.strip_prefix("vmlinuz-"));
        let release = name.context("the guest's kernel has an odd name")?.to_owned();
        let shared = setup::paths().target.join("vm/shared");
        std::fs::create_dir_all(&shared)?;
        let qemu = shared.with_file_name("qemu");
        let mut guest = Guest { kernel, release, shared, qemu, emulated: None };
        guest.write_qemu("")?;
        guest.emulated = guest.why_emulated()?;
        if guest.emulated.is_some() && cfg!(target_arch = "x86_64") {
            guest.write_qemu(EMULATED_PROCESSOR)?;
        }
        Ok(guest)
    }

    pub fn place(&self) -> Place {
        let modules = setup::paths().vm_root.join("lib/modules").join(&self.release);
        let emulated = self.emulated.is_some();
        Place::Guest { release: self.release.clone(), modules, emulated }
    }

    /// Removes the rows that the fault tests of an earlier run left. A repetition of some tests
    /// appends to the rows of the first attempt.
    pub fn forget_fault_rows(&self) -> Result<()> {
        remove_if_there(&self.shared.join(FAULT_ROWS))
    }

    fn why_emulated(&self) -> Result<Option<String>> {
        if std::fs::File::options().read(true).write(true).open("/dev/kvm").is_err() {
            return Ok(Some("no access to /dev/kvm".to_owned()));
        }
        let mark = self.shared.join("kvm-booted");
        remove_if_there(&mark)?;
        let script = self.write_script("probe.sh", &format!("touch {}\n", quoted(&mark)))?;
        let log = logs::path("kvm-probe")?;
        watch::build(self.boot(&script), &log, KVM_PROBE_LIMIT, |_| {})?;
        let why = || format!("KVM doesn't boot this kernel here: {}", complaint(&log));
        Ok((!mark.exists()).then(why))
    }

    /// Boots and runs these binaries. `attempt` distinguishes the logs of this boot.
    pub fn run_tests(&self, tests: &KernelTests, starts: &[Start], attempt: &str) -> Result<Ran> {
        let words = self.shared.join("guest.log");
        remove_if_there(&words)?;
        let packed = self.shared.join("programs");
        programs::pack(tests, starts, &packed)?;
        let script = script::text(tests, starts, [&words, &packed], self.emulated.is_some());
        let script = self.write_script("guest.sh", &script)?;
        let log = logs::path(&format!("vm-console{attempt}"))?;
        let named = |start: &Start| (start.binary.name.clone(), start.filter.map(str::to_owned));
        let mut reader = GuestReader::new(starts.iter().map(named).collect());
        let (guest, logs) = (self.boot(&script), [log.as_path(), words.as_path()]);
        let end = watch::run_following(guest, logs, BOOT_LIMIT, limit_after, |line| {
            host::show_progress(line);
            if let Some(ended) = reader.line(line) {
                atp_output::note!("  {ended}");
            }
        })?;
        let kept = logs::path(&format!("vm-tests{attempt}"))?;
        // Without the file the guest never reached the script, which the report shows.
        if words.exists() {
            std::fs::copy(&words, &kept)?;
        }
        let ended_by_itself = end.by_itself;
        let ended = reader.ended();
        let death = (ended_by_itself && ended < starts.len()).then(|| {
            let console = std::fs::read(&log).unwrap_or_default();
            let console = String::from_utf8_lossy(&console);
            Death { at: ended, is_of_emulator: shows_emulator_s_fault(&console) }
        });
        let tallies = reader.finish(end.trouble);
        if death.is_none() {
            logs::show_failures(&tallies, if words.exists() { &kept } else { &log });
        }
        if death.is_some() {
            // The console has the reason for the death.
            logs::show_end(&log);
        }
        Ok(Ran { tallies, ended_by_itself, death })
    }

    fn write_script(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.shared.join(name);
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
        Ok(path)
    }

    /// Writes the script that runs QEMU, with these options more. Where it may, it goes before the
    /// tests beside it: they mostly wait, and a guest that is kept waiting is too slow for its own.
    fn write_qemu(&self, options: &str) -> Result<()> {
        let text = format!(
            "#!/bin/sh\n\
             nice -n -10 qemu-system-$(uname -m) \"$@\" {options}\nstatus=$?\n\
             [ $status = 0 ] || echo \"QEMU ended with status $status\" >&2\nexit $status\n"
        );
        let path = &self.qemu;
        std::fs::write(path, text).with_context(|| format!("can't write {}", path.display()))?;
        Ok(std::fs::set_permissions(path, Permissions::from_mode(0o755))?)
    }

    fn boot(&self, script: &Path) -> Command {
        let paths = setup::paths();
        let programs = paths.venv.join("bin");
        let mut vng = Command::new(programs.join("vng"));
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        vng.env("PATH", format!("{}:{path}", programs.display()));
        vng.current_dir(&self.shared);
        // Debian 12's virtiofsd is too old for virtme-ng, which finds out after five seconds.
        vng.arg("--run").arg(&self.kernel).args(["--force-9p", "--memory=4G"]);
        vng.arg("--qemu").arg(&self.qemu);
        // The kernel's messages: a panic is among them. After an oops a kernel may go on for an
        // hour without doing anything.
        vng.args(["--verbose", "--append", "oops=panic"]);
        // One of the emulator's faults needs two processors.
        vng.arg(format!("--cpus={}", if self.emulated.is_some() { 1 } else { 2 }));
        if let Some(busybox) = paths.vm_busybox() {
            vng.arg("--busybox").arg(busybox);
        }
        if self.emulated.is_some() {
            vng.arg("--disable-kvm");
        }
        vng.arg("--rwdir").arg(&self.shared).args(["--user", "root"]);
        vng.args(["--", "sh"]).arg(script);
        vng
    }
}

/// The limit that begins with a mark of the script. The guest ends a test that hangs: this is for a
/// kernel that does.
fn limit_after(line: &str) -> Option<Duration> {
    line.starts_with("== ").then_some(TEST_LIMIT + Duration::from_secs(60))
}

fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("can't remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Whether a kernel's last words show a fault of QEMU's emulation, seen with version 7.2:
///
/// - flags that no processor has: the bits from 22 on are always 0. A double fault follows, in any
///   code, about once in a quarter of an hour of these tests;
/// - a breakpoint that the kernel had set while it patched its code, and that is gone
///   (github.com/multipath-tcp/mptcp_net-next/issues/471).
fn shows_emulator_s_fault(console: &str) -> bool {
    let flags = console.split("EFLAGS: ").skip(1);
    let mut flags = flags.filter_map(|rest| u32::from_str_radix(rest.get(..8)?, 16).ok());
    flags.any(|flags| flags >> 22 != 0) || console.contains("int3: 0000")
}

/// The first line of a console log that reports an error.
fn complaint(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let said = text.lines().find(|line| line.contains("error") || line.contains("failed"));
    said.map_or_else(
        || format!("not booted after {} s", KVM_PROBE_LIMIT.as_secs()),
        |line| line.trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_emulator_s_fault__by_flags_or_a_breakpoint() {
        let of =
            |flags| format!("Oops: double fault\n[  7.3] RSP: 0018:ff64c2b1 EFLAGS: {flags}\n");
        assert!(shows_emulator_s_fault(&of("857f4202")));
        assert!(shows_emulator_s_fault(&(of("00010246") + &of("00400202"))));
        assert!(shows_emulator_s_fault("[ 7.3] int3: 0000 [#1] PREEMPT SMP"));
        for other in ["00010246", "00250fd7", "", "short"] {
            assert!(!shows_emulator_s_fault(&of(other)), "{other}");
        }
    }
}
