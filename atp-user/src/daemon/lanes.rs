//! Runs the control laws of all lanes: on every tick, counters go in, and rate, queue and epoch go
//! to the datapath.

mod limits;

pub use limits::LaneLimits;
use limits::Use;

use approxlib::control::JobUser;
use atp_common::{
    laws::{
        burst,
        lane::{Counters, EPOCHS, EpochCount, Lane, Settings, View},
        yielding,
    },
    maps::{
        GroupProgress, LANES, LaneControl, LaneLaw, LaneStatus, ReceivedAdvice, snapshot::LaneEntry,
    },
    units::{Rate, Share},
};
use atp_datapath::{Lanes, LawInputs, Laws, RateChange, Sent};
use slab::Slab;
use std::time::Duration;
use switch_profiles::Profile;

/// An open lane.
pub struct ActiveLane {
    law: Lane,
    /// The flow's index.
    pub flow: usize,
    /// The lane's group.
    pub group: u8,
    /// The operator's limits.
    limits: LaneLimits,
    /// The use that it makes of a rate that it shares.
    used: Use,
    /// When the programs ran its law last, if they do.
    ran_ns: u64,
    /// The lane's HTB class, if that is the backend.
    htb_class: u32,
    /// The values last written to the datapath.
    written: LaneControl,
    tlr: Share,
    /// The number of packets that may leave back to back.
    burst_packets: u32,
    /// The longest burst with which it makes up for late packets, while it has advice.
    burst_bytes_max: u32,
    /// Packets of the epochs before the previous one.
    sent_before: Sent,
    /// The lane's entry on the snapshot page, with the fields that don't change.
    entry: LaneEntry,
    /// Whether its law has nothing to do until a packet leaves.
    is_at_rest: bool,
    /// The newest epoch that was seen with packets.
    sent_epoch: u16,
}

/// All lanes of the host, by their index in the datapath.
pub struct LaneTable {
    lanes: Slab<ActiveLane>,
    /// The number of ticks so far.
    ticks: u32,
    /// The number of ticks from one run of the law of a lane at rest to the next. The law must run,
    /// because the sender's progress may change the lane's target.
    rest_ticks: u32,
    /// When the last one was.
    ticked_ns: u64,
}

/// The law of a lane at rest runs this often.
const REST: Duration = Duration::from_millis(64);

/// The input of one tick.
pub struct Tick<'a> {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// The time of the tick in nanoseconds of the clock that hosts share.
    pub shared_ns: u64,
    /// Whether packets leave at the time that the lane's clock gives them (fq).
    pub paced_by_departure: bool,
    /// The lanes' memory, shared with the programs.
    pub lanes: &'a Lanes,
    /// The laws' memory if the programs run them; `None` if this loop does.
    pub laws: Option<&'a Laws>,
    /// DSCPs by queue.
    pub profile: &'a Profile,
}

impl LaneTable {
    /// A table without lanes, for ticks of this length.
    pub fn new(tick: Duration) -> Self {
        let rest_ticks = REST.as_nanos() / tick.as_nanos().max(1);
        let rest_ticks = u32::try_from(rest_ticks).unwrap_or(u32::MAX).max(1);
        Self { lanes: Slab::new(), ticks: 0, rest_ticks, ticked_ns: 0 }
    }

