//! A partition that is assigned to this process.

use super::rules::Number;
use approx_windows::{
    Cutter, GroupId, OutboxError, Plan, Position, RecordRef, Room, Stream, Target, Told, Worker,
};
use prometheus_client::metrics::histogram::Histogram;
use std::{
    collections::VecDeque,
    io,
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

/// Windows of a partition that may wait for their confirmation before the partition is paused: two
/// on their way, and the next.
const UNCONFIRMED_MAX: usize = 3;

/// How partitions are cut.
#[derive(Clone, Debug)]
pub struct Cutting {
    /// Rule, limits and groups.
    pub plan: Plan,
    /// Windows close after this long without a record.
    pub idle: Duration,
}

/// The shortest time between two lines about records that lack something.
const LACK_LOG: Duration = Duration::from_secs(10);

/// Counters of a partition, since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records that were read.
    pub records: u64,
    /// Windows that were closed.
    pub windows: u64,
    /// Windows that were confirmed.
    pub confirmed: u64,
    /// Records that came after their window.
    pub late: u64,
    /// Records that are too long to be sent.
    pub refused: u64,
    /// Records whose event time is missing or wrong.
    pub untimed: u64,
    /// Records without the number whose average has an accepted error.
    pub unnumbered: u64,
    /// Attempts to send that failed.
    pub failures: u64,
}

/// A partition that is read and sent.
#[derive(Debug)]
pub struct Partition {
    stream: Stream,
    cutting: Cutting,
    /// Where it is read from.
    begun: Position,
    /// Where it is read again behind the last window that was closed.
    closed: Option<Position>,
    cutter: Option<Cutter>,
    worker: Worker,
    /// The news of the worker.
    told: Receiver<Told>,
    /// The bytes of each window that isn't confirmed, and when it was closed.
    unconfirmed: VecDeque<(usize, Instant)>,
    /// The room for more records than must arrive.
    room: Room,
    /// The position behind the last window that was confirmed.
    confirmed: Option<Position>,
    last_record: Instant,
    last_confirmation: Instant,
    /// The times from the close of windows to their confirmation.
    times: Histogram,
    logged_untimed: Option<Instant>,
    logged_unnumbered: Option<Instant>,
    /// The offset that is read next.
    next: u64,
    /// Since when the consumer has paused it.
    paused: Option<Instant>,
    /// The end of the partition, if it was looked up.
    pub end: Option<u64>,
    counts: Counts,
}

/// The partition can't go on.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// Sending failed for too long.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    /// The offsets begin anew.
    #[error(
        "{stream} ends at offset {end}, before offset {read} up to which it was read: the topic \
         was deleted and created again, or has lost records. Start the bridge again if it was \
         created again; else give the bridge another `group`"
    )]
    Backwards {
        /// The partition.
        stream: Box<Stream>,
        /// The end of the partition.
        end: u64,
        /// The offset up to which it was read.
        read: u64,
    },
    /// The thread that sends has ended.
    #[error("the thread that sends {0} has ended: this is a fault of the program")]
    Worker(Box<Stream>),
}

