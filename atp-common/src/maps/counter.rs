/// Per-CPU event counters, by index of one array of u64. Every place that can drop or lose a packet
/// has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Counter {
    /// Egress: DATA packets stamped and passed on.
    Paced = 0,
    /// Egress: dropped by the runaway guard.
    TooFar = 1,
    /// Egress: dropped, because cgroup or cookie do not belong to the header's job.
    Impersonation = 2,
    /// Egress: passed at the safe rate, because the controller is silent.
    Unattended = 3,
    /// Egress: a clone became an ACK.
    AckSent = 4,
    /// Ingress: DATA whose ACK could not be made or sent.
    AckFailed = 5,
    /// Ingress: DATA for a registered receiver.
    DataArrived = 6,
    /// Ingress: a packet for a registered receiver that isn't ATP, or isn't well formed.
    Malformed = 7,
    /// XDP or tc ingress: consumed ACKs for a slot that was not acknowledged before.
    AckNews = 8,
    /// XDP or tc ingress: consumed ACKs for a slot that was acknowledged before, or of an earlier
    /// lap.
    AckStale = 9,
    /// XDP or tc ingress: dropped ACKs whose cookie is not the flow's.
    AckForged = 10,
    /// XDP or tc ingress: dropped ACKs whose job, flow or lane is unknown, or no longer known.
    AckUnknown = 11,
    /// XDP or tc ingress: ACKs whose bit was lost to a race between processors. The receipt repairs
    /// that.
    AckRaced = 12,
    /// Egress: dropped packets of a registered flow that can't be paced, for instance of a group
    /// without a lane, or in a GSO buffer with packets that need ACKs.
    Unsendable = 13,
    /// Ingress: a PROBE was answered.
    ProbeAnswered = 14,
    /// Ingress: a PROBE that could not be answered, or DATA that could not be recorded.
    ProbeFailed = 15,
    /// Egress: a dropped PROBE that came too soon after the last.
    ProbeTooSoon = 16,
    /// XDP or tc ingress: consumed PROBE-ACKs that were new.
    ProbeNews = 17,
    /// XDP or tc ingress: consumed PROBE-ACKs that had come before.
    ProbeStale = 18,
}

impl Counter {
    /// How many counters there are.
    pub const COUNT: u32 = 19;

    /// All counters, with their public names.
    pub const NAMES: [(Self, &'static str); Self::COUNT as usize] = [
        (Self::Paced, "paced"),
        (Self::TooFar, "too_far"),
        (Self::Impersonation, "impersonation"),
        (Self::Unattended, "unattended"),
        (Self::AckSent, "ack_sent"),
        (Self::AckFailed, "ack_failed"),
        (Self::DataArrived, "data_arrived"),
        (Self::Malformed, "malformed"),
        (Self::AckNews, "ack_news"),
        (Self::AckStale, "ack_stale"),
        (Self::AckForged, "ack_forged"),
        (Self::AckUnknown, "ack_unknown"),
        (Self::AckRaced, "ack_raced"),
        (Self::Unsendable, "unsendable"),
        (Self::ProbeAnswered, "probe_answered"),
        (Self::ProbeFailed, "probe_failed"),
        (Self::ProbeTooSoon, "probe_too_soon"),
        (Self::ProbeNews, "probe_news"),
        (Self::ProbeStale, "probe_stale"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names__are_in_order_and_complete() {
        for (index, (counter, _)) in Counter::NAMES.iter().enumerate() {
            assert_eq!(*counter as usize, index);
        }
    }
}
