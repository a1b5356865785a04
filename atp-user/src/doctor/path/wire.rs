//! The messages between a prober and an answerer. All numbers are big-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 0-3 | `ATPD` |
//! | 4 | version, 1 |
//! | 5 | kind: 1 probe, 2 question, 3 report |
//! | 6-13 | the answerer's token |
//! | 14-17 | the prober's session |
//! | 18 | train |
//! | 19-22 | probe: its number; question and report: the first arrival reported |
//!
//! A probe and a question are padded. A report follows with the number of arrivals so far and of
//! packets that the answerer's socket dropped (u32 each), then arrivals: the packet's number (u32),
//! the time (u64, nanoseconds of the answerer's clock), and the traffic class (u8).

const MAGIC: [u8; 4] = *b"ATPD";
const VERSION: u8 = 1;
const PROBE: u8 = 1;
const QUESTION: u8 = 2;
const REPORT: u8 = 3;

/// The bytes of a message without padding and arrivals.
pub const HEAD_BYTES: usize = 23;
const REPORT_HEAD_BYTES: usize = HEAD_BYTES + 8;
const ARRIVAL_BYTES: usize = 13;
/// The length of a question, and the greatest length of any message. It fits every path that IPv6
/// can use.
pub const MESSAGE_BYTES_MAX: usize = 1_200;
/// The trains of a session.
pub const TRAINS: u8 = 3;

/// The fields that every message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The secret of the answerer.
    pub token: u64,
    /// The prober's random number.
    pub session: u32,
    /// Below [`TRAINS`].
    pub train: u8,
    /// The number of a probe, or the first arrival of a report.
    pub number: u32,
}

/// A packet that arrived at the answerer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The probe's number.
    pub number: u32,
    /// When it arrived, nanoseconds of the answerer's clock.
    pub at_ns: u64,
    /// The traffic class with which it arrived: DSCP and ECN bits.
    pub traffic_class: u8,
}

/// A part of the arrivals of a train.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The arrivals of the train so far.
    pub total: u32,
    /// Packets that the answerer's socket had no room for.
    pub dropped: u32,
    /// As many arrivals as fit.
    pub arrivals: Vec<Arrival>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A packet of a train. It is never answered.
    Probe(Head),
    /// Asks for a part of the arrivals.
    Question(Head),
    /// The answer, no longer than its question.
    Report(Head, Report),
}

/// Parses a datagram; `None` if it is no message.
pub fn parse(bytes: &[u8]) -> Option<Message> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    if bytes.len() > MESSAGE_BYTES_MAX || head[..4] != MAGIC || head[4] != VERSION {
        return None;
    }
    let kind = head[5];
    let head = Head {
        token: u64_at(head, 6)?,
        session: u32_at(head, 14)?,
        train: head[18],
        number: u32_at(head, 19)?,
    };
    if head.train >= TRAINS {
        return None;
    }
    match kind {
        PROBE => Some(Message::Probe(head)),
        QUESTION => Some(Message::Question(head)),
        REPORT => Some(Message::Report(head, parse_report(rest)?)),
        _ => None,
    }
}

fn parse_report(bytes: &[u8]) -> Option<Report> {
    let (total, dropped) = (u32_at(bytes, 0)?, u32_at(bytes, 4)?);
    let arrivals = bytes.get(8..)?;
    if arrivals.len() % ARRIVAL_BYTES != 0 {
        return None;
    }
    let arrival = |bytes: &[u8]| {
        let (number, at_ns) = (u32_at(bytes, 0)?, u64_at(bytes, 4)?);
        Some(Arrival { number, at_ns, traffic_class: *bytes.get(12)? })
    };
    let arrivals = arrivals.chunks_exact(ARRIVAL_BYTES).map(arrival).collect::<Option<_>>()?;
    Some(Report { total, dropped, arrivals })
}

/// A probe of `len` bytes, at least those of its head.
pub fn probe(head: Head, len: usize) -> Vec<u8> {
    padded(PROBE, head, len)
}

/// A question, as long as the longest report.
pub fn question(head: Head) -> Vec<u8> {
    padded(QUESTION, head, MESSAGE_BYTES_MAX)
}

