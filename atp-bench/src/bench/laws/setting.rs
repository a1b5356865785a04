//! The law, variant and rules of a table row.

use atp_common::laws::{RateLaw, Rule, Variant};
use atp_options::{
    law::{Choice, name_of},
    quantity::share_text,
};

/// The law, variant and rules of a table row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting(Choice);

impl Setting {
    pub fn new(choice: Choice) -> Setting {
        Setting(choice)
    }

    pub fn choice(&self) -> &Choice {
        &self.0
    }

    /// The daemon's options for this setting.
    pub fn options(&self) -> Vec<String> {
        self.0.options()
    }

    pub fn law(&self) -> &'static str {
        name_of(&RateLaw::ALL, self.0.law.unwrap_or_default())
    }

    pub fn variant(&self) -> &'static str {
        name_of(&Variant::ALL, self.0.variant)
    }

    pub fn without(&self) -> Vec<&'static str> {
        self.0.without.iter().map(|&rule| name_of(&Rule::ALL, rule)).collect()
    }

    /// The difference from the default; the law's name if there is none.
    pub fn name(&self) -> String {
        let Choice { law, variant, without, rate_step } = &self.0;
        let mut parts = Vec::new();
        let is_plain = *variant == Variant::default() && without.is_empty() && rate_step.is_none();
        if law.is_some_and(|law| law != RateLaw::default()) || is_plain {
            parts.push(self.law().to_owned());
        }
        if *variant != Variant::default() {
            parts.push(self.variant().to_owned());
        }
        if !without.is_empty() {
            parts.push(format!("without {}", self.without().join(", ")));
        }
        if let Some(step) = rate_step {
            parts.push(format!("m {}", share_text(*step)));
        }
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name__says_what_differs() {
        let name = |line: &str| {
            let options: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            Setting::new(Choice::from_options(&options).unwrap()).name()
        };
        assert_eq!(name(""), name_of(&RateLaw::ALL, RateLaw::default()));
        assert_eq!(name("--law pi"), "pi");
        assert_eq!(name("--variant rc"), "rc");
        assert_eq!(name("--rate-step 0.25"), "m 0.25");
        assert_eq!(
            name("--law pi --variant rc --without starvation-recovery"),
            "pi rc without starvation-recovery"
        );
    }
}
