//! Schemes by name.

use super::{Atp, Scheme};
use atp_common::laws::{RateLaw, Rule, Variant};
use std::{fmt, str::FromStr};

impl FromStr for Scheme {
    type Err = String;

    /// `atp`, `atp:VARIANT`, `atp:VARIANT:LAW`, `atp:VARIANT:LAW:-RULE`, or one of [`Scheme::OTHERS`]. Base is the
    /// variant without the rate law (NetApprox §7.1.3), so none is named with it. Whether a rule matters
    /// depends on MSR and traffic, which a name doesn't know: every rule can be off everywhere else.
    fn from_str(text: &str) -> Result<Self, String> {
        let known = || {
            format!(
                "{text:?} is no scheme: atp, atp:VARIANT, atp:VARIANT:LAW, atp:VARIANT:LAW:-RULE, {}; \
                 variants are {}; laws are {}; rules, which a - before them switches off, are {}",
                names(&Self::OTHERS),
                names(&Variant::ALL),
                names(&RateLaw::ALL),
                names(&Rule::ALL)
            )
        };
        let words: Vec<&str> = text.split(':').collect();
        match words[..] {
            ["atp", ref rest @ ..] if rest.len() <= 3 => {
                let variant =
                    rest.first().map_or(Some(Variant::Full), |name| find(&Variant::ALL, name));
                let law =
                    rest.get(1).map_or(Some(RateLaw::default()), |name| find(&RateLaw::ALL, name));
                let (variant, law) = variant.zip(law).ok_or_else(known)?;
                let off = rest.get(2).map(|rule| {
                    rule.strip_prefix('-').and_then(|name| find(&Rule::ALL, name)).ok_or_else(known)
                });
                let atp = Atp { variant, law, off: off.transpose()? };
                if variant == Variant::Base && rest.len() > 1 {
                    return Err(format!(
                        "{text:?}: base is named without a law or a rule: write atp:base"
                    ));
                }
                Ok(Self::Atp(atp))
            }
            _ => find(&Self::OTHERS, text).ok_or_else(known),
        }
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

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Atp(Atp { variant: Variant::Base, .. }) => f.write_str("atp:base"),
            Self::Atp(Atp { variant, law, off }) => {
                let (variant, law) = (name_of(&Variant::ALL, variant), name_of(&RateLaw::ALL, law));
                write!(f, "atp:{variant}:{law}")?;
                off.map_or(Ok(()), |off| write!(f, ":-{}", name_of(&Rule::ALL, &off)))
            }
            other => f.write_str(name_of(&Self::OTHERS, other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn scheme__reads_what_it_writes() {
        let others = Scheme::OTHERS.map(|(_, name)| name);
        let texts = ["atp:full:paper", "atp:base", "atp:rc:none", "atp:full:pi:-evaluate-late"];
        let texts = texts.into_iter().chain(others);
        for text in texts {
            assert_eq!(text.parse::<Scheme>().unwrap().to_string(), text);
        }
        assert_eq!("atp".parse(), Ok(Scheme::default()));
        for wrong in [
            "tcp",
            "atp:fast",
            "atp:full:fast",
            "atp:full:paper:x",
            "atp:full:paper:starvation-recovery",
            "",
        ] {
            assert!(wrong.parse::<Scheme>().unwrap_err().contains("frugal"), "{wrong}");
        }
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

    /// What a law doesn't ask for at one MSR, exact jobs' law does at another.
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