    /// Opens a lane and returns its index; `None` if there is no room.
    pub fn open(
        &mut self,
        lanes: &Lanes,
        laws: Option<&Laws>,
        profile: &Profile,
        new: NewLane,
    ) -> Option<u16> {
        if self.lanes.len() >= LANES as usize {
            return None;
        }
        let limits = self.with_first_part(new.limits);
        let entry = self.lanes.vacant_entry();
        let index = u16::try_from(entry.key()).ok()?;
        let settings = Settings { rate_max: limits.rate_max_now, ..new.settings };
        let mut law = Lane::new(settings, new.tlr, new.now_ns)
            .at_epoch(new.epoch)
            .with_backlog(new.backlog_packets);
        // The law decides how fast a lane may begin. A client can only ask for less.
        if new.rate != Rate::default() && new.rate < law.rate() {
            law = law.at_rate(new.rate);
        } else if new.first_window {
            law = law.with_first_window();
        }
        let mut lane = ActiveLane {
            law,
            flow: new.flow,
            group: new.group,
            limits,
            used: Use::default(),
            ran_ns: 0,
            htb_class: lanes.htb_class(index),
            written: LaneControl::default(),
            tlr: new.tlr,
            burst_packets: 1,
            burst_bytes_max: new.burst_bytes_max,
            sent_before: Sent::default(),
            entry: LaneEntry {
                opened_ns: new.now_ns,
                job: new.job_id,
                job_uid_plus_one: u64::from(new.job_user.uid) + 1,
                job_container: new.job_user.container.unwrap_or(0),
                flow: new.flow as u32,
                group: u32::from(new.group),
                ..LaneEntry::default()
            },
            is_at_rest: false,
            sent_epoch: new.epoch.wrapping_sub(1),
        };
        // A program may still be running the law of the lane that had this index before.
        let guard = match laws {
            Some(laws) => Some(laws.lock(index)?),
            None => None,
        };
        lanes.reset_at(index, new.epoch);
        lanes.skip_overtaken(index, lane.law.rtt_meter().skips_overtaken);
        lane.written = lane.control(profile);
        if let Some(guard) = &guard {
            guard.write(&lane.program_law(profile));
            lane.written.due_ns = new.now_ns;
        }
        lanes.store_control(index, &lane.written);
        entry.insert(lane);
        Some(index)
    }

    /// Closes a lane.
    pub fn close(&mut self, lanes: &Lanes, laws: Option<&Laws>, index: u16) {
        if self.lanes.try_remove(usize::from(index)).is_some() {
            // Waits for a program that is still running the law, before the index can be used
            // again.
            let _guard = laws.and_then(|laws| laws.lock(index));
            lanes.store_control(index, &LaneControl::default());
        }
    }

    /// When a lane was opened, nanoseconds of CLOCK_MONOTONIC.
    pub fn opened_ns(&self, index: u16) -> Option<u64> {
        self.lanes.get(usize::from(index)).map(|lane| lane.entry.opened_ns)
    }

    /// Whether no lane is open.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// A lane's entry on the snapshot page.
    pub fn entry(&self, index: u16, tick: &Tick<'_>, progress: GroupProgress) -> Option<LaneEntry> {
        let lane = self.lanes.get(usize::from(index))?;
        Some(lane.entry(index, tick, &lane.status(index, tick), progress))
    }

    /// The rate of a lane.
    pub fn rate_bytes_per_s(&self, index: u16) -> Option<u64> {
        self.lanes.get(usize::from(index)).map(|lane| lane.law.rate().bytes_per_s())
    }

    /// Runs the law of every lane, but not of those at rest. A thousand idle lanes would take most
    /// of the daemon's time.
    ///
    /// `progress` returns the progress that the lane's sender reports, and `advice` the advice that
    /// the lane follows, if any. `publish` gets the lane's
    /// new status, for its library and for the snapshot page. Returns the changed rates, for a
    /// backend that doesn't read them from the maps.
    pub fn tick(
        &mut self,
        tick: &Tick<'_>,
        progress: impl Fn(&ActiveLane) -> GroupProgress,
        advice: impl Fn(&ActiveLane) -> Option<ReceivedAdvice>,
        publish: impl Fn(u16, &ActiveLane, LaneStatus, &LaneEntry),
    ) -> Vec<RateChange> {
        let mut changes = Vec::new();
        let rested_ns = std::mem::replace(&mut self.ticked_ns, tick.now_ns);
        self.ticks = self.ticks.wrapping_add(1);
        self.divide_shares(tick);
        for (index, lane) in &mut self.lanes {
            let index = index as u16;
            let turn = self.ticks.wrapping_add(index.into());
            let is_its_turn = turn.is_multiple_of(self.rest_ticks);
            if lane.is_at_rest(index, tick, rested_ns) && !is_its_turn {
                continue;
            }
            let before = lane.written.rate_bytes_per_s;
            let progress = progress(lane);
            let advice = advice(lane).map(|advice| advice.until(tick.now_ns));
            lane.tick(index, tick, progress, advice.unwrap_or_default());
            let status = lane.status(index, tick);
            publish(index, lane, status, &lane.entry(index, tick, &status, progress));
            if lane.written.rate_bytes_per_s != before {
                changes.push(RateChange {
                    lane: index,
                    rate_bytes_per_s: lane.written.rate_bytes_per_s,
                });
            }
        }
        changes
    }
}

