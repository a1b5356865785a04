//! A Debian 12 with Debian's kernel 6.12 in a virtual machine, which follows the operator's guide.
//!
//! QEMU emulates the processor: KVM of nested hosts often doesn't boot this kernel. The machine has
//! no network but a cable between its own two cards, of which one belongs to the peer.

use crate::{
    checks::{self, Step},
    debian::{make_root, output},
    guide::{self, Block},
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// Programs that the guide uses beside those of the package, and Debian's newer kernel.
const PACKAGES: &str = "linux-image-6.12-amd64,iproute2,procps,sudo,curl,tcpdump,tshark";
/// The folder of the user alice, in which the guide's commands run.
const FOLDER: &str = "srv/alice/atp";
const SERVICE: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
User=alice
WorkingDirectory=/srv/alice/atp
Environment=PATH=/usr/local/bin:/usr/bin:/bin TERM=linux COLUMNS=160 LINES=48
ExecStart=/bin/bash /srv/run-steps.sh
ExecStopPost=+/usr/bin/systemctl poweroff
StandardOutput=file:/dev/ttyS1
StandardError=file:/dev/ttyS1
";
/// The end of a machine that prints nothing, or not the end of its steps.
const SILENCE_MAX: Duration = Duration::from_secs(180);
const LIFE_MAX: Duration = Duration::from_secs(20 * 60);

/// Follows the guide, and returns the number of steps.
pub fn test(deb: &Path) -> Result<usize> {
    let blocks = guide::blocks(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src"))?;
    let steps = checks::steps(&blocks)?;
    let folder = tempfile::tempdir_in("/var/tmp")?;
    let root = folder.path().join("root");
    make_root(&root, PACKAGES)?;
    prepare(&root, deb, &steps)?;
    let log_path = deb.with_file_name("guide.log");
    let mut log = File::create(&log_path)?;
    println!("following the operator's guide; its output: {}", log_path.display());
    let mut machine = Machine::boot(&root, folder.path(), &deb.with_file_name("console.log"))?;
    machine.follow(&steps, &mut log).with_context(|| {
        format!("see {}, and console.log beside it for the boot", log_path.display())
    })?;
    let not_run = |block: &Block| Some(format!("{}: {}", block.place, block.how.not_run.as_ref()?));
    let not_run: Vec<String> = blocks.iter().filter_map(not_run).collect();
    println!("{} of the guide's {} blocks not run:", not_run.len(), blocks.len());
    not_run.iter().for_each(|reason| println!("  {reason}"));
    Ok(steps.len())
}

/// Gives the system its user, the package and the steps.
fn prepare(root: &Path, deb: &Path, steps: &[Step]) -> Result<()> {
    let inside =
        |command: &str| output(Command::new("chroot").arg(root).args(command.split(' '))).map(drop);
    inside("useradd --create-home --base-dir=/srv alice")?;
    write(root, "etc/hostname", "debian\n")?;
    write(root, "etc/hosts", "127.0.0.1 localhost\n127.0.1.1 debian\n")?;
    write(root, "etc/sudoers.d/alice", "alice ALL=(ALL) NOPASSWD: ALL\n")?;
    // The name of the package in the guide.
    let target = deb.parent().and_then(Path::parent).context("the package lies in no folder")?;
    for (from, to) in [(deb, "target/packages"), (&target.join("daemon/atp-user"), "target/daemon")]
    {
        let folder = root.join(FOLDER).join(to);
        fs::create_dir_all(&folder)?;
        let name = from.file_name().context("a file without a name")?;
        fs::copy(from, folder.join(name))
            .with_context(|| format!("can't copy {}", from.display()))?;
    }
    write(root, "srv/run-steps.sh", include_str!("run-steps.sh"))?;
    for (number, step) in steps.iter().enumerate() {
        let path = format!("srv/steps/{}", step.file(number));
        write(root, &path, &format!("# {}\n{}\n", step.name, step.script))?;
    }
    write(root, "etc/systemd/system/guide.service", SERVICE)?;
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    symlink("../guide.service", wants.join("guide.service"))?;
    inside("chown -R alice:alice /srv/alice")
}

fn write(root: &Path, path: &str, text: &str) -> Result<()> {
    let path = root.join(path);
    let folder = path.parent().context("a file outside of every folder")?;
    fs::create_dir_all(folder)?;
    fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?)
}

/// A running machine. Dropping it ends its process.
struct Machine {
    qemu: Child,
    lines: Receiver<String>,
}

impl Machine {
    /// Boots the system of a folder from an image of it.
    fn boot(root: &Path, folder: &Path, console: &Path) -> Result<Self> {
        let image = folder.join("image");
        File::create(&image)?.set_len(2 << 30)?;
        output(Command::new("mkfs.ext4").arg("-q").arg("-d").arg(root).arg(&image))?;
        let mut boot = Command::new("qemu-system-x86_64");
        // On one thread: with several, a processor that patches the kernel's code (static keys) can
        // crash another one that runs it.
        boot.args("-machine q35 -accel tcg,thread=single -cpu max -smp 2 -m 2G".split(' '));
        boot.args(["-nodefaults", "-no-reboot"]);
        boot.args(["-display", "none", "-kernel"]).arg(file(root, "vmlinuz-6.12")?);
        boot.arg("-initrd").arg(file(root, "initrd.img-6.12")?);
        boot.args(["-append", "root=/dev/vda rw net.ifnames=0 console=ttyS0 quiet panic=-1"]);
        let drive = format!("file={},format=raw,if=virtio,cache=unsafe", image.display());
        boot.args(["-drive", &drive]);
        for card in ["a", "b"] {
            boot.arg("-netdev").arg(format!("hubport,id={card},hubid=0"));
            boot.arg("-device").arg(format!("virtio-net-pci,netdev={card}"));
        }
        // The console and the output of the steps.
        boot.arg("-serial").arg(format!("file:{}", console.display()));
        boot.args(["-serial", "stdio"]);
        boot.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut qemu = boot.spawn().context("can't start qemu-system-x86_64")?;
        let stdout = qemu.stdout.take().context("QEMU has no output")?;
        Ok(Self { lines: lines_of(stdout), qemu })
    }

    /// Prints the outcome of each step as it ends.
    fn follow(&mut self, steps: &[Step], log: &mut File) -> Result<()> {
        let end = Instant::now() + LIFE_MAX;
        let mut expected = steps.iter();
        let mut said = Vec::new();
        loop {
            let limit = SILENCE_MAX.min(end.saturating_duration_since(Instant::now()));
            let line = match self.lines.recv_timeout(limit) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    bail!("the machine is silent, or too slow, after:\n{}", said.join("\n"))
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the machine ended by itself after:\n{}", said.join("\n"))
                }
            };
            writeln!(log, "{line}")?;
            if line.starts_with("== begin ") {
                said.clear();
            }
            if let Some(name) = line.strip_prefix("== ok ") {
                let step = expected.next().context("the machine ran more steps than there are")?;
                ensure!(step.name == name, "the machine ran {name} in place of {}", step.name);
                println!("test {name} ... ok");
            } else if let Some(name) = line.strip_prefix("== failed ") {
                bail!("failed: {name}\n{}", said.join("\n"));
            } else if line == "== end" {
                ensure!(expected.next().is_none(), "the machine left out steps");
                return Ok(());
            }
            said.push(line);
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.qemu.kill().ok();
        self.qemu.wait().ok();
    }
}

/// A serial port sends carriage returns too.
fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (send, lines) = channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if send.send(text).is_err() {
                break;
            }
            line.clear();
        }
    });
    lines
}

/// The file of the system's kernel.
fn file(root: &Path, prefix: &str) -> Result<PathBuf> {
    let files = fs::read_dir(root.join("boot"))?.filter_map(|file| Some(file.ok()?.path()));
    let mut files = files.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    });
    files.next().with_context(|| format!("the system has no /boot/{prefix}*"))
}
