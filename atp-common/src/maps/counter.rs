/// Per-CPU event counters, by index of one array of u64. Whatever can refuse or lose a packet has
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Counter {
    /// Egress: DATA packets stamped and passed on.
    Paced = 0,
    /// Egress: dropped by the runaway guard.
    TooFar = 1,
    /// Egress: dropped, the header's job is another's (cgroup or cookie disagree).
    Impersonation = 2,
    /// Egress: passed at the safe rate because the controller is silent.
    Unattended = 3,
    /// Egress: a clone became an ACK.
    AckSent = 4,
    /// Ingress: DATA whose ACK could not be made, or not be sent.
    AckFailed = 5,
    /// Ingress: DATA for a registered receiver.
    DataArrived = 6,
    /// Ingress: a packet for a registered receiver that isn't ATP, or isn't well formed.
    Malformed = 7,
    /// ACKs consumed that told something new.
    AckNews = 8,
    /// ACKs consumed for a slot that was acknowledged before, or is of an earlier lap.
    AckStale = 9,
    /// ACKs dropped: the cookie is not the flow's.
    AckForged = 10,
    /// ACKs dropped: job, flow or lane are not (or no longer) known.
    AckUnknown = 11,
    /// ACKs whose bit was lost to a race between processors; the receipt repairs it.
    AckRaced = 12,
    /// Egress: dropped DATA of a registered flow that can't be paced: a superpacket, or one of a
    /// group without a lane.
    Unsendable = 13,
    /// Ingress: a PROBE was answered.
    ProbeAnswered = 14,
    /// Ingress: a PROBE that couldn't be answered, or DATA that couldn't be recorded.
    ProbeFailed = 15,
    /// Egress: dropped, a PROBE that came too soon after the last.
    ProbeTooSoon = 16,
    /// Answers to PROBEs consumed that told something new.
    ProbeNews = 17,
    /// Answers to PROBEs consumed that came before.
    ProbeStale = 18,
}

impl Counter {
    /// How many counters there are.
    pub const COUNT: u32 = 19;

    /// All of them, with the names that people see.
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
