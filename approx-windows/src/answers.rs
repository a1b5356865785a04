//! Answers about all records of a window, from those that arrived.

use crate::{counted::Count, record::Record, window::ReceivedWindow};
use approx_answers::{Answering, Delivery, Query, QueryError};

impl ReceivedWindow {
    /// A query of this window's records, of a table with these columns. Each group of the window is
    /// a stratum of the query, under its id. Push each item of [`ReceivedWindow::sample`] as a
    /// message with one row or none: a record of the sample stands for itself, however it was
    /// packed.
    ///
    /// Only records that count are part of the answers.
    ///
    /// # Errors
    /// As [`Answering::new`].
    pub fn answering<S: AsRef<str>>(
        &self,
        query: Query,
        columns: &[S],
    ) -> Result<Answering, QueryError> {
        let mut answering = Answering::new(query, columns)?;
        for group in self.groups.iter().filter(|group| group.header.records > 0) {
            let (header, id) = (&group.header, u32::from(group.header.id));
            // Where some of those that were sent got lost, long ones got lost more often.
            let shortest_first = header.has_long && group.arrived < header.sent;
            answering.set_messages_sent(id, header.records)?;
            answering.set_delivery(id, &Delivery { shortest_first, ..Delivery::shuffled() })?;
            // Nothing says in which groups lost records are that were counted before.
            if let Count::Whole = self.count {
                answering.set_exact_records(id, header.records as f64)?;
            }
        }
        Ok(answering)
    }

    /// The records that arrived, with the ids of their groups; `None` for those that were counted
    /// before.
    pub fn sample(&self) -> impl Iterator<Item = (u32, Option<&Record>)> {
        self.groups.iter().flat_map(|group| {
            let before = group.arrived - group.records.len() as u64;
            let records = group.records.iter().map(Some);
            let records = records.chain((0..before).map(|_| None));
            records.map(|record| (u32::from(group.header.id), record))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        GroupId, Offsets,
        testing::{received, sampling, window},
    };
    use approx_answers::{Confidence, Estimate};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const RECORDS: u64 = 3_000;

    /// Values of two groups. Longer records have larger values, so that messages with fewer records
    /// have other means; and values follow the order of the stream.
    fn values(rng: &mut ChaCha8Rng) -> Vec<(u32, usize)> {
        let mut value = |offset| {
            let bytes = rng.random_range(20..120);
            (bytes as u32 + rng.random_range(0..30) + (offset / 100) as u32, bytes)
        };
        (0..RECORDS).map(&mut value).collect()
    }

    fn group(offset: u64) -> GroupId {
        match offset % 10 {
            0 => GroupId::EXACT,
            1..=3 => GroupId::at(0),
            _ => GroupId::at(1),
        }
    }

    fn received_of(
        values: &[(u32, usize)],
        rng: &mut ChaCha8Rng,
        count: Count,
        msrs: [f64; 2],
    ) -> ReceivedWindow {
        let value = |(value, bytes): &(u32, usize)| {
            let mut bytes = vec![0; *bytes];
            bytes[..4].copy_from_slice(&value.to_be_bytes());
            Some(bytes)
        };
        let values: Vec<_> = values.iter().map(value).collect();
        let sampling = sampling(&[("third", msrs[0]), ("most", msrs[1])]);
        let window = window(&values, sampling, group, rng.random());
        // A group from which nothing has to arrive has losses.
        let msr = |id: u8| if id == 0 { 1.0 } else { msrs[usize::from(id) - 1] };
        received(&window, |id, _| msr(id) > 0.0 || rng.random_bool(0.7), count).unwrap()
    }

    fn estimate(window: &ReceivedWindow, query: &str) -> Estimate {
        let mut answering = window.answering(query.parse().unwrap(), &["value", "large"]).unwrap();
        for (group, record) in window.sample() {
            let row = record.map(|record| {
                let bytes = record.value.as_deref().unwrap_or_default();
                let value = u32::from_be_bytes(bytes[..4].try_into().unwrap());
                [value.to_string(), if value > 100 { "1" } else { "" }.to_owned()]
            });
            answering.push_message(group, row).unwrap();
        }
        let answers = answering.answers(Confidence::P95).unwrap();
        answers.rows.into_iter().next().unwrap().estimate
    }

    /// The seed is fixed: this passes always or never. 95 % of 200 intervals hold the truth, with a
    /// standard deviation of 3.1.
    fn check_coverage(count: impl Fn(u64) -> bool, is_partly: bool, msrs: [f64; 2]) {
        let rng = &mut ChaCha8Rng::seed_from_u64(7);
        let queries = ["avg(value)", "sum(value)", "count(large)"];
        let (mut held, mut width) = ([0; 3], [0.0; 3]);
        for _ in 0..200 {
            let values = values(rng);
            let new: Offsets = (0..RECORDS).filter(|offset| count(*offset)).collect();
            let counted = || (0..).zip(&values).filter(|(offset, _)| count(*offset));
            let sum: f64 = counted().map(|(_, (value, _))| f64::from(*value)).sum();
            let large = counted().filter(|(_, (value, _))| *value > 100).count() as f64;
            let truths = [sum / new.len() as f64, sum, large];
            let count = match is_partly {
                true => Count::Partly(new),
                false => Count::Whole,
            };
            let window = received_of(&values, rng, count, msrs);
            for (at, query) in queries.iter().enumerate() {
                let estimate = estimate(&window, query);
                held[at] += u32::from(estimate.contains(truths[at]));
                width[at] += estimate.half_width() / truths[at] / 200.0;
            }
        }
        for ((query, held), width) in queries.iter().zip(held).zip(width) {
            assert!((178..=199).contains(&held), "{query}: {held} of 200, {width}");
            assert!(width < 0.2, "{query}: {width} of the value");
        }
    }

    #[test]
    fn answering__intervals_hold_the_truth() {
        check_coverage(|_| true, false, [0.3, 0.6]);
    }

    #[test]
    fn answering__of_a_group_with_losses_holds_the_truth() {
        check_coverage(|_| true, false, [0.3, 0.0]);
    }

    #[test]
    fn answering__of_a_part_is_about_its_records() {
        check_coverage(|offset| offset >= 1_100, true, [0.3, 0.6]);
    }

    #[test]
    fn answering__of_a_small_window_is_not_biased() {
        // A few records: chance draws more than the needed ones as often as not.
        let rng = &mut ChaCha8Rng::seed_from_u64(3);
        let (mut sums, mut truths) = (0.0, 0.0);
        for _ in 0..300 {
            let values: Vec<_> = (0..43).map(|value| (value, 300)).collect();
            let window = received_of(&values, rng, Count::Whole, [0.3, 0.6]);
            sums += estimate(&window, "sum(value)").value;
            truths += (0..43).sum::<u32>() as f64;
        }
        assert!((sums / truths - 1.0).abs() < 0.01, "{}", sums / truths);
    }

    #[test]
    fn answering__of_long_records_warns() {
        let rng = &mut ChaCha8Rng::seed_from_u64(5);
        let values: Vec<_> =
            (0..RECORDS).map(|offset| (1, 1_500 + offset as usize % 900)).collect();
        let window = received_of(&values, rng, Count::Whole, [0.3, 0.0]);
        let warnings = estimate(&window, "avg(value)").warnings;
        let text = warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(text.contains("short ones arrive more often"), "{text}");
    }
}
