//! The third rung: the kernel tests on Debian's 6.12 in a virtual machine, with the fq backend.
//!
//! virtme-ng boots the unpacked kernel on this machine's root file system, read-only but for one
//! folder, through which a script goes in and its output comes out. KVM is used if it boots that
//! kernel; on nested hosts it often doesn't, and then QEMU emulates.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Rung;
use super::capability::Place;
use super::host::show_progress;
use super::kernel::{self, KernelTests};
use super::stage;
use super::tally::{Reader, Tally};
use crate::setup;

/// A kernel boots under KVM in two or three seconds.
const KVM_PROBE_LIMIT: Duration = Duration::from_secs(25);
const BOOT_LIMIT: Duration = Duration::from_secs(3 * 60);
/// For each binary, inside the guest; emulation is about ten times slower than the machine. Other
/// work on the machine may double that; a test that hangs is noticed sooner, by its silence.
const BINARY_LIMIT: Duration = Duration::from_secs(25 * 60);
const BACKEND: &str = "fq";
/// Where the fault tests leave their rows for `cargo xtask faults-table`.
const FAULT_ROWS: &str = "faults.json";

pub fn run(tests: &KernelTests, filter: Option<&str>) -> Result<Rung> {
    if let Err(why) = &tests.object {
        return left_out(tests, filter, &format!("no eBPF programs to test: {why}"));
    }
    if let Err(why) = setup::obtainable(setup::TEST_VM) {
        return left_out(tests, filter, &why);
    }
    setup::ensure(setup::TEST_VM)?;
    let machine = Guest::new()?;
    let acceleration = machine.acceleration()?;
    println!(
        "kernel tests on Linux {} in a virtual machine ({}), {BACKEND} backend",
        machine.release,
        acceleration.describe()
    );
    let mut ran = machine.run_tests(tests, filter, &acceleration, "")?;
    if ran.died {
        // An emulated kernel that dies takes all results of its tests along. Twice is no accident.
        println!("  the guest died in the middle of its tests: all of them once more");
        ran = machine.run_tests(tests, filter, &acceleration, "-again")?;
    }
    Ok(Rung { place: machine.place(), tally: ran.tally })
}

/// Every test of this rung as skipped.
pub fn left_out(tests: &KernelTests, filter: Option<&str>, reason: &str) -> Result<Rung> {
    println!("kernel tests in a virtual machine: left out: {reason}");
    let tally = tests.all_skipped(filter, reason)?;
    let release = "6.12".to_owned();
    Ok(Rung { place: Place::Guest { release, modules: PathBuf::new() }, tally })
}

/// What became of the tests in a guest.
struct Ran {
    tally: Tally,
    /// The guest ended by itself before one of the binaries did.
    died: bool,
}

enum Acceleration {
    Kvm,
    /// Emulation, and why.
    Tcg(String),
}

impl Acceleration {
    fn describe(&self) -> String {
        match self {
            Acceleration::Kvm => "KVM".to_owned(),
            Acceleration::Tcg(why) => format!("TCG: {why}"),
        }
    }
}

struct Guest {
    kernel: PathBuf,
    release: String,
    /// The only folder that the guest can write to.
    shared: PathBuf,
}

impl Guest {
    fn new() -> Result<Guest> {
        let kernel = setup::paths().vm_kernel().context("the guest's kernel is gone")?;
        let release = kernel
            .file_name()
            .and_then(|name| name.to_str()?.strip_prefix("vmlinuz-"))
            .context("the guest's kernel has an odd name")?
            .to_owned();
        let shared = setup::paths().target.join("vm/shared");
        std::fs::create_dir_all(&shared)?;
        Ok(Guest { kernel, release, shared })
    }

    fn place(&self) -> Place {
        let modules = setup::paths().vm_root.join("lib/modules").join(&self.release);
        Place::Guest { release: self.release.clone(), modules }
    }

