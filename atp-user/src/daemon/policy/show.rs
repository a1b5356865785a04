//! Shows a policy as a table.

use super::{Limits, Policy, Rule, ratio};
use std::fmt;

/// The heads of the columns after the first.
const HEADS: [&str; 5] = ["JOBS", "MSR FROM", "RATE TO", "QUEUE FROM", "PORT SHARE"];

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(others) = &self.others else {
            return write!(f, "everybody may create jobs, without limits of a policy");
        };
        let named = self.rules.iter().map(|rule| (rule.names(), &rule.limits));
        let rows: Vec<_> = named.chain([("all others".into(), others)]).collect();
        let width = rows.iter().map(|(names, _)| names.chars().count()).max().unwrap_or(0);
        write!(f, "{:<width$}", "EACH OF")?;
        HEADS.iter().try_for_each(|head| write!(f, " {head:>11}"))?;
        for (names, limits) in &rows {
            write!(f, "\n{names:<width$}")?;
            limits.cells().iter().try_for_each(|cell| write!(f, " {cell:>11}"))?;
        }
        Ok(())
    }
}

impl Rule {
    fn names(&self) -> String {
        let users = self.users.iter().map(|uid| format!("user {uid}"));
        let groups = self.groups.iter().map(|gid| format!("group {gid}"));
        let cgroups = self.cgroups.iter().map(|path| format!("cgroup {}", path.display()));
        users.chain(groups).chain(cgroups).collect::<Vec<_>>().join(", ")
    }
}

impl Limits {
    /// A dash is no limit.
    fn cells(&self) -> [String; HEADS.len()] {
        let Self { jobs_max, msr_min, rate_max, queue_highest, port_share_max } = *self;
        let cell = |is_limit: bool, cell: String| if is_limit { cell } else { "-".into() };
        let mbit_per_s = rate_max.bytes_per_s() as f64 * 8.0 / 1e6;
        let percent = f64::from(port_share_max.q16()) / 655.36;
        [
            jobs_max.map_or_else(|| "-".into(), |most| most.to_string()),
            cell(msr_min != Self::NONE.msr_min, ratio(msr_min).to_string()),
            cell(rate_max != Self::NONE.rate_max, format!("{mbit_per_s} Mbit/s")),
            cell(queue_highest != Self::NONE.queue_highest, queue_highest.to_string()),
            cell(port_share_max != Self::NONE.port_share_max, format!("{percent:.2} %")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fmt__one_row_for_each_rule() {
        let text = "[[rule]]\nusers = [1001]\ngroups = [7]\njobs_max = 20\nmsr_min = 0.5\n\
                    rate_max = \"2gbit\"\nqueue_highest = 3\nport_share_max = 0.25\n[others]\n\
                    jobs_max = 0\n";
        insta::assert_snapshot!(Policy::parse(text).unwrap(), @r"
        EACH OF                   JOBS    MSR FROM     RATE TO  QUEUE FROM  PORT SHARE
        user 1001, group 7          20         0.5 2000 Mbit/s           3     25.00 %
        all others                   0           -           -           -           -
        ");
        assert!(Policy::default().to_string().starts_with("everybody"));
    }
}
