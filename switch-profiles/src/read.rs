//! From a profile's text to checked queues. Whatever is wrong is told with its line.

use super::profile::{Profile, QUEUES, Queue};
use serde::Deserialize;
use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
};
use toml::Spanned;

const MTU_BYTES: std::ops::RangeInclusive<u32> = 576..=9_000;
/// The shipped one has some hundreds.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Code points have six bits.
const DSCP_MAX: u8 = 63;

/// Why a profile can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file itself.
    #[error("the switch profile {path} can't be read")]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// What stands in it.
    #[error("the switch profile {path}, line {line}: {reason}")]
    Malformed {
        /// The file's path.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// One clause.
        reason: String,
    },
}

/// What is wrong, and where in the text.
#[derive(Debug)]
pub(super) struct Malformed {
    at: Range<usize>,
    reason: String,
}

impl Malformed {
    fn at<T>(place: &Spanned<T>, reason: String) -> Self {
        Self { at: place.span(), reason }
    }

    pub(super) fn locate(self, text: &str, path: &Path) -> ProfileError {
        let before = &text.as_bytes()[..self.at.start.min(text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        ProfileError::Malformed { path: path.to_owned(), line, reason: self.reason }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    mtu_bytes: Spanned<u32>,
    port_buffer_bytes: Spanned<u64>,
    queue: Vec<Spanned<QueueText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueText {
    number: Spanned<usize>,
    #[serde(default)]
    dscp: Vec<Spanned<u8>>,
    limit_mtus: Option<Spanned<u32>>,
    ecn_threshold_packets: Option<Spanned<u32>>,
}

/// What a profile's file says, if it isn't longer than any profile.
pub(super) fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    let bytes = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if bytes as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

pub(super) fn parse(text: &str) -> Result<Profile, Malformed> {
    let read: Text = toml::from_str(text).map_err(|error| Malformed {
        at: error.span().unwrap_or(0..0),
        reason: one_line(error.message()),
    })?;
    let mtu_bytes = *read.mtu_bytes.get_ref();
    if !MTU_BYTES.contains(&mtu_bytes) {
        let reason = format!("an MTU of {mtu_bytes} bytes is outside 576 to 9000");
        return Err(Malformed::at(&read.mtu_bytes, reason));
    }
    let texts = in_order(&read.queue)?;
    check_code_points(&texts)?;
    let rest = rest_of_buffer(&read, &texts)?;
    let mut queues: [Queue; QUEUES] = Default::default();
    for (queue, text) in queues.iter_mut().zip(texts) {
        *queue = checked(text, rest)?;
    }
    Ok(Profile { mtu_bytes, port_buffer_bytes: *read.port_buffer_bytes.get_ref(), queues })
}

/// The parser's words may span lines.
fn one_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// Each queue once, queue 0 first.
fn in_order(read: &[Spanned<QueueText>]) -> Result<[&QueueText; QUEUES], Malformed> {
    let mut texts: [Option<&QueueText>; QUEUES] = [None; QUEUES];
    for text in read {
        let number = &text.get_ref().number;
        let Some(place) = texts.get_mut(*number.get_ref()) else {
            let reason = format!("queue {} is outside 0 to 7", number.get_ref());
            return Err(Malformed::at(number, reason));
        };
        if place.replace(text.get_ref()).is_some() {
            let reason = format!("queue {} was described before", number.get_ref());
            return Err(Malformed::at(number, reason));
        }
    }
    if let Some(absent) = texts.iter().position(Option::is_none) {
        // The end of the last queue is where the missing one would be.
        let at = read.last().map_or(0..0, |last| last.span());
        return Err(Malformed {
            at,
            reason: format!("queue {absent} is missing: a port has eight"),
        });
    }
    Ok(texts.map(|text| text.expect("none is missing")))
}

fn check_code_points(texts: &[&QueueText; QUEUES]) -> Result<(), Malformed> {
    let mut owner = [None; DSCP_MAX as usize + 1];
    for (number, text) in texts.iter().enumerate() {
        for dscp in &text.dscp {
            let Some(owner) = owner.get_mut(usize::from(*dscp.get_ref())) else {
                let reason = format!("DSCP {} is outside 0 to 63", dscp.get_ref());
                return Err(Malformed::at(dscp, reason));
            };
            if let Some(other) = owner.replace(number) {
                let reason = format!("DSCP {} goes to queue {other} already", dscp.get_ref());
                return Err(Malformed::at(dscp, reason));
            }
        }
        if number > 0 && text.dscp.is_empty() {
            let reason = format!("queue {number} has no DSCP: nothing would ever go there");
            return Err(Malformed::at(&text.number, reason));
        }
    }
    Ok(())
}

/// What the approximate queues leave of the port's buffer, in MTUs: queue 0 gets it.
fn rest_of_buffer(read: &Text, texts: &[&QueueText; QUEUES]) -> Result<u32, Malformed> {
    if let Some(limit) = &texts[0].limit_mtus {
        let reason = "queue 0 has the rest of port_buffer_bytes: leave out its limit_mtus".into();
        return Err(Malformed::at(limit, reason));
    }
    let mut taken_mtus = 0u64;
    for text in &texts[1..] {
        let Some(limit) = &text.limit_mtus else {
            let reason = format!("queue {} has no limit_mtus", text.number.get_ref());
            return Err(Malformed::at(&text.number, reason));
        };
        if *limit.get_ref() == 0 {
            return Err(Malformed::at(limit, "a queue of 0 MTU holds nothing".into()));
        }
        taken_mtus += u64::from(*limit.get_ref());
    }
    let buffer_mtus = read.port_buffer_bytes.get_ref() / u64::from(*read.mtu_bytes.get_ref());
    match buffer_mtus.checked_sub(taken_mtus).map(u32::try_from) {
        Some(Ok(rest)) if rest > 0 => Ok(rest),
        Some(Err(_)) => {
            Err(Malformed::at(&read.port_buffer_bytes, "no switch has such a buffer".into()))
        }
        _ => Err(Malformed::at(
            &read.port_buffer_bytes,
            format!(
                "a buffer of {buffer_mtus} MTU leaves nothing for queue 0: queues 1 to 7 take {taken_mtus}"
            ),
        )),
    }
}

fn checked(text: &QueueText, rest_packets: u32) -> Result<Queue, Malformed> {
    let limit_packets = text.limit_mtus.as_ref().map_or(rest_packets, |limit| *limit.get_ref());
    if let Some(threshold) = &text.ecn_threshold_packets
        && !(1..=limit_packets).contains(threshold.get_ref())
    {
        let reason = format!(
            "an ECN threshold of {} packets is outside the queue's 1 to {limit_packets}",
            threshold.get_ref()
        );
        return Err(Malformed::at(threshold, reason));
    }
    Ok(Queue {
        dscp: text.dscp.iter().map(|dscp| *dscp.get_ref()).collect(),
        limit_packets,
        ecn_threshold_packets: text.ecn_threshold_packets.as_ref().map(|t| *t.get_ref()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEFAULT: &str = include_str!("../default.toml");

    fn complaint(text: &str) -> String {
        Profile::parse(text, Path::new("p.toml")).unwrap_err().to_string()
    }

    /// The default profile with its `nth` (from 0) `from` replaced, and the line of it.
    fn spoilt(from: &str, nth: usize, to: &str) -> (String, usize) {
        let (at, _) = DEFAULT.match_indices(from).nth(nth).expect("the text is there");
        let text = format!("{}{to}{}", &DEFAULT[..at], &DEFAULT[at + from.len()..]);
        (text, 1 + DEFAULT[..at].matches('\n').count())
    }

    #[track_caller]
    fn assert_complains(from: &str, nth: usize, to: &str, reason: &str) {
        let (text, line) = spoilt(from, nth, to);
        assert_eq!(complaint(&text), format!("the switch profile p.toml, line {line}: {reason}"));
    }

    #[test]
    fn parse__says_the_line() {
        assert_complains("= 1500", 0, "= 15", "an MTU of 15 bytes is outside 576 to 9000");
        assert_complains("[27]", 0, "[64]", "DSCP 64 is outside 0 to 63");
        assert_complains("[27]", 0, "[3]", "DSCP 3 goes to queue 1 already");
        assert_complains("= 7\ndscp", 0, "= 8\ndscp", "queue 8 is outside 0 to 7");
        assert_complains("= 7\ndscp", 0, "= 6\ndscp", "queue 6 was described before");
        assert_complains(
            "= 65",
            0,
            "= 257",
            "an ECN threshold of 257 packets is outside the queue's 1 to 256",
        );
        assert_complains(
            "= 65",
            0,
            "= 0",
            "an ECN threshold of 0 packets is outside the queue's 1 to 256",
        );
        assert_complains(
            "= 426_000",
            0,
            "= 42_000",
            "a buffer of 28 MTU leaves nothing for queue 0: queues 1 to 7 take 28",
        );
        assert_complains(
            "limit_mtus = 1\n",
            0,
            "limit_mtus = 0\n",
            "a queue of 0 MTU holds nothing",
        );
        assert_complains(
            "ecn_threshold_packets",
            0,
            "limit_mtus",
            "queue 0 has the rest of port_buffer_bytes: leave out its limit_mtus",
        );
    }

    #[test]
    fn parse__unknown_key_is_refused_with_its_line() {
        let (text, line) = spoilt("limit_mtus = 4", 0, "limit_packets = 4");
        let complaint = complaint(&text);
        assert!(
            complaint.starts_with(&format!("the switch profile p.toml, line {line}: ")),
            "{complaint}"
        );
        assert!(complaint.contains("limit_packets"), "{complaint}");
    }

    #[test]
    fn parse__missing_parts() {
        let (text, _) = spoilt("\n[[queue]]\nnumber = 7\ndscp = [27]\nlimit_mtus = 1\n", 0, "");
        assert!(complaint(&text).ends_with("queue 7 is missing: a port has eight"));
        let (text, _) = spoilt("dscp = [27]\n", 0, "");
        assert!(complaint(&text).ends_with("queue 7 has no DSCP: nothing would ever go there"));
        let (text, _) = spoilt("limit_mtus = 1\n", 0, "");
        assert!(complaint(&text).ends_with("queue 7 has no limit_mtus"));
    }

    #[test]
    fn parse__not_toml_says_the_line() {
        assert!(
            complaint("mtu_bytes = 1500\nport buffer\n")
                .starts_with("the switch profile p.toml, line 2: ")
        );
        assert!(complaint("").starts_with("the switch profile p.toml, line 1: "));
        assert!(
            complaint("mtu_bytes = \"many\"\n").starts_with("the switch profile p.toml, line 1: ")
        );
    }

    proptest! {
        /// Whatever a file holds: a profile or one line of complaint.
        #[test]
        fn parse__never_panics(cut in 0..DEFAULT.len(), insert in ".{0,12}", keep in any::<bool>()) {
            let at = (0..=cut).rev().find(|&i| DEFAULT.is_char_boundary(i)).unwrap_or(0);
            let tail = if keep { &DEFAULT[at..] } else { "" };
            let text = format!("{}{insert}{tail}", &DEFAULT[..at]);
            match Profile::parse(&text, Path::new("p.toml")) {
                Ok(profile) => prop_assert!(profile.queues().iter().all(|q| q.limit_packets > 0)),
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
        }
    }
}
