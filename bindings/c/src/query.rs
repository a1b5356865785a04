//! Queries of tables that arrive as CSV, and plans for an accepted error.

use crate::{
    answers::{self, atp_answers},
    event::atp_range,
    forks, options,
    sized::{self, Out, SizeFirst, put},
    status::{
        Failure, Outcome, atp_status,
        atp_status::{ATP_AGAIN, ATP_ERROR_ARGUMENT, ATP_ERROR_STATE, ATP_OK},
        call, call_once,
    },
    table::Table,
    text,
};
use approx_answers::{
    AcceptedError, Action, Answering, Confidence, Delivery, Order, Planner, QueryError, Reason,
};
use std::{
    collections::VecDeque,
    ffi::{c_char, c_void},
    sync::{Mutex, PoisonError},
};

static QUERIES: Table<Mutex<Asked>> = Table::new("query");

/// A query of a table whose rows arrive as CSV, some of them perhaps never. Free it with
/// atp_query_free.
///
/// Messages are counted by stratum: the part of a job that one sender sends in one group (and
/// window), under a number of the program's choice.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_query {
    /// 0 is no query. Numbers aren't used twice.
    pub handle: u64,
}

/// Options of a query. Begin with ATP_INIT. A number of 0 is the default.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_query_options {
    /// The size of the structure.
    pub struct_size: usize,
    /// The share of intervals that contain the true answer, above 0 and below 1. Default 0.95.
    pub confidence: f64,
    /// The accepted error, as a share of the answer, such as 0.05: the distance to the farther end
    /// of its interval. With `by` each key has to meet it, and so has each function but min, max
    /// and count(distinct), which have no interval. The query then plans requests to the senders:
    /// see atp_query_next_action. Default: no plan.
    pub error_relative: f64,
    /// The accepted error in the unit of the answer. Only one of the two may be set.
    pub error_absolute: f64,
    /// With an accepted error: the number of sources to await. Before atp_query_source_started,
    /// atp_query_source_known or atp_query_source_ended has named so many, the plan doesn't look at
    /// the answers, and so asks for no end. 0: it may end when the first source's messages suffice.
    pub sources: u32,
    /// With an accepted error: 1 if the plan ends also while a warning puts an answer in doubt. By
    /// default it then continues up to the senders' own rates. In both cases the error isn't
    /// met.
    pub end_in_doubt: u32,
}

/// How the messages of a stratum were sent, and which of them are missing. An incomplete stratum
/// whose messages aren't known to be shuffled has a warning. Begin with ATP_INIT.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_delivery {
    /// The size of the structure.
    pub struct_size: usize,
    /// A number of atp_order, as atp_group_terms has it.
    pub order: u32,
    /// With ATP_ORDER_SHUFFLED: the messages among which each one was drawn. 0: all of them.
    pub shuffle_buffer: u32,
    /// 1 if the sender preferred short messages and they differ in length: see atp_group_terms.
    pub shortest_first: u32,
    /// 1 if the job or window has ended, and `lost` has what is missing.
    pub has_ended: u32,
    /// The ids that didn't arrive, in ascending order, as atp_group_summary has them.
    pub lost: *const atp_range,
    /// The number of ranges.
    pub lost_len: usize,
}

/// A number of atp_action.kind. Later versions have more: skip those that the program doesn't know.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum atp_action_kind {
    /// Ask the sender of the stratum for a higher sampling rate: atp_receiver_request_msr.
    ATP_ACTION_RAISE = 1,
    /// Ask the sender of the stratum for a lower sampling rate.
    ATP_ACTION_LOWER = 2,
    /// Ask all senders to end, as the error is met: atp_receiver_request_end.
    ATP_ACTION_END = 3,
    /// Nothing to ask for. The plan looks again after `messages` messages.
    ATP_ACTION_WAIT = 4,
}

use atp_action_kind::*;

