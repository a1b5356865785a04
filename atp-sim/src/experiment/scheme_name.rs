//! Schemes by name.

use super::{Atp, Scheme};
use atp_common::laws::{RateLaw, Rule, Variant};
use std::{fmt, str::FromStr};

impl FromStr for Scheme {
    type Err = String;

    /// `atp`, `atp:VARIANT`, `atp:VARIANT:LAW`, `atp:VARIANT:LAW:-RULE`, or one of [`Scheme::OTHERS`]. What
    /// would change nothing about it is no name of a scheme: whoever writes it expects something of it.
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
                match idle(atp, rest.len() > 1) {
                    Some(why) => Err(format!("{text:?} is no scheme of its own: {why}")),
                    None => Ok(Self::Atp(atp)),
                }
            }
            _ => find(&Self::OTHERS, text).ok_or_else(known),
        }
    }
}

/// What of it would change nothing, why, and what to write instead.
fn idle(atp: Atp, has_law: bool) -> Option<String> {
    if atp.variant == Variant::Base {
        let why =
            "base sends at line rate, without any law, and no rule matters there: write atp:base";
        return has_law.then(|| why.to_owned());
    }
    let off = atp.off?;
    let all_on = Scheme::Atp(Atp { off: None, ..atp });
    let why = idle_rule(off, atp)?;
    Some(format!("{} changes nothing there, {why}: write {all_on}", name_of(&Rule::ALL, &off)))
}

/// Why it says nothing that a rule is off, if that is so: as the laws of atp-common have it
/// (`laws/{lane,rate_law,tlr}.rs`).
fn idle_rule(off: Rule, Atp { variant, law, .. }: Atp) -> Option<&'static str> {
    let others = Atp { variant, law, off: None }.rules();
    let is_steered = law != RateLaw::None;
    // A starved lane is one that loses more than its target.
    let heeds_target = matches!(law, RateLaw::Paper | RateLaw::Frugal | RateLaw::Pi)
        || others.has(Rule::DynamicQueue)
        || others.has(Rule::Rescue);
    match off {
        _ if !others.has(off) => Some("since the variant has it switched off already"),
        Rule::RaiseAtTarget if !matches!(law, RateLaw::Paper | RateLaw::Frugal) => {
            Some("since only the laws paper and frugal ask whether a loss is at the target")
        }
        Rule::HoldWhenIdle | Rule::FloorPerEpoch if !is_steered => {
            Some("since without a law the rate is the line's")
        }
        Rule::JudgeLate if !is_steered && !others.has(Rule::Rescue) => {
            Some("since nothing follows from how an epoch is judged")
        }
        Rule::CappedTarget if !others.has(Rule::DynamicTarget) => {
            Some("since the variant's target stays at 1 - MSR")
        }
        Rule::CappedTarget | Rule::DynamicTarget if !heeds_target => {
            Some("since neither rate nor queue follows the target")
        }
        _ => None,
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
    use crate::{
        engine::US,
        experiment::{Outcome, Pattern, Point},
        workload::Background,
    };

    #[test]
    fn scheme__reads_what_it_writes() {
        let others = Scheme::OTHERS.map(|(_, name)| name);
        let texts = ["atp:full:paper", "atp:base", "atp:rc:none", "atp:full:pi:-judge-late"];
        let texts = texts.into_iter().chain(others);
        for text in texts {
            assert_eq!(text.parse::<Scheme>().unwrap().to_string(), text);
        }
        assert_eq!("atp".parse(), Ok(Scheme::default()));
        for wrong in
            ["tcp", "atp:fast", "atp:full:fast", "atp:full:paper:x", "atp:full:paper:rescue", ""]
        {
            assert!(wrong.parse::<Scheme>().unwrap_err().contains("frugal"), "{wrong}");
        }
    }

    /// Where others' traffic goes through the same ports, a rate, a target and a queue all matter.
    fn outcome(scheme: Scheme) -> Outcome {
        let background: Background = "3x0.5@4".parse().unwrap();
        let point = Point {
            place: "star:5".parse().unwrap(),
            pattern: Pattern::FanIn(3),
            duration_ps: 200 * US,
            background: vec![background.until(200 * US)],
            buffer_bytes: 40_000,
            scheme,
            ..Point::default()
        };
        // How often a sender looks at its epochs is no result.
        Outcome { events: 0, ..point.run() }
    }

    /// Every law and rule that is refused changes nothing indeed.
    #[test]
    fn from_str__refuses_what_changes_nothing() {
        let mut refused = 0;
        for (variant, name) in Variant::ALL {
            for (law, law_name) in RateLaw::ALL {
                let plain = Atp { variant, law, off: None };
                let expected = outcome(Scheme::Atp(plain));
                if variant == Variant::Base {
                    let error = format!("atp:base:{law_name}").parse::<Scheme>().unwrap_err();
                    assert!(error.contains("write atp:base"), "{error}");
                    assert_eq!(expected, outcome("atp:base".parse().unwrap()), "{law_name}");
                }
                for (off, rule) in Rule::ALL {
                    let text = format!("atp:{name}:{law_name}:-{rule}");
                    let Err(why) = text.parse::<Scheme>() else { continue };
                    assert!(why.contains(&format!("write {}", Scheme::Atp(plain))), "{why}");
                    let without = outcome(Scheme::Atp(Atp { off: Some(off), ..plain }));
                    assert_eq!(without, expected, "{text}");
                    refused += 1;
                }
            }
        }
        // All of base's.
        assert!((40..160).contains(&refused), "{refused}");
    }

    #[test]
    fn from_str__not_what_changes_something() {
        for (_, rule) in Rule::ALL {
            format!("atp:full:paper:-{rule}").parse::<Scheme>().unwrap();
        }
        for (_, law) in RateLaw::ALL {
            format!("atp:rc:{law}").parse::<Scheme>().unwrap();
        }
    }
}
