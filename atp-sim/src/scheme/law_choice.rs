//! The choice of control laws, for schemes that run atp-common's: variant, rate law, a rule to
//! switch off, additions, and the queues that they are made for.

use super::Additions;
use atp_common::laws::{RateLaw, Rule, Rules, Variant};
use std::fmt;
use switch_profiles::Profile;

/// A choice of control laws. The default is that of daemon and library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LawChoice {
    /// The paper's variant.
    pub variant: Variant,
    /// The rate law. Base has none. Jobs of MSR 1 run DCTCP's law under any choice.
    pub law: RateLaw,
    /// The rule that is switched off, if any.
    pub off: Option<Rule>,
    /// Additions to the paper's protocol.
    pub additions: Additions,
    /// The switches' queues, unless the experiment states them.
    pub queues: Queues,
}

/// A shipped queue profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queues {
    /// `switch-profiles/default.toml`.
    #[default]
    Default,
    /// `switch-profiles/paper.toml`.
    Paper,
}

/// The name of the paper's protocol.
const PAPER: &str = "paper";

impl LawChoice {
    /// The paper's protocol: no additions, and the paper's queues.
    pub const PAPER: Self = Self {
        variant: Variant::Full,
        law: RateLaw::Paper,
        off: None,
        additions: Additions::NONE,
        queues: Queues::Paper,
    };

    /// Parses the words of `paper` or `VARIANT:LAW:-RULE`, of which the last ones may be missing.
    /// Any word selects the paper's protocol; no word, the default. Base is the variant without the
    /// rate law (NetApprox §7.1.3), so no law follows it. Any rule can be switched off with any
    /// other variant, because its effect depends on MSR and traffic.
    ///
    /// # Errors
    /// The reason, if a word is unknown or superfluous.
    pub fn from_words(words: &[&str]) -> Result<Self, String> {
        if words.is_empty() {
            return Ok(Self::default());
        }
        if words == [PAPER] {
            return Ok(Self::PAPER);
        }
        let unknown = |word: &str, kind: &str, names: String| {
            format!("{word:?} is not a {kind}: choose one of {names}")
        };
        let variant = words.first().map_or(Ok(Variant::Full), |word| {
            find(&Variant::ALL, word).ok_or_else(|| unknown(word, "variant", names(&Variant::ALL)))
        })?;
        let law = words.get(1).map_or(Ok(RateLaw::default()), |word| {
            find(&RateLaw::ALL, word).ok_or_else(|| unknown(word, "law", names(&RateLaw::ALL)))
        })?;
        let off = words.get(2).map(|word| {
            let rule = word.strip_prefix('-').and_then(|name| find(&Rule::ALL, name));
            rule.ok_or_else(|| {
                let names = names(&Rule::ALL);
                unknown(word, "rule to switch off", format!("{names}, with a - before it"))
            })
        });
        if let Some(word) = words.get(3) {
            return Err(format!("{word:?} is too much: a rule is the last word"));
        }
        let off = off.transpose()?;
        let choice = Self { variant, law, off, ..Self::PAPER };
        if variant == Variant::Base && words.len() > 1 {
            return Err("base takes no law and no rule: write atp:base".to_owned());
        }
        Ok(choice)
    }

    /// The choice of a host whose daemon knows `profile`, which may state a law.
    pub fn on(self, profile: &Profile) -> Self {
        let stated = profile.law().and_then(|name| find(&RateLaw::ALL, name));
        self.or_law(stated.unwrap_or_default())
    }

    /// The choice of a host that runs `law`, unless the scheme's name chose the laws.
    pub fn or_law(self, law: RateLaw) -> Self {
        match self.queues {
            Queues::Default => Self { law, ..self },
            Queues::Paper => self,
        }
    }

    /// The rules of lanes with this choice.
    pub fn rules(self) -> Rules {
        let rules = Rules::variant(self.variant, self.law);
        self.off.map_or(rules, |off| rules.without(off))
    }
}

impl fmt::Display for LawChoice {
    /// The words after a scheme's name, with their separators.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variant, law, off, additions, queues } = self;
        let base = match queues {
            Queues::Default => Self::default(),
            Queues::Paper => Self::PAPER,
        };
        match variant {
            _ if Self { additions: base.additions, ..*self } == Self::PAPER => {
                write!(f, ":{PAPER}")?;
            }
            _ if *queues == Queues::Default => {}
            Variant::Base => write!(f, ":base")?,
            _ => {
                write!(f, ":{}:{}", name_of(&Variant::ALL, variant), name_of(&RateLaw::ALL, law))?;
                off.map_or(Ok(()), |off| write!(f, ":-{}", name_of(&Rule::ALL, &off)))?;
            }
        }
        f.write_str(&additions.words_beyond(base.additions))
    }
}

fn find<T: Copy>(all: &[(T, &'static str)], name: &str) -> Option<T> {
    all.iter().find(|known| known.1 == name).map(|known| known.0)
}

fn name_of<T: PartialEq>(all: &[(T, &'static str)], wanted: &T) -> &'static str {
    all.iter().find(|known| known.0 == *wanted).map_or("?", |known| known.1)
}

fn names<T>(all: &[(T, &'static str)]) -> String {
    all.iter().map(|known| known.1).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::Scheme;

    #[test]
    fn on__takes_the_profile_s_law_unless_the_name_chose_laws() {
        let law_on = |profile: &Profile, name: &str| {
            name.parse::<Scheme>().unwrap().laws().on(profile).rules().law()
        };
        let one_queue = Profile::one_queue();
        for (name, law) in [
            ("atp", RateLaw::Yield),
            ("atp+single", RateLaw::Yield),
            ("atp:paper", RateLaw::Paper),
            ("atp:paper+advice+window", RateLaw::Paper),
            ("atp:full:polite", RateLaw::Tfrc),
        ] {
            assert_eq!(law_on(&one_queue, name), law, "{name}");
        }
        assert_eq!(law_on(&Profile::default(), "atp"), RateLaw::DEFAULT);
        let default = LawChoice::default();
        assert_eq!(default.or_law(RateLaw::Yield).rules().law(), RateLaw::Yield);
    }
}
