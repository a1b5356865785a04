//! Parses and checks the text of a profile. Errors name the line.

mod limits;

use super::{
    profile::{Profile, QUEUES, Queue},
    role::PerRole,
};
use limits::Limits;
use serde::Deserialize;
use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    path::{Path, PathBuf},
};
use toml::Spanned;

/// The shipped profiles: the name in place of a path, and the text.
const SHIPPED: [(&str, &str); 3] =
    [("default", DEFAULT), ("paper", PAPER), ("one-queue", ONE_QUEUE)];
const DEFAULT: &str = include_str!("../../default.toml");
const PAPER: &str = include_str!("../../paper.toml");
const ONE_QUEUE: &str = include_str!("../../one-queue.toml");

const MTU_BYTES: std::ops::RangeInclusive<u32> = 576..=9_000;
/// Far above the shipped profiles, which have about a kilobyte.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Code points have six bits.
const DSCP_MAX: u8 = 63;

/// An error in a profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file can't be read.
    #[error("can't read the switch profile {path}")]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the read.
        source: io::Error,
    },
    /// The text is malformed.
    #[error("the switch profile {path}, line {line}: {reason}")]
    Malformed {
        /// The file's path.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The fault, and the form that is right.
        reason: String,
    },
}

impl Profile {
    /// Reads a profile. The paths `default`, `paper` and `one-queue` are the names of the shipped
    /// ones; a file of such a name is `./default`.
    ///
    /// # Errors
    /// The file can't be read, or is malformed. The error names file, line and reason.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        if let Some((name, text)) = SHIPPED.iter().find(|(name, _)| path == Path::new(name)) {
            return Ok(Self::shipped(name, text));
        }
        let text = text(path)
            .map_err(|source| ProfileError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Parses a profile. `path` only appears in errors.
    ///
    /// # Errors
    /// As [`Profile::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ProfileError> {
        parse(text).map_err(|malformed| malformed.locate(text, path))
    }

    /// The paper's profile (NetApprox §5.2): queues of seven packets to one.
    pub fn paper() -> Self {
        Self::shipped("paper", PAPER)
    }

    /// One queue for all traffic, as long as queue 0 of the other shipped profiles.
    pub fn one_queue() -> Self {
        Self::shipped("one-queue", ONE_QUEUE)
    }

    fn shipped(name: &str, text: &str) -> Self {
        Self::parse(text, Path::new(name)).expect("the shipped profiles are parsed by a test")
    }
}

impl Default for Profile {
    /// The profile that the project recommends.
    fn default() -> Self {
        Self::shipped("default", DEFAULT)
    }
}

/// An error with its location in the text.
#[derive(Debug)]
struct Malformed {
    at: Range<usize>,
    reason: String,
}

impl Malformed {
    fn at<T>(value: &Spanned<T>, reason: String) -> Self {
        Self { at: value.span(), reason }
    }

