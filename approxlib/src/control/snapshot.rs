//! Reads the snapshot pages of a daemon. The pages may hold anything: a reader bounds every number
//! and checks every text.

use super::{
    protocol::JobInfo,
    stats::{
        CoverageStats, GroupStats, HostStats, LaneIdentity, LaneStats, PolicyRefusals, ProgramRuns,
    },
};
use atp_common::{
    maps::{
        Counter, JOBS, LANES, LaneControl, Sequenced, read_sequenced,
        snapshot::{
            self, CoverageEntry, IdentityPage, InterfaceEntry, JobEntry, JobIdentity, LaneEntry,
            SNAPSHOT_INTERFACES, SNAPSHOT_MAGIC, SnapshotHeader, SnapshotPage, Telemetry,
        },
    },
    units::{Msr, Share},
};
use bytemuck::{Pod, Zeroable};
use memmap2::{MmapOptions, MmapRaw};
use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    unistd::{Uid, User},
};
use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    mem::offset_of,
    net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The mapped snapshot pages of a daemon. Reads from memory; looks up only the names of new users.
#[derive(Debug)]
pub struct Snapshot {
    public: Page,
    identities: Option<Page>,
    /// The counts of each lane at the last read, for the achieved rates.
    last: HashMap<u16, Counted>,
    last_ticked_ns: u64,
    /// The names of users by id, as far as they were looked up.
    users: HashMap<u32, Option<String>>,
}

/// The most user names to remember.
const USERS_MAX: usize = 4_096;

/// A lane's count at a read.
#[derive(Clone, Copy, Debug)]
struct Counted {
    opened_ns: u64,
    sent_bytes: u64,
    /// The achieved rate then.
    bytes_per_s: Option<u64>,
}

impl Snapshot {
    /// Maps the pages: the public one, and possibly the identities.
    ///
    /// # Errors
    /// If the descriptors aren't those of snapshot pages of this version.
    pub fn map(fds: &[impl AsFd]) -> io::Result<Self> {
        let (public, identities) = match fds {
            [public] => (public, None),
            [public, identities] => (public, Some(identities)),
            _ => return Err(invalid(format!("{} descriptors instead of 1 or 2", fds.len()))),
        };
        let public = Page::map(public.as_fd(), size_of::<SnapshotPage>())?;
        let identities =
            identities.map(|fd| Page::map(fd.as_fd(), size_of::<IdentityPage>())).transpose()?;
        Ok(Self {
            public,
            identities,
            last: HashMap::new(),
            last_ticked_ns: 0,
            users: HashMap::new(),
        })
    }

    /// Whether the daemon has ended. One that crashed doesn't say so; its socket does.
    pub fn has_ended(&self) -> bool {
        self.header().ended != 0
    }

    /// When the counters were read last, as [`HostStats::counters_read_s`].
    pub fn counters_read_s(&self) -> f64 {
        let telemetry = self.telemetry();
        telemetry.read_ns.saturating_sub(self.header().started_ns) as f64 / 1e9
    }

    fn telemetry(&self) -> Telemetry {
        let telemetry = self.public.entry(offset_of!(SnapshotPage, telemetry));
        telemetry.unwrap_or_else(Telemetry::zeroed)
    }

    /// Reads the state of the host. An entry that is being written all the time is left out.
    pub fn read(&mut self) -> HostStats {
        let header = self.header();
        let since_start_s = |time_ns: u64| time_ns.saturating_sub(header.started_ns) as f64 / 1e9;
        let telemetry = self.telemetry();
        HostStats {
            interfaces: self.interfaces(),
            pacing: text(&header.pacing).unwrap_or_default(),
            law: text(&header.law).unwrap_or_default(),
            epochs: if header.epochs_in_kernel == 0 { "daemon" } else { "kernel" }.into(),
            uptime_s: since_start_s(header.ticked_ns),
            ended: header.ended != 0,
            counters: counters(&telemetry),
            counters_read_s: since_start_s(telemetry.read_ns),
            programs: (telemetry.run_times_on != 0).then(|| programs(&telemetry)),
            coverage: self.coverage(),
            policy_refusals: PolicyRefusals {
                jobs_max: header.refused_by_jobs_max,
                msr_min: header.refused_by_msr_min,
                queue_highest: header.refused_by_queue_highest,
            },
            jobs: self.jobs(),
            lanes: self.lanes(&header),
            skipped_entries: self.public.skipped.load(Relaxed),
        }
    }