/// A report of at most `len` bytes: it leaves out the arrivals that don't fit. `None` if not even
/// an empty report fits.
pub fn report(head: Head, report: &Report, len: usize) -> Option<Vec<u8>> {
    let room = len.min(MESSAGE_BYTES_MAX).checked_sub(REPORT_HEAD_BYTES)? / ARRIVAL_BYTES;
    let mut bytes = padded(REPORT, head, HEAD_BYTES);
    bytes.extend(report.total.to_be_bytes());
    bytes.extend(report.dropped.to_be_bytes());
    for arrival in report.arrivals.iter().take(room) {
        bytes.extend(arrival.number.to_be_bytes());
        bytes.extend(arrival.at_ns.to_be_bytes());
        bytes.push(arrival.traffic_class);
    }
    Some(bytes)
}

/// The most arrivals in one report.
pub const ARRIVALS_PER_REPORT: usize = (MESSAGE_BYTES_MAX - REPORT_HEAD_BYTES) / ARRIVAL_BYTES;

fn padded(kind: u8, head: Head, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.max(HEAD_BYTES));
    bytes.extend(MAGIC);
    bytes.extend([VERSION, kind]);
    bytes.extend(head.token.to_be_bytes());
    bytes.extend(head.session.to_be_bytes());
    bytes.push(head.train);
    bytes.extend(head.number.to_be_bytes());
    bytes.resize(len.clamp(HEAD_BYTES, MESSAGE_BYTES_MAX), 0);
    bytes
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_head() -> impl Strategy<Value = Head> {
        let fields = (any::<u64>(), any::<u32>(), 0..TRAINS, any::<u32>());
        fields.prop_map(|(token, session, train, number)| Head { token, session, train, number })
    }

    fn any_report() -> impl Strategy<Value = Report> {
        let arrival = (any::<u32>(), any::<u64>(), any::<u8>())
            .prop_map(|(number, at_ns, traffic_class)| Arrival { number, at_ns, traffic_class });
        let arrivals = prop::collection::vec(arrival, 0..=ARRIVALS_PER_REPORT);
        (any::<u32>(), any::<u32>(), arrivals).prop_map(|(total, dropped, arrivals)| Report {
            total,
            dropped,
            arrivals,
        })
    }

    proptest! {
        #[test]
        fn parse__inverts_writing(head in any_head(), body in any_report(), len in 0..2_000usize) {
            prop_assert_eq!(parse(&probe(head, len)), Some(Message::Probe(head)));
            prop_assert_eq!(parse(&question(head)), Some(Message::Question(head)));
            let whole = report(head, &body, MESSAGE_BYTES_MAX).unwrap();
            prop_assert_eq!(parse(&whole), Some(Message::Report(head, body)));
        }

        #[test]
        fn report__is_never_longer_than_allowed(
            head in any_head(),
            body in any_report(),
            len in 0..2_000usize,
        ) {
            if let Some(bytes) = report(head, &body, len) {
                prop_assert!(bytes.len() <= len && bytes.len() <= MESSAGE_BYTES_MAX);
                prop_assert!(parse(&bytes).is_some());
            }
        }

        /// Hostile bytes, and messages with some bytes replaced or cut off.
        #[test]
        fn parse__never_panics(
            head in any_head(),
            body in any_report(),
            noise in prop::collection::vec(any::<u8>(), 0..64),
            at in 0..64usize,
            len in 0..MESSAGE_BYTES_MAX,
        ) {
            let _ = parse(&noise);
            let mut bytes = report(head, &body, MESSAGE_BYTES_MAX).unwrap();
            let at = at.min(bytes.len());
            let end = (at + noise.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&noise[..end - at]);
            bytes.truncate(len);
            if let Some(Message::Report(_, report)) = parse(&bytes) {
                prop_assert!(report.arrivals.len() <= ARRIVALS_PER_REPORT);
            }
        }
    }

    #[test]
    fn parse__refuses_other_versions_kinds_and_trains() {
        let head = Head { token: 1, session: 2, train: 0, number: 3 };
        let good = probe(head, 64);
        assert!(parse(&good).is_some());
        for (at, value) in [(0, b'B'), (4, 2), (5, 0), (5, 4), (18, TRAINS)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(parse(&bad), None, "byte {at} = {value}");
        }
        assert_eq!(parse(&good[..HEAD_BYTES - 1]), None);
        assert_eq!(parse(&[&good[..], &[0; MESSAGE_BYTES_MAX]].concat()), None);
    }
}
