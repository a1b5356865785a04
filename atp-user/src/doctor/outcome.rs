//! The outcome of a check, as text and as JSON.

use serde::Serialize;
use std::fmt::Write;

/// The subject of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// The running kernel.
    Kernel,
    /// Limits and clocks of the host.
    Host,
    /// One network interface.
    Interface,
    /// The route to an address.
    Route,
    /// The path to a peer.
    Path,
}

/// Whether ATP has what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// ATP has it.
    Fine,
    /// ATP works, but less well.
    Degraded {
        /// What works less well.
        how: String,
        /// The remedy.
        what_to_do: String,
    },
    /// ATP needs it.
    Missing {
        /// The remedy.
        what_to_do: String,
    },
    /// The check could not run.
    NotChecked {
        /// Why, and what to do.
        why: String,
    },
}

/// A check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The subject.
    pub group: Group,
    /// The check's name.
    pub check: String,
    /// The interface, if the check is about one.
    pub interface: Option<String>,
    /// The outcome.
    pub outcome: Outcome,
    /// The reading of the check.
    pub observed: String,
}

/// A finding as JSON.
#[derive(Serialize)]
struct Record<'a> {
    group: Group,
    check: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<&'a str>,
    outcome: &'static str,
    detail: String,
    advice: Option<&'a str>,
}

impl Group {
    /// A check of this group that ATP passes.
    pub fn fine(self, check: impl Into<String>, observed: impl Into<String>) -> Finding {
        self.finding(check, observed, Outcome::Fine)
    }

    /// A check whose subject is there, but less good than it could be.
    pub fn degraded(
        self,
        check: impl Into<String>,
        observed: impl Into<String>,
        how: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Finding {
        let outcome = Outcome::Degraded { how: how.into(), what_to_do: what_to_do.into() };
        self.finding(check, observed, outcome)
    }

    /// A check whose subject is missing.
    pub fn missing(
        self,
        check: impl Into<String>,
        observed: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Finding {
        self.finding(check, observed, Outcome::Missing { what_to_do: what_to_do.into() })
    }

    /// A check that could not run.
    pub fn not_checked(self, check: impl Into<String>, why: impl Into<String>) -> Finding {
        self.finding(check, String::new(), Outcome::NotChecked { why: why.into() })
    }

    /// A check that ran, but could not tell.
    pub fn unclear(
        self,
        check: impl Into<String>,
        observed: impl Into<String>,
        why: impl Into<String>,
    ) -> Finding {
        self.finding(check, observed, Outcome::NotChecked { why: why.into() })
    }

    fn finding(
        self,
        check: impl Into<String>,
        observed: impl Into<String>,
        outcome: Outcome,
    ) -> Finding {
        let (check, observed) = (check.into(), observed.into());
        Finding { group: self, check, interface: None, outcome, observed }
    }
}

impl Finding {
    /// Names the interface that the finding is about.
    #[must_use]
    pub fn on(self, interface: &str) -> Self {
        Self { interface: Some(interface.to_owned()), ..self }
    }

    /// Whether ATP lacks something that it needs.
    pub const fn is_missing(&self) -> bool {
        matches!(self.outcome, Outcome::Missing { .. })
    }

    /// The reading, and the effect on ATP or the reason why the check could not tell.
    pub fn detail(&self) -> String {
        match &self.outcome {
            Outcome::Fine | Outcome::Missing { .. } => self.observed.clone(),
            Outcome::Degraded { how, .. } | Outcome::NotChecked { why: how } => {
                match self.observed.as_str() {
                    "" => how.clone(),
                    observed => format!("{observed}: {how}"),
                }
            }
        }
    }

    /// The remedy, unless the outcome is fine.
    pub fn advice(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Fine | Outcome::NotChecked { .. } => None,
            Outcome::Degraded { what_to_do, .. } | Outcome::Missing { what_to_do } => {
                Some(what_to_do)
            }
        }
    }
}

impl Outcome {
    /// `fine`, `degraded`, `missing` or `not checked`.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Degraded { .. } => "degraded",
            Self::Missing { .. } => "missing",
            Self::NotChecked { .. } => "not checked",
        }
    }
}

/// The findings as a JSON array.
pub fn to_json(findings: &[Finding]) -> serde_json::Result<String> {
    let record = |finding: &Finding| {
        serde_json::to_value(Record {
            group: finding.group,
            check: &finding.check,
            interface: finding.interface.as_deref(),
            outcome: finding.outcome.word(),
            detail: finding.detail(),
            advice: finding.advice(),
        })
    };
    let records: Vec<_> = findings.iter().map(record).collect::<Result<_, _>>()?;
    serde_json::to_string_pretty(&records)
}

