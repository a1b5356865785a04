//! The planner: looks at the answer a few times, and asks for more, for less, or for the end.

use std::collections::BTreeMap;

use super::allocation::needed;
use super::spending::Spending;
use super::{AcceptedError, Reason, Report};
use crate::part::Part;
use crate::spread::SKEWNESS_MAX;
use crate::warning::MESSAGES_MIN;
use crate::{AnswerError, Confidence, Estimate, Warning};

/// Fewer messages that all agree end no plan, also for those who accept doubts. By the rule of
/// three up to 1 % of the job's messages may differ from so many.
const AGREEING_MIN: u64 = 300;

/// The next look has this multiple of the current look's messages, unless the plan ends before
/// twice that. Looks cost confidence, and a look shortly before the last one costs most.
const LOOK_FACTOR: f64 = 4.0;
/// The multiple after a plan's last look, if that wasn't enough.
const EXTEND_FACTOR: f64 = 1.25;
/// After a doubt about the tail, a plan ends below this share of the limit on skewness: with twice
/// the messages. An end at the limit would choose samples that lack the largest values.
const SKEWNESS_KEPT: f64 = std::f64::consts::FRAC_1_SQRT_2;
/// A sender whose MSR is lowered may end there, without the last look. So a plan lowers MSRs to
/// this multiple of its need, because the need may turn out larger.
const LOWER_FACTOR: f64 = 4.0;
/// A plan lowers an MSR to this share of the sender's own at least: the variance of a heavy tail is
/// larger than it seems.
const LOWER_SHARE_MIN: f64 = 0.5;
/// Fewer messages don't lower an MSR: their variance says too little.
const LOWER_MESSAGES_MIN: u64 = 300;
/// Smaller changes of an MSR aren't worth a request.
const MSR_STEP: f64 = 0.01;

/// An action for the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Ask the sender of this stratum for a higher MSR.
    Raise {
        /// The stratum.
        stratum: u32,
        /// The new MSR.
        msr: f64,
    },
    /// Ask the sender of this stratum for a lower MSR.
    Lower {
        /// The stratum.
        stratum: u32,
        /// The new MSR.
        msr: f64,
    },
    /// Ask all senders to end: the error is met.
    End,
    /// Look again after this number of messages of all strata.
    Wait {
        /// The number of arrived messages.
        messages: u64,
    },
}

/// A part of the job that one sender sends in one group.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    /// `None` if it isn't known, or must stay: there are no requests then.
    msr: Option<f64>,
    /// The MSR of its terms, before the first request.
    own_msr: f64,
    /// The sender was asked to finish: its MSR may only fall.
    is_ending: bool,
    has_ended: bool,
}

/// The MSR that a source keeps at least, whatever a plan needs.
#[derive(Clone, Copy, Debug)]
enum Keeps {
    /// Half of the sender's own MSR: the plan may still turn out wrong.
    Half,
    /// The sender's own MSR: more messages hardly end the doubt.
    Own,
    /// The sender's own MSR or the higher one that it was asked for, because it may take no raise
    /// any more. More messages may end a doubt about the tail.
    Held,
}

impl Source {
    fn kept(&self, keeps: Keeps) -> f64 {
        match keeps {
            Keeps::Half => LOWER_SHARE_MIN * self.own_msr,
            Keeps::Own => self.own_msr,
            Keeps::Held => self.own_msr.max(self.msr.unwrap_or(0.0)),
        }
    }
}

/// The messages that a stratum needs for all answers.
#[derive(Clone, Copy, Debug)]
struct Need {
    messages: f64,
    arrived: f64,
    sent: f64,
}

