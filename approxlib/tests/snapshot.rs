//! Tests of the snapshot's reader with pages of any content.

use approxlib::control::Snapshot;
use atp_common::maps::{
    LANES,
    snapshot::{
        IdentityPage, JobEntry, LaneEntry, LaneIdentity, SNAPSHOT_MAGIC, SnapshotHeader,
        SnapshotPage,
    },
};
use bytemuck::{Pod, Zeroable};
use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use proptest::prelude::*;
use std::{fs::File, mem::offset_of, net::Ipv6Addr, os::fd::OwnedFd, os::unix::fs::FileExt};

const SEQUENCE: usize = size_of::<u64>();

/// A page of zeroes with the right beginning.
fn page(bytes: usize) -> File {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create(c"test", flags).unwrap());
    file.set_len(bytes as u64).unwrap();
    file.write_all_at(&SNAPSHOT_MAGIC.to_ne_bytes(), 0).unwrap();
    file
}

fn seal(file: File) -> OwnedFd {
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
    file.into()
}

fn put<T: Pod>(file: &File, offset: usize, value: &T) {
    file.write_all_at(bytemuck::bytes_of(value), offset as u64).unwrap();
}

fn header() -> SnapshotHeader {
    SnapshotHeader {
        magic: SNAPSHOT_MAGIC,
        started_ns: 1_000_000_000,
        ticked_ns: 3_000_000_000,
        lanes_end: 2,
        ..SnapshotHeader::zeroed()
    }
}

fn lane(opened_ns: u64, sent_bytes: u64) -> LaneEntry {
    LaneEntry { opened_ns, job: 7, sent_bytes, sent_packets: 1, ..LaneEntry::default() }
}

#[test]
fn read__joins_lanes_with_their_identities() {
    let (public, identities) = (page(size_of::<SnapshotPage>()), page(size_of::<IdentityPage>()));
    put(&public, 0, &header());
    put(
        &public,
        SnapshotPage::job(9) + SEQUENCE,
        &JobEntry { created_ns: 1, id: 7, uid: 1000, ..JobEntry::default() },
    );
    for (index, opened_ns) in [(0, 2_000_000_000), (1, 2_500_000_000)] {
        put(&public, SnapshotPage::lane(index) + SEQUENCE, &lane(opened_ns, 1_000));
    }
    // The identity of lane 1 is that of the lane before it.
    for index in 0..2 {
        put(
            &identities,
            IdentityPage::lane(index) + SEQUENCE,
            &LaneIdentity {
                opened_ns: 2_000_000_000,
                remote: atp_common::maps::Flow::mapped([10, 0, 0, 2]),
                remote_port: 4747,
                local: "fe80::1".parse::<Ipv6Addr>().unwrap().octets(),
                local_port: 5000,
                scope: 3,
                pid: 77,
                process: *b"a\x1b[31mname\0\0\0\0\0\0",
                ..LaneIdentity::default()
            },
        );
    }
    let fds = [seal(public.try_clone().unwrap()), seal(identities)];
    let mut snapshot = Snapshot::map(&fds).unwrap();
    let stats = snapshot.read();
    assert_eq!((stats.uptime_s, stats.jobs[0].id, stats.jobs[0].uid), (2.0, 7, 1000));
    let [one, other] = &stats.lanes[..] else { panic!("{:?}", stats.lanes) };
    let identity = one.identity.as_ref().unwrap();
    assert_eq!((identity.peer.to_string().as_str(), identity.pid), ("10.0.0.2:4747", 77));
    assert_eq!(identity.process, "", "a name with control characters");
    assert_eq!((one.opened_s, other.identity.is_none()), (1.0, true));
    assert_eq!(one.achieved_bytes_per_s, None);
    assert_eq!(identity.local.to_string(), "[fe80::1%3]:5000");
    // Half a second later.
    put(&public, 0, &SnapshotHeader { ticked_ns: 3_500_000_000, ..header() });
    put(&public, SnapshotPage::lane(0) + SEQUENCE, &lane(2_000_000_000, 5_000));
    put(&public, SnapshotPage::lane(1) + SEQUENCE, &lane(3_200_000_000, 9_000));
    let achieved = |snapshot: &mut Snapshot| {
        let lanes = snapshot.read().lanes;
        lanes.iter().map(|lane| lane.achieved_bytes_per_s).collect::<Vec<_>>()
    };
    assert_eq!(achieved(&mut snapshot), [Some(8_000), None], "lane 1 is another one");
    assert_eq!(achieved(&mut snapshot), [Some(8_000), None], "at the same tick");
    // Without the page of identities, nothing is known of them.
    let mut snapshot = Snapshot::map(&[seal(public)]).unwrap();
    assert!(snapshot.read().lanes.iter().all(|lane| lane.identity.is_none()));
}

#[test]
fn map__refuses_other_memory() {
    let error = |file: OwnedFd| Snapshot::map(&[file]).unwrap_err().to_string();
    assert!(error(page(size_of::<SnapshotPage>()).into()).contains("not sealed"));
    assert!(error(seal(page(4_096))).contains("4096 bytes"));
    let other = page(size_of::<SnapshotPage>());
    put(&other, 0, &7u64);
    assert!(error(seal(other)).contains("begins with 0x7"));
    assert!(error(File::open("/dev/null").unwrap().into()).contains("not sealed"));
    let none: [OwnedFd; 0] = [];
    assert!(Snapshot::map(&none).is_err());
}

/// An entry that its writer never finishes is left out.
#[test]
fn read__leaves_out_an_entry_that_is_being_written() {
    let public = page(size_of::<SnapshotPage>());
    put(&public, 0, &header());
    for index in 0..2 {
        put(&public, SnapshotPage::lane(index), &(1 - index as u64));
        put(&public, SnapshotPage::lane(index) + SEQUENCE, &lane(1, 1));
    }
    let lanes = Snapshot::map(&[seal(public)]).unwrap().read().lanes;
    assert_eq!(lanes.iter().map(|lane| lane.lane).collect::<Vec<_>>(), [1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any bytes are read, within bounds, and as JSON.
    #[test]
    fn read__never_panics(
        words in proptest::collection::vec((0usize..87_000, any::<u64>()), 0..200),
        start in proptest::collection::vec(any::<u8>(), 0..4_000),
        is_even in any::<bool>(),
        lanes_end in any::<u64>(),
    ) {
        let (public, identities) =
            (page(size_of::<SnapshotPage>()), page(size_of::<IdentityPage>()));
        for (index, page) in [&public, &identities].into_iter().enumerate() {
            page.write_all_at(&start, 8).unwrap();
            for (at, word) in &words {
                let offset = (at * 8).max(8);
                page.write_all_at(&word.wrapping_add(index as u64).to_ne_bytes(), offset as u64)
                    .unwrap();
            }
        }
        put(&public, offset_of!(SnapshotHeader, lanes_end), &lanes_end);
        if is_even {
            for index in 0..64 {
                put(&public, SnapshotPage::lane(index), &2u64);
                put(&public, SnapshotPage::job(index), &2u64);
                put(&identities, IdentityPage::lane(index), &2u64);
                put(&identities, IdentityPage::job(index), &2u64);
            }
        }
        let mut snapshot = Snapshot::map(&[seal(public), seal(identities)]).unwrap();
        for _ in 0..2 {
            let stats = snapshot.read();
            prop_assert!(stats.lanes.len() <= LANES as usize);
            prop_assert!(stats.lanes.iter().all(|lane| lane.queue < 8));
            serde_json::to_string(&stats).unwrap();
        }
    }
}