/// A lane to open.
pub struct NewLane {
    /// The job's id.
    pub job_id: u32,
    /// The job's user.
    pub job_user: JobUser,
    /// The flow's index.
    pub flow: usize,
    /// The lane's group.
    pub group: u8,
    /// The settings of its law.
    pub settings: Settings,
    /// The operator's limits.
    pub limits: LaneLimits,
    /// The first target loss rate (TLR): 1 - MSR.
    pub tlr: Share,
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// The first epoch.
    pub epoch: u16,
    /// The rate to continue at; 0 for the law's first rate.
    pub rate: Rate,
    /// Whether the library limits the first window.
    pub first_window: bool,
    /// The longest burst with which it makes up for late packets.
    pub burst_bytes_max: u32,
    /// The least packets that a full backlog in this host has; 0 if departures are known.
    pub backlog_packets: u64,
}

impl ActiveLane {
    /// Whether the lane has been at rest since the last tick, at `rested_ns`. A packet that left
    /// ends the rest.
    fn is_at_rest(&mut self, index: u16, tick: &Tick<'_>, rested_ns: u64) -> bool {
        let epoch = self.law.epoch();
        if tick.lanes.sent_in(index, epoch).packets == 0 {
            return self.is_at_rest;
        }
        if self.is_at_rest {
            self.law.end_rest(rested_ns);
        }
        (self.is_at_rest, self.sent_epoch) = (false, epoch);
        false
    }

    fn tick(
        &mut self,
        index: u16,
        tick: &Tick<'_>,
        progress: GroupProgress,
        advice: ReceivedAdvice,
    ) {
        self.tlr = progress.target_loss_rate(self.law.rules()).min(self.limits.tlr_max);
        if let Some(laws) = tick.laws {
            let inputs = LawInputs {
                tlr: self.tlr,
                advice,
                rate_max: self.limits.rate_max_now,
                dscp_by_queue: self.dscp_by_queue(tick.profile),
            };
            let left = laws.exchange(index, &inputs);
            (self.law, self.ran_ns) = (left.lane, left.ran_ns);
            return;
        }
        self.law.set_rate_max(self.limits.rate_max_now);
        self.law.advise(advice.advice(), advice.received_ns);
        self.law.set_acks_lost(advice.acks_lost());
        if self.law.has_window() {
            let idle_ns = tick.lanes.path(index).idle_ns();
            self.law.set_draining(yielding::drains(tick.shared_ns, idle_ns));
        }
        let view = View {
            now_ns: tick.now_ns,
            last_departure_ns: if tick.paced_by_departure { tick.lanes.left_ns(index) } else { 0 },
            rtt: tick.lanes.rtt(index),
            tlr: self.tlr,
        };
        let mut cells = Cells { lanes: tick.lanes, index, sent_before: &mut self.sent_before };
        self.law.tick(&view, &mut cells);
        // The second condition reads many cells.
        self.is_at_rest = self.law.has_evaluated(self.sent_epoch) && self.law.is_at_rest(&cells);
        if self.is_at_rest {
            // Numbers of epochs wrap around: this one keeps up during a long rest.
            self.sent_epoch = self.law.epoch().wrapping_sub(EPOCHS as u16);
        }
        let queue = self.queue();
        self.burst_packets = burst::packets(
            self.law.rate(),
            tick.profile.mtu_bytes(),
            queue,
            tick.profile.path_depth_packets(queue),
        );
        let control = self.control(tick.profile);
        if control != self.written {
            tick.lanes.store_control(index, &control);
            self.written = control;
        }
    }

