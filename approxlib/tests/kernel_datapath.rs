//! Tests of the library's side of the kernel datapath, which reads acknowledgments from shared
//! memory. This file plays the daemon's side with the functions of atp-common that the eBPF
//! programs run. Other tests load the programs themselves.

mod common;

use approxlib::{
    Job, Receiver, Report,
    control::{GroupOpen, Reply, Request, SenderGrant},
};
use atp_common::{
    maps::{ANSWER_WORDS, GROUPS, GroupProgress, LaneStatus, ack_ring},
    wire::{Header, Kind},
};
use common::{
    daemon::{TestDaemon, reply},
    message, receive,
};
use memmap2::{MmapMut, MmapOptions};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::{
    fs::File,
    net::{SocketAddr, UdpSocket},
    ops::Range,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

const RING_WORDS: u32 = 64;
const JOB: u32 = 7;
const COOKIE: u32 = 0x1234_5678;

/// The memory that a daemon shares for one flow.
struct Shared {
    ring: File,
    progress: File,
    status: File,
}

impl Shared {
    fn new() -> Self {
        let status_bytes = GROUPS * size_of::<LaneStatus>();
        let this = Self {
            ring: memory((RING_WORDS + ANSWER_WORDS) as usize * 8),
            progress: memory(GROUPS * size_of::<GroupProgress>()),
            status: memory(status_bytes),
        };
        let lane = LaneStatus {
            rate_bytes_per_s: 12_500_000,
            rtt_smoothed_ns: 20_000_000,
            rtt_variation_ns: 5_000_000,
            rtt_min_ns: 400_000,
            tlr_q16: 13_107,
            loss_q16: 6_553,
            queue: 2,
            epochs_evaluated: 3,
            epoch: 0,
            ..LaneStatus::default()
        };
        map(&this.status)[..size_of::<LaneStatus>()].copy_from_slice(bytemuck::bytes_of(&lane));
        this
    }

    fn fds(&self) -> Vec<OwnedFd> {
        [&self.ring, &self.progress, &self.status]
            .map(|file| OwnedFd::from(file.try_clone().unwrap()))
            .into()
    }

    fn progress(&self) -> GroupProgress {
        *bytemuck::from_bytes(&map(&self.progress)[..size_of::<GroupProgress>()])
    }
}

fn memory(bytes: usize) -> File {
    let file = File::from(memfd_create(c"atp-test", MFdFlags::MFD_CLOEXEC).unwrap());
    file.set_len(bytes as u64).unwrap();
    file
}

fn map(file: &File) -> MmapMut {
    // SAFETY: plain bytes in a memfd that is never truncated.
    unsafe { MmapOptions::new().map_mut(file) }.unwrap()
}

/// Forwards packets between sender and receiver. While `attached`, it handles ACKs as the XDP
/// program does: it records them in the ring. Drops every `lose_each`th DATA packet.
fn network(
    receiver: SocketAddr,
    ring: &File,
    attached: Arc<AtomicBool>,
    lose_each: u32,
    forwarded: Arc<AtomicU32>,
) -> SocketAddr {
    let near = UdpSocket::bind("127.0.0.1:0").unwrap();
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    far.connect(receiver).unwrap();
    let address = near.local_addr().unwrap();
    let mut ring = map(ring);
    let back_near = near.try_clone().unwrap();
    let back_far = far.try_clone().unwrap();
    let (learn, learned) = std::sync::mpsc::channel();
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
    thread::spawn(move || {
        let mut packet = [0; 2_048];
        let mut count = 0;
        while let Ok((len, source)) = near.recv_from(&mut packet) {
            let _ = learn.send(source);
            count += 1;
            forwarded.fetch_add(1, Ordering::Relaxed);
            if count % lose_each != 0 {
                let _ = far.send(&packet[..len]);
            }
        }
    });
    thread::spawn(move || {
        let sender = learned.recv().unwrap();
        let mut packet = [0; 2_048];
        while let Ok(len) = back_far.recv(&mut packet) {
            match Header::parse(&packet[..len]) {
                Ok((header, Kind::Ack)) if attached.load(Ordering::Relaxed) => {
                    assert_eq!((header.job(), header.cookie()), (JOB, COOKIE));
                    let words: &mut [u64] = bytemuck::cast_slice_mut(&mut ring);
                    let word = &mut words[ack_ring::position(header.slot(), RING_WORDS) as usize];
                    if let Some(next) = ack_ring::acknowledged(*word, header.slot()) {
                        *word = next;
                    }
                }
                _ => {
                    let _ = back_near.send_to(&packet[..len], sender);
                }
            }
        }
    });
    address
}

fn daemon(shared: &Shared) -> TestDaemon {
    let mut fds = Some(shared.fds());
    TestDaemon::start(move |request, _| {
        let expected = Request::SenderOpen {
            id: Some(JOB),
            groups: vec![GroupOpen { group: 0, msr_parts_per_billion: 800_000_000, messages: 500 }],
        };
        assert_eq!(request, expected);
        let grant = SenderGrant {
            job: JOB,
            cookie: COOKIE,
            ack_ring_words: RING_WORDS,
            pacing: "fq".into(),
        };
        (reply(&Reply::Sender(grant)).0, fds.take().unwrap())
    })
}

/// Sends 500 messages of two packets, and calls `midway` after the first half.
fn run(shared: &Shared, attached: Arc<AtomicBool>, midway: impl FnOnce(&TestDaemon)) -> Report {
    let receiver =
        Receiver::builder().control_socket(None).bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let forwarded = Arc::new(AtomicU32::new(0));
    let at = receiver.local_addr().unwrap();
    let peer = network(at, &shared.ring, attached, 7, forwarded.clone());
    let received = receive(receiver);
    let daemon = daemon(shared);
    let mut job = Job::builder()
        .id(JOB)
        .messages(500)
        .msr(0.8)
        .control_socket(Some(daemon.socket.clone()))
        .connect(peer)
        .unwrap();
    assert_eq!((job.datapath(), job.pacing()), ("ebpf", "fq"));
    send(&mut job, 0..250);
    while forwarded.load(Ordering::Relaxed) < 100 {
        thread::sleep(Duration::from_millis(1));
    }
    midway(&daemon);
    send(&mut job, 250..500);
    let report = job.finish().unwrap();
    let received = received.join().unwrap();
    for (id, data) in &received.messages {
        assert_eq!(*data, message(*id, 2_000));
    }
    assert!(received.summary.delivered >= 400 && report.groups[0].delivered >= 400);
    report
}

/// Sends slowly, because no program paces here and the network's sockets have small buffers.
fn send(job: &mut Job, ids: Range<u32>) {
    for id in ids {
        job.send(&message(id, 2_000)).unwrap();
        if id % 8 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn job__acknowledgments_come_from_the_ring() {
    let shared = Shared::new();
    let report = run(&shared, Arc::new(AtomicBool::new(true)), |_| {});
    assert_eq!((report.datapath.as_str(), report.pacing.as_str()), ("ebpf", "fq"));
    // Every seventh packet was lost, which the gaps in the ring show.
    assert!(report.packets_retransmitted > 0 && report.packets_retransmitted < 500, "{report:?}");
    let sample = report.timeline[0];
    assert_eq!((sample.queue, sample.rate_bytes_per_s), (2, 12_500_000));
    assert!((sample.tlr - 0.2).abs() < 1e-3 && (sample.rtt_us - 20_000.0).abs() < 1e-9);
    let progress = shared.progress();
    assert_eq!((progress.messages, progress.msr_parts_per_billion), (500, 800_000_000));
    assert!(progress.delivered >= 300, "{progress:?}");
}

#[test]
fn job__continues_when_the_daemon_detaches_and_stops() {
    let attached = Arc::new(AtomicBool::new(true));
    let report = run(&Shared::new(), attached.clone(), |daemon| {
        attached.store(false, Ordering::Relaxed);
        daemon.hang_up();
    });
    assert_eq!((report.datapath.as_str(), report.pacing.as_str()), ("userspace", "userspace"));
}

#[test]
fn job__continues_when_the_daemon_leaves_its_programs_behind() {
    let report = run(&Shared::new(), Arc::new(AtomicBool::new(true)), TestDaemon::hang_up);
    assert_eq!(report.datapath, "userspace");
}
