//! Prints findings for people.

use super::outcome::{Finding, Outcome};
use std::fmt::Write;

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
pub fn summary(findings: &[Finding]) -> String {
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
    let mut lines = vec![finding.evidence.as_str()];
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
    use super::{super::outcome::Group, *};

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
