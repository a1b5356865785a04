//! Selects a scheme by its name.

use super::{
    Choices, Color, Ends, Environment, Features, LawChoice, Policy, Queues, Route, SCHEMES, Spec,
    atp,
};
use crate::net::PortQueues;
use std::{fmt, str::FromStr, sync::LazyLock};
use switch_profiles::Profile;

static DEFAULT_PROFILE: LazyLock<Profile> = LazyLock::new(Profile::default);
static PAPER_PROFILE: LazyLock<Profile> = LazyLock::new(Profile::paper);

/// A scheme, the policy of its senders, and the choices that follow its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    spec: &'static Spec,
    policy: Policy,
    choices: Choices,
}

impl Default for Scheme {
    fn default() -> Self {
        Self::new(&atp::SPEC)
    }
}

impl Scheme {
    /// A scheme with the first of its policies.
    pub fn new(spec: &'static Spec) -> Self {
        let policy = spec.names.first().map_or(Policy::EarlySend, |name| name.1);
        Self { spec, policy, choices: Choices::default() }
    }

    /// All schemes without a choice of laws, with each of their policies. These are all but ATP,
    /// and none has a feature.
    pub fn others() -> impl Iterator<Item = Self> {
        let choices = Choices::default();
        let of_spec = move |spec: &&'static Spec| {
            let spec = *spec;
            spec.names.iter().map(move |(_, policy)| Self { spec, policy: *policy, choices })
        };
        SCHEMES.iter().filter(|spec| !spec.takes_laws).flat_map(of_spec)
    }

    /// The scheme's description.
    pub const fn spec(self) -> &'static Spec {
        self.spec
    }

    /// The policy of the scheme's senders.
    pub const fn policy(self) -> Policy {
        self.policy
    }

    /// The features of the scheme's senders.
    pub const fn features(self) -> Features {
        self.choices.features
    }

    /// The control laws of the scheme's senders.
    pub const fn laws(self) -> LawChoice {
        self.choices.laws
    }

    /// The queue profile that the scheme's laws are made for.
    pub fn profile(self) -> &'static Profile {
        match self.choices.laws.queues {
            Queues::Default => &DEFAULT_PROFILE,
            Queues::Paper => &PAPER_PROFILE,
        }
    }

    /// The scheme's name, without its laws and features.
    pub fn name(self) -> &'static str {
        let names = self.spec.names;
        names.iter().find(|(_, policy)| *policy == self.policy).map_or("?", |name| name.0)
    }

    /// The color of the scheme's series in figures.
    pub fn color(self) -> Color {
        let LawChoice { variant, queues, .. } = self.choices.laws;
        let mut of_variant = self.spec.variant_colors.iter();
        let found = of_variant.find(|(of, _)| *of == variant && queues == Queues::Paper);
        found.map_or(self.spec.color, |found| found.1)
    }

    /// The queues of the scheme's switches.
    pub fn queues(self, environment: &Environment<'_>) -> PortQueues {
        (self.spec.queues)(environment, self.choices)
    }

    /// The two ends of a flow of `total` messages.
    pub fn ends(self, route: Route, environment: &Environment<'_>, total: u32) -> Ends {
        (self.spec.ends)(route, environment, self.choices, total)
    }
}

impl FromStr for Scheme {
    type Err = String;

    /// Parses one of the names of [`SCHEMES`]. A scheme that takes laws also has the names that
    /// [`LawChoice::from_words`] reads, and additions behind them. Other schemes may have names
    /// `NAME:FEATURE:FEATURE`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut additions = text.split('+');
        let words: Vec<&str> = additions.next().unwrap_or(text).split(':').collect();
        let found = SCHEMES.iter().find_map(|spec| {
            let name = spec.names.iter().find(|(name, _)| *name == words[0])?;
            Some((*spec, name.1))
        });
        let Some((spec, policy)) = found else {
            let of_spec = |spec: &&Spec| {
                let names = spec.names.iter().map(|(name, _)| *name);
                let names = names.collect::<Vec<_>>().join(", ");
                if spec.takes_laws {
                    format!("{names}, {names}:paper, {names}:VARIANT:LAW:-RULE")
                } else {
                    names
                }
            };
            let known = SCHEMES.iter().map(of_spec).collect::<Vec<_>>().join(", ");
            return Err(format!("{text:?} is not a scheme: choose one of {known}"));
        };
        let not_a_scheme = |reason| format!("{text:?} is not a scheme: {reason}");
        let (laws, features) =
            words[1..].split_at(if spec.takes_laws { words.len() - 1 } else { 0 });
        let mut laws = LawChoice::from_words(laws).map_err(not_a_scheme)?;
        if text.contains('+') && !spec.takes_laws {
            return Err(not_a_scheme(format!("{} has no additions", spec.title)));
        }
        laws.additions = laws.additions.with_words(additions).map_err(not_a_scheme)?;
        let features = Features::from_words(features, spec.features).map_err(not_a_scheme)?;
        Ok(Self { spec, policy, choices: Choices { laws, features } })
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if self.spec.takes_laws {
            write!(f, "{}", self.choices.laws)?;
        }
        self.choices.features.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::laws::{RateLaw, Rule, Variant};

