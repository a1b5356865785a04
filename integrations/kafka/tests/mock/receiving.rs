//! A receiver of windows in this process.

use anyhow::{Context, Result, bail, ensure};
use approx_windows::{Arrival, Count, Counted, Inbox, InboxStats, Record};
use approxlib::Receiver;
use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The outcome of an offset.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Received(Record),
    Lost,
}

/// The outcome of each offset that a receiver has counted, by partition.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub offsets: BTreeMap<(String, u32), BTreeMap<u64, Outcome>>,
    /// Records received and N of each group.
    pub groups: HashMap<String, (u64, u64)>,
    pub stats: InboxStats,
    /// Windows that had fewer records of a group than they need.
    pub short: Vec<String>,
    pub windows: Vec<approx_windows::WindowHeader>,
    /// Offsets that windows say were skipped.
    pub skipped: u64,
}

/// An address of the loopback that no other run uses, with a port that the kernel gives to nobody.
pub fn address(run: u64) -> SocketAddr {
    let [.., high, low] = run.to_be_bytes();
    ([127, 2, high, low], 4_747).into()
}

/// A thread that receives windows.
pub struct Receiving {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// While it is set, no window is taken, and so none confirmed.
    pub hold: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(Seen, Counted)>>>,
}

impl Receiving {
    /// Receives at an address that no other receiver has.
    pub fn at_own_address() -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 15);
        Self::start(address(NEXT.fetch_add(1, Relaxed)), Default::default())
    }

    /// Receives at an address, and goes on with the results of an earlier receiver.
    pub fn start(address: SocketAddr, (seen, counted): (Seen, Counted)) -> Result<Self> {
        let builder = Receiver::builder().control_socket(None).linger(Duration::from_millis(100));
        let mut inbox = Inbox::bind(builder, address, counted, 64 << 20)?;
        let stop = Arc::new(AtomicBool::new(false));
        let is_asked = stop.clone();
        let hold = Arc::new(AtomicBool::new(false));
        let is_held = hold.clone();
        let thread = thread::spawn(move || {
            let mut seen = seen;
            while !is_asked.load(Relaxed) {
                if is_held.load(Relaxed) {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
                if let Some(arrival) = inbox.next(Some(Duration::from_millis(20)))? {
                    seen.take(&mut inbox, arrival)?;
                }
            }
            seen.stats = inbox.stats();
            Ok((seen, inbox.counted().clone()))
        });
        Ok(Self { address, stop, hold, thread: Some(thread) })
    }

    /// Ends it, between two windows.
    pub fn end(mut self) -> Result<(Seen, Counted)> {
        self.stop.store(true, Relaxed);
        let thread = self.thread.take().context("it has ended")?;
        thread.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))?
    }
}

impl Seen {
    fn take(&mut self, inbox: &mut Inbox, arrival: Arrival) -> Result<()> {
        let window = match arrival {
            Arrival::Window(window) => window,
            Arrival::Repeated(_) | Arrival::Unfinished(_) | Arrival::Ended(_) => return Ok(()),
            other => bail!("{other:?}"),
        };
        let header = &window.header;
        let key = (header.stream.topic.clone(), header.stream.partition);
        let offsets = self.offsets.entry(key).or_default();
        for group in &window.groups {
            let needed = (group.header.msr * group.header.records as f64).ceil() as usize;
            let is_whole = matches!(window.count, Count::Whole);
            if is_whole && group.records.len() < needed || group.arrived != group.header.sent {
                self.short.push(format!("{header}: {:?}", group.header));
            }
            let sums = self.groups.entry(group.header.name.clone()).or_default();
            sums.0 += group.records.len() as u64;
            sums.1 += group.header.records;
            for record in &group.records {
                let outcome = Outcome::Received(record.clone());
                let before = offsets.insert(record.offset, outcome);
                ensure!(before.is_none(), "{header}: offset {} counts twice", record.offset);
            }
        }
        for offset in window.lost.ranges().flatten() {
            let before = offsets.insert(offset, Outcome::Lost);
            ensure!(before.is_none(), "{header}: offset {offset} counts twice");
        }
        self.windows.push(header.clone());
        self.skipped += window.skipped;
        inbox.confirm(&window);
        Ok(())
    }
}
