//! Windows from an outbox to an inbox over the loopback, with senders and receivers that fail.

use anyhow::{Context, Result, ensure};
use approx_windows::{
    Arrival, Counted, Cutter, Group, GroupId, Inbox, Limits, Offsets, Outbox, OutboxError,
    OutgoingWindow, Peer, Plan, Position, ReceivedWindow, RecordRef, Rule, Sampling, Stream,
    Target, Told, Worker,
};
use approxlib::{Job, Receiver};
use nix::poll::{PollFd, PollFlags, poll};
use std::{
    net::{SocketAddr, UdpSocket},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

const LIMITS: Limits = Limits { window_bytes_max: 1 << 24, record_bytes_max: 1 << 20 };
const TIMEOUT: Duration = Duration::from_secs(60);
const MEMORY: u64 = 64 << 20;

fn inbox(counted: Counted, memory_bytes_max: u64) -> Result<Inbox> {
    let builder = Receiver::builder().control_socket(None).linger(Duration::from_millis(100));
    Ok(Inbox::bind(builder, "127.0.0.1:0", counted, memory_bytes_max)?)
}

fn peer(address: SocketAddr) -> Peer {
    Peer { address: address.to_string(), options: Job::builder().control_socket(None) }
}

fn stream(partition: u32) -> Stream {
    Stream { topic: "readings".into(), partition, ..Stream::default() }
}

/// Three groups: exact, half, all but a tenth.
fn sampling() -> Sampling {
    let group = |name: &str, msr| Group { name: name.into(), msr };
    Sampling::new(vec![group("half", 0.5), group("most", 0.9)]).unwrap()
}

/// Windows of `records` records of a stream, of which every 50th is long.
fn windows(number: u64, records: u64, begin: Position) -> Vec<OutgoingWindow> {
    let plan = Plan { rule: Rule::Records(records), limits: LIMITS, sampling: sampling() };
    let mut cutter = Cutter::new(plan, begin, begin.offset);
    for offset in begin.offset..number * records {
        let value = vec![offset as u8; if offset.is_multiple_of(50) { 5_000 } else { 60 }];
        let key = offset.to_be_bytes();
        let record = RecordRef {
            offset,
            timestamp_ms: Some(offset as i64),
            key: Some(&key),
            value: Some(&value),
            headers: vec![("unit", Some(b"C")), ("none", None)],
        };
        let group = match offset % 10 {
            0 => GroupId::EXACT,
            1..=6 => GroupId::at(0),
            _ => GroupId::at(1),
        };
        cutter.push(&record, group);
    }
    let cuts = std::iter::from_fn(|| cutter.pop());
    cuts.map(|cut| OutgoingWindow::closed(cut, &stream(0))).collect()
}

/// Sends all windows, and waits until they are confirmed.
fn send(peer: &Peer, windows: &[OutgoingWindow]) -> Result<(), OutboxError> {
    let mut outbox = Outbox::open(peer, &stream(0), &sampling())?;
    for window in windows {
        outbox.send(window)?;
    }
    outbox.finish()
}

/// The next arrival that isn't the end of a sender.
fn next_arrival(inbox: &mut Inbox) -> Result<Option<Arrival>> {
    loop {
        match inbox.next(Some(TIMEOUT))? {
            Some(Arrival::Ended(_)) => {}
            arrival => return Ok(arrival),
        }
    }
}

fn next_window(inbox: &mut Inbox) -> Result<ReceivedWindow> {
    match next_arrival(inbox)? {
        Some(Arrival::Window(window)) => Ok(*window),
        other => anyhow::bail!("no window: {other:?}"),
    }
}

/// Each group has its share of the records, and each record is what was sent.
fn check(window: &ReceivedWindow) -> Result<()> {
    let header = &window.header;
    let mut seen = Offsets::default();
    for group in &window.groups {
        let needed = (group.header.msr * group.header.records as f64).ceil() as usize;
        ensure!(group.records.len() >= needed, "{header}: {:?}", group.header);
        for record in &group.records {
            ensure!(record.key.as_deref() == Some(&record.offset.to_be_bytes()[..]));
            let value = record.value.as_deref().unwrap_or_default();
            ensure!(value.iter().all(|byte| *byte == record.offset as u8) && !value.is_empty());
            ensure!(
                record.headers == [("unit".into(), Some(b"C".to_vec())), ("none".into(), None)]
            );
            seen.insert(record.offset);
        }
    }
    ensure!(seen.len() == window.received(), "a record came twice");
    let mut all = seen.clone();
    all.extend(&window.lost);
    ensure!(all == header.offsets, "lost and received aren't all");
    ensure!(seen.without(&window.lost) == seen, "a lost record was received");
    Ok(())
}

#[test]
fn next__hands_over_each_window_with_its_share() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let peer = peer(inbox.local_addr()?);
    let sender = thread::spawn(move || send(&peer, &windows(5, 2_000, Position::begin(0))));
    for number in 0..5 {
        let window = next_window(&mut inbox)?;
        assert_eq!((window.header.number, window.header.records()), (number, 2_000));
        check(&window)?;
        inbox.confirm(&window);
    }
    sender.join().unwrap()?;
    let ended = inbox.next(Some(TIMEOUT))?;
    assert!(matches!(&ended, Some(Arrival::Ended(of)) if **of == stream(0)), "{ended:?}");
    let stats = inbox.stats();
    assert_eq!((stats.windows, stats.received + stats.lost), (5, 10_000));
    assert_eq!(inbox.memory_bytes(), 0);
    Ok(())
}