/// Turns an accepted error into requests to the senders of a job.
///
/// A receiver tells the planner of each source when it starts, and asks [`Planner::is_look_due`]
/// after each message. If so, it calls [`Planner::look`] and does what the actions say. At the end
/// there is a [`Report`].
///
/// [`Action::End`] is what saves messages. Before it, the planner lowers an MSR to some multiple of
/// what the variance, at its upper confidence bound, asks for: a sender that has handed over its
/// last message ends at its MSR, and no request raises it any more. Before that message, the
/// planner raises an MSR that is too low. With several answers, such as one for each key, all must
/// be met; the confidence is that of each of them.
///
/// The messages of the first sources may meet the error before others start. A receiver that awaits
/// several gives their number to [`Planner::with_sources`].
///
/// ```
/// use approx_answers::{AcceptedError, Action, Confidence, Delivery, Planner, Sample};
///
/// let mut sample = Sample::new();
/// let mut planner = Planner::new(AcceptedError::relative(0.05)?, Confidence::P95);
///
/// // The source starts: 10,000 messages, MSR 0.5. The action is for `Receiver::request_msr`.
/// sample.set_messages_sent(0, 10_000)?;
/// sample.set_delivery(0, &Delivery::shuffled())?;
/// let first = planner.source_started(0, 0.5);
/// assert_eq!(first, Some(Action::Raise { stratum: 0, msr: 0.95 }));
///
/// // Its messages arrive. At the end, a receiver calls `planner.source_ended(0)`.
/// for message in 0..10_000u32 {
///     let value = f64::from(message.wrapping_mul(2_654_435_761) >> 24);
///     sample.push(0, 1, value)?;
///     if planner.is_look_due(sample.messages()) {
///         let actions = planner.look(|confidence| Ok(vec![sample.mean(confidence)?]))?;
///         if actions.contains(&Action::End) {
///             break; // here `Receiver::request_end`
///         }
///     }
/// }
/// let report = planner.report().expect("the error was met");
/// assert!(report.is_met() && report.reached <= 0.05 && sample.messages() < 2_000);
/// println!("{}: {report}", report.estimates[0]);
/// # Ok::<(), approx_answers::AnswerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Planner {
    accepted: AcceptedError,
    confidence: Confidence,
    sources: BTreeMap<u32, Source>,
    /// The number of sources that the first look awaits.
    sources_min: usize,
    /// Whether a narrow interval ends the plan although its answer is in doubt.
    ends_in_doubt: bool,
    /// A heavy tail keeps narrow intervals from ending the plan.
    is_heavy: bool,
    spending: Spending,
    next_look: u64,
    looks: u32,
    report: Option<Report>,
}

impl Planner {
    /// A planner without sources.
    pub fn new(accepted: AcceptedError, confidence: Confidence) -> Self {
        Self {
            accepted,
            confidence,
            sources: BTreeMap::new(),
            sources_min: 0,
            ends_in_doubt: false,
            is_heavy: false,
            spending: Spending::new(1.0 - confidence.level()),
            next_look: MESSAGES_MIN,
            looks: 0,
            report: None,
        }
    }

    /// The planner looks at no answer, and so asks for no end, before it knows this many sources.
    /// [`Planner::source_known`] counts those that it makes no requests for. Default 0.
    ///
    /// ```
    /// use approx_answers::{AcceptedError, Confidence, Planner};
    ///
    /// let accepted = AcceptedError::relative(0.05)?;
    /// let mut planner = Planner::new(accepted, Confidence::P95).with_sources(2);
    /// planner.source_started(0, 1.0);
    /// assert!(!planner.is_look_due(1_000_000));
    /// planner.source_started(1, 1.0);
    /// assert!(planner.is_look_due(1_000_000));
    /// # Ok::<(), approx_answers::AnswerError>(())
    /// ```
    pub fn with_sources(self, sources: usize) -> Self {
        Self { sources_min: sources, ..self }
    }

    /// Whether the plan ends once the intervals are narrow enough although a warning puts the
    /// answers in doubt ([`Warning::is_doubt`]). Default off: it then continues up to the
    /// sources' own MSRs. In both cases the error isn't met: [`Reason::InDoubt`].
    pub fn end_in_doubt(self, on: bool) -> Self {
        Self { ends_in_doubt: on, ..self }
    }

    /// The confidence that was asked for.
    pub fn confidence(&self) -> Confidence {
        self.confidence
    }

    /// A source starts with an MSR. Returns a request for the first MSR of the accepted error, if
    /// the source has a lower one and hasn't started before.
    ///
    /// Leave out exact groups, which keep their rate:
    /// [`Planner::source_known`] counts them.
    pub fn source_started(&mut self, stratum: u32, msr: f64) -> Option<Action> {
        let source = self.sources.entry(stratum).or_default();
        if source.msr.is_some() {
            return None;
        }
        (source.msr, source.own_msr) = (Some(msr), msr);
        if self.report.is_some() {
            return None;
        }
        self.request(stratum, self.accepted.first_msr().max(msr))
    }

