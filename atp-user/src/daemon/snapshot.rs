//! Writes the snapshot pages, from which clients read the state of the host without asking for it.

use super::{
    clock::monotonic_ns, connection::Peer, flows::FlowRecord, jobs::JobRecord, policy::Limit,
    sealed_page::SealedPage,
};
use anyhow::Result;
use approxlib::control::CoverageStats;
use atp_common::maps::{
    Sequenced,
    snapshot::{
        CoverageEntry, IdentityPage, InterfaceEntry, JobEntry, JobIdentity, LaneEntry,
        LaneIdentity, SNAPSHOT_INTERFACES, SNAPSHOT_MAGIC, SnapshotHeader, SnapshotPage, Telemetry,
    },
    write_sequenced,
};
use bytemuck::{Pod, Zeroable};
use std::{
    collections::BTreeMap,
    fs,
    mem::offset_of,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, Release},
    },
};

/// Both pages. The thread for counters writes the telemetry, the control loop everything else.
/// Dropping them tells their readers that the daemon has ended.
pub struct SnapshotPages {
    public: SealedPage,
    identities: SealedPage,
}

/// The facts that don't change while a daemon runs.
pub struct Facts<'a> {
    /// `fq` or `htb`.
    pub pacing: &'a str,
    /// The name of the rate law.
    pub law: &'a str,
    /// Whether the programs evaluate epochs.
    pub epochs_in_kernel: bool,
}

impl SnapshotPages {
    /// Pages without jobs and lanes.
    ///
    /// # Errors
    /// If the memory can't be had.
    pub fn new(facts: &Facts<'_>) -> Result<Self> {
        let public = SealedPage::new(c"atp-snapshot", size_of::<SnapshotPage>())?;
        let identities = SealedPage::new(c"atp-identities", size_of::<IdentityPage>())?;
        let pages = Self { public, identities };
        let now_ns = monotonic_ns();
        let header = SnapshotHeader {
            magic: SNAPSHOT_MAGIC,
            started_ns: now_ns,
            ticked_ns: now_ns,
            epochs_in_kernel: facts.epochs_in_kernel.into(),
            pacing: text(facts.pacing.as_bytes()),
            law: text(facts.law.as_bytes()),
            ..SnapshotHeader::zeroed()
        };
        let words = pages.public.words(0, size_of::<SnapshotHeader>());
        for (to, bytes) in words.iter().zip(bytemuck::bytes_of(&header).as_chunks().0) {
            to.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        pages.identities.words(0, size_of::<u64>())[0].store(SNAPSHOT_MAGIC, Release);
        Ok(pages)
    }

    /// The descriptors for a client: of the public page, and for those who may see more also of
    /// the identities.
    pub fn descriptors(&self, may_identify: bool) -> Vec<BorrowedFd<'_>> {
        match may_identify {
            true => vec![self.public.as_fd(), self.identities.as_fd()],
            false => vec![self.public.as_fd()],
        }
    }

    /// Writes the time of the control loop's last run.
    pub fn set_ticked(&self, now_ns: u64) {
        self.header_word(offset_of!(SnapshotHeader, ticked_ns)).store(now_ns, Release);
    }

    /// Writes the interfaces, and the hook that consumes ACKs on each. Their number stays.
    pub fn set_interfaces(&self, interfaces: &BTreeMap<String, String>) {
        for (index, (name, hook)) in interfaces.iter().take(SNAPSHOT_INTERFACES).enumerate() {
            let entry = InterfaceEntry { name: text(name.as_bytes()), hook: text(hook.as_bytes()) };
            write(&self.public, SnapshotPage::interface(index), &entry);
        }
    }

    /// Writes the counts of flows whose packets pass no program.
    pub fn set_coverage(&self, coverage: &CoverageStats) {
        let entry = CoverageEntry {
            refused_flows: coverage.refused_flows,
            lost_flows: coverage.lost_flows,
            returned_flows: coverage.returned_flows,
            last_reason: text(coverage.last_reason.as_deref().unwrap_or_default().as_bytes()),
        };
        write(&self.public, offset_of!(SnapshotPage, coverage), &entry);
    }

