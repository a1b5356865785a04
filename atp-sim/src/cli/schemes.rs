//! What `--scheme` can be, for its help: every name comes from the tables that read it.

use atp_common::laws::{RateLaw, Rule, Variant};
use atp_sim::experiment::{Policy, Scheme};
use std::fmt::Write as _;

/// All of it.
pub fn help() -> String {
    let mut text = format!(
        "What hosts run: one scheme, or several with commas between them, which are run on the same \
         messages and shown side by side.\n\n\
         ATP is atp, atp:VARIANT, atp:VARIANT:LAW or atp:VARIANT:LAW:-RULE, which switches a rule off; \
         atp is {}. Base takes neither law nor rule. At MSR 1, ATP's law is DCTCP's whatever law is \
         named.\n",
        Scheme::default()
    );
    list(&mut text, "Variants", &Variant::ALL, of_variant);
    list(&mut text, "Laws", &RateLaw::ALL, RateLaw::description);
    list(&mut text, "Rules", &Rule::ALL, of_rule);
    list(&mut text, "Others", &Scheme::OTHERS, of_scheme);
    text += "\n-es, EarlySend: a sender sends everything, and stops when enough has come. -ss, SampleSend: \
             it sends a sample as large as the MSR asks for, drawn before, and all of that must come.";
    text
}

fn list<T: Copy>(
    text: &mut String,
    title: &str,
    all: &[(T, &'static str)],
    about: fn(T) -> &'static str,
) {
    // Writing to a string doesn't fail.
    let _ = writeln!(text, "\n{title}:");
    for (one, name) in all {
        let _ = writeln!(text, "  {name:<16} {}", about(*one));
    }
}

fn of_variant(variant: Variant) -> &'static str {
    match variant {
        Variant::Base => "at line rate, in order, what is lost is sent again",
        Variant::Rc => "base with the rate law",
        Variant::Mrdf => "rc with minimal remaining data first",
        Variant::FixTlr => "full, but target loss rate and queue stay",
        Variant::FixPrio => "full, but the queue stays",
        Variant::Full => "everything",
    }
}

fn of_rule(rule: Rule) -> &'static str {
    match rule {
        Rule::RaiseAtTarget => "a loss at the target raises the rate",
        Rule::EvaluateLate => "an epoch is evaluated an RTT after its last packet",
        Rule::CappedTarget => "the target loss rate is 1 - MSR at most",
        Rule::StarvationRecovery => "a starved lane climbs queues",
        Rule::FloorPerEpoch => "the least rate is a packet per RTT or epoch, the longer",
        Rule::HoldWhenIdle => "who had little to send keeps its rate",
        Rule::DynamicTarget => "the target loss rate follows Eq. 1",
        Rule::DynamicQueue => "the queue follows the target loss rate",
    }
}

fn of_scheme(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Atp(_) => "ATP",
        Scheme::Udp => "UDP at line rate",
        Scheme::Dctcp(Policy::EarlySend) => "DCTCP",
        Scheme::Dctcp(Policy::SampleSend) => "DCTCP, of a sample",
        Scheme::PFabric(Policy::EarlySend) => "pFabric",
        Scheme::PFabric(Policy::SampleSend) => "pFabric, of a sample",
        Scheme::Ndp(Policy::EarlySend) => "NDP, whose switches trim packets",
        Scheme::Ndp(Policy::SampleSend) => "NDP, of a sample",
        Scheme::Mlt => "a bounded-loss transport in the manner of MLT",
        Scheme::Aeolus(Policy::EarlySend) => "Aeolus over ExpressPass",
        Scheme::Aeolus(Policy::SampleSend) => "Aeolus over ExpressPass, of a sample",
    }
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
        for name in names.chain(Scheme::OTHERS.map(|(_, name)| name)) {
            assert!(text.contains(&format!("\n  {name} ")), "{name}:\n{text}");
        }
        assert!(
            text.contains("atp is atp:full:paper.")
                && text.lines().all(|line| { !line.starts_with(' ') || line.len() <= 86 })
        );
    }
}