    fn header(&self) -> SnapshotHeader {
        let mut header = SnapshotHeader::zeroed();
        let words = self.public.words(0, size_of::<SnapshotHeader>());
        let bytes = bytemuck::bytes_of_mut(&mut header);
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.load(Relaxed).to_ne_bytes();
        }
        header
    }

    fn interfaces(&self) -> BTreeMap<String, String> {
        let entries = (0..SNAPSHOT_INTERFACES).filter_map(|index| {
            let entry: InterfaceEntry = self.public.entry(SnapshotPage::interface(index))?;
            Some((text(&entry.name)?, text(&entry.hook)?))
        });
        entries.collect()
    }

    fn coverage(&self) -> CoverageStats {
        let entry = self.public.entry(offset_of!(SnapshotPage, coverage));
        let entry: CoverageEntry = entry.unwrap_or_else(CoverageEntry::zeroed);
        CoverageStats {
            refused_flows: entry.refused_flows,
            lost_flows: entry.lost_flows,
            returned_flows: entry.returned_flows,
            last_reason: text(&entry.last_reason),
        }
    }

    fn jobs(&self) -> Vec<JobInfo> {
        let mut jobs: Vec<JobInfo> =
            (0..JOBS as usize).filter_map(|index| self.job(index)).collect();
        jobs.sort_unstable_by_key(|job| (job.id, job.user()));
        jobs
    }

    fn job(&self, index: usize) -> Option<JobInfo> {
        let entry: JobEntry = self.public.entry(SnapshotPage::job(index))?;
        if entry.created_ns == 0 {
            return None;
        }
        let identity = self.identities.as_ref().and_then(|page| {
            let identity: JobIdentity = page.entry(IdentityPage::job(index))?;
            (identity.created_ns == entry.created_ns).then_some(identity)
        });
        Some(JobInfo {
            id: entry.id,
            name: identity.as_ref().and_then(|identity| text(&identity.name)),
            cgroup: identity.as_ref().and_then(|identity| text(&identity.cgroup)).map(Into::into),
            uid: entry.uid,
            container: (entry.container != 0).then_some(entry.container),
            ephemeral: entry.ephemeral != 0,
            flows: entry.flows,
        })
    }

    fn lanes(&mut self, header: &SnapshotHeader) -> Vec<LaneStats> {
        let end = header.lanes_end.min(u64::from(LANES)) as u16;
        let passed_ns = header.ticked_ns.saturating_sub(self.last_ticked_ns);
        let mut counted = HashMap::new();
        let mut lanes = Vec::new();
        for index in 0..end {
            let entry: Option<LaneEntry> = self.public.entry(SnapshotPage::lane(index.into()));
            let Some(entry) = entry.filter(|entry| entry.opened_ns != 0) else { continue };
            let last = self.last.get(&index).filter(|last| last.opened_ns == entry.opened_ns);
            // At the same tick, the counts are the same as well.
            let bytes_per_s = match (last, passed_ns) {
                (Some(last), 0) => last.bytes_per_s,
                (Some(last), _) if entry.sent_bytes != LaneEntry::NOT_COUNTED => {
                    let bytes = entry.sent_bytes.saturating_sub(last.sent_bytes);
                    Some((bytes as f64 * 1e9 / passed_ns as f64) as u64)
                }
                _ => None,
            };
            let (opened_ns, sent_bytes) = (entry.opened_ns, entry.sent_bytes);
            counted.insert(index, Counted { opened_ns, sent_bytes, bytes_per_s });
            lanes.push(LaneStats {
                identity: self.identity(index, opened_ns),
                opened_s: opened_ns.saturating_sub(header.started_ns) as f64 / 1e9,
                achieved_bytes_per_s: bytes_per_s,
                ..lane_stats(index, &entry)
            });
        }
        (self.last, self.last_ticked_ns) = (counted, header.ticked_ns);
        lanes
    }

    fn identity(&mut self, index: u16, opened_ns: u64) -> Option<LaneIdentity> {
        let page = self.identities.as_ref()?;
        let identity: snapshot::LaneIdentity = page.entry(IdentityPage::lane(index.into()))?;
        (identity.opened_ns == opened_ns).then(|| LaneIdentity {
            local: address(identity.local, identity.local_port, identity.scope),
            peer: address(identity.remote, identity.remote_port, identity.scope),
            pid: identity.pid,
            process: text(&identity.process).unwrap_or_default(),
            uid: identity.uid,
            user: self.user(identity.uid),
        })
    }

    fn user(&mut self, uid: u32) -> Option<String> {
        if self.users.len() >= USERS_MAX {
            self.users.clear();
        }
        let name = |uid| Some(User::from_uid(Uid::from_raw(uid)).ok()??.name);
        self.users.entry(uid).or_insert_with(|| name(uid)).clone()
    }
}

