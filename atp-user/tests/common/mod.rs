//! A daemon of a host with jobs and lanes, for the tests of the command line.

#![allow(dead_code, reason = "every test file uses some of it")]

#[path = "../../../approxlib/tests/common/daemon.rs"]
pub mod daemon;
pub mod pty;

use approxlib::control::{JobInfo, Reply, Request};
use atp_common::maps::snapshot::{
    JobEntry, LaneEntry, SNAPSHOT_MAGIC, SnapshotHeader, SnapshotPage, Telemetry,
};
use bytemuck::{Pod, Zeroable};
use daemon::{Answer, TestDaemon, reply};
use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use std::{
    cell::RefCell,
    fs::{self, File},
    mem::offset_of,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::Path,
    process::Command,
};

/// A host with a job of `lanes` lanes, and the folder of its daemon's socket.
pub struct Host {
    lanes: u16,
    folder: tempfile::TempDir,
    daemons: RefCell<Vec<TestDaemon>>,
}

impl Host {
    pub fn new(lanes: u16) -> Self {
        Self { lanes, folder: tempfile::tempdir().unwrap(), daemons: RefCell::default() }
    }

    /// A command of `atp-user`, and a daemon that answers it alone.
    pub fn command(&self, words: &str) -> Command {
        let socket = self.folder.path().join("atp.sock");
        let (lanes, path) = (self.lanes, socket.clone());
        let daemon =
            TestDaemon::start_at(&socket, move |request, _| answer(&request, lanes, &path));
        self.daemons.borrow_mut().push(daemon);
        let mut command = atp(words);
        command.arg("--socket").arg(socket);
        command
    }
}

/// A command of `atp-user`.
pub fn atp(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atp-user"));
    command.args(words.split_whitespace()).env_remove("ATP_SOCKET").env_remove("RUST_LOG");
    command
}

fn answer(request: &Request, lanes: u16, socket: &Path) -> Answer {
    let job = || JobInfo {
        id: 7,
        name: None,
        cgroup: None,
        uid: 0,
        container: None,
        ephemeral: false,
        flows: 1,
    };
    reply(&match request {
        Request::Snapshot {} => {
            return (serde_json::to_vec(&Reply::Snapshot).unwrap(), vec![snapshot(lanes)]);
        }
        Request::JobList { .. } => {
            Reply::Jobs { jobs: vec![job()], next: None, next_uid: None, next_container: None }
        }
        Request::JobCreate { .. } | Request::JobAttach { .. } => Reply::Job(job()),
        Request::Stop {} => {
            fs::remove_file(socket).unwrap();
            Reply::Done
        }
        _ => Reply::Done,
    })
}

/// A page whose counters were read after its last tick, so that nobody waits for them.
fn snapshot(lanes: u16) -> OwnedFd {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let page = File::from(memfd_create(c"atp-test", flags).unwrap());
    page.set_len(size_of::<SnapshotPage>() as u64).unwrap();
    let header = SnapshotHeader {
        magic: SNAPSHOT_MAGIC,
        started_ns: 1_000_000_000,
        ticked_ns: 61_000_000_000,
        lanes_end: lanes.into(),
        ..SnapshotHeader::zeroed()
    };
    put(&page, 0, &header);
    let telemetry = Telemetry { read_ns: 62_000_000_000, ..Telemetry::zeroed() };
    put(&page, offset_of!(SnapshotPage, telemetry) + SEQUENCE, &telemetry);
    let job = JobEntry { created_ns: 1, id: 7, flows: 1, ..JobEntry::default() };
    put(&page, SnapshotPage::job(0) + SEQUENCE, &job);
    for index in 0..lanes {
        let lane = LaneEntry {
            opened_ns: 2_000_000_000,
            job: 7,
            rate_bytes_per_s: u64::from(index) * 7919 % 1_000_000,
            ..LaneEntry::default()
        };
        put(&page, SnapshotPage::lane(index.into()) + SEQUENCE, &lane);
    }
    fcntl(&page, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
    page.into()
}

/// The bytes of an entry's sequence, before its value.
const SEQUENCE: usize = size_of::<u64>();

fn put<T: Pod>(page: &File, offset: usize, value: &T) {
    page.write_all_at(bytemuck::bytes_of(value), offset as u64).unwrap();
}