/// The sender learns of a window's end only once the application has confirmed the window.
#[test]
fn confirm__ends_the_window_for_its_sender() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let windows = windows(1, 500, Position::begin(0));
    let peer = peer(inbox.local_addr()?);
    let mut outbox = Outbox::open(&peer, &stream(0), &sampling())?;
    outbox.send(&windows[0])?;
    let window = next_window(&mut inbox)?;
    thread::sleep(Duration::from_millis(300));
    assert!(outbox.try_confirmed()?.is_none(), "confirmed too early");
    inbox.confirm(&window);
    assert_eq!(outbox.confirmed()?.map(|confirmed| confirmed.windows), Some(1));
    outbox.finish()?;
    Ok(())
}

/// A sender that was started again repeats a window, and cuts the next ones differently.
#[test]
fn next__counts_each_record_once() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let peer = peer(inbox.local_addr()?);
    let runs = [
        windows(1, 300, Position::begin(0)),
        windows(1, 300, Position::begin(0)),
        windows(1, 500, Position::begin(0)),
    ];
    let sender = thread::spawn(move || runs.iter().try_for_each(|windows| send(&peer, windows)));
    let first = next_window(&mut inbox)?;
    inbox.confirm(&first);
    let repeated = next_arrival(&mut inbox)?;
    assert!(matches!(repeated, Some(Arrival::Repeated(_))), "{repeated:?}");
    let partly = next_window(&mut inbox)?;
    let counted: Offsets = partly.records().map(|record| record.offset).collect();
    let mut all = counted.clone();
    all.extend(&partly.lost);
    assert_eq!(all.to_string(), "300-499");
    inbox.confirm(&partly);
    sender.join().unwrap()?;
    let stats = inbox.stats();
    assert_eq!((stats.windows, stats.repeated, stats.records_repeated), (2, 1, 600));
    assert_eq!(stats.received + stats.lost, 500);
    Ok(())
}

/// A sender that was restored from an older state than that of the one before ends, too.
#[test]
fn next__tells_the_end_of_a_sender_of_a_lower_epoch() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let peer = peer(inbox.local_addr()?);
    for epoch in [5, 1] {
        let windows = windows(1, 300, Position { epoch, ..Position::begin(0) });
        let to = peer.clone();
        let sender = thread::spawn(move || send(&to, &windows));
        match inbox.next(Some(TIMEOUT))? {
            Some(Arrival::Window(window)) if epoch == 5 => inbox.confirm(&window),
            Some(Arrival::Repeated(_)) if epoch == 1 => {}
            other => anyhow::bail!("epoch {epoch}: {other:?}"),
        }
        let ended = inbox.next(Some(TIMEOUT))?;
        assert!(matches!(&ended, Some(Arrival::Ended(of)) if **of == stream(0)), "{ended:?}");
        sender.join().unwrap()?;
    }
    Ok(())
}