    /// Counts a source for [`Planner::with_sources`], without requests for it: one of an exact
    /// group, or one whose first message came before its start. The plan then awaits its end too.
    pub fn source_known(&mut self, stratum: u32) {
        self.sources.entry(stratum).or_default();
    }

    /// The sender of a source has handed over its last message: its MSR may only fall from now on.
    pub fn source_ending(&mut self, stratum: u32) {
        if let Some(source) = self.sources.get_mut(&stratum) {
            source.is_ending = true;
        }
    }

    /// No message of a source will arrive any more. The start of a short job may not be known
    /// then, so the source may be new.
    pub fn source_ended(&mut self, stratum: u32) {
        self.sources.entry(stratum).or_default().has_ended = true;
    }

    /// Whether to call [`Planner::look`]. `messages`: the arrived messages of all sources.
    pub fn is_look_due(&self, messages: u64) -> bool {
        self.may_look() && (messages >= self.next_look || self.all_ended())
    }

    fn may_look(&self) -> bool {
        self.report.is_none() && self.sources.len() >= self.sources_min
    }

    /// The result, once the error was met or all sources ended.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Looks at the answers, which `ask` computes for a level of confidence. Look only when it is
    /// due: each look costs confidence. Before all sources of [`Planner::with_sources`] are known
    /// it does nothing.
    ///
    /// # Errors
    /// All sources ended and there is no answer, or the values are out of range. Before the end,
    /// an answer that isn't there yet makes the planner wait.
    pub fn look(
        &mut self,
        ask: impl Fn(Confidence) -> Result<Vec<Estimate>, AnswerError>,
    ) -> Result<Vec<Action>, AnswerError> {
        if !self.may_look() {
            return Ok(Vec::new());
        }
        let is_last = self.all_ended();
        let plan = Confidence::at_most(1.0 - self.spending.plan());
        let answers = match ask(plan) {
            Ok(answers) if !answers.is_empty() => answers,
            Ok(_) if is_last => return Err(AnswerError::NoMessages),
            Err(error) if is_last || !is_early(&error) => return Err(error),
            // Nothing was looked at.
            Ok(_) | Err(_) => return Ok(vec![self.wait(self.next_look.saturating_mul(2))]),
        };
        self.looks += 1;
        let wanted = |answer: &Estimate| {
            // A thin stratum says nothing about what the others need.
            let (below, above) = answer.spread.without_thin().relative_ends(answer.level);
            // A quantile's values aren't even: its interval reaches farther to one side.
            let farther = answer.reach() / answer.half_width();
            let is_even = below == above && farther.is_finite();
            let reach = below.max(above) * if is_even { farther } else { 1.0 };
            let error = self.accepted.of(answer);
            // No information is enough for a share of nothing.
            if reach.is_finite() { (error / reach).powi(2) } else { 0.0 }
        };
        let fraction = |answer: &Estimate| match answer.spread.variance() {
            // It can't be met now: confidence would be spent for nothing.
            _ if is_open(answer) => 0.0,
            0.0 => 1.0,
            variance => wanted(answer) / variance,
        };
        let fraction = answers.iter().map(fraction).fold(f64::INFINITY, f64::min);
        if fraction >= 1.0 && !is_last && !self.ends_in_doubt {
            let limit = if self.is_heavy { SKEWNESS_KEPT * SKEWNESS_MAX } else { SKEWNESS_MAX };
            self.is_heavy |= answers.iter().any(|answer| answer.spread.is_heavy(SKEWNESS_MAX));
            let is_heavy = answers.iter().any(|answer| answer.spread.is_heavy(limit));
            if is_heavy || is_in_doubt(&answers) {
                // The look decides nothing, so it costs no confidence.
                let keeps = if is_heavy { Keeps::Held } else { Keeps::Own };
                return Ok(self.go_on(answers[0].messages, keeps));
            }
        }
        if fraction >= 1.0 && !is_last && answers.iter().any(agrees) {
            // An interval without width would end the job at the first look, for those who accept
            // doubts: a column's first rare value may come later.
            return Ok(self.go_on(answers[0].messages, Keeps::Own));
        }
        let needs = needs(&answers, wanted);
        let alpha = if is_last { self.spending.last() } else { self.spending.look(fraction) };

        // A risk too small for a level can't be met.
        let level = Confidence::new(1.0 - alpha).ok();
        let estimates = match level {
            // No answer at all would meet any error.
            Some(level) => Some(ask(level)?).filter(|all| !all.is_empty()),
            None => Some(answers),
        };
        let estimates = estimates.ok_or(AnswerError::NoMessages)?;
        if level.is_some() && estimates.iter().all(|estimate| self.is_met_by(estimate)) {
            let because = is_in_doubt(&estimates).then_some(Reason::InDoubt);
            self.finish(estimates, level.unwrap_or(plan), because);
            return Ok(if is_last { Vec::new() } else { vec![Action::End] });
        }
        if is_last {
            let because = self.reason(&estimates);
            self.finish(estimates, level.unwrap_or(plan), Some(because));
            return Ok(Vec::new());
        }
        let messages = estimates[0].messages;
        let has_tail = || estimates.iter().any(|one| one.spread.is_heavy(SKEWNESS_MAX));
        let keeps = match !self.ends_in_doubt {
            true if self.is_heavy || has_tail() => Keeps::Held,
            true if is_in_doubt(&estimates) => Keeps::Own,
            _ if messages < LOWER_MESSAGES_MIN => Keeps::Held,
            _ => Keeps::Half,
        };
        Ok(self.plan(messages, &needs, keeps))
    }