/// A step of the plan for an accepted error.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_action {
    /// The size of the structure.
    pub struct_size: usize,
    /// A number of atp_action_kind.
    pub kind: u32,
    /// The stratum of ATP_ACTION_RAISE and ATP_ACTION_LOWER.
    pub stratum: u32,
    /// The new sampling rate of that stratum, 0 to 1.
    pub msr: f64,
    /// With ATP_ACTION_WAIT: messages of all strata that must have arrived.
    pub messages: u64,
}

/// Why an accepted error wasn't met.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum atp_plan_reason {
    /// It was met.
    ATP_PLAN_MET = 0,
    /// The senders ended and messages are missing: begin with a higher sampling rate.
    ATP_PLAN_SENDERS_ENDED = 1,
    /// The answer may be 0, of which no share is an error: use error_absolute.
    ATP_PLAN_NEAR_ZERO = 2,
    /// Too few messages carry an answer: begin with a rate of 1, or send smaller messages.
    ATP_PLAN_FEW_MESSAGES = 3,
    /// The intervals are narrow enough, but a warning puts an answer in doubt.
    ATP_PLAN_IN_DOUBT = 4,
    /// A ratio's denominator may be 0: begin with a higher rate, or ask for the two sums.
    ATP_PLAN_DENOMINATOR_NEAR_ZERO = 5,
    /// A reason that has no number in this version.
    ATP_PLAN_OTHER = 99,
}

use atp_plan_reason::*;

/// The end of a plan for an accepted error.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_plan_report {
    /// The size of the structure.
    pub struct_size: usize,
    /// 1 if each row of the query had an interval as narrow as accepted when the plan ended. Keys
    /// that arrive after that have no part in it.
    pub met: u32,
    /// A number of atp_plan_reason.
    pub reason: u32,
    /// The largest error of the rows, in the form of the accepted one: a share, or in the unit
    /// of the answer.
    pub reached: f64,
    /// With ATP_PLAN_SENDERS_ENDED: messages that are missing, if `messages_missing_known`.
    pub messages_missing: u64,
    /// How often the plan looked at the answers.
    pub looks: u32,
    /// 1 if the number of messages that are missing is known: every sender has told its own.
    pub messages_missing_known: u32,
}

macro_rules! structures {
    ($($name:ident)+) => {
        $(
            // SAFETY: repr(C), begins with its size, and holds numbers and pointers only.
            unsafe impl SizeFirst for $name {
                const NAME: &'static str = stringify!($name);

                fn initial() -> Self {
                    // SAFETY: it holds numbers and pointers only.
                    Self { struct_size: size_of::<Self>(), ..unsafe { std::mem::zeroed() } }
                }
            }
        )+
    };
}

structures! { atp_query_options atp_delivery atp_action atp_plan_report }

/// A query behind a handle.
struct Asked {
    answering: Answering,
    confidence: Confidence,
    planner: Option<Planner>,
    /// Actions that the program hasn't taken yet.
    actions: VecDeque<Action>,
}

impl Asked {
    fn planner(&mut self) -> Outcome<&mut Planner> {
        let none = || {
            let text =
                "the query has no plan: set error_relative or error_absolute when it is opened";
            Failure::new(ATP_ERROR_STATE, text)
        };
        self.planner.as_mut().ok_or_else(none)
    }
}

fn with<T>(query: atp_query, work: impl FnOnce(&mut Asked) -> Outcome<T>) -> Outcome<T> {
    let asked = QUERIES.find(query.handle)?;
    let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
    work(&mut asked)
}

