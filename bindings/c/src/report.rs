//! Reports of jobs and windows, as structures of C.

use crate::sized::SizeFirst;
use approxlib::{
    GroupReport, LostIds, Progress, Report, Sample, ShortCause, Shortfall, WindowReport,
};
use std::ffi::c_char;

/// A job's progress.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_progress {
    /// The size of the structure.
    pub struct_size: usize,
    /// Messages accepted for sending, of all groups and windows.
    pub messages: u64,
    /// The sum of the rates of all groups.
    pub rate_bytes_per_s: u64,
    /// Packets with data sent, retransmissions included.
    pub packets_sent: u64,
    /// Messages known to be delivered, of all groups of the current window.
    pub delivered: u32,
    /// 1 if the job, or the current window, needs no more messages: further ones are dropped.
    pub complete: u32,
}

/// The outcome of a job, or of a window. A window has its number, `complete` and its groups; its
/// other fields are 0.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_report {
    /// The size of the structure.
    pub struct_size: usize,
    /// The job's id.
    pub job: u32,
    /// The number of the window, or of windows that have ended in the report of a job.
    pub windows: u32,
    /// 1 if every group has the messages that it needs.
    pub complete: u32,
    /// 1 if a cancel, or the deadline of the last window, ended the job before that.
    pub canceled: u32,
    /// The number of groups: see atp_job_report_group.
    pub groups_len: usize,
    /// The number of samples: see atp_job_report_sample.
    pub samples_len: usize,
    /// Seconds from the first message to the confirmed end.
    pub elapsed_s: f64,
    /// Packets with data sent, retransmissions included.
    pub packets_sent: u64,
    /// Packets with data retransmitted.
    pub packets_retransmitted: u64,
    /// Messages that shared a packet, once for each time that they were sent.
    pub messages_packed: u64,
    /// Packets with data that reached the receiving library.
    pub packets_arrived: u64,
    /// Packets that the receiver had no room for at first.
    pub refusals: u64,
    /// Message bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// "ebpf" or "userspace".
    pub datapath: [c_char; 16],
    /// "fq", "htb" or "userspace".
    pub pacing: [c_char; 16],
    /// Requests of the receiver that the job has handled, obeyed or not.
    pub requests: u64,
    /// 1 if the job ended because the receiver asked for it. Its groups then need no message.
    pub ended_by_receiver: u32,
    /// Windows that yielded less to exact traffic, because they would have missed their deadlines.
    pub windows_hurried: u32,
}

/// The outcome of one group.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_group_report {
    /// The size of the structure.
    pub struct_size: usize,
    /// The group's id.
    pub group: u32,
    /// N, the number of messages.
    pub messages: u32,
    /// Messages known to be delivered.
    pub delivered: u32,
    /// The messages that must be delivered: ceil(MSR * N).
    pub needed: u32,
    /// Messages not delivered.
    pub lost: u32,
    /// 1 if the ids of the messages not delivered are known: see atp_job_report_lost.
    pub lost_known: u32,
    /// The minimal sampling rate that was agreed last.
    pub msr: f64,
}

/// The state of a group's lane at one moment.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_sample {
    /// The size of the structure.
    pub struct_size: usize,
    /// Seconds since the job was opened.
    pub at_s: f64,
    /// The target loss rate, 0 to 1.
    pub tlr: f64,
    /// The loss of the last evaluated epoch, 0 to 1.
    pub loss: f64,
    /// The smoothed round-trip time, microseconds; NaN before the first measurement.
    pub rtt_us: f64,
    /// The lane's rate.
    pub rate_bytes_per_s: u64,
    /// The group's id.
    pub group: u32,
    /// The lane's queue in the switches, 0 to 7.
    pub queue: u32,
}

/// Why a job ended short.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum atp_short_cause {
    /// The job didn't end short.
    ATP_SHORT_NONE = 0,
    /// No packet came from the peer within the peer timeout.
    ATP_SHORT_PEER_SILENT = 1,
    /// The receiving application takes no messages.
    ATP_SHORT_NOT_READING = 2,
    /// The receiver refused the job: see `detail`.
    ATP_SHORT_REFUSED = 3,
    /// The receiver had no room for as long as the peer timeout.
    ATP_SHORT_NO_ROOM = 4,
    /// The receiver was restarted.
    ATP_SHORT_RECEIVER_LOST_STATE = 5,
    /// The path's MTU shrank below the least: see `detail`.
    ATP_SHORT_PATH_NARROWED = 6,
    /// This host let no packet out: see `detail`.
    ATP_SHORT_CANNOT_SEND = 7,
    /// The job was dropped before its end.
    ATP_SHORT_ABANDONED = 8,
    /// A cause that has no number in this version.
    ATP_SHORT_OTHER = 99,
}

/// Why a job ended short. The groups that are short are those of its report that have fewer
/// messages than they need.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_shortfall {
    /// The size of the structure.
    pub struct_size: usize,
    /// A number of atp_short_cause.
    pub cause: u32,
    /// The number of the refusal (protocol/end.md; 0 if unknown), the path's MTU in bytes, or the
    /// error number of the kernel; 0 for other causes.
    pub detail: u32,
    /// For how long the peer was silent, read nothing or had no room.
    pub silence_s: f64,
    /// 1 if the peer's host said that nothing listens on the port.
    pub port_unreachable: u32,
    /// 1 if a router said that the peer's host is unreachable.
    pub host_unreachable: u32,
}