fn lane_stats(index: u16, entry: &LaneEntry) -> LaneStats {
    let is_counted = entry.sent_bytes != LaneEntry::NOT_COUNTED;
    let msr = Msr::from_parts_per_billion(entry.msr_parts_per_billion).unwrap_or(Msr::EXACT);
    let measured_us = |ns: u64| (ns > 0).then_some(ns as f64 / 1e3);
    LaneStats {
        lane: index,
        job: entry.job,
        job_uid: entry.job_uid_plus_one.checked_sub(1).and_then(|uid| uid.try_into().ok()),
        job_container: (entry.job_container != 0).then_some(entry.job_container),
        flow: entry.flow,
        identity: None,
        opened_s: 0.0,
        group: GroupStats {
            group: entry.group as u8,
            msr: f64::from(msr.parts_per_billion()) / 1e9,
            messages: entry.messages,
            delivered: entry.delivered,
            lost: entry.lost,
        },
        rate_bytes_per_s: entry.rate_bytes_per_s,
        advice_bytes_per_s: (entry.advice_bytes_per_s > 0).then_some(entry.advice_bytes_per_s),
        achieved_bytes_per_s: None,
        sent_packets: is_counted.then_some(entry.sent_packets),
        sent_bytes: is_counted.then_some(entry.sent_bytes),
        queue: (entry.queue as u8).min(7),
        dscp: (entry.dscp != LaneControl::DSCP_KEEP).then_some((entry.dscp as u8).min(63)),
        epoch: entry.epoch as u16,
        epochs_evaluated: entry.epochs_evaluated,
        loss: share(entry.loss_q16),
        tlr: share(entry.tlr_q16),
        rtt_us: measured_us(entry.rtt_smoothed_ns),
        rtt_min_us: measured_us(entry.rtt_min_ns),
        burst_packets: entry.burst_packets,
        too_far_packets: entry.too_far_packets,
    }
}

fn counters(telemetry: &Telemetry) -> BTreeMap<String, u64> {
    let count = telemetry.counter_count as usize;
    let known = Counter::NAMES.into_iter().zip(telemetry.counters).take(count);
    known.map(|((_, name), value)| (name.to_owned(), value)).collect()
}

fn programs(telemetry: &Telemetry) -> BTreeMap<String, ProgramRuns> {
    let named = telemetry.programs.iter().filter_map(|program| {
        Some((text(&program.name)?, ProgramRuns { runs: program.runs, run_ns: program.run_ns }))
    });
    named.collect()
}

fn share(q16: u32) -> f64 {
    f64::from(Share::from_q16(q16).q16()) / f64::from(Share::ONE.q16())
}

/// Text up to its first zero; `None` if it is empty, not UTF-8, or has control characters, which a
/// terminal would obey.
fn text(bytes: &[u8]) -> Option<String> {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(&bytes[..len]).ok()?;
    let is_plain = !text.is_empty() && !text.chars().any(char::is_control);
    is_plain.then(|| text.to_owned())
}

/// `scope`: the interface of a link-local address.
fn address(bytes: [u8; 16], port: u16, scope: u32) -> SocketAddr {
    match Ipv6Addr::from(bytes).to_canonical() {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, scope).into()
        }
        ip => SocketAddr::new(ip, port),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// A mapped page that can't shrink.
#[derive(Debug)]
struct Page {
    memory: MmapRaw,
    /// Entries that were being written each time that they were read.
    skipped: AtomicU64,
}

impl Page {
    fn map(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        // Reading memory that was cut off would kill this process.
        let seals = fcntl(fd, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_retain);
        if !seals.is_ok_and(|seals| seals.contains(SealFlag::F_SEAL_SHRINK)) {
            return Err(invalid("it is not sealed".into()));
        }
        let len = File::from(fd.try_clone_to_owned()?).metadata()?.len();
        if len != bytes as u64 {
            return Err(invalid(format!("it has {len} bytes instead of {bytes}")));
        }
        let memory = MmapOptions::new().len(bytes).map_raw_read_only(fd.as_raw_fd())?;
        let page = Self { memory, skipped: AtomicU64::new(0) };
        match page.words(0, size_of::<u64>())[0].load(Relaxed) {
            SNAPSHOT_MAGIC => Ok(page),
            other => Err(invalid(format!("it begins with {other:#x}"))),
        }
    }

    fn entry<T: Pod>(&self, offset: usize) -> Option<T> {
        let entry = read_sequenced(self.words(offset, size_of::<Sequenced<T>>()));
        self.skipped.fetch_add(u64::from(entry.is_none()), Relaxed);
        entry
    }

    fn words(&self, offset: usize, bytes: usize) -> &[AtomicU64] {
        const WORD: usize = size_of::<AtomicU64>();
        assert!(offset.is_multiple_of(WORD) && offset + bytes <= self.memory.len());
        // SAFETY: inside the mapping and aligned (checked; the mapping is page-aligned, and sealed
        // against shrinking), alive as long as `self`, and only read by relaxed atomic loads, which
        // read-only memory allows on the platforms of Linux with 64 bits.
        unsafe {
            let start = self.memory.as_ptr().add(offset).cast::<AtomicU64>();
            std::slice::from_raw_parts(start, bytes / WORD)
        }
    }
}