/// Opens a query such as "avg(dep_delay) by carrier" of a table with the columns that `header`
/// names: one line of CSV. `options` may be null: all defaults.
///
/// The functions are sum, count, avg, ratio, stddev, variance, quantile, median, min, max,
/// count(distinct) and top; all but top take `by`. In SQL, such as
/// "SELECT avg(x), count(*) WHERE y > 3 GROUP BY a, b", a query has several functions and a
/// condition.
/// ATP_ERROR_QUERY if the text is no query, the table lacks one of its columns, or an error is
/// accepted of a query without an interval.
///
/// # Safety
/// `header` is null or has `header_len` readable bytes; other pointers are null or as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_query_open(
    text: *const c_char,
    header: *const c_void,
    header_len: usize,
    options: *const atp_query_options,
    query: *mut atp_query,
) -> atp_status {
    call_once(|| {
        if query.is_null() {
            return Err(Failure::null("query"));
        }
        // SAFETY: the caller promises a text, the bytes and options.
        let (text, header, options) = unsafe {
            let options = if options.is_null() {
                atp_query_options::initial()
            } else {
                sized::read(options)?
            };
            let header = text::list(header.cast::<u8>(), header_len, "header")?;
            (text::text(text, "text")?, header, options)
        };
        let confidence = match options.confidence {
            0.0 => Confidence::P95,
            level => Confidence::new(level)?,
        };
        let accepted = accepted(&options)?;
        let parsed = text.parse::<approx_answers::Query>()?;
        accepted.map_or(Ok(()), |_| parsed.check_accepts_error())?;
        let answering = Answering::of_csv(parsed, header)?;
        let (sources, ends) = (options.sources as usize, options.end_in_doubt != 0);
        let planner = accepted.map(|accepted| {
            Planner::new(accepted, confidence).with_sources(sources).end_in_doubt(ends)
        });
        forks::count()?;
        let asked = Asked { answering, confidence, planner, actions: VecDeque::new() };
        let handle = QUERIES.add(Mutex::new(asked));
        // SAFETY: the caller promises it.
        unsafe { put(query, atp_query { handle }) };
        Ok(())
    })
}

fn accepted(options: &atp_query_options) -> Outcome<Option<AcceptedError>> {
    let &atp_query_options { error_relative, error_absolute, .. } = options;
    match (error_relative, error_absolute) {
        (0.0, 0.0) => Ok(None),
        (share, 0.0) => Ok(Some(AcceptedError::relative(share)?)),
        (0.0, distance) => Ok(Some(AcceptedError::absolute(distance)?)),
        _ => {
            let text = "error_relative and error_absolute contradict each other: set one of them";
            Err(Failure::new(ATP_ERROR_ARGUMENT, text))
        }
    }
}

/// Adds the rows of one message: whole lines of CSV, without a header. Missing values are empty,
/// NA, N/A, null or \N. ATP_ERROR_ROW if a row can't be read, has more values than the header, or a
/// quote without an end. ATP_ERROR_SAMPLE if a row can't be counted. The message is then left out,
/// and the query goes on.
///
/// # Safety
/// `data` is null or has `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_query_add(
    query: atp_query,
    stratum: u32,
    data: *const c_void,
    len: usize,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the bytes.
        let message = unsafe { text::list(data.cast::<u8>(), len, "data") }?;
        with(query, |asked| match asked.answering.push_csv(stratum, message) {
            Err(error @ QueryError::Csv { .. }) => Err(Failure::row(&error)),
            pushed => Ok(pushed?),
        })
    })
}

/// Takes the totals of a stratum's table: message 1 of the group 255 of a job that
/// atp_job_connect_csv opened. A count of all rows is then exact, and other counts and sums vary
/// less. ATP_ERROR_ROW if the message isn't totals. ATP_ERROR_SAMPLE if other totals were set. The
/// query then goes on without them.
///
/// # Safety
/// `data` is null or has `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_query_add_totals(
    query: atp_query,
    stratum: u32,
    data: *const c_void,
    len: usize,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the bytes.
        let message = unsafe { text::list(data.cast::<u8>(), len, "data") }?;
        with(query, |asked| match asked.answering.push_totals(stratum, message) {
            Err(error @ QueryError::Totals { .. }) => Err(Failure::row(&error)),
            pushed => Ok(pushed?),
        })
    })
}

/// Sets N, the number of messages that a stratum sent: when its source starts, or at its end. Sums
/// and counts need it. A smaller N replaces an announced one. ATP_ERROR_SAMPLE if more have
/// arrived, or a smaller N was set.
#[unsafe(no_mangle)]
pub extern "C" fn atp_query_set_messages_sent(
    query: atp_query,
    stratum: u32,
    messages: u64,
) -> atp_status {
    call_once(|| with(query, |asked| Ok(asked.answering.set_messages_sent(stratum, messages)?)))
}

