//! The outcome of a check.

use serde::Serialize;

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
        /// How.
        how: String,
        /// What to do.
        what_to_do: String,
    },
    /// ATP needs it.
    Missing {
        /// What to do.
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
    /// What the check read.
    pub evidence: String,
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
    pub fn fine(self, check: impl Into<String>, evidence: impl Into<String>) -> Finding {
        self.finding(check, evidence, Outcome::Fine)
    }

    /// A check whose subject is there, but less good than it could be.
    pub fn degraded(
        self,
        check: impl Into<String>,
        evidence: impl Into<String>,
        how: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Finding {
        let outcome = Outcome::Degraded { how: how.into(), what_to_do: what_to_do.into() };
        self.finding(check, evidence, outcome)
    }

    /// A check whose subject is missing.
    pub fn missing(
        self,
        check: impl Into<String>,
        evidence: impl Into<String>,
        what_to_do: impl Into<String>,
    ) -> Finding {
        self.finding(check, evidence, Outcome::Missing { what_to_do: what_to_do.into() })
    }

    /// A check that could not run.
    pub fn not_checked(self, check: impl Into<String>, why: impl Into<String>) -> Finding {
        self.finding(check, String::new(), Outcome::NotChecked { why: why.into() })
    }

    /// A check that ran, but could not tell.
    pub fn unclear(
        self,
        check: impl Into<String>,
        evidence: impl Into<String>,
        why: impl Into<String>,
    ) -> Finding {
        self.finding(check, evidence, Outcome::NotChecked { why: why.into() })
    }

    fn finding(
        self,
        check: impl Into<String>,
        evidence: impl Into<String>,
        outcome: Outcome,
    ) -> Finding {
        let (check, evidence) = (check.into(), evidence.into());
        Finding { group: self, check, interface: None, outcome, evidence }
    }
}

impl Finding {
    /// The same finding, about an interface.
    #[must_use]
    pub fn on(self, interface: &str) -> Self {
        Self { interface: Some(interface.to_owned()), ..self }
    }

    /// Whether ATP lacks something that it needs.
    pub const fn is_missing(&self) -> bool {
        matches!(self.outcome, Outcome::Missing { .. })
    }

    /// What the check read, and how ATP suffers or why the check could not tell.
    pub fn detail(&self) -> String {
        match &self.outcome {
            Outcome::Fine | Outcome::Missing { .. } => self.evidence.clone(),
            Outcome::Degraded { how, .. } | Outcome::NotChecked { why: how } => {
                match self.evidence.as_str() {
                    "" => how.clone(),
                    evidence => format!("{evidence}: {how}"),
                }
            }
        }
    }

    /// What to do, unless the outcome is fine.
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
}
