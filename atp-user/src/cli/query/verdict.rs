//! The verdict on an answer: the one source of what text, JSON and the exit code say of it.

use approx_answers::{Answers, Reason, Report, Warning};

/// Whether an answer is as good as was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It is, or no error was accepted.
    #[default]
    Fine,
    /// Its interval is narrow enough, but a warning puts it in doubt.
    InDoubt,
    /// Its interval is too wide.
    NotMet,
}

impl Verdict {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::InDoubt => "in_doubt",
            Self::NotMet => "not_met",
        }
    }

    /// A sentence for people; `None` if the answer is fine.
    pub fn sentence(self) -> Option<&'static str> {
        match self {
            Self::Fine => None,
            Self::InDoubt => Some("the answer is in doubt: see its warnings"),
            Self::NotMet => Some("the accepted error isn't met"),
        }
    }
}

/// The end of a query, besides its answers.
#[derive(Debug, Default)]
pub struct Outcome {
    /// That of the plan. It says what the verdict says.
    pub report: Option<Report>,
    pub verdict: Verdict,
    /// Warnings about the query as a whole.
    pub notes: Vec<String>,
    /// Messages that aren't in the answer, although they should be.
    pub left_out: u64,
}

/// The facts that decide a verdict.
#[derive(Debug)]
pub struct Facts<'a> {
    pub answers: &'a Answers,
    /// Whether an error was accepted.
    pub has_plan: bool,
    pub report: Option<&'a Report>,
    pub left_out: u64,
    /// Whether a sender may count twice, or has not sent what it should.
    pub doubts_senders: bool,
}

impl Facts<'_> {
    /// The verdict, and the report with it. Without an accepted error, the reader judges the
    /// interval by its warnings. A sender that may count twice is a doubt in any case: no interval
    /// has room for it.
    pub fn judge(&self) -> (Verdict, Option<Report>) {
        let because = self.report.map(|report| report.because);
        let is_narrow = match because {
            Some(because) => matches!(because, None | Some(Reason::InDoubt)),
            None => !self.has_plan,
        };
        let warnings = self.answers.rows.iter().flat_map(|(_, estimate)| &estimate.warnings);
        let has_doubt = self.answers.warnings.iter().chain(warnings).any(Warning::is_doubt);
        let plan_in_doubt =
            has_doubt || self.left_out > 0 || because == Some(Some(Reason::InDoubt));
        let verdict = match (is_narrow, self.doubts_senders || self.has_plan && plan_in_doubt) {
            (false, _) => Verdict::NotMet,
            (true, true) => Verdict::InDoubt,
            (true, false) => Verdict::Fine,
        };
        let mut report = self.report.cloned();
        // Doubts may arise after the end of the plan.
        if let (Verdict::InDoubt, Some(report)) = (verdict, &mut report) {
            report.because = Some(Reason::InDoubt);
        }
        (verdict, report)
    }
}
