//! Parses and checks the text of a policy. Errors name the line.

use super::{Limits, Policy, Rule, file};
use crate::daemon::cgroup_mount_point;
use atp_common::units::{Msr, Rate, Share};
use atp_options::quantity;
use nix::unistd::{Group, User};
use serde::{Deserialize, Deserializer, de::Error};
use std::{
    io,
    path::{Component, Path, PathBuf},
};
use toml::Spanned;

/// An error in a policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file can't be read, or others could change it.
    #[error("can't use the policy {path}: {source}")]
    Unusable {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The text is malformed.
    #[error("the policy {path}, line {line}: {reason}")]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The fault, and the form that is right.
        reason: String,
    },
}

impl Policy {
    /// Reads a policy. Looks up the names in it, which can block.
    ///
    /// # Errors
    /// The file can't be read, others than root and the caller could change it, or it is malformed.
    pub fn load(path: &Path) -> Result<Self, PolicyError> {
        let text = file::text(path)
            .map_err(|source| PolicyError::Unusable { path: path.into(), source })?;
        Self::parse(&text).map_err(|(at, reason)| {
            let line = line(&text, at);
            PolicyError::Malformed { path: path.into(), line, reason }
        })
    }

    /// The error is the byte at which it is, and the reason.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let Text { rules, others } = toml::from_str(text).map_err(|error| {
            let reason = error.message().lines().map(str::trim).collect::<Vec<_>>().join("; ");
            (error.span().map_or(0, |at| at.start), reason)
        })?;
        if let Some(others) = &others
            && others.get_ref().names_somebody()
        {
            let reason = "[others] is for those that no rule names: leave out users, groups and \
                          cgroups";
            return Err((others.span().start, reason.into()));
        }
        for rule in rules.iter().chain(&others) {
            let text = rule.get_ref();
            if text.msr_min.is_exact() && text.queue_highest > 0 {
                let reason = "an MSR of 1 needs queue 0: leave out msr_min or queue_highest";
                return Err((rule.span().start, reason.into()));
            }
        }
        for rule in &rules {
            if !rule.get_ref().names_somebody() {
                let reason = "the rule names nobody: give users, groups or cgroups";
                return Err((rule.span().start, reason.into()));
            }
        }
        if others.is_none() && !rules.is_empty() {
            let reason = "[others] is missing: write [others] with limits for those that no rule \
                          names, such as jobs_max = 0, or with none";
            return Err((text.len(), reason.into()));
        }
        Ok(Self {
            rules: rules
                .into_iter()
                .map(|rule| {
                    let line = line(text, rule.span().start);
                    rule.into_inner().at(line)
                })
                .collect(),
            others: others.map(|others| others.into_inner().limits()),
        })
    }
}

/// The line of a byte, counted from 1.
fn line(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default, rename = "rule")]
    rules: Vec<Spanned<RuleText>>,
    others: Option<Spanned<RuleText>>,
}

/// A rule, or the limits of all others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    #[serde(default)]
    users: Vec<UserId>,
    #[serde(default)]
    groups: Vec<GroupId>,
    #[serde(default)]
    cgroups: Vec<Cgroup>,
    jobs_max: Option<u32>,
    #[serde(default = "no_msr", deserialize_with = "msr")]
    msr_min: Msr,
    #[serde(default = "no_rate", deserialize_with = "rate")]
    rate_max: Rate,
    #[serde(default, deserialize_with = "queue")]
    queue_highest: u8,
    #[serde(default = "no_share", deserialize_with = "share")]
    port_share_max: Share,
}

impl RuleText {
    fn names_somebody(&self) -> bool {
        !(self.users.is_empty() && self.groups.is_empty() && self.cgroups.is_empty())
    }

    fn limits(&self) -> Limits {
        let Self { jobs_max, msr_min, rate_max, queue_highest, port_share_max, .. } = *self;
        Limits { jobs_max, msr_min, rate_max, queue_highest, port_share_max }
    }

    fn at(self, line: usize) -> Rule {
        Rule {
            line,
            limits: self.limits(),
            users: self.users.into_iter().map(|user| user.0).collect(),
            groups: self.groups.into_iter().map(|group| group.0).collect(),
            cgroups: self.cgroups.into_iter().map(|cgroup| cgroup.0).collect(),
        }
    }
}

/// A name or a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a name or a number")]
enum Name {
    Number(u32),
    Name(String),
}

struct UserId(u32);
struct GroupId(u32);
struct Cgroup(PathBuf);

impl<'de> Deserialize<'de> for UserId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Name::deserialize(from)? {
            Name::Number(uid) => Ok(Self(uid)),
            Name::Name(name) => match User::from_name(&name) {
                Ok(Some(user)) => Ok(Self(user.uid.as_raw())),
                found => Err(unknown("user", &name, found.err())),
            },
        }
    }
}

impl<'de> Deserialize<'de> for GroupId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Name::deserialize(from)? {
            Name::Number(gid) => Ok(Self(gid)),
            Name::Name(name) => match Group::from_name(&name) {
                Ok(Some(group)) => Ok(Self(group.gid.as_raw())),
                found => Err(unknown("group", &name, found.err())),
            },
        }
    }
}

fn unknown<E: Error>(kind: &str, name: &str, error: Option<nix::Error>) -> E {
    let why = error.map_or_else(|| "this host has none".into(), |error| error.to_string());
    E::custom(format!("no {kind} {name:?} is known ({why}): create it, or write its number"))
}

