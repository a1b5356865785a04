//! Tests of the library's side of the kernel datapath, which reads acknowledgments from shared
//! memory. This file plays the daemon's side with the functions of atp-common that the eBPF
//! programs run. Other tests load the programs themselves.

mod common;

use approxlib::{
    Job, Receiver, Report,
    control::{GroupOpen, KnownPath, Reply, Request, SenderGrant},
};
use atp_common::{
    maps::{GROUPS, GroupProgress, LaneStatus, RING_TAIL_WORDS, ack_ring},
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
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
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
            ring: memory((RING_WORDS + RING_TAIL_WORDS) as usize * 8),
            progress: memory(2 * GROUPS * size_of::<GroupProgress>()),
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

/// Counts on, as the egress program does for the packets that it sees, until `covered` is false.
/// Returns the longest pause of the count so far, nanoseconds.
fn count_packets(ring: &File, covered: Arc<AtomicBool>) -> Arc<AtomicU64> {
    let mut ring = map(ring);
    let longest_ns = Arc::<AtomicU64>::default();
    let longest = longest_ns.clone();
    thread::spawn(move || {
        let words: &mut [u64] = bytemuck::cast_slice_mut(&mut ring);
        let mut last_ns = now_ns();
        while covered.load(Ordering::Relaxed) {
            let now_ns = now_ns();
            longest.fetch_max(now_ns - last_ns, Ordering::Relaxed);
            last_ns = now_ns;
            // SAFETY: the last word of a live mapping, which the library reads at the same time.
            unsafe { words.as_mut_ptr().add(words.len() - 1).write_volatile(now_ns) };
            thread::sleep(Duration::from_millis(1));
        }
    });
    longest_ns
}

/// Repeats an attempt whose job left the datapath because the thread that counts its packets was
/// late, as it is on a busy machine: after 20 ms without a count the library takes its packets for
/// unseen.
fn unless_late<T>(mut attempt: impl FnMut() -> (T, Report, Arc<AtomicU64>)) -> (T, Report) {
    const LATE_NS: u64 = 10_000_000;
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let (kept, report, longest_ns) = attempt();
        let was_late = longest_ns.load(Ordering::Relaxed) > LATE_NS;
        if report.datapath == "ebpf" || !was_late || Instant::now() > limit {
            return (kept, report);
        }
    }
}

fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    Duration::from(now).as_nanos() as u64
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
    let (learn, learned) = mpsc::channel();
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

/// A daemon to which the flow returns. Tells when it was asked.
fn daemon_that_is_back(shared: &Shared, socket: &Path) -> (TestDaemon, mpsc::Receiver<()>) {
    let mut fds = Some(shared.fds());
    let (tell, asked) = mpsc::channel();
    let daemon = TestDaemon::start_at(socket, move |request, _| {
        let Request::SenderOpen { id: Some(JOB), cookie: Some(COOKIE), groups } = request else {
            panic!("{request:?}");
        };
        let [GroupOpen { msr_parts_per_billion: 800_000_000, epoch, rate_bytes_per_s, .. }] =
            groups[..]
        else {
            panic!("{groups:?}");
        };
        assert!(epoch >= 8_192 && rate_bytes_per_s > 0, "{groups:?}");
        tell.send(()).unwrap();
        (reply(&Reply::Sender(grant())).0, fds.take().unwrap())
    });
    (daemon, asked)
}

fn grant() -> SenderGrant {
    SenderGrant {
        job: JOB,
        cookie: COOKIE,
        ack_ring_words: RING_WORDS,
        pacing: "fq".into(),
        path: KnownPath::default(),
    }
}

fn daemon(shared: &Shared, uncovered: Option<mpsc::Sender<(u64, u64)>>) -> TestDaemon {
    let mut fds = Some(shared.fds());
    TestDaemon::start(move |request, _| {
        if let Request::NotCovered { packets, after_us } = request {
            if let Some(uncovered) = &uncovered {
                uncovered.send((packets, after_us)).unwrap();
            }
            return reply(&Reply::Done);
        }
        let expected = Request::SenderOpen {
            id: Some(JOB),
            cookie: None,
            groups: vec![GroupOpen {
                msr_parts_per_billion: 800_000_000,
                messages: 500,
                first_window: true,
                ..GroupOpen::default()
            }],
        };
        assert_eq!(request, expected);
        (reply(&Reply::Sender(grant())).0, fds.take().unwrap())
    })
}

/// Sends 500 messages of two packets, and calls `midway` after the first half.
fn run(
    shared: &Shared,
    attached: Arc<AtomicBool>,
    midway: impl FnOnce(&TestDaemon),
) -> (Report, Arc<AtomicU64>) {
    let covered = Arc::new(AtomicBool::new(true));
    let longest_ns = count_packets(&shared.ring, covered.clone());
    let report = run_with(shared, daemon(shared, None), attached, midway);
    covered.store(false, Ordering::Relaxed);
    (report, longest_ns)
}

