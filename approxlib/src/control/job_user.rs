//! The user of a job, in whose name space the job's id is.

use std::{fmt, num::ParseIntError, str::FromStr};

/// A user. In a container without user ids of its own, the users are others than those of the host
/// with the same ids. As text: `1000`, or `0@4711` in a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobUser {
    /// The user's id on the host.
    pub uid: u32,
    /// The number of its container: the id of its cgroup, as a rule. `None` outside of those.
    pub container: Option<u64>,
}

impl From<u32> for JobUser {
    fn from(uid: u32) -> Self {
        Self { uid, container: None }
    }
}

impl fmt::Display for JobUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.container {
            Some(container) => write!(f, "{}@{container}", self.uid),
            None => write!(f, "{}", self.uid),
        }
    }
}

impl FromStr for JobUser {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (uid, container) = match text.split_once('@') {
            Some((uid, container)) => (uid, Some(container.parse()?)),
            None => (text, None),
        };
        Ok(Self { uid: uid.parse()?, container })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_str__reads_what_display_writes() {
        for text in ["0", "1000", "0@4711", "4294967295@18446744073709551615"] {
            assert_eq!(text.parse::<JobUser>().unwrap().to_string(), text);
        }
        for text in ["", "ann", "0@", "@7", "0@x", "-1"] {
            assert!(text.parse::<JobUser>().is_err(), "{text}");
        }
    }
}