/// The findings as lines of text, grouped, with a summary at the end.
pub fn text(findings: &[Finding], color: bool) -> String {
    let width = findings.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    let mut heading = String::new();
    for finding in findings {
        let own = heading_of(finding);
        if own != heading {
            let blank = if heading.is_empty() { "" } else { "\n" };
            writeln!(text, "{blank}{own}").expect("writing to a string");
            heading = own;
        }
        push(&mut text, finding, width, color);
    }
    text + "\n" + &summary(findings) + "\n"
}

/// `12 fine, 1 degraded, 0 missing, 2 not checked`
fn summary(findings: &[Finding]) -> String {
    let count = |word: &str| findings.iter().filter(|f| f.outcome.word() == word).count();
    ["fine", "degraded", "missing", "not checked"]
        .map(|word| format!("{} {word}", count(word)))
        .join(", ")
}

fn heading_of(finding: &Finding) -> String {
    let group = format!("{:?}", finding.group).to_lowercase();
    match &finding.interface {
        Some(interface) => format!("{group} {interface}"),
        None => group,
    }
}

fn push(text: &mut String, finding: &Finding, width: usize, color: bool) {
    let word = finding.outcome.word();
    let (on, off) = match color {
        true => (escape(&finding.outcome), "\x1b[0m"),
        false => ("", ""),
    };
    let gap = " ".repeat("not checked".len() - word.len());
    let mut lines = vec![finding.observed.as_str()];
    match &finding.outcome {
        Outcome::Fine => {}
        Outcome::Degraded { how, what_to_do } => lines.extend([how.as_str(), what_to_do.as_str()]),
        Outcome::Missing { what_to_do } => lines.push(what_to_do),
        Outcome::NotChecked { why } => lines.push(why),
    }
    lines.retain(|line| !line.is_empty());
    let first = if lines.is_empty() { "" } else { lines.remove(0) };
    let check = &finding.check;
    let line = format!("  {check:width$}  {on}{word}{off}{gap}  {first}");
    writeln!(text, "{}", line.trim_end()).expect("writing to a string");
    for line in lines {
        writeln!(text, "      {line}").expect("writing to a string");
    }
}

const fn escape(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Fine => "\x1b[32m",
        Outcome::Degraded { .. } => "\x1b[33m",
        Outcome::Missing { .. } => "\x1b[31m",
        Outcome::NotChecked { .. } => "\x1b[2m",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_json__has_the_same_keys_for_every_outcome() {
        let findings = [
            Group::Kernel.fine("BTF", "/sys/kernel/btf/vmlinux"),
            Group::Interface.degraded("speed", "none reported", "10 Gbit/s assumed", "give it"),
            Group::Route.missing("coverage", "eth1", "run the daemon there").on("eth1"),
            Group::Kernel.not_checked("TCX", "run as root"),
        ];
        let json: serde_json::Value = serde_json::from_str(&to_json(&findings).unwrap()).unwrap();
        assert_eq!(json[0]["outcome"], "fine");
        assert_eq!(json[0]["advice"], serde_json::Value::Null);
        assert_eq!(json[1]["group"], "interface");
        assert_eq!(json[1]["detail"], "none reported: 10 Gbit/s assumed");
        assert_eq!(json[2]["interface"], "eth1");
        assert_eq!(json[2]["advice"], "run the daemon there");
        assert_eq!(json[3]["outcome"], "not checked");
        assert!(findings[2].is_missing() && !findings[3].is_missing());
    }

    fn findings() -> Vec<Finding> {
        vec![
            Group::Kernel.fine("BTF", "there"),
            Group::Kernel.not_checked("TCX", "run as root"),
            Group::Interface.degraded("speed", "none", "10 Gbit/s assumed", "name it").on("eth0"),
            Group::Interface.missing("root qdisc", "htb 1:", "remove it").on("eth1"),
        ]
    }

    #[test]
    fn text__is_grouped_and_aligned() {
        let expected = "\
kernel
  BTF         fine         there
  TCX         not checked  run as root

interface eth0
  speed       degraded     none
      10 Gbit/s assumed
      name it

interface eth1
  root qdisc  missing      htb 1:
      remove it

1 fine, 1 degraded, 1 missing, 1 not checked
";
        assert_eq!(text(&findings(), false), expected);
    }

    #[test]
    fn text__color_changes_nothing_else() {
        let mut colored = text(&findings(), true);
        assert!(colored.contains("\x1b[31mmissing\x1b[0m"));
        for code in ["\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[0m"] {
            colored = colored.replace(code, "");
        }
        assert_eq!(colored, text(&findings(), false));
    }
}