macro_rules! outputs {
    ($($name:ident)+) => {
        $(
            // SAFETY: repr(C), begins with its size, and holds numbers only.
            unsafe impl SizeFirst for $name {
                const NAME: &'static str = stringify!($name);

                fn initial() -> Self {
                    // SAFETY: it holds numbers only.
                    Self { struct_size: size_of::<Self>(), ..unsafe { std::mem::zeroed() } }
                }
            }
        )+
    };
}

outputs! { atp_progress atp_report atp_group_report atp_sample atp_shortfall }

impl From<Progress> for atp_progress {
    fn from(progress: Progress) -> Self {
        Self {
            messages: progress.messages,
            delivered: progress.delivered,
            rate_bytes_per_s: progress.rate_bytes_per_s,
            packets_sent: progress.packets_sent,
            complete: progress.complete.into(),
            ..Self::initial()
        }
    }
}

fn is_complete(groups: &[GroupReport]) -> u32 {
    groups.iter().all(|group| group.delivered >= group.needed).into()
}

impl From<&Report> for atp_report {
    fn from(report: &Report) -> Self {
        Self {
            job: report.job,
            windows: report.windows,
            // The groups are those of the last window, which may be an empty one after a short one.
            complete: u32::from(!report.canceled) & is_complete(&report.groups),
            canceled: report.canceled.into(),
            groups_len: report.groups.len(),
            samples_len: report.timeline.len(),
            elapsed_s: report.elapsed_s,
            packets_sent: report.packets_sent,
            packets_retransmitted: report.packets_retransmitted,
            messages_packed: report.messages_packed,
            packets_arrived: report.packets_arrived,
            refusals: report.refusals,
            bytes_sent: report.bytes_sent,
            datapath: short_text(&report.datapath),
            pacing: short_text(&report.pacing),
            requests: report.requests,
            ended_by_receiver: report.ended_by_receiver.into(),
            windows_hurried: report.windows_hurried,
            ..Self::initial()
        }
    }
}

/// The window's report as that of a job, so that both are read by the same functions.
pub fn of_window(window: WindowReport) -> (Report, atp_report) {
    let report = Report { groups: window.groups, windows: window.window, ..Report::default() };
    let complete = window.complete.into();
    let shown = atp_report { complete, ..(&report).into() };
    (report, shown)
}

fn short_text(text: &str) -> [c_char; 16] {
    let mut out = [0; 16];
    for (to, from) in out[..15].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    out
}

impl From<&GroupReport> for atp_group_report {
    fn from(report: &GroupReport) -> Self {
        let &GroupReport { group, messages, delivered, needed, lost, msr, ref lost_ids } = report;
        let lost_known = matches!(lost_ids, LostIds::Known(_)).into();
        let group = group.into();
        Self { group, messages, delivered, needed, lost, lost_known, msr, ..Self::initial() }
    }
}

impl From<&Sample> for atp_sample {
    fn from(sample: &Sample) -> Self {
        let Sample { at_s, group, tlr, rate_bytes_per_s, loss, queue, rtt_us } = *sample;
        let (group, queue) = (group.into(), queue.into());
        let rtt_us = rtt_us.unwrap_or(f64::NAN);
        Self { at_s, tlr, loss, rtt_us, rate_bytes_per_s, group, queue, ..Self::initial() }
    }
}

impl From<&Shortfall> for atp_shortfall {
    fn from(shortfall: &Shortfall) -> Self {
        use atp_short_cause::*;
        let (cause, detail, silence_s) = match shortfall.cause {
            ShortCause::PeerSilent { silence_s, .. } => (ATP_SHORT_PEER_SILENT, 0, silence_s),
            ShortCause::NotReading { silence_s } => (ATP_SHORT_NOT_READING, 0, silence_s),
            ShortCause::Refused(reason) => {
                (ATP_SHORT_REFUSED, reason.map_or(0, |reason| reason as u32), 0.0)
            }
            ShortCause::NoRoom { refused_s } => (ATP_SHORT_NO_ROOM, 0, refused_s),
            ShortCause::ReceiverLostState => (ATP_SHORT_RECEIVER_LOST_STATE, 0, 0.0),
            ShortCause::PathNarrowed { mtu_bytes } => (ATP_SHORT_PATH_NARROWED, mtu_bytes, 0.0),
            ShortCause::CannotSend { errno } => (ATP_SHORT_CANNOT_SEND, errno.unsigned_abs(), 0.0),
            ShortCause::Abandoned => (ATP_SHORT_ABANDONED, 0, 0.0),
            _ => (ATP_SHORT_OTHER, 0, 0.0),
        };
        let (port, host) = match shortfall.cause {
            ShortCause::PeerSilent { port_unreachable, host_unreachable, .. } => {
                (port_unreachable, host_unreachable)
            }
            _ => (false, false),
        };
        let (port_unreachable, host_unreachable) = (port.into(), host.into());
        let cause = cause as u32;
        Self { cause, detail, silence_s, port_unreachable, host_unreachable, ..Self::initial() }
    }
}
