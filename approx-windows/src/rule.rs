//! How a stream is cut into windows.

/// How a stream is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Each window has this many records.
    Records(u64),
    /// Each window has the records of a span of event time. It closes at the first record whose
    /// event time is `watermark_delay_ms` behind its end. A record that comes later goes into the
    /// oldest window that is open.
    Time {
        /// The length of the span, milliseconds, at least 1.
        length_ms: u64,
        /// How far a record may be behind the greatest event time so far, milliseconds, and still
        /// find its window open.
        watermark_delay_ms: u64,
    },
}

/// `records:1000`, or length and watermark delay in `time:60000:2000`.
impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Records(records) => write!(f, "records:{records}"),
            Self::Time { length_ms, watermark_delay_ms } => {
                write!(f, "time:{length_ms}:{watermark_delay_ms}")
            }
        }
    }
}

impl std::str::FromStr for Rule {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(':');
        let kind = words.next();
        let mut number = || words.next()?.parse().ok();
        let (first, second) = (number(), number());
        match (kind, first, second, words.next()) {
            (Some("records"), Some(records), None, None) => Ok(Self::Records(records)),
            (Some("time"), Some(length_ms), Some(watermark_delay_ms), None) => {
                Ok(Self::Time { length_ms, watermark_delay_ms })
            }
            _ => Err(()),
        }
    }
}

impl Rule {
    /// A `watermark_delay_ms` with which no record closes a window: [`Cutter::advance`] does.
    ///
    /// [`Cutter::advance`]: crate::Cutter::advance
    pub const NEVER: u64 = u64::MAX;

    /// Whether windows by this rule can follow those by another one. The numbers in the position of
    /// windows by event time mean nothing to a rule with other times.
    pub fn can_follow(self, before: Self) -> bool {
        match (self, before) {
            (Self::Records(_), Self::Records(_)) => true,
            (rule, before) => rule == before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_str__reads_what_display_writes() {
        for rule in [Rule::Records(7), Rule::Time { length_ms: 60_000, watermark_delay_ms: 0 }] {
            assert_eq!(rule.to_string().parse(), Ok(rule));
        }
        for text in ["", "records", "records:x", "records:1:2", "time:1", "time:1:2:3", "days:1:2"]
        {
            assert_eq!(text.parse::<Rule>(), Err(()), "{text}");
        }
    }
}