impl Partition {
    /// A partition that was just assigned. It adds to these counts and times.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn new(
        stream: Stream,
        begun: Position,
        cutting: &Cutting,
        target: Target,
        (counts, times): (Counts, Histogram),
    ) -> io::Result<Self> {
        let (tell, told) = channel();
        // The bridge is ending if it listens no more.
        let worker = Worker::start(target, stream.clone(), move |news| _ = tell.send(news))?;
        let begun = Position { epoch: begun.epoch + 1, ..begun };
        Ok(Self {
            stream,
            cutting: cutting.clone(),
            begun,
            closed: None,
            cutter: None,
            worker,
            told,
            unconfirmed: VecDeque::new(),
            room: Room::default(),
            confirmed: None,
            last_record: Instant::now(),
            last_confirmation: Instant::now(),
            times,
            logged_untimed: None,
            logged_unnumbered: None,
            next: begun.offset,
            paused: None,
            end: None,
            counts,
        })
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Where it was begun, with the epoch of this assignment.
    pub fn begun(&self) -> Position {
        self.begun
    }

    /// The offset that is read next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Goes on at `offset`: the records before it are gone. The windows so far are closed, so that
    /// the next one says where it begins.
    pub fn expire(&mut self, offset: u64) {
        tracing::error!(
            stream = %self.stream,
            from = self.next,
            to = offset,
            "records have expired before they were read"
        );
        self.close();
        let begun = self.closed.unwrap_or(self.begun);
        self.begun = Position { offset, ..begun };
        (self.cutter, self.next) = (None, offset);
    }

    /// The error of a partition whose offsets end before those that were read.
    pub fn backwards(&self, end: u64) -> PartitionError {
        let (stream, read) = (Box::new(self.stream.clone()), self.next);
        PartitionError::Backwards { stream, end, read }
    }

    /// Counters since the process began.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Windows that were closed and not confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    /// The bytes of its windows.
    pub fn bytes(&self) -> usize {
        self.open_bytes() + self.unconfirmed.iter().map(|(bytes, _)| bytes).sum::<usize>()
    }

    /// The bytes of its open windows.
    pub fn open_bytes(&self) -> usize {
        self.cutter.as_ref().map_or(0, Cutter::memory_bytes)
    }

    /// Records that aren't confirmed, as of the last look at the end.
    pub fn lag(&self) -> Option<u64> {
        let confirmed = self.confirmed.unwrap_or(self.begun);
        Some(self.end?.saturating_sub(confirmed.offset))
    }

    /// The time since a window was confirmed, or since the assignment.
    pub fn since_confirmation(&self) -> Duration {
        self.last_confirmation.elapsed()
    }

    /// Whether it has as many unconfirmed windows as it may have.
    pub fn is_full(&self) -> bool {
        self.unconfirmed.len() >= UNCONFIRMED_MAX
    }

    /// Whether it was read up to this offset. The last offsets may have no record: transactions
    /// end with one of their own.
    pub fn has_read(&self, end: u64) -> bool {
        self.next >= end
    }

    /// Notes that no record below `offset` follows.
    pub fn skip_to(&mut self, offset: u64) {
        self.next = self.next.max(offset);
        if let Some(cutter) = &mut self.cutter {
            cutter.skip_to(offset);
        }
    }

    /// Whether all that was read is confirmed.
    pub fn is_done(&self) -> bool {
        self.unconfirmed.is_empty() && !self.cutter.as_ref().is_some_and(Cutter::has_open)
    }

    /// Takes the next record, and its number if an error is accepted. A record that was read before
    /// is ignored.
    pub fn push(&mut self, record: &RecordRef<'_>, group: GroupId, number: Number) {
        if record.offset < self.next {
            return;
        }
        let Self { cutting, begun, room, .. } = self;
        let new = || Cutter::new(cutting.plan.clone(), *begun, rand::random());
        let cutter = self.cutter.get_or_insert_with(new);
        cutter.set_room(room.share());
        cutter.push_number(record, group, number.value());
        self.counts.records += 1;
        self.next = record.offset + 1;
        self.last_record = Instant::now();
        if number == Number::Missing {
            self.note_unnumbered(record.offset);
        }
        self.send_closed();
    }

    /// Notes a record whose event time is missing or wrong.
    pub fn note_untimed(&mut self, offset: u64) {
        self.counts.untimed += 1;
        if !is_due(&mut self.logged_untimed) {
            return;
        }
        tracing::warn!(
            stream = %self.stream,
            offset,
            untimed = self.counts.untimed,
            "a record without an event time, or with one of the future: it is sent exactly, in \
             the window that is open"
        );
    }

    /// Notes a record without the number whose average has an accepted error.
    fn note_unnumbered(&mut self, offset: u64) {
        self.counts.unnumbered += 1;
        if is_due(&mut self.logged_unnumbered) {
            tracing::warn!(
                stream = %self.stream,
                offset,
                unnumbered = self.counts.unnumbered,
                "a record without the `number` of [sampling.accepted]: it has no part in the \
                 average, and a group without any number is sent whole"
            );
        }
    }

    /// Whether the consumer has paused it.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Notes that the consumer has paused or resumed it.
    pub fn set_paused(&mut self, is_paused: bool) {
        match (is_paused, self.paused) {
            (true, None) => self.paused = Some(Instant::now()),
            (false, Some(since)) => {
                // No record could come meanwhile.
                self.last_record += since.elapsed();
                self.paused = None;
            }
            _ => {}
        }
    }

    /// Closes the open windows if no record has come for long. A paused partition waits.
    pub fn close_if_idle(&mut self) {
        if !self.is_paused() && self.last_record.elapsed() >= self.cutting.idle {
            self.close();
        }
    }

    /// Closes the open windows now.
    pub fn close(&mut self) {
        if let Some(cutter) = &mut self.cutter {
            cutter.close();
            self.send_closed();
        }
    }

    /// Sends what can be sent of the window that closes next.
    pub fn send_open(&mut self) {
        if let Some(batch) = self.cutter.as_mut().and_then(Cutter::take_batch) {
            self.worker.send_batch(batch);
        }
    }

    fn send_closed(&mut self) {
        while let Some(cut) = self.cutter.as_mut().and_then(Cutter::pop) {
            self.counts.windows += 1;
            self.counts.late += cut.late;
            if !cut.refused.is_empty() {
                self.counts.refused += cut.refused.len();
                tracing::error!(
                    stream = %self.stream,
                    records = cut.refused.len(),
                    first = cut.refused.first(),
                    "records are longer than `record_bytes_max` and are not sent"
                );
            }
            let now = Instant::now();
            self.room.closed(now);
            self.unconfirmed.push_back((cut.bytes(), now));
            self.closed = Some(cut.position);
            self.worker.send(cut);
        }
    }

    /// Takes what the worker has told. Returns the position to commit, if it has moved.
    ///
    /// # Errors
    /// [`PartitionError::Outbox`] if sending failed for too long.
    pub fn advance(&mut self) -> Result<Option<Position>, PartitionError> {
        let before = self.confirmed;
        // In this order: it may tell why it ends in between.
        let has_ended = self.worker.has_ended();
        let told: Vec<_> = self.told.try_iter().collect();
        told.into_iter().try_for_each(|told| self.take(told))?;
        if has_ended {
            return Err(PartitionError::Worker(Box::new(self.stream.clone())));
        }
        Ok(self.confirmed.filter(|_| self.confirmed != before))
    }

    /// Waits until all closed windows are confirmed, or until `deadline`. Returns the position to
    /// commit, if there is one.
    pub fn settle(&mut self, deadline: Instant) -> Option<Position> {
        while !self.unconfirmed.is_empty()
            && let left = deadline.saturating_duration_since(Instant::now())
            && let Ok(told) = self.told.recv_timeout(left)
        {
            if let Err(error) = self.take(told) {
                tracing::warn!("{error}");
                break;
            }
        }
        self.confirmed
    }

    fn take(&mut self, told: Told) -> Result<(), PartitionError> {
        match told {
            Told::Confirmed(position) => {
                if let Some((_, closed)) = self.unconfirmed.pop_front() {
                    self.times.observe(closed.elapsed().as_secs_f64());
                }
                self.last_confirmation = Instant::now();
                self.room.confirmed(self.last_confirmation);
                self.counts.confirmed += 1;
                self.confirmed = Some(position);
            }
            Told::Failed(error) => {
                self.counts.failures += 1;
                tracing::warn!("{error}: trying again");
            }
            Told::GaveUp(error) => return Err(error.into()),
            Told::Finished => {}
        }
        Ok(())
    }
}

/// Whether a line is due, and notes that it is logged.
fn is_due(logged: &mut Option<Instant>) -> bool {
    let is_due = logged.is_none_or(|logged| logged.elapsed() >= LACK_LOG);
    if is_due {
        *logged = Some(Instant::now());
    }
    is_due
}
