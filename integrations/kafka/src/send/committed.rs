//! The text beside a committed offset: how the partition was cut so far, and when it was committed.

use approx_windows::Position;
use std::time::{SystemTime, UNIX_EPOCH};

/// A committed offset with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The position.
    pub position: Position,
    /// The time of the commit, milliseconds since 1970, by the clock of its host.
    pub at_ms: Option<u64>,
    /// The topic's id, if it is known.
    pub topic_id: Option<String>,
}

impl Committed {
    /// Reads a commit. `None` if another program made it.
    pub fn parse(offset: u64, text: &str) -> Option<Self> {
        let position = Position::parse(offset, text)?;
        let word = |name| text.split(' ').find_map(|word| word.strip_prefix(name));
        let at_ms = word(AT).and_then(|at| at.parse().ok());
        Some(Self { position, at_ms, topic_id: word(TOPIC).map(str::to_owned) })
    }

    /// As [`Committed::parse`]. A commit of another program has the offset alone.
    pub fn of(offset: i64, text: &str) -> Option<Self> {
        let offset = u64::try_from(offset).ok()?;
        let other = Self { position: Position::begin(offset), at_ms: None, topic_id: None };
        Some(Self::parse(offset, text).unwrap_or(other))
    }

    /// Whether it is of the topic with this id, and not of an earlier one of the same name.
    pub fn is_of_topic(&self, topic_id: &str) -> bool {
        self.topic_id.as_ref().is_none_or(|known| topic_id.is_empty() || known == topic_id)
    }
}

/// The text for a position that is committed now. [`Position::parse`] ignores the time.
pub fn text(position: Position, topic_id: &str) -> String {
    let topic = if topic_id.is_empty() { String::new() } else { format!(" {TOPIC}{topic_id}") };
    format!("{position} {AT}{}{topic}", now_ms())
}

/// The time, milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

const AT: &str = "at=";
const TOPIC: &str = "topic=";

#[cfg(test)]
mod tests {
    use super::*;
    use approx_windows::Rule;

    #[test]
    fn parse__reads_what_text_writes() {
        let rule = Some(Rule::Time { length_ms: 1_000, watermark_delay_ms: 20 });
        let position = Position { epoch: 3, sent_below: 7, rule, ..Position::begin(9) };
        let text = text(position, "id==");
        let read = Committed::parse(9, &text).unwrap();
        assert!(read.position == position && read.at_ms.is_some_and(|at_ms| at_ms <= now_ms()));
        assert!(read.is_of_topic("id==") && read.is_of_topic("") && !read.is_of_topic("other"));
        for other in ["", "by hand", "records:5", "records:5 atp2 epoch=1"] {
            assert_eq!(Committed::parse(9, other), None, "{other}");
        }
    }
}
