//! The sender of an application's records, with an inbox over the loopback.

use anyhow::{Result, bail, ensure};
use approx_windows::{
    Arrival, Counted, Group, Inbox, Limits, Peer, Plan, Position, RecordRef, Rule, Sampling,
    SenderState, Stream, StreamSender, Target, WindowHeader,
};
use approxlib::{Job, Receiver};
use std::{net::SocketAddr, time::Duration};

const LIMITS: Limits = Limits { window_bytes_max: 1 << 24, record_bytes_max: 1 << 20 };
const TIMEOUT: Duration = Duration::from_secs(60);
const LENGTH_MS: u64 = 100;

fn inbox() -> Result<Inbox> {
    let builder = Receiver::builder().control_socket(None).linger(Duration::from_millis(100));
    Ok(Inbox::bind(builder, "127.0.0.1:0", Counted::default(), 64 << 20)?)
}

/// A sender of windows that only watermarks close.
fn sender(peer: SocketAddr, begin: Option<Position>) -> Result<StreamSender> {
    let sampling = Sampling::new(vec![Group { name: "half".into(), msr: 0.5 }])?;
    let rule = Rule::Time { length_ms: LENGTH_MS, watermark_delay_ms: Rule::NEVER };
    let plan = Plan { rule, limits: LIMITS, sampling: sampling.clone() };
    let options = Job::builder().control_socket(None);
    let peer = Peer { address: peer.to_string(), options };
    let stream = Stream { topic: "readings".into(), ..Stream::default() };
    Ok(StreamSender::start(Target { peer, sampling, retry: TIMEOUT }, stream, plan, begin)?)
}

fn push(sender: &mut StreamSender, offset: u64, time_ms: i64) -> Result<()> {
    let record = RecordRef { offset, timestamp_ms: Some(time_ms), ..RecordRef::default() };
    Ok(sender.push(&record, None)?)
}

/// The next window, which is confirmed.
fn next(inbox: &mut Inbox) -> Result<WindowHeader> {
    match inbox.next(Some(TIMEOUT))? {
        Some(Arrival::Window(window)) => {
            inbox.confirm(&window);
            Ok(window.header)
        }
        other => bail!("no window: {other:?}"),
    }
}

fn wait(sender: &StreamSender, is_done: impl Fn(&SenderState) -> bool) -> Result<()> {
    let progress = sender.progress();
    progress.wait(TIMEOUT, &is_done);
    ensure!(is_done(&progress.lock()), "the sender waits: {:?}", progress.lock());
    Ok(())
}

#[test]
fn advance__closes_windows_and_finish_ends_the_stream() -> Result<()> {
    let mut inbox = inbox()?;
    let mut sender = sender(inbox.local_addr()?, None)?;
    for (offset, time_ms) in [(0, 5), (1, 120), (2, 30), (3, 130)] {
        push(&mut sender, offset, time_ms)?;
    }
    sender.advance(100);
    let header = next(&mut inbox)?;
    assert_eq!((header.number, header.offsets.to_string()), (0, "0, 2".into()));
    wait(&sender, |state| state.confirmed == 1)?;
    assert_eq!(sender.progress().lock().position.map(|position| position.offset), Some(1));
    // Late.
    push(&mut sender, 4, 7)?;
    sender.finish();
    let header = next(&mut inbox)?;
    assert_eq!((header.number, header.offsets.to_string(), header.late), (1, "1, 3-4".into(), 1));
    let ended = inbox.next(Some(TIMEOUT))?;
    assert!(matches!(ended, Some(Arrival::Ended(_))), "{ended:?}");
    wait(&sender, |state| state.has_finished)
}

/// A stream's watermark may have passed windows before its first record.
#[test]
fn advance__before_the_first_record_counts() -> Result<()> {
    let mut inbox = inbox()?;
    let mut first = sender(inbox.local_addr()?, None)?;
    first.advance(300);
    first.advance(200);
    push(&mut first, 7, 5)?;
    first.close_windows();
    let described = |header: WindowHeader| (header.number, header.records(), header.late);
    assert_eq!(described(next(&mut inbox)?), (2, 0, 0));
    assert_eq!(described(next(&mut inbox)?), (3, 1, 1));
    wait(&first, |state| state.confirmed == 2)?;
    let position = first.progress().lock().position;
    drop(first);
    // Another sender goes on behind that window.
    let mut second = sender(inbox.local_addr()?, position)?;
    second.advance(500);
    push(&mut second, 8, 420)?;
    second.finish();
    assert_eq!(described(next(&mut inbox)?), (4, 0, 0));
    let header = next(&mut inbox)?;
    assert_eq!((header.number, header.late, header.from, header.resume), (5, 1, 8, 9));
    Ok(())
}

/// A stream without records tells of its time, and of its end.
#[test]
fn advance__of_a_stream_that_begins_sends_empty_windows() -> Result<()> {
    let mut inbox = inbox()?;
    let mut sender = sender(inbox.local_addr()?, Some(Position::begin(0)))?;
    for watermark_ms in [100, 150, 400] {
        sender.advance(watermark_ms);
    }
    for number in [0, 3] {
        let header = next(&mut inbox)?;
        assert_eq!((header.number, header.records(), header.is_last_part), (number, 0, true));
    }
    sender.finish();
    let ended = inbox.next(Some(TIMEOUT))?;
    assert!(matches!(ended, Some(Arrival::Ended(_))), "{ended:?}");
    assert_eq!(inbox.stats().skipped, 0);
    Ok(())
}