    /// Counts a request that the policy refused.
    pub fn count_refusal(&self, limit: Limit) {
        let count = self.header_word(match limit {
            Limit::JobsMax => offset_of!(SnapshotHeader, refused_by_jobs_max),
            Limit::MsrMin => offset_of!(SnapshotHeader, refused_by_msr_min),
            Limit::QueueHighest => offset_of!(SnapshotHeader, refused_by_queue_highest),
        });
        count.fetch_add(1, Relaxed);
    }

    /// Writes a lane's numbers.
    pub fn set_lane(&self, index: u16, entry: &LaneEntry) {
        write(&self.public, SnapshotPage::lane(usize::from(index)), entry);
    }

    /// Writes the lane's socket and process, before its first numbers.
    pub fn open_lane(&self, index: u16, opened_ns: u64, flow: &FlowRecord, peer: Peer) {
        let (flow, scope) = (&flow.entry, flow.route.scope());
        let identity = LaneIdentity {
            opened_ns,
            local: flow.local,
            remote: flow.remote,
            local_port: flow.local_port,
            remote_port: flow.remote_port,
            uid: peer.uid,
            pid: peer.pid as u32,
            scope,
            process: text(&process_name(peer.pid)),
        };
        write(&self.identities, IdentityPage::lane(usize::from(index)), &identity);
        let end = self.header_word(offset_of!(SnapshotHeader, lanes_end));
        end.fetch_max(u64::from(index) + 1, Release);
    }

    /// Removes a lane.
    pub fn close_lane(&self, index: u16) {
        write(&self.public, SnapshotPage::lane(usize::from(index)), &LaneEntry::default());
        let offset = IdentityPage::lane(usize::from(index));
        write(&self.identities, offset, &LaneIdentity::default());
    }

    /// Writes a job; `None` removes it.
    pub fn set_job(&self, index: usize, job: Option<&JobRecord>) {
        let entry = job.map_or_else(JobEntry::default, |job| JobEntry {
            created_ns: job.created_ns,
            id: job.id,
            uid: job.user.uid,
            flows: job.flows,
            ephemeral: job.ephemeral.into(),
            container: job.user.container.unwrap_or(0),
        });
        let cgroup = job.and_then(|job| job.cgroup.as_ref()).map(|(path, _)| path.as_os_str());
        let identity = JobIdentity {
            created_ns: entry.created_ns,
            name: text(job.and_then(|job| job.name.as_deref()).unwrap_or_default().as_bytes()),
            cgroup: text(cgroup.unwrap_or_default().as_bytes()),
        };
        write(&self.identities, IdentityPage::job(index), &identity);
        write(&self.public, SnapshotPage::job(index), &entry);
    }

    /// Writes what the thread for counters has read.
    pub fn set_telemetry(&self, telemetry: &Telemetry) {
        write(&self.public, offset_of!(SnapshotPage, telemetry), telemetry);
    }

    fn header_word(&self, offset: usize) -> &AtomicU64 {
        &self.public.words(offset, size_of::<u64>())[0]
    }
}

impl Drop for SnapshotPages {
    fn drop(&mut self) {
        self.header_word(offset_of!(SnapshotHeader, ended)).store(1, Release);
    }
}

fn write<T: Pod>(page: &SealedPage, offset: usize, value: &T) {
    write_sequenced(page.words(offset, size_of::<Sequenced<T>>()), value);
}

/// Text for the page: cut off if it is too long, ended by zeroes.
fn text<const BYTES: usize>(from: &[u8]) -> [u8; BYTES] {
    let mut to = [0; BYTES];
    let len = from.len().min(BYTES);
    to[..len].copy_from_slice(&from[..len]);
    to
}

/// The name of a process, at most 15 bytes; empty if the process has ended.
fn process_name(pid: i32) -> Vec<u8> {
    let mut name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.truncate(name.trim_ascii_end().len());
    name
}