    /// Requests what the strata need, and chooses the next look. In doubt, or after a few messages,
    /// sources keep their MSRs: the plan may not end before them.
    fn plan(&mut self, messages: u64, needs: &BTreeMap<u32, Need>, keeps: Keeps) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut planned = messages as f64;
        for (&stratum, need) in needs {
            planned += (need.messages - need.arrived).max(0.0);
            let source = self.sources.get(&stratum).copied().unwrap_or_default();
            let needed = (need.messages / need.sent).min(1.0);
            let held = source.kept(Keeps::Held);
            let kept = match keeps {
                Keeps::Half => held.min(LOWER_FACTOR * needed),
                Keeps::Own | Keeps::Held => 0.0,
            };
            actions.extend(self.request(stratum, needed.max(kept).max(source.kept(keeps))));
        }
        let now = messages as f64;
        let next = if planned <= now {
            EXTEND_FACTOR * now
        } else if planned <= 2.0 * LOOK_FACTOR * now {
            planned
        } else {
            LOOK_FACTOR * now
        };
        actions.push(self.wait((next.ceil() as u64).max(MESSAGES_MIN)));
        actions
    }

    /// Asks the sources for what they offered by themselves, or were asked for before.
    fn go_on(&mut self, messages: u64, keeps: Keeps) -> Vec<Action> {
        let own: Vec<(u32, f64)> =
            self.sources.iter().map(|(&stratum, source)| (stratum, source.kept(keeps))).collect();
        let mut actions: Vec<Action> =
            own.into_iter().filter_map(|(stratum, msr)| self.request(stratum, msr)).collect();
        actions.push(self.wait((EXTEND_FACTOR * messages as f64).ceil() as u64));
        actions
    }

    fn wait(&mut self, messages: u64) -> Action {
        self.next_look = messages;
        Action::Wait { messages }
    }

    /// A request that changes an MSR, if it may change.
    fn request(&mut self, stratum: u32, msr: f64) -> Option<Action> {
        let source = self.sources.get_mut(&stratum)?;
        let step = msr - source.msr?;
        let is_small = step.abs() < MSR_STEP && (msr < 1.0 || step == 0.0);
        if source.has_ended || is_small || (step > 0.0 && source.is_ending) {
            return None;
        }
        source.msr = Some(msr);
        Some(if step > 0.0 {
            Action::Raise { stratum, msr }
        } else {
            Action::Lower { stratum, msr }
        })
    }

    fn all_ended(&self) -> bool {
        !self.sources.is_empty() && self.sources.values().all(|source| source.has_ended)
    }

    fn is_met_by(&self, estimate: &Estimate) -> bool {
        estimate.reach() <= self.accepted.of(estimate) && !is_inconclusive(estimate)
    }

    /// The reason why the last look's answers don't meet the error.
    fn reason(&self, estimates: &[Estimate]) -> Reason {
        let accepted = self.accepted;
        let is_near_zero = |e: &Estimate| accepted.is_relative() && e.contains(0.0);
        let unmet = || estimates.iter().filter(|estimate| !self.is_met_by(estimate));
        if unmet().any(is_few) {
            return Reason::FewMessages;
        }
        if unmet().any(has_open_denominator) {
            return Reason::DenominatorNearZero;
        }
        if unmet().any(is_near_zero) {
            return Reason::NearZero;
        }
        let sent = estimates[0].messages_sent;
        Reason::Ended { missing: sent.map(|sent| sent - estimates[0].messages) }
    }

    fn finish(&mut self, mut estimates: Vec<Estimate>, level: Confidence, because: Option<Reason>) {
        let accepted = self.accepted;
        let reached = estimates.iter().map(|e| accepted.reached(e)).fold(0.0, f64::max);
        // The look's stricter level has paid for the looks: what is left is the asked confidence.
        estimates.iter_mut().for_each(|estimate| estimate.confidence = self.confidence);
        let looks = self.looks;
        self.report = Some(Report { accepted, reached, because, estimates, level, looks });
    }
}