    /// Boots once with KVM to see whether that works here.
    fn acceleration(&self) -> Result<Acceleration> {
        let kvm = Path::new("/dev/kvm");
        if std::fs::File::options().read(true).write(true).open(kvm).is_err() {
            return Ok(Acceleration::Tcg("no access to /dev/kvm".to_owned()));
        }
        let mark = self.shared.join("kvm-booted");
        remove_if_there(&mark)?;
        let script = self.write_script("probe.sh", &format!("touch {}\n", quoted(&mark)))?;
        let log = stage::log_path("kvm-probe")?;
        let probe = self.boot(&script, &Acceleration::Kvm);
        stage::run(probe, &log, KVM_PROBE_LIMIT, |_| {})?;
        Ok(if mark.exists() {
            Acceleration::Kvm
        } else {
            Acceleration::Tcg(format!("KVM doesn't boot this kernel here: {}", complaint(&log)))
        })
    }

    fn run_tests(
        &self,
        tests: &KernelTests,
        filter: Option<&str>,
        acceleration: &Acceleration,
        attempt: &str,
    ) -> Result<Ran> {
        let words = self.shared.join("guest.log");
        remove_if_there(&words)?;
        remove_if_there(&self.shared.join(FAULT_ROWS))?;
        let script = self.write_script("guest.sh", &test_script(tests, filter, &words))?;
        let log = stage::log_path(&format!("vm-console{attempt}"))?;
        let binaries = u32::try_from(tests.binaries.len()).context("that many test binaries")?;
        let limit = BOOT_LIMIT + BINARY_LIMIT * binaries;
        let mut report = Report::new(tests, filter);
        let boot = self.boot(&script, acceleration);
        let end = stage::run_following(boot, &log, &words, limit, |line| report.line(line))?;
        let kept = stage::log_path(&format!("vm-tests{attempt}"))?;
        // Without the file the guest never reached the script: the report says so.
        if words.exists() {
            std::fs::copy(&words, &kept)?;
        }
        let died = report.current.is_some() && matches!(end, stage::End::Exited(_));
        let tally = report.finish(end.trouble());
        if !tally.failures.is_empty() {
            kernel::show_failures(if words.exists() { &kept } else { &log });
        }
        Ok(Ran { tally, died })
    }

    fn write_script(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.shared.join(name);
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
        Ok(path)
    }

    fn boot(&self, script: &Path, acceleration: &Acceleration) -> Command {
        let paths = setup::paths();
        let mut vng = Command::new(&paths.vng);
        vng.current_dir(&self.shared).env("PATH", path_with(&paths.venv.join("bin")));
        // The virtiofsd of Debian 12 is too old for virtme-ng, which notices after five seconds.
        vng.arg("--run").arg(&self.kernel).args(["--force-9p", "--cpus=2", "--memory=4G"]);
        if let Some(busybox) = paths.vm_busybox() {
            vng.arg("--busybox").arg(busybox);
        }
        if matches!(acceleration, Acceleration::Tcg(_)) {
            vng.arg("--disable-kvm");
        }
        vng.arg("--rwdir").arg(&self.shared).args(["--user", "root"]);
        vng.args(["--", "sh"]).arg(script);
        vng
    }
}

/// Reads the guest's words: `== NAME` before each binary's output, `== NAME ended STATUS` after.
struct Report<'a> {
    tests: &'a KernelTests,
    filter: Option<&'a str>,
    current: Option<(Reader, Instant)>,
    done: usize,
    total: Tally,
}

impl<'a> Report<'a> {
    fn new(tests: &'a KernelTests, filter: Option<&'a str>) -> Report<'a> {
        Report { tests, filter, current: None, done: 0, total: Tally::default() }
    }

    fn line(&mut self, line: &str) {
        let Some(mark) = line.strip_prefix("== ") else {
            if let Some((reader, _)) = &mut self.current {
                show_progress(line);
                reader.line(line);
            }
            return;
        };
        match mark.split_once(" ended ") {
            Some((_, "0")) => self.close(None),
            Some((_, "124")) => self.close(Some("not finished in time".to_owned())),
            Some((_, status)) => self.close(Some(format!("exit status {status}"))),
            None => {
                self.current = Some((Reader::filtered(mark, self.filter), Instant::now()));
            }
        }
    }

    fn close(&mut self, ended_badly: Option<String>) {
        let Some((reader, started)) = self.current.take() else { return };
        let name = reader.binary().to_owned();
        let tally = reader.finish(ended_badly);
        println!("  {name}: {} in {:.0?}", tally.summary(), started.elapsed());
        self.total.add(tally);
        self.done += 1;
    }

    /// A binary that never reported is a failure: the guest died or hung before it.
    fn finish(mut self, ended_badly: Option<String>) -> Tally {
        let how = ended_badly.unwrap_or_else(|| "the guest ended in the middle".to_owned());
        if self.current.is_some() {
            self.close(Some(how.clone()));
        }
        for binary in self.tests.binaries.iter().skip(self.done) {
            self.total.failures.push(format!("{}: never ran in the guest: {how}", binary.name));
        }
        self.total
    }
}