/// Sets how the messages of a stratum were sent, and which of them are missing: when its source
/// starts, and again at its end. ATP_ERROR_ARGUMENT if the lost ids aren't in ascending order.
///
/// # Safety
/// `delivery` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_query_set_delivery(
    query: atp_query,
    stratum: u32,
    delivery: *const atp_delivery,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure, and the ranges that it names.
        let (delivery, lost) = unsafe {
            let delivery = sized::read(delivery)?;
            (delivery, text::list(delivery.lost, delivery.lost_len, "lost")?)
        };
        let is_ascending = lost.iter().all(|range| range.start <= range.end)
            && lost.is_sorted_by(|one, next| one.end <= next.start);
        if !is_ascending {
            let text = "the lost ids must be ranges in ascending order, as in atp_group_summary";
            return Err(Failure::new(ATP_ERROR_ARGUMENT, text));
        }
        let order = match options::order(delivery.order, delivery.shuffle_buffer)? {
            approxlib::Order::Unknown => Order::Unknown,
            approxlib::Order::Ordered => Order::Ordered,
            approxlib::Order::Shuffled { buffer } => {
                Order::Shuffled { buffer: buffer.map(u64::from) }
            }
        };
        let ids = lost.iter().map(|range| range.start.into()..range.end.into()).collect();
        let facts = Delivery {
            order,
            shortest_first: delivery.shortest_first != 0,
            lost: (delivery.has_ended != 0).then_some(ids),
        };
        with(query, |asked| Ok(asked.answering.set_delivery(stratum, &facts)?))
    })
}

/// The number of messages that were added.
///
/// # Safety
/// `messages` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_query_messages(query: atp_query, messages: *mut u64) -> atp_status {
    call_once(|| {
        let added = with(query, |asked| Ok(asked.answering.messages()))?;
        // SAFETY: the caller promises it.
        unsafe { put(messages, added) };
        Ok(())
    })
}

/// The answers from the messages so far: a snapshot, which later messages don't change.
/// ATP_ERROR_NO_ANSWER if no message has arrived, or a sum or count lacks an N.
///
/// # Safety
/// `answers` is null or as it says. Answers in it must have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_query_answers(
    query: atp_query,
    answers: *mut atp_answers,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(answers) }?;
        let (found, overall) = with(query, |asked| {
            let Asked { answering, confidence, planner, .. } = asked;
            Ok(match planner {
                Some(planner) => (planner.answers(answering)?, planner.overall(answering)),
                None => (answering.answers(*confidence)?, answering.overall(*confidence)),
            })
        })?;
        out.write(&answers::to_c(found, overall));
        Ok(())
    })
}

/// Tells the plan that a source starts, with the sampling rate that ATP_EVENT_STARTED names. Leave
/// out exact groups, which keep their rate: atp_query_source_known counts them. Their receiver can
/// only end the job.
#[unsafe(no_mangle)]
pub extern "C" fn atp_query_source_started(query: atp_query, stratum: u32, msr: f64) -> atp_status {
    call_once(|| {
        if !(0.0..=1.0).contains(&msr) {
            let text = format!("a sampling rate of {msr} can't be: give a number from 0 to 1");
            return Err(Failure::new(ATP_ERROR_ARGUMENT, text));
        }
        with(query, |asked| {
            let first = asked.planner()?.source_started(stratum, msr);
            asked.actions.extend(first);
            Ok(())
        })
    })
}

/// Counts a source among atp_query_options.sources, without requests for it: one of an exact group,
/// or one whose first message came before its start. The plan then awaits its end too.
#[unsafe(no_mangle)]
pub extern "C" fn atp_query_source_known(query: atp_query, stratum: u32) -> atp_status {
    call_once(|| {
        with(query, |asked| {
            asked.planner()?.source_known(stratum);
            Ok(())
        })
    })
}

