//! The group of a record: by a header, or by its key.

use crate::config::{GroupConfig, NumberConfig, SendConfig};
use approx_windows::{GroupId, RecordRef};

/// Event times beyond this many milliseconds from now are wrong: they would close all windows.
const FUTURE_MS_MAX: i64 = 24 * 3_600_000;

/// The rules of all groups, in their order.
#[derive(Debug)]
pub struct Rules {
    groups: Vec<GroupConfig>,
    needs_time: bool,
    /// The number whose average has an accepted error.
    number: Option<NumberConfig>,
    /// The groups of which a share is drawn.
    drawn: Vec<GroupId>,
}

/// The reason why a record is sent exactly, whatever its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exact {
    /// The record has no value: it deletes its key.
    Tombstone,
    /// The event time is missing, or far in the future. The windows ignore it.
    WrongTime,
}

impl Rules {
    /// The rules of a configuration.
    pub fn new(config: &SendConfig) -> Self {
        let needs_time = matches!(config.window.rule(), approx_windows::Rule::Time { .. });
        let accepted = config.sampling.accepted.as_ref();
        let number = accepted.map(|accepted| accepted.number.clone());
        let sampling = &config.sampling;
        let rates = sampling.groups.iter().map(|group| group.msr).chain([sampling.msr]);
        let drawn = rates.enumerate().filter(|(_, msr)| msr.0 > 0.0 && msr.0 < 1.0);
        let drawn = drawn.map(|(at, _)| GroupId::at(at)).collect();
        Self { groups: sampling.groups.clone(), needs_time, number, drawn }
    }

    /// The number of a record of this group.
    pub fn number(&self, record: &RecordRef<'_>, group: GroupId) -> Number {
        match (&self.number, record.value) {
            (Some(number), Some(value)) if self.drawn.contains(&group) => {
                number.of(value).map_or(Number::Missing, Number::Is)
            }
            _ => Number::NotNeeded,
        }
    }

    /// The group of a record, and whether the record is an exception. A wrong event time is
    /// removed from the record.
    pub fn group(&self, now_ms: i64, record: &mut RecordRef<'_>) -> (GroupId, Option<Exact>) {
        let is_wrong = |time_ms| time_ms > now_ms.saturating_add(FUTURE_MS_MAX) || time_ms < 0;
        if self.needs_time && record.timestamp_ms.is_none_or(is_wrong) {
            record.timestamp_ms = None;
            return (GroupId::EXACT, Some(Exact::WrongTime));
        }
        if record.value.is_none() {
            return (GroupId::EXACT, Some(Exact::Tombstone));
        }
        let index = self.groups.iter().position(|group| takes(group, record));
        (GroupId::at(index.unwrap_or(self.groups.len())), None)
    }
}

/// A record's part in an average with an accepted error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// No error is accepted, or no share of the record's group is drawn.
    NotNeeded,
    /// The record has none.
    Missing,
    /// The number.
    Is(f64),
}

impl Number {
    /// The number, if there is one.
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Is(number) => Some(number),
            Self::NotNeeded | Self::Missing => None,
        }
    }
}

fn takes(group: &GroupConfig, record: &RecordRef<'_>) -> bool {
    let has_header = |name: &String| {
        let has_value = |value: Option<&[u8]>| match (&group.values, value) {
            (None, _) => true,
            (Some(values), Some(value)) => values.iter().any(|wanted| wanted.as_bytes() == value),
            (Some(_), None) => false,
        };
        record.headers.iter().any(|(key, value)| key == name && has_value(*value))
    };
    let has_key =
        |prefix: &String| record.key.is_some_and(|key| key.starts_with(prefix.as_bytes()));
    group.header.as_ref().is_none_or(has_header) && group.key_prefix.as_ref().is_none_or(has_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
        peer = "10.0.0.2:4747"
        kafka = { brokers = "b", group = "g", topics = ["t"] }
        window = { length = "1s" }
        [sampling]
        msr = 0.5
        [[sampling.groups]]
        name = "alarms"
        msr = 1.0
        header = "severity"
        values = ["error", "fatal"]
        [[sampling.groups]]
        name = "probes"
        msr = 0.1
        key_prefix = "probe-"
    "#;

    #[test]
    fn group__is_that_of_the_first_rule() {
        let rules = Rules::new(&toml::from_str(CONFIG).unwrap());
        let record = RecordRef {
            timestamp_ms: Some(5_000),
            key: Some(b"probe-1"),
            value: Some(b"v"),
            ..RecordRef::default()
        };
        let group = |record: &RecordRef<'_>| rules.group(6_000, &mut record.clone());
        assert_eq!(group(&record), (GroupId::at(1), None));
        let error = RecordRef { headers: vec![("severity", Some(b"error"))], ..record.clone() };
        assert_eq!(group(&error), (GroupId::at(0), None));
        let info = RecordRef { headers: vec![("severity", Some(b"info"))], ..record.clone() };
        assert_eq!(group(&info), (GroupId::at(1), None));
        let other = RecordRef { key: None, ..record.clone() };
        assert_eq!(group(&other), (GroupId::at(2), None));
        let tombstone = RecordRef { value: None, ..record.clone() };
        assert_eq!(group(&tombstone), (GroupId::EXACT, Some(Exact::Tombstone)));
        assert_eq!(rules.number(&record, GroupId::at(0)), Number::NotNeeded);
        for timestamp_ms in [None, Some(-5), Some(i64::MAX)] {
            let mut wrong = RecordRef { timestamp_ms, ..record.clone() };
            let found = rules.group(6_000, &mut wrong);
            assert_eq!(found, (GroupId::EXACT, Some(Exact::WrongTime)));
            assert_eq!(wrong.timestamp_ms, None);
        }
    }
    #[test]
    fn number__of_records_that_may_be_left_out() {
        let accepted = "[sampling.accepted]\nerror = 0.02\nnumber = \"/t\"";
        let text = CONFIG.replace(
            "[[sampling.groups]]\n        name = \"a",
            &format!("{accepted}\n[[sampling.groups]]\n        name = \"a"),
        );
        let rules = Rules::new(&toml::from_str(&text).unwrap());
        let record = RecordRef { value: Some(br#"{"t": 2}"#), ..RecordRef::default() };
        assert_eq!(rules.number(&record, GroupId::at(2)), Number::Is(2.0));
        // Alarms are sent anyway.
        for group in [GroupId::EXACT, GroupId::at(0)] {
            assert_eq!(rules.number(&record, group), Number::NotNeeded);
        }
        let other = RecordRef { value: Some(b"{}"), ..record };
        assert_eq!(rules.number(&other, GroupId::at(2)), Number::Missing);
    }
}
