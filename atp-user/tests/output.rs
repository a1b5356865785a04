//! Commands whose standard output is lost.

mod common;
#[path = "../../atp-output/tests/outputs/mod.rs"]
mod outputs;

use approxlib::Receiver;
use common::{Host, atp};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::{
    fs::File,
    io::Read,
    net::SocketAddr,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

#[test]
fn output__of_questions_to_a_daemon() {
    let host = Host::new(3);
    for words in [
        "job list",
        "job list --json",
        "job create",
        "job create --json",
        "job attach 7 --cgroup /",
        "job end 7",
        "stats --once",
        "stats --json",
        "stats --jsonl --interval 50ms",
        "stats --interval 50ms",
        "stop",
    ] {
        outputs::check(|| host.command(words));
    }
}

#[test]
fn output__without_a_daemon() {
    for words in [
        "--help",
        "-h",
        "--version",
        "stats --help",
        "help job",
        "doctor --answer 127.0.0.1:0 --answer-time 1s",
    ] {
        outputs::check(|| atp(words));
    }
}

/// With findings that something is missing, or without.
#[test]
fn output__of_doctor() {
    outputs::check(|| atp("doctor --iface lo --json"));
    outputs::check(|| atp("doctor --iface lo"));
}

#[test]
fn output__of_send() {
    let mut receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap();
    thread::spawn(move || while receiver.recv(None).is_ok() {});
    let file = table();
    for json in ["", "--json"] {
        outputs::check(|| quiet(file.sending(address, json)));
    }
}

#[test]
fn output__of_recv() {
    let (file, address) = (table(), own_address(1));
    let senders = Senders::start(file.sending(address, "--csv --msr 1 --timeout 1s"));
    for options in
        ["", "--raw", "--query sum(v) --csv", "--query sum(v) --csv --json", "--out /dev/null"]
    {
        outputs::check(|| quiet(atp(&format!("recv {address} {options}"))));
    }
    drop(senders);
}

/// The error names a file that takes nothing.
#[test]
fn recv__names_the_file_that_lost_messages() {
    let (file, address) = (table(), own_address(2));
    let senders = Senders::start(file.sending(address, "--msr 1 --timeout 1s"));
    let output = atp(&format!("recv {address} --out /dev/full")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "error: can't write the output file /dev/full: No space left on device";
    assert!(said.contains(expected), "{said}");
    assert_eq!(output.status.code(), Some(1));
    drop(senders);
}

/// A pipe that another program made non-blocking, and whose reader is slow.
#[test]
fn output__of_a_non_blocking_pipe_is_complete() {
    let host = Host::new(4_096);
    let (mut reader, writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut child = host.command("stats --json").stdout(writer).spawn().unwrap();
    // The pipe holds 64 KiB. It is full, or the program has panicked.
    thread::sleep(Duration::from_millis(200));
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(text.len() > 1 << 20 && text.ends_with("}\n"), "{} bytes", text.len());
}

/// A full standard error can't be told: the exit code stays.
#[test]
fn stderr__that_is_full_is_no_panic() {
    for words in ["job list --socket /nowhere", "recv 127.0.0.1:0 --timeout 50ms"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let status = atp(words).stdout(Stdio::null()).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(1), "{words}");
    }
}

fn quiet(mut command: Command) -> Command {
    command.env("RUST_LOG", "error");
    command
}

/// A CSV file of two records.
fn table() -> Table {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rows.csv"), "v\n1\n2\n").unwrap();
    Table { folder }
}

struct Table {
    folder: tempfile::TempDir,
}

impl Table {
    /// The command that sends it.
    fn sending(&self, to: SocketAddr, options: &str) -> Command {
        let mut command = atp(&format!("send {to} {options} --file"));
        command.arg(self.folder.path().join("rows.csv"));
        command
    }
}

/// An address of the loopback interface that no other process uses meanwhile.
fn own_address(number: u8) -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, 100 + number, high, low], 4747))
}

/// One sender after the other, until it is dropped.
struct Senders {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Senders {
    fn start(mut command: Command) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let send = move || {
            while !seen.load(Relaxed) {
                command.status().unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        };
        Self { ended, thread: Some(thread::spawn(send)) }
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