/// Tells the plan that the sender of a source has handed over its last message: its sampling rate
/// may only fall from now on.
#[unsafe(no_mangle)]
pub extern "C" fn atp_query_source_ending(query: atp_query, stratum: u32) -> atp_status {
    call_once(|| {
        with(query, |asked| {
            asked.planner()?.source_ending(stratum);
            Ok(())
        })
    })
}

/// Tells the plan that no message of a source will arrive any more. After the last source the plan
/// looks once more: call atp_query_next_action.
#[unsafe(no_mangle)]
pub extern "C" fn atp_query_source_ended(query: atp_query, stratum: u32) -> atp_status {
    call_once(|| {
        with(query, |asked| {
            asked.planner()?.source_ended(stratum);
            Ok(())
        })
    })
}

/// The plan's next step. Looks at the answers if that is due. Call it after each message and each
/// end of a source, until ATP_AGAIN.
///
/// ATP_ERROR_NO_ANSWER if all sources ended and there is no answer.
///
/// # Safety
/// `action` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_query_next_action(
    query: atp_query,
    action: *mut atp_action,
) -> atp_status {
    call(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(action) }?;
        let next = with(query, |asked| {
            let Asked { answering, planner, actions, .. } = asked;
            match (actions.pop_front(), planner) {
                (None, Some(planner)) => {
                    actions.extend(planner.look_at(answering)?);
                    Ok(actions.pop_front())
                }
                (None, None) => asked.planner().map(|_| None),
                (next, _) => Ok(next),
            }
        })?;
        let Some(next) = next else { return Ok(ATP_AGAIN) };
        out.write(&next.into());
        Ok(ATP_OK)
    })
}

impl From<Action> for atp_action {
    fn from(action: Action) -> Self {
        let none = Self::initial();
        match action {
            Action::Raise { stratum, msr } => {
                Self { kind: ATP_ACTION_RAISE as u32, stratum, msr, ..none }
            }
            Action::Lower { stratum, msr } => {
                Self { kind: ATP_ACTION_LOWER as u32, stratum, msr, ..none }
            }
            Action::End => Self { kind: ATP_ACTION_END as u32, ..none },
            Action::Wait { messages } => Self { kind: ATP_ACTION_WAIT as u32, messages, ..none },
            // Of a newer approx-answers: a kind that programs skip.
            _ => none,
        }
    }
}

/// The end of the plan: the error was met, or all sources ended. ATP_AGAIN before that.
///
/// # Safety
/// `report` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_query_plan_report(
    query: atp_query,
    report: *mut atp_plan_report,
) -> atp_status {
    call(|| {
        // SAFETY: the caller promises the structure.
        let out = unsafe { Out::new(report) }?;
        let found = with(query, |asked| {
            let Some(report) = asked.planner()?.report() else { return Ok(None) };
            let (reason, missing) = match report.because {
                None => (ATP_PLAN_MET, None),
                Some(Reason::Ended { missing }) => (ATP_PLAN_SENDERS_ENDED, missing),
                Some(Reason::NearZero) => (ATP_PLAN_NEAR_ZERO, None),
                Some(Reason::FewMessages) => (ATP_PLAN_FEW_MESSAGES, None),
                Some(Reason::InDoubt) => (ATP_PLAN_IN_DOUBT, None),
                Some(Reason::DenominatorNearZero) => (ATP_PLAN_DENOMINATOR_NEAR_ZERO, None),
                Some(_) => (ATP_PLAN_OTHER, None),
            };
            Ok(Some(atp_plan_report {
                met: report.is_met().into(),
                reason: reason as u32,
                reached: report.reached,
                messages_missing: missing.unwrap_or_default(),
                messages_missing_known: missing.is_some().into(),
                looks: report.looks,
                ..atp_plan_report::initial()
            }))
        })?;
        let Some(found) = found else { return Ok(ATP_AGAIN) };
        out.write(&found);
        Ok(ATP_OK)
    })
}

/// Frees the handle. Answers stay until atp_answers_free.
#[unsafe(no_mangle)]
pub extern "C" fn atp_query_free(query: atp_query) -> atp_status {
    call_once(|| QUERIES.remove(query.handle).map(drop))
}