    fn locate(self, text: &str, path: &Path) -> ProfileError {
        let before = &text.as_bytes()[..self.at.start.min(text.len())];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        ProfileError::Malformed { path: path.to_owned(), line, reason: self.reason }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    mtu_bytes: Spanned<u32>,
    port_buffer_bytes: Spanned<PerRole<u64>>,
    exact_burst_bytes: Option<Spanned<PerRole<u64>>>,
    approximate_limit_mtus: Option<Spanned<PerRole<u32>>>,
    law: Option<Spanned<String>>,
    queue: Vec<Spanned<QueueText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueText {
    number: Spanned<usize>,
    #[serde(default)]
    dscp: Vec<Spanned<u8>>,
    limit_mtus: Option<Spanned<PerRole<u32>>>,
    limit_bytes: Option<Spanned<PerRole<u64>>>,
    ecn_threshold_packets: Option<Spanned<u32>>,
}

/// Reads the text of a profile, up to a maximum length.
fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    let bytes = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if bytes as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("the file is longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn parse(text: &str) -> Result<Profile, Malformed> {
    let read: Text = toml::from_str(text).map_err(|error| Malformed {
        at: error.span().unwrap_or(0..0),
        reason: one_line(error.message()),
    })?;
    let mtu_bytes = *read.mtu_bytes.get_ref();
    if !MTU_BYTES.contains(&mtu_bytes) {
        let reason = format!("an MTU of {mtu_bytes} bytes is outside the range 576 to 9000");
        return Err(Malformed::at(&read.mtu_bytes, reason));
    }
    if let Some(burst) = &read.exact_burst_bytes
        && burst.get_ref().least() == 0
    {
        let reason = "a burst of 0 bytes is none: leave out exact_burst_bytes".into();
        return Err(Malformed::at(burst, reason));
    }
    if let Some(law) = &read.law
        && law.get_ref().is_empty()
    {
        return Err(Malformed::at(law, "an empty law is none: leave out law, or name one".into()));
    }
    let texts = in_order(&read.queue)?;
    check_code_points(&texts)?;
    let limits = Limits::of(&read, &texts)?;
    let queues = texts.into_iter().zip(limits.queues).map(|(text, limit)| checked(text, limit));
    let queues = queues.collect::<Result<_, _>>()?;
    Ok(Profile {
        mtu_bytes,
        port_buffer_bytes: *read.port_buffer_bytes.get_ref(),
        exact_burst_bytes: read.exact_burst_bytes.map(Spanned::into_inner),
        approximate_limit_packets: limits.approximate,
        law: read.law.map(Spanned::into_inner),
        queues,
    })
}

/// Joins the lines of the parser's message.
fn one_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// The queues in order: all eight, or queue 0 alone. Refuses repeated and unknown ones, and any
/// other set.
fn in_order(read: &[Spanned<QueueText>]) -> Result<Vec<&QueueText>, Malformed> {
    let mut texts: [Option<&QueueText>; QUEUES] = [None; QUEUES];
    for text in read {
        let number = &text.get_ref().number;
        let Some(slot) = texts.get_mut(*number.get_ref()) else {
            let reason = format!("queue {} is outside the range 0 to 7", number.get_ref());
            return Err(Malformed::at(number, reason));
        };
        if slot.replace(text.get_ref()).is_some() {
            let reason =
                format!("queue {} occurs twice: describe each queue once", number.get_ref());
            return Err(Malformed::at(number, reason));
        }
    }
    let absent = texts.iter().position(Option::is_none);
    let is_only_queue_0 = texts[0].is_some() && read.len() == 1;
    if let Some(absent) = absent.filter(|_| !is_only_queue_0) {
        // Points at the last queue, after which the missing one belongs.
        let at = read.last().map_or(0..0, |last| last.span());
        let reason = format!("queue {absent} is missing: describe queues 0 to 7, or queue 0 alone");
        return Err(Malformed { at, reason });
    }
    Ok(texts.into_iter().flatten().collect())
}

fn check_code_points(texts: &[&QueueText]) -> Result<(), Malformed> {
    let mut owner = [None; DSCP_MAX as usize + 1];
    for (number, text) in texts.iter().enumerate() {
        for dscp in &text.dscp {
            let Some(owner) = owner.get_mut(usize::from(*dscp.get_ref())) else {
                let reason = format!("DSCP {} is outside the range 0 to 63", dscp.get_ref());
                return Err(Malformed::at(dscp, reason));
            };
            if let Some(other) = owner.replace(number) {
                let reason = format!(
                    "DSCP {} already belongs to queue {other}: list it once",
                    dscp.get_ref()
                );
                return Err(Malformed::at(dscp, reason));
            }
        }
        if number > 0 && text.dscp.is_empty() {
            let reason =
                format!("queue {number} has no DSCP, so no packet would use it: list at least one");
            return Err(Malformed::at(&text.number, reason));
        }
    }
    Ok(())
}

fn checked(text: &QueueText, limit_packets: PerRole<u32>) -> Result<Queue, Malformed> {
    if let Some(threshold) = &text.ecn_threshold_packets
        && !(1..=limit_packets.least()).contains(threshold.get_ref())
    {
        let reason = format!(
            "an ECN threshold of {} packets is outside the queue's 1 to {}",
            threshold.get_ref(),
            limit_packets.least()
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
    use crate::PortRole;
    use proptest::{prelude::*, sample::subsequence};

    pub(super) fn error_of(text: &str) -> String {
        Profile::parse(text, Path::new("p.toml")).unwrap_err().to_string()
    }

    /// The paper's profile with the `nth` occurrence (from 0) of `from` replaced, and its line.
    pub(super) fn edited(from: &str, nth: usize, to: &str) -> (String, usize) {
        replaced(PAPER, from, nth, to)
    }

    pub(super) fn replaced(old: &str, from: &str, nth: usize, to: &str) -> (String, usize) {
        let (at, _) = old.match_indices(from).nth(nth).expect("the text is there");
        let text = format!("{}{to}{}", &old[..at], &old[at + from.len()..]);
        (text, 1 + old[..at].matches('\n').count())
    }

    pub(super) fn limit(profile: &Profile, queue: u8) -> PerRole<u32> {
        profile.queues()[usize::from(queue)].limit_packets
    }

    #[track_caller]
    pub(super) fn assert_refused(from: &str, nth: usize, to: &str, reason: &str) {
        let (text, line) = edited(from, nth, to);
        assert_eq!(error_of(&text), format!("the switch profile p.toml, line {line}: {reason}"));
    }

    #[test]
    fn parse__names_the_line() {
        assert_refused("= 1500", 0, "= 15", "an MTU of 15 bytes is outside the range 576 to 9000");
        assert_refused("[27]", 0, "[64]", "DSCP 64 is outside the range 0 to 63");
        assert_refused("[27]", 0, "[3]", "DSCP 3 already belongs to queue 1: list it once");
        assert_refused("= 7\ndscp", 0, "= 8\ndscp", "queue 8 is outside the range 0 to 7");
        assert_refused(
            "= 7\ndscp",
            0,
            "= 6\ndscp",
            "queue 6 occurs twice: describe each queue once",
        );
        assert_refused(
            "= 65",
            0,
            "= 257",
            "an ECN threshold of 257 packets is outside the queue's 1 to 256",
        );
        assert_refused(
            "= 65",
            0,
            "= 0",
            "an ECN threshold of 0 packets is outside the queue's 1 to 256",
        );
        assert_refused(
            "= 426_000",
            0,
            "= 42_000",
            "a buffer of 28 MTU (to_hosts) leaves nothing for queue 0: queues 1 to 7 use 28",
        );
        assert_refused(
            "limit_mtus = 1\n",
            0,
            "limit_mtus = 0\n",
            "a queue of 0 MTU holds no packet: use at least 1",
        );
        assert_refused(
            "ecn_threshold_packets",
            0,
            "limit_mtus",
            "queue 0 gets the rest of port_buffer_bytes: leave out its limit",
        );
    }

    #[test]
    fn parse__refuses_an_unknown_key_with_its_line() {
        let (text, line) = edited("limit_mtus = 4", 0, "limit_packets = 4");
        let error = error_of(&text);
        assert!(error.starts_with(&format!("the switch profile p.toml, line {line}: ")), "{error}");
        assert!(error.contains("limit_packets"), "{error}");
    }

    #[test]
    fn parse__missing_parts() {
        let (text, _) = edited("\n[[queue]]\nnumber = 7\ndscp = [27]\nlimit_mtus = 1\n", 0, "");
        let reason = "queue 7 is missing: describe queues 0 to 7, or queue 0 alone";
        assert!(error_of(&text).ends_with(reason));
        let (text, _) = edited("dscp = [27]\n", 0, "");
        assert!(
            error_of(&text)
                .ends_with("queue 7 has no DSCP, so no packet would use it: list at least one")
        );
        let (text, _) = edited("limit_mtus = 1\n", 0, "");
        assert!(
            error_of(&text).ends_with("queue 7 has no limit_mtus and no limit_bytes: give it one")
        );
    }

    #[test]
    fn parse__not_toml_names_the_line() {
        assert!(
            error_of("mtu_bytes = 1500\nport buffer\n")
                .starts_with("the switch profile p.toml, line 2: ")
        );
        assert!(error_of("").starts_with("the switch profile p.toml, line 1: "));
        assert!(
            error_of("mtu_bytes = \"many\"\n").starts_with("the switch profile p.toml, line 1: ")
        );
    }

    /// NetApprox §5.2
    #[test]
    fn paper__is_the_paper_s() {
        let profile = Profile::paper();
        for queue in 1..=7u8 {
            assert_eq!(profile.dscp_of_queue(queue), 4 * queue - 1);
            assert_eq!(limit(&profile, queue), PerRole::same(8 - u32::from(queue)));
            assert_eq!(profile.queues()[usize::from(queue)].ecn_threshold_packets, None);
        }
        assert_eq!(profile.dscp_of_queue(0), 0);
        assert_eq!(profile.approximate_dscps(), (1..=7).map(|queue| 1 << (4 * queue - 1)).sum());
        assert_eq!(limit(&profile, 0), PerRole::same(256));
        assert_eq!(profile.advised_depth_packets(), 4);
        assert_eq!(profile.queues()[0].ecn_threshold_packets, Some(65));
        assert_eq!(profile.mtu_bytes(), 1500);
    }

    /// Deep towards hosts, the paper's between switches, and the same code points.
    #[test]
    fn default__is_deep_towards_hosts() {
        let (profile, paper) = (Profile::default(), Profile::paper());
        for queue in 0..=7u8 {
            let between_switches = limit(&paper, queue).between_switches;
            let to_hosts = if queue == 0 { 256 } else { 96 };
            assert_eq!(limit(&profile, queue), PerRole { to_hosts, between_switches });
            assert_eq!(profile.dscp_of_queue(queue), paper.dscp_of_queue(queue));
        }
        assert_eq!(profile.advised_depth_packets(), 96);
        assert_eq!(profile.exact_burst_bytes(PortRole::ToHost), Some(15_380));
        assert_eq!(profile.queues()[0].ecn_threshold_packets, Some(65));
    }

    #[track_caller]
    pub(super) fn assert_one_queue_refused(from: &str, to: &str, at: &str, reason: &str) {
        let (text, _) = replaced(ONE_QUEUE, from, 0, to);
        let line = 1 + text[..text.find(at).expect("the text is there")].matches('\n').count();
        assert_eq!(error_of(&text), format!("the switch profile p.toml, line {line}: {reason}"));
    }

    #[test]
    fn one_queue__carries_all_traffic() {
        let profile = Profile::one_queue();
        assert!(profile.is_one_queue());
        assert!(!Profile::default().is_one_queue() && !Profile::paper().is_one_queue());
        assert_eq!(profile.queues().len(), 1);
        assert_eq!(profile.queues()[0].ecn_threshold_packets, None);
        for queue in 0..=7 {
            assert_eq!(profile.dscp_of_queue(queue), 0);
            assert_eq!(profile.depth_packets(queue, PortRole::ToHost), 256);
            assert_eq!(profile.path_depth_packets(queue), 256);
        }
        assert_eq!((profile.approximate_dscps(), profile.advised_depth_packets()), (0, 0));
        assert_eq!(profile.law(), Some("yield"));
        assert_eq!((Profile::default().law(), Profile::paper().law()), (None, None));
    }

    #[test]
    fn parse__law_is_any_name() {
        let law = |value: &str| {
            let (text, _) = replaced(ONE_QUEUE, "\"yield\"", 0, value);
            Profile::parse(&text, Path::new("p.toml")).map(|profile| profile.law)
        };
        assert_eq!(law("\"no such law\"").unwrap().as_deref(), Some("no such law"));
        assert!(law("7").is_err());
        let reason = "an empty law is none: leave out law, or name one";
        assert_one_queue_refused("\"yield\"", "\"\"", "law = ", reason);
        let (text, _) = edited("mtu_bytes", 0, "law = \"pi\"\nmtu_bytes");
        let profile = Profile::parse(&text, Path::new("p.toml")).unwrap();
        assert_eq!((profile.law(), profile.queues().len()), (Some("pi"), 8));
    }

    #[test]
    fn load__knows_the_shipped_profiles_by_name() {
        assert_eq!(Profile::load(Path::new("paper")).unwrap(), Profile::paper());
        assert_eq!(Profile::load(Path::new("default")).unwrap(), Profile::default());
        assert_eq!(Profile::load(Path::new("one-queue")).unwrap(), Profile::one_queue());
        assert!(Profile::load(Path::new("./default")).is_err());
    }

    #[test]
    fn load__names_a_missing_file() {
        let error = Profile::load(Path::new("no/such.toml")).unwrap_err().to_string();
        assert!(error.contains("no/such.toml") && error.contains("can't read"), "{error}");
    }

    #[test]
    fn load__refuses_an_endless_file() {
        let error = Profile::load(Path::new("/dev/zero")).unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.contains("longer than"), "{why}");
    }

    proptest! {
        /// Only all eight queues, and queue 0 alone, are profiles. An error names the first missing
        /// queue.
        #[test]
        fn parse__takes_one_queue_or_eight(
            mut numbers in subsequence((0..8).collect::<Vec<u8>>(), 0..=8),
        ) {
            let queues = numbers.iter().map(|number| {
                let rest = format!("dscp = [{number}]\nlimit_mtus = 1\n");
                let rest = if *number == 0 { "" } else { &rest };
                format!("[[queue]]\nnumber = {number}\n{rest}")
            });
            let queues: String = queues.collect();
            let queues = if queues.is_empty() { "queue = []" } else { &queues };
            let text = format!("mtu_bytes = 1500\nport_buffer_bytes = 426_000\n{queues}");
            let parsed = Profile::parse(&text, Path::new("p.toml"));
            if numbers == [0] || numbers.len() == QUEUES {
                let profile = parsed.unwrap();
                prop_assert_eq!(profile.queues().len(), numbers.len());
                prop_assert_eq!(profile.is_one_queue(), numbers.len() == 1);
                let packets: u32 = profile.queues().iter().map(|q| q.limit_packets.to_hosts).sum();
                prop_assert_eq!(packets, 284);
            } else {
                numbers.push(u8::MAX);
                let absent = (0..).zip(&numbers).find(|(number, it)| number != *it).unwrap().0;
                let error = parsed.unwrap_err().to_string();
                prop_assert!(error.contains(&format!(": queue {absent} is missing: ")), "{error}");
            }
        }

        /// Any text gives a profile or an error of one line.
        #[test]
        fn parse__never_panics(end in 0..PAPER.len(), insert in ".{0,12}", keep in any::<bool>()) {
            let at = (0..=end).rev().find(|&i| PAPER.is_char_boundary(i)).unwrap_or(0);
            let tail = if keep { &PAPER[at..] } else { "" };
            let text = format!("{}{insert}{tail}", &PAPER[..at]);
            match Profile::parse(&text, Path::new("p.toml")) {
                Ok(profile) => prop_assert!(profile.queues().iter().all(|q| q.limit_packets.least() > 0)),
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
        }
    }
}