fn needs(answers: &[Estimate], wanted: impl Fn(&Estimate) -> f64) -> BTreeMap<u32, Need> {
    let mut needs: BTreeMap<u32, Need> = BTreeMap::new();
    for answer in answers {
        let needed = needed(&answer.spread, wanted(answer));
        for part in &answer.spread.parts {
            let (Some(sent), Some(&own)) = (part.sent, needed.get(&part.stratum)) else { continue };
            let (arrived, sent) = (part.arrived as f64, sent as f64);
            let messages = if needs_all(answer) { sent } else { own.max(arrived) };
            let need = needs.entry(part.stratum).or_insert(Need { messages, arrived, sent });
            need.messages = need.messages.max(messages);
        }
    }
    needs
}

/// Whether a warning puts an answer in doubt, however narrow its interval.
fn is_in_doubt(answers: &[Estimate]) -> bool {
    answers.iter().flat_map(|answer| &answer.warnings).any(Warning::is_doubt)
}

/// Whether nothing shows yet how many messages the answer needs.
fn is_open(answer: &Estimate) -> bool {
    is_inconclusive(answer) || !answer.half_width().is_finite()
}

/// Whether the answer needs more messages of every stratum.
fn needs_all(answer: &Estimate) -> bool {
    // Thin strata alone need some more, unless the ends of the range are open as well.
    let is_thin = answer.spread.parts.iter().any(Part::is_thin)
        && !answer.warnings.contains(&Warning::EndOfRange);
    is_inconclusive(answer) || is_open(answer) && !is_thin
}

/// Few messages, or a denominator that may be 0, don't show how wrong an answer is.
fn is_inconclusive(answer: &Estimate) -> bool {
    is_few(answer) || has_open_denominator(answer)
}

fn is_few(answer: &Estimate) -> bool {
    answer.warnings.iter().any(|warning| matches!(warning, Warning::FewMessages { .. }))
}

/// Whether all messages agree, and too few of them to end a job.
fn agrees(answer: &Estimate) -> bool {
    let agrees = |warning: &Warning| matches!(warning, Warning::NoVariation { messages } if *messages < AGREEING_MIN);
    answer.warnings.iter().any(agrees)
}

fn has_open_denominator(answer: &Estimate) -> bool {
    answer.warnings.iter().any(|warning| matches!(warning, Warning::DenominatorNearZero { .. }))
}

/// Whether more messages may bring an answer.
fn is_early(error: &AnswerError) -> bool {
    use AnswerError::{EmptyStratum, NoMessages, SentUnknown, UnknownKey, ZeroDenominator};
    let is_early = |error: &AnswerError| {
        matches!(error, EmptyStratum { .. } | NoMessages | SentUnknown { .. } | UnknownKey)
    };
    is_early(error) || matches!(error, ZeroDenominator)
}

#[cfg(test)]
mod tests;
