use super::*;

type Values = Keyed<u32, crate::values::Values>;

/// Adds a message of these keys, each with a value for each of its records.
fn push(values: &mut Values, stratum: u32, keys: &[u32]) {
    let each = |on: OnRecord<'_, u32>| keys.iter().try_for_each(|key| on(key, 1.0));
    values.push::<u32, AnswerError>(stratum, each, |_, _| (), || 0).unwrap();
}

fn bytes(values: &Values) -> usize {
    values.entries.values().map(|entry| entry.bytes).sum()
}

/// Adds a message of different values of these keys.
fn push_different(values: &mut Values, stratum: u32, keys: &[u32]) {
    let first = 1_000.0 * values.messages.messages() as f64;
    let each = |on: OnRecord<'_, u32>| {
        (0..100).try_for_each(|row| on(&keys[row % keys.len()], first + row as f64))
    };
    values.push::<u32, AnswerError>(stratum, each, |_, _| (), || 0).unwrap();
}

fn assert_counted(values: &Values) {
    let entries = || values.entries.values();
    assert_eq!(values.room.held_bytes, entries().map(Entry::held_bytes).sum::<usize>());
    assert_eq!(values.room.bytes, bytes(values));
    let of_keys = size_of::<u32>() + size_of::<(u32, Entry<crate::values::Values>)>();
    for entry in entries() {
        assert_eq!(entry.bytes, of_keys + entry.cells_bytes());
    }
}

fn error_variance(values: &Values) -> f64 {
    let cells = values.entries.values().flat_map(|entry| entry.cells.values());
    cells.flat_map(|own| &own.groups).map(crate::values::Values::error_variance).sum()
}

/// All values are kept up to a bound, within a message as well, and summaries beyond it.
#[test]
fn thin__keeps_to_the_bound_of_values() {
    let mut values = Values::new(10);
    values.room.exact_bytes_max = 1 << 20;
    for message in 0..3_000 {
        push_different(&mut values, message % 3, &[1, 2]);
        assert_counted(&values);
        assert_eq!(values.is_thinned, error_variance(&values) > 0.0);
        assert!(values.is_thinned || values.room.held_bytes <= 1 << 20);
    }
    assert!(values.is_thinned);
    // A new key, a new stratum, and a stratum that goes.
    push_different(&mut values, 3, &[3]);
    assert_counted(&values);
    values.remove_stratum(1);
    assert_counted(&values);
    let mut large = Values::new(10);
    large.room.exact_bytes_max = 1 << 20;
    let each = |on: OnRecord<'_, u32>| (0..200_000).try_for_each(|row| on(&1, f64::from(row)));
    large.push::<u32, AnswerError>(0, each, |_, _| (), || 0).unwrap();
    assert_counted(&large);
    assert!(large.is_thinned && large.room.held_bytes < 1 << 16);
}

#[test]
fn merge__of_summaries_and_of_all_values() {
    let part = |exact_bytes_max, strata: std::ops::Range<u32>| {
        let mut values = Values::new(10);
        values.room.exact_bytes_max = exact_bytes_max;
        strata.for_each(|stratum| push_different(&mut values, stratum % 4, &[1, 2, stratum]));
        values
    };
    for (own, theirs, is_thinned) in [
        (usize::MAX, usize::MAX, false),
        (usize::MAX, 0, true),
        (0, usize::MAX, true),
        (0, 0, true),
        (1 << 16, 1 << 16, true),
    ] {
        let mut values = part(own, 3..9);
        values.merge(&part(theirs, 6..60)).unwrap();
        assert_counted(&values);
        assert_eq!(values.is_thinned, is_thinned, "{own} {theirs}");
        let of_keys = |key: u32| -> u64 {
            let cells = values.entries[&key].cells.values().flat_map(|own| &own.groups);
            cells.map(Cell::records).sum()
        };
        assert_eq!(of_keys(1) + of_keys(2), 60 * 67);
        push_different(&mut values, 9, &[1, 9]);
        assert_counted(&values);
    }
}

#[test]
fn push__drops_the_keys_of_the_fewest_messages_beyond_the_memory() {
    let mut values = Values::new(1_000);
    values.room.bytes_max = 1 << 20;
    let mut keys: Vec<u32> = (0..100).collect();
    for stratum in 0..10_000 {
        push(&mut values, stratum, &keys);
        keys.truncate(90);
        assert_eq!(values.room.bytes, bytes(&values));
        assert!(values.room.fits(0) || values.entries.len() == 1, "{}", values.room.bytes);
        if values.entries.len() < 10 {
            break;
        }
    }
    let left = values.entries.len();
    assert!((1..10).contains(&left) && values.entries.keys().all(|key| *key < 90));
    let mut counted = Uncounted::default();
    values.entries.values().for_each(|entry| entry.leave_out(&mut counted));
    let strata = values.messages.messages();
    assert_eq!(counted.records() + values.uncounted.records(), 10 + 90 * strata);
    // A new key has no room any more, as its first records may be among those left out.
    push(&mut values, 0, &[777]);
    assert_eq!(values.entries.len(), left);
}

#[test]
fn push__one_key_stays_in_any_case() {
    let mut values = Values::new(1_000);
    values.room.bytes_max = 1 << 14;
    (0..100).for_each(|stratum| push(&mut values, stratum, &[7]));
    assert_eq!((values.entries.len(), values.uncounted.records()), (1, 0));
    assert!(!values.room.fits(0));
}

/// A message's total isn't known before the next message.
#[test]
fn alike__counts_messages_with_the_total_of_the_first() {
    let part = |messages: &[&[u32]]| {
        let mut values = Values::new(10);
        for keys in messages {
            push(&mut values, 0, keys);
            push(&mut values, 1, &[7, 7, 7]);
        }
        values
    };
    let alike = |values: &Values| values.entries[&7].cells[&0].alike();
    let messages: [&[u32]; 6] = [&[7, 7], &[7, 8, 7], &[8], &[7], &[7, 7, 7], &[7, 7]];
    for (arrived, expected) in [(1, 1), (2, 2), (4, 2), (6, 3)] {
        assert_eq!(alike(&part(&messages[..arrived])), expected, "{arrived}");
    }
    // Parts may begin with different totals, and then know fewer.
    for (at, expected) in [(1, 3), (2, 2), (4, 2), (5, 3)] {
        let mut values = part(&messages[..at]);
        values.merge(&part(&messages[at..])).unwrap();
        assert_eq!(alike(&values), expected, "{at}");
        push(&mut values, 0, &[7, 7]);
        assert_eq!(alike(&values), expected + 1, "{at}");
    }
}

#[test]
fn merge__keeps_within_the_memory() {
    let part = |strata: std::ops::Range<u32>| {
        let mut values = Values::new(1_000);
        values.room.bytes_max = 3 << 19;
        strata.for_each(|stratum| push(&mut values, stratum, &[1, 2, 3, 4, 5, 6, 7]));
        values
    };
    let mut values = part(0..40);
    assert_eq!(values.entries.len(), 7);
    values.merge(&part(40..80)).unwrap();
    assert!(values.room.fits(0) && (1..7).contains(&values.entries.len()));
    assert_eq!(values.room.bytes, bytes(&values));
}
