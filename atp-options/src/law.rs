//! Options that choose the control laws.

use atp_common::laws::{RateLaw, Rule, Rules, Variant};
use clap::{
    Args, FromArgMatches,
    builder::{PossibleValuesParser, TypedValueParser},
};

/// A rate law and its rules.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// What sets the rate of approximate lanes; `polite` is for networks without priority queues
    #[arg(long, value_name = "LAW", default_value = name_of(&RateLaw::ALL, RateLaw::default()),
          value_parser = among(&RateLaw::ALL))]
    pub law: RateLaw,
    /// How much of the protocol, as the paper takes it apart
    #[arg(long, value_name = "VARIANT", default_value = name_of(&Variant::ALL, Variant::default()),
          value_parser = among(&Variant::ALL))]
    pub variant: Variant,
    /// Switch rules off, to see what they are good for
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = among(&Rule::ALL))]
    pub without: Vec<Rule>,
}

impl Choice {
    /// The same as options of a command line.
    pub fn options(&self) -> Vec<String> {
        let law = name_of(&RateLaw::ALL, self.law);
        let variant = name_of(&Variant::ALL, self.variant);
        let mut options: Vec<String> =
            ["--law", law, "--variant", variant].map(str::to_owned).into();
        for rule in &self.without {
            options.extend(["--without", name_of(&Rule::ALL, *rule)].map(str::to_owned));
        }
        options
    }

    /// What [`Self::options`] made.
    ///
    /// # Errors
    /// An option that isn't one of these.
    pub fn from_options(options: &[String]) -> Result<Self, clap::Error> {
        let command = Self::augment_args(clap::Command::new("laws").no_binary_name(true));
        Self::from_arg_matches(&command.try_get_matches_from(options)?)
    }

    /// What a lane has to know of it.
    pub fn rules(&self) -> Rules {
        let rules = Rules::variant(self.variant, self.law);
        self.without.iter().fold(rules, |rules, rule| rules.without(*rule))
    }
}

/// A parser of one of these names.
pub fn among<T: Copy + Send + Sync + 'static>(
    all: &'static [(T, &'static str)],
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(all.iter().map(|(_, name)| *name));
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
    fn options__and_back() {
        for line in ["", "--law pi --variant rc --without evaluate-late,starvation-recovery"] {
            let choice = parse(line).unwrap();
            assert_eq!(Choice::from_options(&choice.options()).unwrap(), choice);
        }
        assert!(Choice::from_options(&["--rate".to_owned()]).is_err());
    }

    #[test]
    fn rules__are_what_was_typed() {
        let rules = parse("--law polite").unwrap().rules();
        assert_eq!(rules, Rules::new(RateLaw::Polite));
        let choice =
            parse("--law pi --variant fix-prio --without evaluate-late,starvation-recovery")
                .unwrap();
        let expected = Rules::variant(Variant::FixPrio, RateLaw::Pi);
        assert_eq!(
            choice.rules(),
            expected.without(Rule::EvaluateLate).without(Rule::StarvationRecovery)
        );
        assert_eq!(parse("--variant base").unwrap().rules().law(), RateLaw::None);
    }

    #[test]
    fn rules__wrong_names_are_told_with_the_right_ones() {
        for (line, said) in [
            ("--law fast", "frugal"),
            ("--variant half", "fix-tlr"),
            ("--without x", "evaluate-late"),
        ] {
            let refusal = parse(line).unwrap_err();
            assert!(refusal.contains(said), "{refusal}");
        }
    }
}
