//! The text beside a committed offset: how the partition was cut so far, and when it was committed.

use approx_windows::{Position, Rule};
use std::time::{SystemTime, UNIX_EPOCH};

/// A committed offset with its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed<'a> {
    /// The position.
    pub position: Position,
    /// The rule by which windows were cut, as [`Rule`] writes it.
    pub rule: &'a str,
    /// The time of the commit, milliseconds since 1970, by the clock of its host. `None` for
    /// earlier versions.
    pub at_ms: Option<u64>,
}

impl<'a> Committed<'a> {
    /// Reads a commit. `None` if another program made it.
    pub fn parse(offset: u64, text: &'a str) -> Option<Self> {
        let (rule, text) = text.split_once(' ')?;
        let position = Position::parse(offset, text)?;
        let at = text.split(' ').find_map(|word| word.strip_prefix(AT));
        Some(Self { position, rule, at_ms: at.and_then(|at| at.parse().ok()) })
    }

    /// Whether windows are cut by this rule.
    pub fn is_of(&self, rule: Rule) -> bool {
        self.rule == rule.to_string()
    }
}

/// The text for a position that is committed now. [`Position::parse`] ignores the time.
pub fn text(rule: Rule, position: Position) -> String {
    format!("{rule} {position} {AT}{}", now_ms())
}

/// The time, milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

const AT: &str = "at=";

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule::Time { length_ms: 1_000, lateness_ms: 20 };

    #[test]
    fn parse__reads_what_text_writes() {
        let position = Position { epoch: 3, sent_below: 7, ..Position::begin(9) };
        let text = text(RULE, position);
        let read = Committed::parse(9, &text).unwrap();
        assert!(read.is_of(RULE) && !read.is_of(Rule::Records(1_000)));
        assert!(read.position == position && read.at_ms.is_some_and(|at_ms| at_ms <= now_ms()));
        let earlier = text.rsplit_once(' ').unwrap().0;
        assert_eq!(Committed::parse(9, earlier).unwrap().at_ms, None);
        for other in ["", "by hand", "records:5", "records:5 atp2 epoch=1"] {
            assert_eq!(Committed::parse(9, other), None, "{other}");
        }
    }
}