impl<'de> Deserialize<'de> for Cgroup {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let path = PathBuf::deserialize(from)?;
        let root = cgroup_mount_point().map_err(D::Error::custom)?;
        let below = path.strip_prefix(&root).ok().filter(|below| {
            let mut parts = below.components();
            parts.clone().count() > 0 && parts.all(|part| matches!(part, Component::Normal(_)))
        });
        match below {
            // The path of a cgroup that begins with this one, component by component.
            Some(below) => Ok(Self(Path::new("/").join(below))),
            None => Err(D::Error::custom(format!(
                "{} is no cgroup: give an absolute path below {}",
                path.display(),
                root.display()
            ))),
        }
    }
}

const fn no_msr() -> Msr {
    Limits::NONE.msr_min
}

const fn no_rate() -> Rate {
    Limits::NONE.rate_max
}

const fn no_share() -> Share {
    Limits::NONE.port_share_max
}

fn msr<'de, D: Deserializer<'de>>(from: D) -> Result<Msr, D::Error> {
    let msr = f64::deserialize(from)?;
    let parts = (0.0..=1.0).contains(&msr).then(|| (msr * 1e9).round() as u32);
    parts
        .and_then(Msr::from_parts_per_billion)
        .ok_or_else(|| D::Error::custom(format!("{msr} is no MSR: give a number from 0 to 1")))
}

fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
    let text = String::deserialize(from)?;
    quantity::rate_bytes_per_s(&text).map(Rate::from_bytes_per_s).map_err(D::Error::custom)
}

fn queue<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    match u8::deserialize(from)? {
        queue @ 0..=7 => Ok(queue),
        queue => Err(D::Error::custom(format!("queue {queue} is outside the range 0 to 7"))),
    }
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<Share, D::Error> {
    quantity::positive_share(&f64::deserialize(from)?.to_string()).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line and the reason of what is wrong.
    fn fault(text: &str) -> (usize, String) {
        let (at, reason) = Policy::parse(text).unwrap_err();
        (1 + text[..at].matches('\n').count(), reason)
    }

    #[test]
    fn parse__reads_every_limit() {
        let root = cgroup_mount_point().unwrap();
        let text = format!(
            "[[rule]]\nusers = [\"root\", 1001]\ngroups = [\"root\"]\ncgroups = [\"{}/a/b\"]\n\
             jobs_max = 20\nmsr_min = 0.5\nrate_max = \"2gbit\"\nqueue_highest = 3\n\
             port_share_max = 0.25\n[others]\njobs_max = 0\n",
            root.display()
        );
        let policy = Policy::parse(&text).unwrap();
        let [Rule { line: 1, users, groups, cgroups, limits }] = &policy.rules[..] else {
            panic!("{policy:?}")
        };
        assert_eq!((&users[..], &groups[..]), (&[0, 1001][..], &[0][..]));
        assert_eq!(cgroups[..], [PathBuf::from("/a/b")]);
        let expected = Limits {
            jobs_max: Some(20),
            msr_min: Msr::from_parts_per_billion(500_000_000).unwrap(),
            rate_max: Rate::from_bytes_per_s(250_000_000),
            queue_highest: 3,
            port_share_max: Share::from_q16(1 << 14),
        };
        assert_eq!(*limits, expected);
        assert_eq!(policy.others, Some(Limits { jobs_max: Some(0), ..Limits::NONE }));
        // As the package ships it.
        let shipped = Policy::parse(include_str!("../../../packaging/policy.toml")).unwrap();
        assert_eq!((shipped.rules(), shipped.others), (0, None));
    }

    #[test]
    fn parse__names_the_line_and_the_reason() {
        for (text, line, reason) in [
            ("[[rule]]\nusers = [\"nobody-has-this-name\"]\n[others]", 2, "is known"),
            ("[[rule]]\ngroups = [\"no-group-is-called-so\"]\n[others]", 2, "write its number"),
            ("[[rule]]\nusers = [-1]\n[others]", 2, "a name or a number"),
            ("[[rule]]\nusers = [1]\nmsr_min = 1.5\n[others]", 3, "is no MSR"),
            ("[[rule]]\nusers = [1]\nrate_max = \"9\"\n[others]", 3, "outside the range"),
            ("[[rule]]\nusers = [1]\nqueue_highest = 8\n[others]", 3, "outside the range 0 to 7"),
            ("[[rule]]\nusers = [1]\nport_share_max = 0.0\n[others]", 3, "is not a share"),
            ("[[rule]]\nusers = [1]\njobs_max = -1\n[others]", 3, "invalid value"),
            ("[[rule]]\nusers = [1]\njobs = 1\n[others]", 3, "unknown field"),
            ("[[rule]]\ncgroups = [\"/etc\"]\n[others]", 2, "is no cgroup"),
            ("[[rule]]\ncgroups = [\"a\"]\n[others]", 2, "is no cgroup"),
            ("\n[[rule]]\njobs_max = 1\n[others]", 2, "names nobody"),
            ("[others]\nmsr_min = 1.0\nqueue_highest = 1\n", 1, "leave out msr_min or"),
            ("[others]\nusers = [1]\n", 1, "leave out users"),
            ("[[rule]]\nusers = [1]\n", 3, "[others] is missing"),
            ("[[rules]]\nusers = [1]\n", 1, "unknown field"),
        ] {
            let (found, said) = fault(text);
            assert!(found == line && said.contains(reason), "{text:?}: line {found}: {said}");
        }
        let root = cgroup_mount_point().unwrap();
        for path in ["", "/", "/a/../b"] {
            let text = format!("[[rule]]\ncgroups = [\"{}{path}\"]\n[others]", root.display());
            assert!(fault(&text).1.contains("is no cgroup"), "{text}");
        }
    }
}