/// A receiver that is started again goes on where its predecessor had counted.
#[test]
fn next__after_a_restart_counts_what_was_not_confirmed() -> Result<()> {
    let all = windows(3, 200, Position::begin(0));
    let mut first = inbox(Counted::default(), MEMORY)?;
    let to_first = peer(first.local_addr()?);
    let mut outbox = Outbox::open(&to_first, &stream(0), &sampling())?;
    outbox.send(&all[0])?;
    outbox.send(&all[1])?;
    let window = next_window(&mut first)?;
    first.confirm(&window);
    outbox.confirmed()?;
    // Handed over, and not stored.
    let lost = next_window(&mut first)?;
    assert_eq!(lost.header.number, 1);
    let counted = first.counted().clone();
    drop(first);
    let failed = outbox.confirmed().unwrap_err();
    assert!(failed.to_string().contains("readings [0]"), "{failed}");

    let mut second = inbox(counted, MEMORY)?;
    let to_second = peer(second.local_addr()?);
    let sender = thread::spawn(move || send(&to_second, &all));
    let repeated = second.next(Some(TIMEOUT))?;
    assert!(matches!(repeated, Some(Arrival::Repeated(_))), "{repeated:?}");
    for number in [1, 2] {
        let window = next_window(&mut second)?;
        assert_eq!(window.header.number, number);
        check(&window)?;
        second.confirm(&window);
    }
    sender.join().unwrap()?;
    Ok(())
}

/// A window whose result can't be stored is sent again.
#[test]
fn reject__makes_the_sender_fail() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let peer = peer(inbox.local_addr()?);
    let again = peer.clone();
    let sender = thread::spawn(move || send(&peer, &windows(1, 100, Position::begin(0))));
    let window = next_window(&mut inbox)?;
    inbox.reject(&window);
    assert!(matches!(sender.join().unwrap(), Err(OutboxError::EndedByReceiver { .. })));
    let sender = thread::spawn(move || send(&again, &windows(1, 100, Position::begin(0))));
    let window = next_window(&mut inbox)?;
    inbox.confirm(&window);
    sender.join().unwrap()?;
    assert_eq!(inbox.stats().windows, 1);
    Ok(())
}

#[test]
fn next__refuses_windows_beyond_its_memory() -> Result<()> {
    let mut inbox = inbox(Counted::default(), 50_000)?;
    let peer = peer(inbox.local_addr()?);
    let sender = thread::spawn(move || send(&peer, &windows(1, 5_000, Position::begin(0))));
    let arrival = inbox.next(Some(TIMEOUT))?;
    assert!(matches!(arrival, Some(Arrival::NoMemory { .. })), "{arrival:?}");
    assert!(sender.join().unwrap().is_err());
    assert_eq!(inbox.memory_bytes(), 0);
    Ok(())
}

/// A sender that is no outbox.
#[test]
fn next__refuses_what_is_no_window() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let mut job = Job::builder().control_socket(None).connect(inbox.local_addr()?)?;
    job.send(b"no window")?;
    let sender = thread::spawn(move || job.end_window().map(drop));
    let arrival = inbox.next(Some(TIMEOUT))?;
    assert!(matches!(arrival, Some(Arrival::Malformed { .. })), "{arrival:?}");
    assert!(sender.join().unwrap().is_err());
    Ok(())
}

#[test]
fn hello__tells_a_receiver_of_windows_from_others() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let there = peer(inbox.local_addr()?);
    let sender = thread::spawn(move || Outbox::hello(&there, TIMEOUT));
    while !sender.is_finished() {
        assert!(inbox.next(Some(Duration::from_millis(10)))?.is_none());
    }
    sender.join().unwrap()?;

    // A receiver whose application knows no windows.
    let mut plain = Receiver::builder().control_socket(None).bind("127.0.0.1:0")?;
    let there = peer(plain.local_addr()?);
    let sender = thread::spawn(move || Outbox::hello(&there, Duration::from_millis(500)));
    while !sender.is_finished() {
        plain.recv(Some(Duration::from_millis(10)))?;
    }
    let error = sender.join().unwrap().unwrap_err();
    assert!(matches!(error, OutboxError::NoWindows { .. }), "{error}");

    // A socket that nobody reads.
    let silent = UdpSocket::bind("127.0.0.1:0")?;
    let mut nobody = peer(silent.local_addr()?);
    nobody.options = nobody.options.peer_timeout(Duration::from_millis(300));
    let begun = Instant::now();
    let error = Outbox::hello(&nobody, TIMEOUT).unwrap_err();
    assert!(matches!(error, OutboxError::NoReceiver { .. }), "{error}");
    assert!(begun.elapsed() < TIMEOUT, "it hung");
    Ok(())
}

/// A cutter of windows of 100 records.
fn cutter() -> Cutter {
    let plan = Plan { rule: Rule::Records(100), limits: LIMITS, sampling: sampling() };
    Cutter::new(plan, Position::begin(0), 1)
}

