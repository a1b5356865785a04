//! Options that choose the rate law, the variant and the rules of ATP.

use crate::quantity;
use atp_common::{
    laws::{RateLaw, Rule, Rules, Variant},
    units::Share,
};
use clap::{
    Args, FromArgMatches,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

/// A rate law and its rules, as options of a command line.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The law that sets the rate of approximate lanes
    /// [default: that of the queue profile; without a profile, yield]
    #[arg(long, value_name = "LAW",
          value_parser = described(&RateLaw::ALL, RateLaw::description))]
    pub law: Option<RateLaw>,
    /// The part of the protocol to run, as one of the variants of NetApprox, section 7.1.3
    #[arg(long, value_name = "VARIANT", default_value = name_of(&Variant::ALL, Variant::default()),
          value_parser = described(&Variant::ALL, Variant::description))]
    pub variant: Variant,
    /// Rules to switch off; the list describes each rule as it works when it is on
    #[arg(long, value_name = "RULE", value_delimiter = ',',
          value_parser = described(&Rule::ALL, Rule::description))]
    pub without: Vec<Rule>,
    /// m of NetApprox's Eq. 2: the share of the distance to the highest rate by which a rate grows
    /// in an epoch [default: 0.1]
    #[arg(long, value_name = "SHARE", value_parser = quantity::positive_share)]
    pub rate_step: Option<Share>,
}

impl Choice {
    /// The choice as options of a command line.
    pub fn options(&self) -> Vec<String> {
        let variant = name_of(&Variant::ALL, self.variant);
        let mut options: Vec<String> = ["--variant", variant].map(str::to_owned).into();
        if let Some(law) = self.law {
            options.extend(["--law", name_of(&RateLaw::ALL, law)].map(str::to_owned));
        }
        for rule in &self.without {
            options.extend(["--without", name_of(&Rule::ALL, *rule)].map(str::to_owned));
        }
        if let Some(step) = self.rate_step {
            options.extend(["--rate-step".to_owned(), quantity::share_text(step)]);
        }
        options
    }

    /// Parses the output of [`Self::options`].
    ///
    /// # Errors
    /// An option that isn't one of these.
    pub fn from_options(options: &[String]) -> Result<Self, clap::Error> {
        let command = Self::augment_args(clap::Command::new("laws").no_binary_name(true));
        Self::from_arg_matches(&command.try_get_matches_from(options)?)
    }

    /// The rules that a lane follows under this choice, on a network with priority queues.
    pub fn rules(&self) -> Rules {
        self.rules_or(RateLaw::default())
    }

    /// The rules that a lane follows under this choice. `law` applies if the choice names none.
    pub fn rules_or(&self, law: RateLaw) -> Rules {
        let rules = Rules::variant(self.variant, self.law.unwrap_or(law))
            .with_step(self.rate_step.unwrap_or(Share::ZERO));
        self.without.iter().fold(rules, |rules, rule| rules.without(*rule))
    }
}

/// A parser that accepts the names in `all`.
pub fn among<T: Copy + Send + Sync + 'static>(
    all: &'static [(T, &'static str)],
) -> impl TypedValueParser<Value = T> {
    parser(all, |_, name| PossibleValue::new(name))
}

/// A parser that accepts the names in `all`, with a line about each in the help text.
fn described<T: Copy + Send + Sync + 'static>(
    all: &'static [(T, &'static str)],
    about: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    parser(all, move |value, name| PossibleValue::new(name).help(about(value)))
}

fn parser<T: Copy + Send + Sync + 'static>(
    all: &'static [(T, &'static str)],
    possible: impl Fn(T, &'static str) -> PossibleValue,
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(all.iter().map(|(value, name)| possible(*value, name)));
    names.try_map(|typed| {
        let named = all.iter().find(|(_, name)| *name == typed);
        named.map(|(value, _)| *value).ok_or("no such name")
    })
}

/// The name of a value in such a list.
pub fn name_of<T: PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter().find(|(listed, _)| *listed == value).map_or("unnamed", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        choice: Choice,
    }

    fn parse(line: &str) -> Result<Choice, String> {
        let words = ["run"].into_iter().chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.choice).map_err(|error| error.to_string())
    }

    #[test]
    fn rules__default_to_everything() {
        assert_eq!(parse("").unwrap().rules(), Rules::default());
    }

    #[test]
    fn rules_or__keeps_a_named_law() {
        let law = |line: &str| parse(line).unwrap().rules_or(RateLaw::Tfrc).law();
        assert_eq!((law(""), law("--law pi")), (RateLaw::Tfrc, RateLaw::Pi));
        assert_eq!(law("--variant base"), RateLaw::None);
    }

    #[test]
    fn options__and_back() {
        for line in [
            "",
            "--rate-step 0.3",
            "--law pi --variant rc --without evaluate-late,starvation-recovery",
        ] {
            let choice = parse(line).unwrap();
            assert_eq!(Choice::from_options(&choice.options()).unwrap(), choice);
        }
        assert!(Choice::from_options(&["--rate".to_owned()]).is_err());
    }

    #[test]
    fn rules__are_what_was_typed() {
        let rules = parse("--law polite").unwrap().rules();
        assert_eq!(rules, Rules::new(RateLaw::Tfrc));
        let choice =
            parse("--law pi --variant fix-prio --without evaluate-late,starvation-recovery")
                .unwrap();
        let expected = Rules::variant(Variant::FixPrio, RateLaw::Pi);
        assert_eq!(
            choice.rules(),
            expected.without(Rule::EvaluateLate).without(Rule::StarvationRecovery)
        );
        assert_eq!(parse("--variant base").unwrap().rules().law(), RateLaw::None);
        assert_eq!(parse("--rate-step 0.25").unwrap().rules().step(), Share::from_q16(1 << 14));
    }

    #[test]
    fn help__describes_every_name() {
        let mut command = Choice::augment_args(clap::Command::new("run"));
        let help = command.render_long_help().to_string();
        let names = Variant::ALL.map(|(_, name)| name).into_iter();
        let names = names.chain(RateLaw::ALL.map(|(_, name)| name));
        for name in names.chain(Rule::ALL.map(|(_, name)| name)) {
            assert!(help.contains(&format!("- {name}:")), "{name}:\n{help}");
        }
        assert!(help.contains("TFRC (RFC 5348)"), "{help}");
    }

    #[test]
    fn rules__unknown_names_are_answered_with_the_known_ones() {
        for (line, expected) in [
            ("--law fast", "frugal"),
            ("--variant half", "fix-tlr"),
            ("--without x", "evaluate-late"),
            ("--rate-step 0", "from 0.0001 to 1"),
            ("--rate-step 1.1", "from 0.0001 to 1"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