    #[test]
    fn scheme__reads_what_it_writes() {
        let others = Scheme::others().map(Scheme::name);
        let texts = [
            "atp",
            "atp+advice=9+single",
            "atp:paper",
            "atp:paper+advice",
            "atp:base",
            "atp:base+single",
            "atp:rc:none",
            "atp:full:pi:-evaluate-late",
            "atp:paper+advice+window+single+rank-by-bytes",
            "dctcp-es:shortest-first:low-priority:persistent",
            "ndp-es:shortest-first",
        ];
        for text in texts.into_iter().chain(others) {
            assert_eq!(text.parse::<Scheme>().unwrap().to_string(), text);
        }
        assert_eq!("atp".parse(), Ok(Scheme::default()));
        for (given, written) in [
            ("atp+window+advice=2", "atp"),
            ("atp:full", "atp:paper"),
            ("atp:full:paper+single", "atp:paper+single"),
        ] {
            assert_eq!(given.parse::<Scheme>().unwrap().to_string(), written);
        }
        let own = |name: &str| name.parse::<Scheme>().unwrap().profile().advised_depth_packets();
        assert_eq!(["atp", "atp:paper", "atp:base", "udp"].map(own), [96, 4, 4, 96]);
        for (wrong, advice) in [
            ("tcp", "atp:paper, atp:VARIANT:LAW:-RULE, dctcp-es"),
            ("dctcp-es:full", "choose from shortest-first, low-priority, persistent"),
            ("dctcp-es:persistent:persistent", "twice"),
            ("ndp-es:low-priority", "choose from shortest-first"),
            ("udp:shortest-first", "no features to choose"),
            ("atp:fast", "base, rc"),
            ("atp:full:fast", "frugal"),
            ("atp:full:paper:x", "starvation-recovery"),
            ("atp:full:paper:starvation-recovery", "with a - before it"),
            ("atp:full:paper:-evaluate-late:x", "too much"),
            ("atp+fast", "choose from advice"),
            ("dctcp-es+advice", "DCTCP has no additions"),
            ("", "udp"),
        ] {
            let error = wrong.parse::<Scheme>().unwrap_err();
            assert!(error.contains(advice), "{wrong}: {error}");
        }
    }

    #[test]
    fn schemes__have_names_of_their_own() {
        let mut names: Vec<_> = SCHEMES.iter().flat_map(|spec| spec.names).collect();
        let count = names.len();
        names.sort_unstable_by_key(|name| name.0);
        names.dedup_by_key(|name| name.0);
        assert_eq!(names.len(), count, "two schemes have one name");
        assert!(SCHEMES.iter().all(|spec| !spec.names.is_empty()));
    }

    #[test]
    fn from_str__base_takes_no_law() {
        for (_, law) in RateLaw::ALL {
            for text in [format!("atp:base:{law}"), format!("atp:base:{law}:-evaluate-late")] {
                let error = text.parse::<Scheme>().unwrap_err();
                assert!(error.contains("write atp:base"), "{error}");
            }
        }
    }

    /// A rule that a law doesn't use at one MSR may be used by exact jobs' law at another.
    #[test]
    fn from_str__every_other_variant_takes_every_law_and_rule() {
        for (_, variant) in Variant::ALL.into_iter().filter(|(of, _)| *of != Variant::Base) {
            for (_, law) in RateLaw::ALL {
                for (_, rule) in Rule::ALL {
                    let text = format!("atp:{variant}:{law}:-{rule}");
                    assert_eq!(text.parse::<Scheme>().unwrap().to_string(), text);
                }
            }
        }
    }
}
