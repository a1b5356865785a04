//! Sends the records of a stream that an application has, one after the other.

use crate::{
    cutter::{Cutter, Plan},
    error::{OutboxError, PushError},
    position::Position,
    record::RecordRef,
    room::Room,
    sampling::GroupId,
    stream::Stream,
    worker::{Target, Told, Worker},
};
use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The closed windows on their way that make the application wait for the next one.
const UNCONFIRMED_MAX: usize = 2;

/// Cuts an application's records into windows, and sends these from a thread. Dropping it ends the
/// thread: windows that aren't confirmed are forgotten.
///
/// Nothing here waits: [`StreamSender::progress`] does.
#[derive(Debug)]
pub struct StreamSender {
    worker: Worker,
    progress: Arc<SenderProgress>,
    plan: Plan,
    begin: Option<Position>,
    /// Made by the first record, which begins a new stream, or by a watermark behind `begin`.
    cutter: Option<Cutter>,
    /// The watermark before the first record. A first record behind it is late.
    watermark_ms: Option<i64>,
    last_offset: Option<u64>,
}

impl StreamSender {
    /// Starts the thread. `begin`: the [position](SenderState::position) of an earlier sender of
    /// the stream, and the records from its offset on follow; `None` for a new stream. The target's
    /// groups must be those of the plan.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn start(
        target: Target,
        stream: Stream,
        plan: Plan,
        begin: Option<Position>,
    ) -> io::Result<Self> {
        let begin = begin.map(|begin| Position { epoch: begin.epoch.saturating_add(1), ..begin });
        let progress = Arc::<SenderProgress>::default();
        let told = progress.clone();
        let worker = Worker::start(target, stream, move |news| told.take(news))?;
        Ok(Self {
            worker,
            progress,
            plan,
            begin,
            cutter: None,
            watermark_ms: None,
            last_offset: None,
        })
    }

    /// The progress of the thread.
    pub fn progress(&self) -> Arc<SenderProgress> {
        self.progress.clone()
    }

    /// Takes the next record, of the group with this name. Records without one are in the group of
    /// the [others](crate::Sampling::OTHERS), and arrive exactly without such a group.
    ///
    /// # Errors
    /// [`PushError`]. The record is not taken.
    pub fn push(&mut self, record: &RecordRef<'_>, group: Option<&str>) -> Result<(), PushError> {
        let group = self.group(group)?;
        let offset = record.offset;
        if let Some(last) = self.last_offset.filter(|last| offset <= *last) {
            return Err(PushError::Order { offset, last });
        }
        self.last_offset = Some(offset);
        self.cutter(offset).push(record, group);
        self.send();
        Ok(())
    }

    /// Closes the windows by event time that end at or before this time: no record of them follows.
    /// The last of them is sent also if it has no record, unless nobody knows yet where the stream
    /// begins.
    pub fn advance(&mut self, watermark_ms: i64) {
        if self.cutter.is_none() && self.begin.is_none() {
            self.watermark_ms = self.watermark_ms.max(Some(watermark_ms));
            return;
        }
        // Its offset is that of `begin`.
        self.cutter(0).advance(watermark_ms);
        self.send();
    }

    /// Closes all windows now. Later records of the last one by event time make another part of it.
    pub fn close_windows(&mut self) {
        self.cutter.iter_mut().for_each(Cutter::close);
        self.send();
    }

    /// Closes all windows, and ends the job once they are confirmed. No record follows.
    pub fn finish(&mut self) {
        self.close_windows();
        self.worker.finish();
    }

    /// The memory of windows that are open, bytes.
    pub fn open_bytes(&self) -> usize {
        self.cutter.as_ref().map_or(0, Cutter::memory_bytes)
    }

    fn group(&self, name: Option<&str>) -> Result<GroupId, PushError> {
        let sampling = &self.plan.sampling;
        match name {
            None => Ok(sampling.others()),
            Some(name) => sampling.named(name).ok_or_else(|| {
                let names = sampling.groups().iter().map(|group| format!("{:?}", group.name));
                let groups = names.collect::<Vec<_>>().join(", ");
                PushError::NoGroup { name: name.to_owned(), groups }
            }),
        }
    }

    fn cutter(&mut self, offset: u64) -> &mut Cutter {
        let begin = self.begin.unwrap_or(Position::begin(offset));
        let (plan, watermark_ms) = (&self.plan, self.watermark_ms);
        self.cutter.get_or_insert_with(|| {
            let mut cutter = Cutter::new(plan.clone(), begin, rand::random());
            cutter.set_room(Room::default().share());
            if let Some(watermark_ms) = watermark_ms {
                cutter.advance(watermark_ms);
            }
            cutter
        })
    }

    /// Sends the windows that are closed, and what can be sent of the next one.
    fn send(&mut self) {
        let Some(cutter) = &mut self.cutter else { return };
        let now = Instant::now();
        while let Some(cut) = cutter.pop() {
            let mut state = self.progress.lock();
            state.unconfirmed += 1;
            state.room.closed(now);
            cutter.set_room(state.room.share());
            drop(state);
            self.worker.send(cut);
        }
        if let Some(batch) = cutter.take_batch() {
            self.worker.send_batch(batch);
        }
    }
}

/// The progress of a sender's thread, for the threads that wait for it.
#[derive(Debug, Default)]
pub struct SenderProgress {
    state: Mutex<SenderState>,
    changed: Condvar,
}

/// The progress of a sender's thread.
#[derive(Debug, Default)]
pub struct SenderState {
    /// Windows that are closed and not confirmed.
    pub unconfirmed: usize,
    /// Windows that are confirmed.
    pub confirmed: u64,
    room: Room,
    /// Another sender goes on from here, once records were confirmed.
    pub position: Option<Position>,
    /// The cause of the end. The first call that finds it takes it.
    pub failure: Option<OutboxError>,
    /// Whether sending has failed for good.
    pub has_failed: bool,
    /// Whether the job has ended, with all windows confirmed.
    pub has_finished: bool,
}

impl SenderState {
    /// Whether the application may give another record.
    pub fn has_room(&self) -> bool {
        self.unconfirmed <= UNCONFIRMED_MAX
    }
}

impl SenderProgress {
    /// The state at present.
    pub fn lock(&self) -> MutexGuard<'_, SenderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_done`, until sending has failed, or for `limit`.
    pub fn wait(&self, limit: Duration, is_done: impl Fn(&SenderState) -> bool) {
        let is_due = |state: &mut SenderState| !is_done(state) && !state.has_failed;
        drop(self.changed.wait_timeout_while(self.lock(), limit, is_due));
    }

    /// Takes the news of the thread.
    fn take(&self, told: Told) {
        {
            let mut state = self.lock();
            match told {
                Told::Confirmed(position) => {
                    state.confirmed += 1;
                    state.unconfirmed -= 1;
                    state.room.confirmed(Instant::now());
                    state.position = Some(position);
                }
                // It is tried again.
                Told::Failed(_) => {}
                Told::GaveUp(error) => {
                    state.failure = Some(error);
                    state.has_failed = true;
                }
                Told::Finished => state.has_finished = true,
            }
        }
        self.changed.notify_all();
    }
}