/// A record of 700 bytes, so that two don't fit into a message. Two groups have one half each.
fn push(cutter: &mut Cutter, offset: u64) {
    let value = [offset as u8; 700];
    let record = RecordRef { offset, value: Some(&value), ..RecordRef::default() };
    cutter.push(&record, GroupId::at(offset as usize % 2));
}

/// A cutter, and a worker that sends its windows. `told`: its news.
struct Sending {
    cutter: Cutter,
    worker: Worker,
    told: mpsc::Receiver<Told>,
    next: u64,
}

impl Sending {
    fn start(peer: Peer, retry: Duration) -> Result<Self> {
        Self::of(peer, retry, stream(0))
    }

    fn of(peer: Peer, retry: Duration, stream: Stream) -> Result<Self> {
        let (tell, told) = mpsc::channel();
        let target = Target { peer, sampling: sampling(), retry };
        let worker = Worker::start(target, stream, move |news| _ = tell.send(news))?;
        Ok(Self { cutter: cutter(), worker, told, next: 0 })
    }

    /// Sends records up to this offset.
    fn send_to(&mut self, offset: u64) {
        for offset in self.next..offset {
            push(&mut self.cutter, offset);
            while let Some(cut) = self.cutter.pop() {
                self.worker.send(cut);
            }
        }
        if let Some(batch) = self.cutter.take_batch() {
            self.worker.send_batch(batch);
        }
        self.next = offset;
    }

    fn told(&self) -> Result<Told> {
        Ok(self.told.recv_timeout(TIMEOUT)?)
    }
}

/// Handles what comes until `is_done`.
fn receive_until(inbox: &mut Inbox, is_done: impl Fn(&Inbox) -> bool) -> Result<Option<Arrival>> {
    let deadline = Instant::now() + TIMEOUT;
    while !is_done(inbox) {
        ensure!(Instant::now() < deadline, "it took too long");
        if let Some(arrival) = inbox.next(Some(Duration::from_millis(5)))? {
            return Ok(Some(arrival));
        }
    }
    Ok(None)
}

#[test]
fn worker__sends_a_window_while_it_is_open() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let mut sending = Sending::start(peer(inbox.local_addr()?), Duration::ZERO)?;
    sending.send_to(90);
    // 45 records of each group: 22 of one are expected, 40 of the other. A window that is sent only
    // once it is closed has none here.
    let early = receive_until(&mut inbox, |inbox| inbox.memory_bytes() > 10 * 1_400)?;
    assert!(early.is_none(), "{early:?}");
    sending.send_to(250);
    sending.cutter.close();
    sending.send_to(250);
    let last = sending.cutter.pop();
    last.into_iter().for_each(|cut| sending.worker.send(cut));
    for number in 0..3 {
        let window = next_window(&mut inbox)?;
        assert_eq!(window.header.number, number);
        assert!(window.groups.iter().all(|group| group.arrived == group.header.sent));
        let needed = [1, 2].map(|id| &window.groups[id].header).map(|group| group.msr * 0.5);
        assert!(
            window.received() as f64
                >= needed.iter().sum::<f64>() * (window.header.records() as f64)
        );
        inbox.confirm(&window);
        assert!(matches!(sending.told()?, Told::Confirmed(_)));
    }
    sending.worker.finish();
    assert!(matches!(sending.told()?, Told::Finished));
    Ok(())
}

/// The receiver is replaced while a window is open: what it got of the window is sent again.
#[test]
fn worker__sends_an_open_window_again_to_another_receiver() -> Result<()> {
    let mut first = inbox(Counted::default(), MEMORY)?;
    let address = first.local_addr()?;
    let mut to = peer(address);
    to.options = to.options.peer_timeout(Duration::from_millis(500));
    let mut sending = Sending::start(to, TIMEOUT)?;
    sending.send_to(90);
    assert!(receive_until(&mut first, |inbox| inbox.memory_bytes() > 10 * 1_400)?.is_none());
    drop(first);
    let builder = Receiver::builder().control_socket(None);
    let mut second = Inbox::bind(builder, address, Counted::default(), MEMORY)?;
    sending.send_to(100);
    let window = loop {
        match second.next(Some(TIMEOUT))? {
            Some(Arrival::Window(window)) => break window,
            Some(Arrival::Unfinished(_)) => {}
            other => anyhow::bail!("no window: {other:?}"),
        }
    };
    assert!(window.groups.iter().all(|group| group.arrived == group.header.sent));
    assert_eq!(window.received() + window.lost.len(), 100);
    second.confirm(&window);
    while !matches!(sending.told()?, Told::Confirmed(_)) {}
    Ok(())
}