/// What the guest runs: everything it says goes to `words`.
fn test_script(tests: &KernelTests, filter: Option<&str>, words: &Path) -> String {
    let mut script = format!("exec >{} 2>&1\n", quoted(words));
    script.push_str("mount -t bpf bpf /sys/fs/bpf\nip link set lo up\n");
    script.push_str(&format!("export {}={BACKEND}\n", kernel::BACKEND_VARIABLE));
    let rows = quoted(&words.with_file_name(FAULT_ROWS));
    script.push_str(&format!("export {}={rows}\n", kernel::FAULT_ROWS_VARIABLE));
    if tests.can_run_here() {
        // The emulated machine is slow, and the backends' common ground was covered before.
        script.push_str(&format!("export {}=1\n", kernel::PACING_ONLY_VARIABLE));
    }
    for (name, value) in tests.environment() {
        script.push_str(&format!("export {name}={}\n", quoted(value)));
    }
    script.push_str(&format!("cd {}\n", quoted(&setup::paths().workspace)));
    let arguments: Vec<String> =
        kernel::arguments(filter).iter().map(|word| quoted(Path::new(word))).collect();
    for binary in &tests.binaries {
        let (name, path) = (&binary.name, quoted(&binary.path));
        let (limit, arguments) = (BINARY_LIMIT.as_secs(), arguments.join(" "));
        script.push_str(&format!("echo '== {name}'\ntimeout -k 5 {limit} {path} {arguments}\n"));
        // On a line of its own, also after a test that was ended in the middle of its own.
        script.push_str(&format!("printf '\\n== {name} ended %s\\n' \"$?\"\n"));
    }
    // The last words must be out before the guest is.
    script.push_str("sync\n");
    script
}

/// A word that the shell takes literally.
fn quoted(word: &Path) -> String {
    format!("'{}'", word.display().to_string().replace('\'', r"'\''"))
}

fn path_with(first: &Path) -> std::ffi::OsString {
    let mut path = first.as_os_str().to_owned();
    path.push(":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    path
}

fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("can't remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The line of a console log that says what went wrong.
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
    use crate::test::kernel::Binary;

    fn two_binaries() -> KernelTests {
        let binary = |name: &str| Binary { name: name.to_owned(), path: PathBuf::from(name) };
        KernelTests {
            binaries: vec![binary("prog_run"), binary("netns")],
            object: Ok(PathBuf::from("object")),
            daemon: PathBuf::from("daemon"),
        }
    }

    #[test]
    fn report_blames_a_guest_that_ends_in_the_middle() {
        let tests = two_binaries();
        let mut report = Report::new(&tests, None);
        for line in [
            "== prog_run",
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured",
            "== prog_run ended 0",
            "== netns",
            "test a ... ok",
        ] {
            report.line(line);
        }
        let tally = report.finish(None);
        assert_eq!(tally.passed, 4);
        assert_eq!(tally.failures, ["netns: the guest ended in the middle"]);
    }

    #[test]
    fn report_blames_a_guest_that_never_started() {
        let tests = two_binaries();
        let tally = Report::new(&tests, None).finish(Some("not finished after 9 s".to_owned()));
        assert_eq!(tally.failures.len(), 2);
    }

    #[test]
    fn quoted_survives_an_apostrophe() {
        assert_eq!(quoted(Path::new("/a'b")), r"'/a'\''b'");
    }
}
