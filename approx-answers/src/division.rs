//! Divides the records of a table into messages.

use std::ops::Range;

/// Records of a message as long as fit here, so that it fits a packet of most paths.
pub const MESSAGE_BYTES: usize = 1_400;

/// Divides shuffled records into messages of `bytes_max`, as evenly as their lengths allow. A short
/// message's total is far from the others, and a sum's interval depends on whether it arrives. A
/// record that fits no message has one of its own.
///
/// `bytes` is the length of a message with these records, which grows with their number.
pub fn divided_evenly(
    records: usize,
    bytes_max: usize,
    bytes: impl Fn(Range<usize>) -> usize,
) -> Vec<Range<usize>> {
    let overflows = |part: &Range<usize>| part.len() > 1 && bytes(part.clone()) > bytes_max;
    // Records of like lengths fit with a few messages more. A few parts with long records don't.
    let least = filled(records, bytes_max, &bytes).len();
    let step = 1 + least / 64;
    let mut numbers = (least..=least * 5 / 4).step_by(step);
    let few = |&messages: &usize| {
        even_parts(records, messages).filter(&overflows).count() <= messages.div_ceil(100)
    };
    let number = numbers.find(few).unwrap_or(least * 5 / 4);
    let mut messages = Vec::with_capacity(number);
    even_parts(records, number)
        .for_each(|part| push(part, &overflows, &bytes, bytes_max, &mut messages));
    messages
}

/// Adds a part as a message. If it doesn't fit, adds its halves, or what lies around a record that
/// fits no packet.
fn push(
    part: Range<usize>,
    overflows: &impl Fn(&Range<usize>) -> bool,
    bytes: &impl Fn(Range<usize>) -> usize,
    bytes_max: usize,
    messages: &mut Vec<Range<usize>>,
) {
    if !overflows(&part) {
        messages.extend((!part.is_empty()).then_some(part));
        return;
    }
    let middle = match part.clone().find(|&record| bytes(record..record + 1) > bytes_max) {
        Some(long) if long == part.start => long + 1,
        Some(long) => long,
        None => part.start + part.len() / 2,
    };
    push(part.start..middle, overflows, bytes, bytes_max, messages);
    push(middle..part.end, overflows, bytes, bytes_max, messages);
}

/// Consecutive parts whose numbers of records differ by one at most.
pub fn even_parts(records: usize, parts: usize) -> impl Iterator<Item = Range<usize>> {
    let begin = move |part: usize| part * (records / parts) + part.min(records % parts);
    (0..parts).map(move |part| begin(part)..begin(part + 1))
}

/// Messages of as many records as fit, in their order. As [`divided_evenly`] otherwise.
pub fn filled(
    records: usize,
    bytes_max: usize,
    bytes: impl Fn(Range<usize>) -> usize,
) -> Vec<Range<usize>> {
    let (mut messages, mut begin, mut len) = (Vec::new(), 0, 1);
    while begin < records {
        // The number of the last message is near.
        len = usize::clamp(len, 1, records - begin);
        let fits = |len| begin + len <= records && bytes(begin..begin + len) <= bytes_max;
        while len > 1 && !fits(len) {
            len -= 1;
        }
        while fits(len + 1) {
            len += 1;
        }
        messages.push(begin..begin + len);
        begin += len;
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn divided_evenly__keeps_the_order_and_fits_packets(
            lens in prop::collection::vec(1usize..40, 0..2_000),
            long in prop::option::of(1_000usize..3_000),
        ) {
            let lens: Vec<usize> = lens.into_iter().chain(long).collect();
            let bytes = |part: Range<usize>| lens[part].iter().sum::<usize>();
            for messages in [
                divided_evenly(lens.len(), MESSAGE_BYTES, bytes),
                filled(lens.len(), MESSAGE_BYTES, bytes),
            ] {
                let records: Vec<usize> = messages.iter().cloned().flatten().collect();
                prop_assert!(records.into_iter().eq(0..lens.len()));
                let is_long = |part: &&Range<usize>| bytes((*part).clone()) > MESSAGE_BYTES;
                let long = usize::from(long.is_some_and(|bytes| bytes > MESSAGE_BYTES));
                prop_assert_eq!(messages.iter().filter(is_long).count(), long);
                prop_assert!(messages.iter().all(|part| !part.is_empty()));
            }
        }

        #[test]
        fn divided_evenly__of_like_records_differs_by_one(
            number in 1usize..3_000,
            each in 1usize..100,
        ) {
            let messages = divided_evenly(number, MESSAGE_BYTES, |part| part.len() * each);
            let records = || messages.iter().map(Range::len);
            prop_assert!(records().max().unwrap() - records().min().unwrap() <= 1);
            prop_assert!(records().max().unwrap() * each <= MESSAGE_BYTES);
            prop_assert_eq!(messages.len(), number.div_ceil(MESSAGE_BYTES / each));
        }
    }
}