fn run_with(
    shared: &Shared,
    daemon: TestDaemon,
    attached: Arc<AtomicBool>,
    midway: impl FnOnce(&TestDaemon),
) -> Report {
    let receiver = Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap();
    let forwarded = Arc::new(AtomicU32::new(0));
    let at = receiver.local_addr().unwrap();
    let peer = network(at, &shared.ring, attached, 7, forwarded.clone());
    let received = receive(receiver);
    let mut job = Job::builder()
        .packing(false)
        .id(JOB)
        .messages(500)
        .msr(0.8)
        .payload_bytes(1_400)
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
    let (shared, report) = unless_late(|| {
        let shared = Shared::new();
        let (report, longest_ns) = run(&shared, Arc::new(AtomicBool::new(true)), |_| {});
        (shared, report, longest_ns)
    });
    assert_eq!((report.datapath.as_str(), report.pacing.as_str()), ("ebpf", "fq"));
    // Every seventh packet was lost, which the gaps in the ring show.
    assert!(report.packets_retransmitted > 0 && report.packets_retransmitted < 500, "{report:?}");
    let sample = report.timeline[0];
    assert_eq!((sample.queue, sample.rate_bytes_per_s), (2, 12_500_000));
    assert!((sample.tlr - 0.2).abs() < 1e-3 && sample.rtt_us == Some(20_000.0));
    let progress = shared.progress();
    assert_eq!((progress.messages, progress.msr_parts_per_billion), (500, 800_000_000));
    assert!(progress.delivered >= 300, "{progress:?}");
}

#[test]
fn job__continues_when_the_daemon_detaches_and_stops() {
    let attached = Arc::new(AtomicBool::new(true));
    let (report, _) = run(&Shared::new(), attached.clone(), |daemon| {
        attached.store(false, Ordering::Relaxed);
        daemon.hang_up();
    });
    assert_eq!((report.datapath.as_str(), report.pacing.as_str()), ("userspace", "userspace"));
}

#[test]
fn job__continues_when_the_daemon_leaves_its_programs_behind() {
    let (report, _) = run(&Shared::new(), Arc::new(AtomicBool::new(true)), TestDaemon::hang_up);
    assert_eq!(report.datapath, "userspace");
}

#[test]
fn job__continues_when_the_programs_see_its_packets_no_more() {
    let shared = Shared::new();
    let covered = Arc::new(AtomicBool::new(true));
    count_packets(&shared.ring, covered.clone());
    let (tell, told) = mpsc::channel();
    let attached = Arc::new(AtomicBool::new(true));
    let report = run_with(&shared, daemon(&shared, Some(tell)), attached.clone(), |_| {
        covered.store(false, Ordering::Relaxed);
        attached.store(false, Ordering::Relaxed);
    });
    assert_eq!(report.datapath, "userspace");
    let (packets, after_us) = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(packets > 0 && after_us >= 20_000, "{packets} packets after {after_us} us");
}

#[test]
fn job__returns_to_a_daemon_that_is_back() {
    let ((), report) = unless_late(|| {
        let shared = Shared::new();
        let covered = Arc::new(AtomicBool::new(true));
        let longest_ns = count_packets(&shared.ring, covered.clone());
        let mut back = None;
        let attached = Arc::new(AtomicBool::new(true));
        let report = run_with(&shared, daemon(&shared, None), attached, |daemon| {
            let (again, asked) = daemon_that_is_back(&shared, &daemon.socket);
            daemon.hang_up();
            asked.recv_timeout(Duration::from_secs(20)).unwrap();
            // The sender thread takes the grant into use with its next packets.
            thread::sleep(Duration::from_millis(100));
            back = Some(again);
        });
        covered.store(false, Ordering::Relaxed);
        ((), report, longest_ns)
    });
    assert_eq!((report.datapath.as_str(), report.pacing.as_str()), ("ebpf", "fq"));
    // Nothing was taken for a new run: the receiver has each message once.
    assert!(report.groups[0].delivered <= 500, "{report:?}");
}

/// The daemon knows the path from an earlier flow. Otherwise the first timeout is 40 ms at most.
#[test]
fn first_timeout__is_that_of_the_known_path() {
    let shared = Shared::new();
    let opened = LaneStatus { rate_bytes_per_s: 12_500_000, queue: 2, ..LaneStatus::default() };
    map(&shared.status)[..size_of::<LaneStatus>()].copy_from_slice(bytemuck::bytes_of(&opened));
    let covered = Arc::new(AtomicBool::new(true));
    count_packets(&shared.ring, covered.clone());
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut fds = Some(shared.fds());
    let daemon = TestDaemon::start(move |_, _| {
        let path = KnownPath { rtt_smoothed_ns: 10_000_000_000, ..KnownPath::default() };
        (reply(&Reply::Sender(SenderGrant { path, ..grant() })).0, fds.take().unwrap())
    });
    let mut job = Job::builder()
        .id(JOB)
        .messages(2)
        .msr(0.5)
        .control_socket(Some(daemon.socket.clone()))
        .connect(silent.local_addr().unwrap())
        .unwrap();
    // The first copy leaves after this moment, so that a slow machine makes the time longer only.
    let began = Instant::now();
    job.send(b"the only message").unwrap();
    let mut copies = 0;
    while copies < 2 {
        let mut packet = [0; 2_048];
        let len = silent.recv(&mut packet).unwrap();
        copies += u32::from(matches!(Header::parse(&packet[..len]), Ok((_, Kind::Data))));
    }
    let timeout = began.elapsed();
    assert!(timeout >= Duration::from_millis(190), "{timeout:?}");
    drop(job);
    covered.store(false, Ordering::Relaxed);
}
