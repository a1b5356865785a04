//! Help text of `--scheme`. All names come from the tables that the parser reads.

use atp_common::laws::{RateLaw, Rule, Variant};
use atp_sim::scheme::{Additions, Feature, Policy, SCHEMES, Scheme};
use std::fmt::Write as _;

/// The help text of `--scheme`.
pub fn help() -> String {
    let mut text = format!(
        "The scheme of all hosts, or several, separated by commas. Several are run on the same \
         messages and shown side by side.\n\n\
         ATP is {}: receiver advice, a first window, and deep queues towards hosts. The paper's \
         protocol, without these, is atp:paper; its parts are atp:VARIANT, atp:VARIANT:LAW or \
         atp:VARIANT:LAW:-RULE, which switches a rule off. Base takes neither law nor rule. At MSR 1, \
         ATP's law is DCTCP's whatever law is named.\n",
        Scheme::default()
    );
    list(&mut text, "Variants", Variant::ALL.map(|(of, name)| (name, of.description().to_owned())));
    list(&mut text, "Laws", RateLaw::ALL.map(|(of, name)| (name, of.description().to_owned())));
    list(&mut text, "Rules", Rule::ALL.map(|(of, name)| (name, of.description().to_owned())));
    let additions = Additions::ALL.map(|(name, description)| (name, description.to_owned()));
    list(
        &mut text,
        "Additions to ATP, behind any of its names, as in atp:paper+advice; atp has advice+window",
        additions,
    );
    list(&mut text, "Others", others());
    let of_feature = |(of, name): (Feature, _)| (name, of.description().to_owned());
    list(
        &mut text,
        "Features, which may follow some names after a colon",
        Feature::ALL.map(of_feature),
    );
    text += &with_features();
    text += "\n-es, EarlySend: a sender sends all messages, and stops when enough have arrived. -ss, \
             SampleSend: it sends a sample as large as the MSR requires, drawn in advance, and all of it \
             must arrive.";
    text
}

fn list(text: &mut String, title: &str, entries: impl IntoIterator<Item = (&'static str, String)>) {
    // Writing to a string doesn't fail.
    let _ = writeln!(text, "\n{title}:");
    for (name, description) in entries {
        let _ = writeln!(text, "  {name:<16} {description}");
    }
}

/// All schemes without variants.
fn others() -> impl Iterator<Item = (&'static str, String)> {
    SCHEMES.iter().filter(|spec| !spec.takes_laws).flat_map(|spec| {
        spec.names.iter().map(|(name, policy)| match policy {
            Policy::EarlySend => (*name, spec.description.to_owned()),
            Policy::SampleSend => (*name, format!("{}, sending a sample", spec.title)),
        })
    })
}

/// The schemes that have features to choose, with those.
fn with_features() -> String {
    let with = SCHEMES.iter().filter(|spec| !spec.features.is_empty()).map(|spec| {
        let names: Vec<&str> = spec.names.iter().map(|name| name.0).collect();
        let features: Vec<&str> = spec.features.iter().map(|feature| feature.name()).collect();
        format!("{}: {}.\n", names.join(", "), features.join(", "))
    });
    with.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help__names_everything_that_can_be_chosen() {
        let text = help();
        let names = Variant::ALL.map(|(_, name)| name).into_iter();
        let names = names.chain(RateLaw::ALL.map(|(_, name)| name));
        let names = names.chain(Rule::ALL.map(|(_, name)| name));
        let names = names.chain(Feature::ALL.map(|(_, name)| name));
        let names = names.chain(Additions::ALL.map(|(name, _)| name));
        for name in names.chain(Scheme::others().map(Scheme::name)) {
            assert!(text.contains(&format!("\n  {name} ")), "{name}:\n{text}");
        }
        assert!(
            text.contains("ATP is atp: receiver advice")
                && text.lines().all(|line| { !line.starts_with(' ') || line.len() <= 86 })
        );
    }
}
