//! The report of a job: what was sent, what was delivered, and the lanes over time.

use atp_proto::{LostIds, UnknownIds};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The outcome of a job, from [`Job::finish`](crate::Job::finish) or
/// [`Job::cancel`](crate::Job::cancel).
///
/// It serializes to JSON under these field names; the suffix of a name is its unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The job's id.
    pub job: u32,
    /// The datapath at the job's end: `ebpf`, or `userspace` without a daemon.
    pub datapath: String,
    /// The pacing at the job's end: `fq`, `htb` or `userspace`.
    pub pacing: String,
    /// Seconds from the first message to the confirmed end.
    pub elapsed_s: f64,
    /// DATA packets sent, retransmissions included.
    pub packets_sent: u64,
    /// DATA packets retransmitted.
    pub packets_retransmitted: u64,
    /// Messages that shared a packet with others, counted once for each time that they were sent.
    #[serde(default)]
    pub messages_packed: u64,
    /// DATA packets that reached the receiving library, by its own count.
    pub packets_arrived: u64,
    /// Packets that the receiver answered with "no room": the job waited, and tried again.
    #[serde(default)]
    pub refusals: u64,
    /// Message bytes in the packets sent, retransmissions included, headers not.
    pub bytes_sent: u64,
    /// One entry per group, of the last window.
    pub groups: Vec<GroupReport>,
    /// Windows that have ended; 1 for a job without windows.
    pub windows: u32,
    /// Windows that yielded less to exact traffic than the law `yield` says, because they would
    /// have missed their deadlines.
    #[serde(default)]
    pub windows_hurried: u32,
    /// Whether [`Job::cancel`](crate::Job::cancel), or the deadline of the last window, ended the
    /// job before its groups had the messages that they need.
    pub canceled: bool,
    /// Requests of the receiver that the job has handled, obeyed or not.
    #[serde(default)]
    pub requests: u64,
    /// Whether the job ended because the receiver asked for it. Its groups then need no message:
    /// their MSR is 0.
    #[serde(default)]
    pub ended_by_receiver: bool,
    /// Samples of the job's lanes over time, one per lane each 50 ms. There are at most 2,000: when
    /// the timeline is full, the interval doubles.
    pub timeline: Vec<Sample>,
}

/// The outcome of one window, from [`Job::end_window`](crate::Job::end_window).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// The window's number, counted from 0.
    pub window: u32,
    /// Whether every group has `ceil(MSR * N)` messages. If not, the window's deadline had passed
    /// before.
    pub complete: bool,
    /// One entry per group.
    pub groups: Vec<GroupReport>,
}

/// The outcome of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupReport {
    /// The group's id.
    pub group: u8,
    /// N, the number of messages.
    pub messages: u32,
    /// Messages known to be delivered.
    pub delivered: u32,
    /// The messages that must be delivered: `ceil(MSR * N)`.
    pub needed: u32,
    /// Messages not delivered.
    pub lost: u32,
    /// The minimal sampling rate that was agreed last, 0 to 1.
    pub msr: f64,
    /// The ids of the messages not delivered, as
    /// [`JobBuilder::name_lost`](crate::JobBuilder::name_lost) asked for them. JSON:
    /// `{"known": [{"start": 3, "end": 5}]}` or `{"unknown": "not_asked"}`.
    #[serde(with = "LostIdsJson", default = "not_asked")]
    pub lost_ids: LostIds,
}

/// [`LostIds`] for serde.
#[derive(Serialize, Deserialize)]
#[serde(remote = "LostIds", rename_all = "snake_case")]
enum LostIdsJson {
    Known(Vec<Range<u32>>),
    Unknown(#[serde(with = "UnknownIdsJson")] UnknownIds),
}

/// [`UnknownIds`] for serde.
#[derive(Serialize, Deserialize)]
#[serde(remote = "UnknownIds", rename_all = "snake_case")]
enum UnknownIdsJson {
    NotAsked,
    EndUnconfirmed,
    NamesMissing,
}

/// Reports of versions that named no messages.
fn not_asked() -> LostIds {
    LostIds::Unknown(UnknownIds::NotAsked)
}

/// The state of a lane at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the job was opened.
    pub at_s: f64,
    /// The lane's group.
    pub group: u8,
    /// Target loss rate (NetApprox §4.2, Eq. 1), 0 to 1.
    pub tlr: f64,
    /// The lane's rate, bytes per second.
    pub rate_bytes_per_s: u64,
    /// Loss of the last evaluated epoch, 0 to 1.
    pub loss: f64,
    /// The lane's queue in the switches, 0 to 7.
    pub queue: u8,
    /// Smoothed round-trip time, microseconds; `None` before the first measurement.
    pub rtt_us: Option<f64>,
}

