//! The events that the programs' log names. A line carries the event's number, and userspace has
//! the words.

use super::Counter;

/// An event's number: the counter that counts the event in the low byte, or [`UNCOUNTED`], and a
/// number among the events of that counter above it.
const fn number(counter: u32, among: u32) -> u32 {
    counter | among << 8
}

/// The low byte of the number of an event without a counter. A clone that egress drops is counted
/// at ingress, which made it and sees its end ([`Event::AckFailed`]).
const UNCOUNTED: u32 = 0xff;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $counter:expr, $among:literal, $text:literal;)*) => {
        /// An event of a packet in a program, with its reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Event {
            $(#[doc = $text] $name = number($counter as u32, $among),)*
        }

        impl Event {
            /// All events.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The event in words.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

events! {
    Unattended = Counter::Unattended, 0, "sent at the safe rate: the daemon is silent";
    TooFar = Counter::TooFar, 0, "dropped: the departure would lie beyond the horizon";
    JobEnded = Counter::Impersonation, 0, "dropped: the flow's job has ended";
    NotOfFlow = Counter::Impersonation, 1, "dropped: job or cookie isn't that of the flow";
    NotOfCgroup = Counter::Impersonation, 2, "dropped: the job isn't that of the socket's cgroup";
    CutHeader = Counter::Impersonation, 3, "dropped: its header goes on in another fragment";
    NoLane = Counter::Unsendable, 0, "dropped: the group has no lane";
    LaneClosed = Counter::Unsendable, 1, "dropped: the lane is closed";
    MixedBuffer = Counter::Unsendable, 2, "dropped: a GSO buffer with packets of several lanes";
    BufferForAcks = Counter::Unsendable, 3, "dropped: a GSO buffer with packets that need ACKs";
    ProbeLength = Counter::Unsendable, 4, "dropped: a PROBE of another length";
    NoChecksum = Counter::Unsendable, 5, "dropped: the checksum can't be updated";
    ProbeTooSoon = Counter::ProbeTooSoon, 0, "dropped: a PROBE too soon after the last one";
    NoFlow = UNCOUNTED, 0, "passed: no registered flow has these ports and addresses";
    AckSent = Counter::AckSent, 0, "sent an ACK";
    AckNotMade = UNCOUNTED, 1, "dropped: the clone can't become an ACK";
    AckFailed = Counter::AckFailed, 0, "no ACK: its clone was not sent";
    Malformed = Counter::Malformed, 0, "passed without ACK: not ATP, or malformed";
    SegmentMalformed = Counter::Malformed, 1, "no more ACKs: a GRO buffer ends with other bytes";
    ProbeAnswered = Counter::ProbeAnswered, 0, "answered a PROBE";
    ProbeFailed = Counter::ProbeFailed, 0, "dropped: the PROBE can't be answered";
    NotRecorded = Counter::ProbeFailed, 1, "arrival not recorded: its map is full";
    AckNews = Counter::AckNews, 0, "took an ACK";
    AckStale = Counter::AckStale, 0, "dropped: the slot was acknowledged before";
    AckRaced = Counter::AckRaced, 0, "took an ACK, but lost its bit to another processor";
    AckForged = Counter::AckForged, 0, "dropped: the ACK's cookie isn't that of the flow";
    AckOfNoRing = Counter::AckUnknown, 0, "dropped: the ACK's flow has no ring";
    AckOfEndedJob = Counter::AckUnknown, 1, "dropped: the ACK's job has ended";
    AckOfOtherJob = Counter::AckUnknown, 2, "dropped: the ACK's job isn't that of the flow";
    AckOfNoLane = Counter::AckUnknown, 3, "dropped: the ACK's group has no lane";
    AckOfClosedLane = Counter::AckUnknown, 4, "dropped: the ACK's lane is closed";
    AckOfOtherEnds = UNCOUNTED, 2, "passed: the ACK's addresses aren't those of the flow";
    ProbeNews = Counter::ProbeNews, 0, "took the answer to a PROBE";
    ProbeStale = Counter::ProbeStale, 0, "dropped: the PROBE was answered before";
}

impl Event {
    /// The index of the counter that counts it; that of no counter if none does.
    pub const fn counter_index(self) -> u32 {
        self as u32 & 0xff
    }

    /// The event with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|event| *event as u32 == number)
    }

    /// Whether the event with this number happens to most packets. Such events are logged at level
    /// trace, the others at level debug.
    pub const fn is_ordinary(number: u32) -> bool {
        const ORDINARY: [Event; 4] =
            [Event::AckSent, Event::AckNews, Event::ProbeAnswered, Event::ProbeNews];
        let [a, b, c, d] = ORDINARY;
        number == a as u32 || number == b as u32 || number == c as u32 || number == d as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_number__inverts_the_number_of_every_event() {
        for event in Event::ALL {
            assert_eq!(Event::from_number(*event as u32), Some(*event));
        }
        assert_eq!(Event::from_number(u32::MAX), None);
    }

    #[test]
    fn counter_index__is_that_of_a_counter_or_of_none() {
        let uncounted = |event: &&Event| event.counter_index() >= Counter::COUNT;
        let found: Vec<_> = Event::ALL.iter().filter(uncounted).collect();
        assert_eq!(found, [&Event::NoFlow, &Event::AckNotMade, &Event::AckOfOtherEnds]);
        assert_eq!(Event::TooFar.counter_index(), Counter::TooFar as u32);
    }
}