    /// The queue at the switches: that of the law, if the operator allows it.
    fn queue(&self) -> u8 {
        self.limits.queue(self.law.queue())
    }

    /// The DSCPs of the queues that the law may choose.
    fn dscp_by_queue(&self, profile: &Profile) -> [u8; 8] {
        std::array::from_fn(|queue| profile.dscp_of_queue(self.limits.queue(queue as u8)))
    }

    fn control(&self, profile: &Profile) -> LaneControl {
        let queue = self.queue();
        LaneControl {
            rate_bytes_per_s: self.law.rate().bytes_per_s(),
            htb_class: self.htb_class,
            dscp: LaneControl::dscp_in(queue, profile.dscp_of_queue(queue)),
            epoch: u32::from(self.law.epoch()),
            active: 1,
            due_ns: 0,
            uneven_gaps: self.law.has_uneven_gaps().into(),
            // Without advice, a lane finds its share by losses, and a burst is one.
            burst_bytes_max: if self.law.is_advised() { self.burst_bytes_max } else { 0 },
        }
    }

    /// The lane's law, in the form that the programs run.
    fn program_law(&self, profile: &Profile) -> LaneLaw {
        LaneLaw {
            holder: LaneLaw::DAEMON,
            lane: self.law,
            ran_ns: 0,
            runs: 0,
            tlr_q16: self.tlr.q16(),
            advice: 0,
            received_ns: 0,
            acks_lost_q16: 0,
            reserved: 0,
            dscp_by_queue: self.dscp_by_queue(profile),
        }
    }

    /// The flags of its status.
    fn flags(&self, programs_run_laws: bool, paced_by_departure: bool) -> u32 {
        let has_window = self.law.has_window();
        let flag = |set: bool, flag| if set { flag } else { 0 };
        // A window counts every packet in flight.
        flag(programs_run_laws || has_window, LaneStatus::ACKS_EACH)
            | flag(has_window, LaneStatus::WINDOW)
            | flag(paced_by_departure && self.law.has_uneven_gaps(), LaneStatus::UNEVEN_GAPS)
    }

    /// The lane's state for its library.
    fn status(&self, index: u16, tick: &Tick<'_>) -> LaneStatus {
        let rtt = tick.lanes.rtt(index);
        LaneStatus {
            rate_bytes_per_s: self.law.rate().bytes_per_s(),
            rtt_smoothed_ns: rtt.smoothed_ns,
            rtt_variation_ns: rtt.variation_ns,
            rtt_min_ns: match self.law.has_window() {
                true => tick.lanes.path(index).covered_ns(),
                false => rtt.min_ns,
            },
            tlr_q16: self.tlr.q16(),
            loss_q16: self.law.loss().q16(),
            queue: u32::from(self.queue()),
            epochs_evaluated: self.law.epochs_evaluated(),
            epoch: self.law.epoch(),
            law_word: LaneStatus::word_of(self.law.rules().law()),
            burst_packets: self.burst_packets,
            flags: self.flags(tick.laws.is_some(), tick.paced_by_departure),
            ..LaneStatus::default()
        }
    }