/// A sender that crashed in mid-window, and its successor: the receiver drops what the first one
/// sent as soon as the second begins.
#[test]
fn next__drops_the_open_window_of_a_sender_that_was_replaced() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let to = peer(inbox.local_addr()?);
    let mut first = Sending::start(to.clone(), Duration::ZERO)?;
    first.send_to(90);
    assert!(receive_until(&mut inbox, |inbox| inbox.memory_bytes() > 10 * 1_400)?.is_none());
    let mut second = Sending::start(to, Duration::ZERO)?;
    second.send_to(50);
    let arrival = receive_until(&mut inbox, |_| false)?;
    assert!(matches!(arrival, Some(Arrival::Unfinished(_))), "{arrival:?}");
    second.send_to(100);
    let window = next_window(&mut inbox)?;
    assert_eq!(window.received() + window.lost.len(), 100);
    inbox.confirm(&window);
    assert!(matches!(second.told()?, Told::Confirmed(_)));
    assert_eq!(inbox.memory_bytes(), 0);
    Ok(())
}

/// A worker polls the descriptor of its outbox. It must not stay readable while an open window has
/// nothing new.
#[test]
fn changed_fd__is_quiet_while_a_window_is_open() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let peer = peer(inbox.local_addr()?);
    let mut cutter = cutter();
    (0..90).for_each(|offset| push(&mut cutter, offset));
    let window = OutgoingWindow::open(cutter.take_batch().context("a batch")?, &stream(0));
    let mut outbox = Outbox::open(&peer, &stream(0), &sampling())?;
    let mut is_quiet = false;
    for _ in 0..1_000 {
        assert!(outbox.try_confirmed()?.is_none());
        outbox.try_send(&window)?;
        let mut fds = [PollFd::new(outbox.changed_fd()?, PollFlags::POLLIN)];
        is_quiet = poll(&mut fds, 200u16)? == 0;
        if is_quiet {
            break;
        }
    }
    assert!(is_quiet, "it is readable again and again");
    // News make it readable: the receiver ends the job.
    drop(inbox.next(Some(Duration::from_millis(200)))?);
    drop(inbox);
    let mut fds = [PollFd::new(outbox.changed_fd()?, PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, 60_000u16)?, 1);
    let failed = outbox.try_confirmed().unwrap_err();
    assert!(failed.to_string().contains("readings [0]"), "{failed}");
    Ok(())
}

/// The receiver goes away in mid-window, and nothing more comes: it is noticed. It counts once the
/// window is closed.
#[test]
fn worker__gives_up_on_a_closed_window() -> Result<()> {
    let mut inbox = inbox(Counted::default(), MEMORY)?;
    let mut to = peer(inbox.local_addr()?);
    to.options = to.options.peer_timeout(Duration::from_millis(500));
    let mut sending = Sending::start(to, Duration::ZERO)?;
    sending.send_to(90);
    assert!(receive_until(&mut inbox, |inbox| inbox.memory_bytes() > 10 * 1_400)?.is_none());
    drop(inbox);
    assert!(matches!(sending.told()?, Told::Failed(_)));
    sending.send_to(100);
    assert!(matches!(sending.told()?, Told::GaveUp(_)));
    Ok(())
}

/// The receiver has no room for all windows while they are open, but for each once it is closed.
#[test]
fn worker__waits_for_the_end_where_a_receiver_lacks_memory() -> Result<()> {
    let mut inbox = inbox(Counted::default(), 80_000)?;
    let to = peer(inbox.local_addr()?);
    let start = |partition| Sending::of(to.clone(), TIMEOUT, stream(partition));
    let mut all = [start(0)?, start(1)?, start(2)?];
    // Some 22,000 and 42,000 bytes of each group of 100 records.
    all.iter_mut().for_each(|sending| sending.send_to(90));
    let refused = receive_until(&mut inbox, |_| false)?;
    assert!(matches!(refused, Some(Arrival::NoMemory { .. })), "{refused:?}");
    for sending in &mut all {
        sending.send_to(100);
        loop {
            match inbox.next(Some(TIMEOUT))? {
                Some(Arrival::Window(window)) => break inbox.confirm(&window),
                Some(Arrival::NoMemory { .. } | Arrival::Unfinished(_)) => {}
                other => anyhow::bail!("no window: {other:?}"),
            }
        }
    }
    for sending in &all {
        while !matches!(sending.told()?, Told::Confirmed(_)) {}
    }
    Ok(())
}