/// Collects samples at even intervals. When the timeline is full, it drops every other moment and
/// doubles the interval.
#[derive(Debug)]
pub(crate) struct Timeline {
    started_ns: u64,
    interval_ns: u64,
    due_ns: u64,
    samples: Vec<Sample>,
}

impl Timeline {
    const INTERVAL_NS: u64 = 50_000_000;
    const SAMPLES_MAX: usize = 2_000;

    pub fn new(started_ns: u64) -> Self {
        let interval_ns = Self::INTERVAL_NS;
        Self { started_ns, interval_ns, due_ns: started_ns, samples: Vec::new() }
    }

    /// Takes samples if they are due. `samples` gets the seconds since the start.
    pub fn observe<S>(&mut self, now_ns: u64, samples: impl FnOnce(f64) -> S)
    where
        S: IntoIterator<Item = Sample>,
    {
        if now_ns < self.due_ns {
            return;
        }
        self.samples.extend(samples((now_ns - self.started_ns) as f64 / 1e9));
        if self.samples.len() >= Self::SAMPLES_MAX {
            let mut moments = 0;
            let mut last_s = None;
            self.samples.retain(|sample| {
                if last_s.replace(sample.at_s) != Some(sample.at_s) {
                    moments += 1;
                }
                moments % 2 == 1
            });
            self.interval_ns *= 2;
        }
        self.due_ns = now_ns + self.interval_ns;
    }

    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_report__says_in_json_whether_ids_are_known() {
        let report = |lost_ids| GroupReport {
            group: 1,
            messages: 10,
            delivered: 8,
            needed: 8,
            lost: 2,
            msr: 0.8,
            lost_ids,
        };
        const TWO: &str = r#"{"known":[{"start":3,"end":5},{"start":8,"end":9}]}"#;
        let cases = [
            (LostIds::Known(vec![3..5, 8..9]), TWO),
            (LostIds::Known(vec![]), r#"{"known":[]}"#),
            (LostIds::Unknown(UnknownIds::NamesMissing), r#"{"unknown":"names_missing"}"#),
        ];
        for (lost_ids, expected) in cases {
            let report = report(lost_ids);
            let text = serde_json::to_string(&report).unwrap();
            assert!(text.contains(&format!(r#""lost_ids":{expected}"#)), "{text}");
            assert_eq!(serde_json::from_str::<GroupReport>(&text).unwrap(), report);
        }
        let old = r#"{"group":1,"messages":10,"delivered":8,"needed":8,"lost":2,"msr":0.8}"#;
        assert_eq!(serde_json::from_str::<GroupReport>(old).unwrap(), report(not_asked()));
    }

    #[test]
    fn observe__stays_bounded_and_even() {
        let mut timeline = Timeline::new(0);
        for ms in 0..1_000_000 {
            timeline.observe(ms * 1_000_000, |at_s| {
                [1, 7].map(|group| Sample {
                    at_s,
                    group,
                    tlr: 0.0,
                    rate_bytes_per_s: 0,
                    loss: 0.0,
                    queue: 1,
                    rtt_us: None,
                })
            });
        }
        let samples = timeline.samples();
        assert!(samples.len() < Timeline::SAMPLES_MAX && samples.len() > Timeline::SAMPLES_MAX / 3);
        let (first, second): (Vec<&Sample>, Vec<&Sample>) =
            samples.iter().partition(|s| s.group == 1);
        assert!(
            first.len() == second.len() && first.iter().zip(&second).all(|(a, b)| a.at_s == b.at_s)
        );
        let gaps: Vec<f64> = first.windows(2).map(|w| w[1].at_s - w[0].at_s).collect();
        let widest = gaps.iter().copied().fold(0.0, f64::max);
        assert!(gaps[0] > 0.4 * widest, "{} {widest}", gaps[0]);
    }
}