    /// The lane's entry on the snapshot page.
    fn entry(
        &self,
        index: u16,
        tick: &Tick<'_>,
        status: &LaneStatus,
        progress: GroupProgress,
    ) -> LaneEntry {
        let queue = self.queue();
        let sent = match tick.laws {
            // Epochs of the programs are too short for this loop to add up their counts.
            Some(_) => Sent { packets: LaneEntry::NOT_COUNTED, bytes: LaneEntry::NOT_COUNTED },
            None => self.sent(index, tick.lanes),
        };
        LaneEntry {
            queue: status.queue,
            rate_bytes_per_s: status.rate_bytes_per_s,
            rtt_smoothed_ns: status.rtt_smoothed_ns,
            rtt_variation_ns: status.rtt_variation_ns,
            rtt_min_ns: match self.law.has_window() {
                true => tick.lanes.path(index).idle_ns(),
                false => status.rtt_min_ns,
            },
            sent_packets: sent.packets,
            sent_bytes: sent.bytes,
            too_far_packets: tick.lanes.too_far_packets(index),
            tlr_q16: status.tlr_q16,
            loss_q16: status.loss_q16,
            epoch: status.epoch.into(),
            epochs_evaluated: status.epochs_evaluated,
            dscp: LaneControl::dscp_in(queue, tick.profile.dscp_of_queue(queue)),
            burst_packets: status.burst_packets,
            messages: progress.messages,
            delivered: progress.delivered,
            lost: progress.lost,
            msr_parts_per_billion: progress.msr().parts_per_billion(),
            advice_bytes_per_s: self.law.advice_bytes_per_s(),
            ..self.entry
        }
    }

    /// Packets that left so far. Those of the previous epoch are not yet in `sent_before`, because
    /// a program that read the epoch's number just before its end still adds to it.
    fn sent(&self, index: u16, lanes: &Lanes) -> Sent {
        let epoch = self.law.epoch();
        self.sent_before + lanes.sent_in(index, epoch.wrapping_sub(1)) + lanes.sent_in(index, epoch)
    }
}

/// A lane's epoch cells in the datapath's memory.
struct Cells<'a> {
    lanes: &'a Lanes,
    index: u16,
    sent_before: &'a mut Sent,
}

impl Counters for Cells<'_> {
    fn read(&self, epoch: u16) -> EpochCount {
        self.lanes.read_cell(self.index, epoch).count()
    }

    fn is_settled(&self, epoch: u16, now_ns: u64) -> bool {
        self.lanes.is_settled(self.index, epoch, now_ns)
    }

    fn open(&mut self, epoch: u16) {
        *self.sent_before =
            *self.sent_before + self.lanes.sent_in(self.index, epoch.wrapping_sub(2));
        self.lanes.open_cell(self.index, epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::policy::Limits;
    use atp_common::{
        laws::{Rules, lane::Settings},
        units::{PodBool, Rate},
        wire::Advice,
    };

    fn lane(law: Lane) -> ActiveLane {
        ActiveLane {
            law,
            flow: 0,
            group: 0,
            limits: LaneLimits::of(Limits::NONE, None, Rate::MAX),
            used: Use::default(),
            ran_ns: 0,
            htb_class: 0,
            written: LaneControl::default(),
            tlr: Share::ZERO,
            burst_packets: 1,
            burst_bytes_max: 0,
            sent_before: Sent::default(),
            entry: LaneEntry::default(),
            is_at_rest: false,
            sent_epoch: 0,
        }
    }

    #[test]
    fn control__program_and_library_hear_of_uneven_gaps() {
        let settings = Settings {
            rate_max: Rate::from_bytes_per_s(125_000_000),
            packet_bytes: 1_500,
            rules: Rules::default(),
            epoch_ns_min: 2_000_000,
            exact: PodBool::FALSE,
            deep_queues: PodBool::FALSE,
        };
        let mut lane = lane(Lane::new(settings, Share::ZERO, 0));
        let uneven_gaps = |lane: &ActiveLane| lane.control(&Profile::default()).uneven_gaps;
        assert_eq!((uneven_gaps(&lane), lane.flags(false, true)), (0, 0));
        lane.law.advise(Advice::of(1_000_000), 0);
        assert_eq!(uneven_gaps(&lane), 1);
        assert_eq!(lane.flags(false, true), LaneStatus::UNEVEN_GAPS);
        assert_eq!(lane.flags(true, true), LaneStatus::UNEVEN_GAPS | LaneStatus::ACKS_EACH);
        // Under HTB, the programs leave the gaps to the class.
        assert_eq!((lane.flags(false, false), lane.flags(true, false)), (0, LaneStatus::ACKS_EACH));
    }
}
