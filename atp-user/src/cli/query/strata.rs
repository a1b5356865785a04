//! The senders of a query's records, each of which is a stratum.

use super::super::csv_rows::ORDERED_NAME;
use approxlib::{GroupSummary, GroupTerms};
use std::{collections::HashMap, net::SocketAddr};

/// A run of lost messages less likely than this is no work of chance.
const CHANCE_MIN: f64 = 0.001;

/// The strata, numbered in the order of their first message or terms.
#[derive(Debug, Default)]
pub struct Strata {
    numbers: HashMap<(SocketAddr, u32), u32>,
    strata: Vec<Stratum>,
}

/// A sender of records.
#[derive(Debug)]
pub struct Stratum {
    pub source: SocketAddr,
    pub job: u32,
    pub header: Header,
    /// The number of messages with records, once it is known.
    pub sent: Option<u64>,
    pub terms: Option<RowsTerms>,
    /// Whether the answer has messages of it.
    pub is_counted: bool,
    pub has_ended: bool,
}

/// The judgment of a sender's records by its CSV header.
#[derive(Debug)]
pub enum Header {
    /// It has not arrived, and messages wait for it: they may have other columns.
    Awaited(Vec<Vec<u8>>),
    /// The records belong to the query's table.
    Same,
    /// The records are those of another table.
    Other,
}

/// The terms of the group of records.
#[derive(Clone, Copy, Debug)]
pub struct RowsTerms {
    pub msr: f64,
    pub exact: bool,
    pub is_ordered: bool,
}

impl Strata {
    /// The number of a sender's stratum, a new one if it is unknown.
    pub fn number(&mut self, source: SocketAddr, job: u32) -> u32 {
        let strata = &mut self.strata;
        *self.numbers.entry((source, job)).or_insert_with(|| {
            strata.push(Stratum {
                source,
                job,
                header: Header::Awaited(Vec::new()),
                sent: None,
                terms: None,
                is_counted: false,
                has_ended: false,
            });
            strata.len() as u32 - 1
        })
    }

    /// A stratum that has a number.
    pub fn of(&self, stratum: u32) -> &Stratum {
        &self.strata[stratum as usize]
    }

    pub fn of_mut(&mut self, stratum: u32) -> &mut Stratum {
        &mut self.strata[stratum as usize]
    }

    /// N of all senders of the table, if it is known.
    pub fn sent(&self) -> Option<u64> {
        let strata = self.strata.iter().filter(|stratum| stratum.is_of_table());
        strata.map(|stratum| stratum.sent).sum()
    }

    /// Whether a sender of the table still owes its first message.
    pub fn await_messages(&self) -> bool {
        self.running().any(|stratum| stratum.is_of_table() && !stratum.is_counted)
    }

    /// The senders that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &Stratum> {
        self.strata.iter().filter(|stratum| !stratum.has_ended)
    }
}

impl Stratum {
    pub fn is_of_table(&self) -> bool {
        matches!(self.header, Header::Same)
    }
}

impl From<&GroupTerms> for RowsTerms {
    fn from(group: &GroupTerms) -> Self {
        let GroupTerms { msr, exact, .. } = *group;
        Self { msr, exact, is_ordered: group.name == ORDERED_NAME }
    }
}

/// Whether a group ended before each of its messages was tried: its last messages are lost, more
/// of them in a row than chance or a burst explains.
pub fn stopped_early(group: &GroupSummary) -> bool {
    let Some((tail, others)) = group.lost.split_last() else { return false };
    // The last message may be the shortest, and then MRDF sends it first.
    if tail.end.saturating_add(1) < group.messages {
        return false;
    }
    // Messages that share a packet are lost together.
    let burst = others.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let lost: u64 = group.lost.iter().map(|range| range.len() as u64).sum();
    let (tail, sent) = (tail.len() as u64, u64::from(group.messages));
    tail > 2 * burst as u64 && chance(sent, sent.saturating_sub(lost), tail) < CHANCE_MIN
}

/// The probability that `tail` given messages of `sent` are all among the lost ones, or a number
/// below [`CHANCE_MIN`] if it is.
fn chance(sent: u64, delivered: u64, tail: u64) -> f64 {
    // The formula has the same value with both swapped. This way it ends soon, whatever a sender
    // claims.
    let (few, many) = (tail.min(delivered), tail.max(delivered));
    let mut chance = 1.0;
    for done in 0..few {
        chance *= sent.saturating_sub(many + done) as f64 / (sent - done) as f64;
        if chance < CHANCE_MIN {
            break;
        }
    }
    chance
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lost messages are ranges")]
mod tests {
    use super::*;
    use std::ops::Range;

    fn group(messages: u32, lost: impl IntoIterator<Item = Range<u32>>) -> GroupSummary {
        GroupSummary { messages, lost: lost.into_iter().collect(), ..GroupSummary::default() }
    }

    #[test]
    fn stopped_early__is_a_long_tail() {
        // A good network: the job ended at its MSR.
        assert!(stopped_early(&group(1_000, [900..1_000])));
        assert!(stopped_early(&group(60, [6..60])));
        // The shorter last message came before the others.
        assert!(stopped_early(&group(1_000, [900..999])));
        // A lossy network on the way there.
        let losses = (0..880).step_by(11).map(|id| id..id + 1);
        assert!(stopped_early(&group(1_000, losses.chain([890..1_000]))));
    }

    #[test]
    fn stopped_early__losses_everywhere_are_none() {
        assert!(!stopped_early(&group(1_000, [])));
        assert!(!stopped_early(&group(1_000, [700..720])));
        assert!(!stopped_early(&group(100, [99..100])));
        // Every message was tried: each tenth is lost, also the last one.
        let each = |step, len| (0..1_000).step_by(step).map(move |id| id + step as u32 - len);
        let lost = |step, len| each(step, len).map(move |id| id..id + len);
        assert!(!stopped_early(&group(1_000, lost(10, 1))));
        // Each tenth packet, of 20 messages.
        assert!(!stopped_early(&group(1_000, lost(200, 20))));
    }

    #[test]
    fn chance__is_that_of_a_draw_without_replacement() {
        // 3 of 10 are lost: the first of 2 given ones with 3/10, the other then with 2/9.
        assert!((chance(10, 7, 2) - 6.0 / 90.0).abs() < 1e-12);
        assert!((chance(10, 2, 7) - 6.0 / 90.0).abs() < 1e-12);
        assert_eq!((chance(10, 0, 10), chance(10, 10, 0)), (1.0, 1.0));
        // Claims of a hostile host.
        assert!(chance(u32::MAX.into(), 1 << 31, 1 << 31) < CHANCE_MIN);
        assert!(chance(u32::MAX.into(), 1, u64::from(u32::MAX) - 1) < CHANCE_MIN);
    }
}
