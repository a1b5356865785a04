//! Answers of queries, as structures of C, and the memory behind them.

use crate::{
    answers::atp_bound::{ATP_BOUND_AT_LEAST, ATP_BOUND_AT_MOST, ATP_BOUND_NONE},
    sender::element,
    sized::{self, Out, SizeFirst, put},
    status::{Failure, Outcome, atp_status, atp_status::ATP_ERROR_NO_ANSWER, call_once},
    table::Table,
};
use approx_answers::{AnswerError, Answers, Bound, Estimate};
use std::{
    ffi::{CString, c_char},
    ptr::null,
};

static ANSWERS: Table<Kept> = Table::new("answers");

/// The answers of a query, from atp_query_answers. Free them with atp_answers_free.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_answers {
    /// The size of the structure.
    pub struct_size: usize,
    /// The memory behind the answers, which atp_answers_free frees. 0: none.
    pub memory: u64,
    /// The number of rows: see atp_answers_row.
    pub rows_len: usize,
    /// Warnings about all rows together: sentences that name the remedy. Valid until
    /// atp_answers_free.
    pub warnings: *const *const c_char,
    /// The number of these warnings.
    pub warnings_len: usize,
    /// 1 if the query is a `top`. Other queries have no order of ranks.
    pub is_ranking: u32,
    /// 1 if the query is a `top` and the sample shows that these keys are the largest.
    pub separates: u32,
    /// Keys in at least this many messages have a row with a probability of at least 95 %; in
    /// `top` they were counted. 0: all messages arrived. UINT64_MAX: the query has no keys, or some
    /// beyond the limit, the number of messages sent isn't known, or those that arrived may be no
    /// fair sample.
    pub keys_seen_from: u64,
    /// The query's functions, such as avg(dep_delay): atp_estimate.function is an index in them.
    /// Valid until atp_answers_free.
    pub functions: *const *const c_char,
    /// The number of the query's functions.
    pub functions_len: usize,
    /// Rows that arrived and meet the condition, but lack one of the query's numbers: functions of
    /// that number leave them out.
    pub missing: u64,
}

/// What an answer without an interval says of all rows: it is a number of those that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum atp_bound {
    /// The answer has an interval, or all messages arrived.
    ATP_BOUND_NONE = 0,
    /// The answer of all rows is as large, or larger.
    ATP_BOUND_AT_LEAST = 1,
    /// The answer of all rows is as small, or smaller.
    ATP_BOUND_AT_MOST = 2,
}

/// An answer, and the interval that contains the true one with the query's confidence.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_estimate {
    /// The size of the structure.
    pub struct_size: usize,
    /// The row's key, in UTF-8 with a 0 at its end. Null without `by`. The values of several
    /// columns have commas between them: atp_answers_key has each one. Valid until
    /// atp_answers_free.
    pub key: *const c_char,
    /// The bytes of the key, without the 0 at its end.
    pub key_len: usize,
    /// The answer, in the unit of the column.
    pub value: f64,
    /// The lower end. It is negative infinity if one message can't show how messages vary.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The share of intervals that contain the true answer, such as 0.95.
    pub confidence: f64,
    /// Degrees of freedom of Student's t; infinite if every message arrived.
    pub degrees_of_freedom: f64,
    /// Messages that arrived.
    pub messages: u64,
    /// Messages that were sent; 0 if that isn't known.
    pub messages_sent: u64,
    /// 1 if the number of messages that were sent is known.
    pub messages_sent_known: u32,
    /// The function of the answer: an index in atp_answers.functions.
    pub function: u32,
    /// Reasons to doubt the interval: sentences that name the remedy. Valid until
    /// atp_answers_free.
    pub warnings: *const *const c_char,
    /// The number of these warnings.
    pub warnings_len: usize,
    /// An atp_bound, of a minimum, a maximum or a number of different values.
    pub bound: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: repr(C), begins with its size, and holds numbers and pointers only.
unsafe impl SizeFirst for atp_answers {
    const NAME: &'static str = "atp_answers";
    /// Without `memory` nobody could free the answers.
    const BYTES_MIN: usize = 16;

    fn initial() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            memory: 0,
            rows_len: 0,
            warnings: null(),
            warnings_len: 0,
            is_ranking: 0,
            separates: 0,
            keys_seen_from: u64::MAX,
            functions: null(),
            functions_len: 0,
            missing: 0,
        }
    }
}

// SAFETY: repr(C), begins with its size, and holds numbers and pointers only.
unsafe impl SizeFirst for atp_estimate {
    const NAME: &'static str = "atp_estimate";

    fn initial() -> Self {
        Self {
            struct_size: size_of::<Self>(),
            key: null(),
            key_len: 0,
            value: 0.0,
            low: 0.0,
            high: 0.0,
            confidence: 0.0,
            degrees_of_freedom: 0.0,
            messages: 0,
            messages_sent: 0,
            messages_sent_known: 0,
            function: 0,
            warnings: null(),
            warnings_len: 0,
            bound: ATP_BOUND_NONE as u32,
            reserved: 0,
        }
    }
}

/// What answers point to.
struct Kept {
    rows: Vec<Row>,
    overall: Result<Option<Row>, AnswerError>,
    /// The warnings of all rows together.
    _warnings: Texts,
    _functions: Texts,
}

struct Row {
    /// The key, and the values of its columns, each with a 0 at its end. They may hold others.
    key: Option<Box<[u8]>>,
    columns: Vec<Box<[u8]>>,
    function: usize,
    estimate: Estimate,
    warnings: Texts,
}

/// Texts as an array of C.
struct Texts {
    pointers: Vec<*const c_char>,
    _texts: Vec<CString>,
}

// SAFETY: the pointers are to the texts beside them, which nobody changes.
unsafe impl Send for Texts {}
// SAFETY: as above.
unsafe impl Sync for Texts {}

impl Texts {
    fn of<T: ToString>(texts: &[T]) -> Self {
        // A 0 would end the text.
        let text = |text: &T| CString::new(text.to_string().replace('\0', " ")).unwrap_or_default();
        let texts: Vec<CString> = texts.iter().map(text).collect();
        Self { pointers: texts.iter().map(|text| text.as_ptr()).collect(), _texts: texts }
    }
}

impl Row {
    fn new(row: approx_answers::Row) -> Self {
        let bytes = |text: &String| -> Box<[u8]> { [text.as_bytes(), &[0]].concat().into() };
        let key = (!row.key.is_empty()).then(|| bytes(&row.key_text()));
        let columns = row.key.iter().map(bytes).collect();
        let warnings = Texts::of(&row.estimate.warnings);
        Self { key, columns, function: row.function, estimate: row.estimate, warnings }
    }

    fn to_c(&self) -> atp_estimate {
        let Estimate { value, low, high, confidence, degrees_of_freedom, messages, .. } =
            self.estimate;
        let sent = self.estimate.messages_sent;
        atp_estimate {
            key: self.key.as_ref().map_or(null(), |key| key.as_ptr().cast()),
            key_len: self.key.as_ref().map_or(0, |key| key.len() - 1),
            value,
            low,
            high,
            confidence: confidence.level(),
            degrees_of_freedom,
            messages,
            messages_sent: sent.unwrap_or_default(),
            messages_sent_known: sent.is_some().into(),
            function: self.function as u32,
            warnings: self.warnings.pointers.as_ptr(),
            warnings_len: self.warnings.pointers.len(),
            bound: match self.estimate.bound() {
                None => ATP_BOUND_NONE,
                Some(Bound::AtLeast) => ATP_BOUND_AT_LEAST,
                Some(Bound::AtMost) => ATP_BOUND_AT_MOST,
            } as u32,
            ..atp_estimate::initial()
        }
    }
}

/// The answers as C has them, with the answer over all keys.
pub fn to_c(answers: Answers, overall: Result<Option<Estimate>, AnswerError>) -> atp_answers {
    let Answers { rows, functions, separates, keys_seen_from, missing, warnings } = answers;
    let rows: Vec<Row> = rows.into_iter().map(Row::new).collect();
    let of_all =
        |estimate| Row::new(approx_answers::Row { key: Vec::new(), function: 0, estimate });
    let overall = overall.map(|answer| answer.map(of_all));
    let rows_len = rows.len();
    let (warnings, functions) = (Texts::of(&warnings), Texts::of(&functions));
    let (at, warnings_len) = (warnings.pointers.as_ptr(), warnings.pointers.len());
    let (functions_at, functions_len) = (functions.pointers.as_ptr(), functions.pointers.len());
    let kept = Kept { rows, overall, _warnings: warnings, _functions: functions };
    atp_answers {
        memory: ANSWERS.add(kept),
        rows_len,
        warnings: at,
        warnings_len,
        is_ranking: separates.is_some().into(),
        separates: separates.unwrap_or_default().into(),
        keys_seen_from: keys_seen_from.unwrap_or(u64::MAX),
        functions: functions_at,
        functions_len,
        missing,
        ..atp_answers::initial()
    }
}

/// The handle of the memory behind the caller's answers.
///
/// # Safety
/// `answers` is null or as it says.
unsafe fn memory_of(answers: *const atp_answers) -> Outcome<u64> {
    // SAFETY: the caller promises the structure.
    Ok(unsafe { sized::read(answers) }?.memory)
}

/// The row at `index`: in the order of the keys and, for each key, of the query's functions; or the
/// largest first for `top`. A function without an answer, such as a mean of no values, has no row.
/// ATP_ERROR_ARGUMENT if there is no such row.
///
/// # Safety
/// Pointers are null or as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_answers_row(
    answers: *const atp_answers,
    index: usize,
    row: *mut atp_estimate,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structures.
        let (out, memory) = unsafe { (Out::new(row)?, memory_of(answers)?) };
        out.write(&element(&ANSWERS.find(memory)?.rows, index, "row")?.to_c());
        Ok(())
    })
}

/// The value of a column of the key of the row at `index`, in the order of the query's columns, in
/// UTF-8 with a 0 at its end. Valid until atp_answers_free. ATP_ERROR_ARGUMENT if there is no such
/// row or column.
///
/// # Safety
/// `answers` is null or as it says; other pointers are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_answers_key(
    answers: *const atp_answers,
    index: usize,
    column: usize,
    key: *mut *const c_char,
    key_len: *mut usize,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let memory = unsafe { memory_of(answers) }?;
        let kept = ANSWERS.find(memory)?;
        let value = element(&element(&kept.rows, index, "row")?.columns, column, "column")?;
        // SAFETY: the caller promises it.
        unsafe {
            put(key, value.as_ptr().cast());
            put(key_len, value.len() - 1);
        }
        Ok(())
    })
}

/// The answer over all keys of the first function, a sum, count, mean or ratio, at the confidence
/// of the rows. ATP_ERROR_NO_ANSWER for other functions.
///
/// # Safety
/// Pointers are null or as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_answers_overall(
    answers: *const atp_answers,
    overall: *mut atp_estimate,
) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structures.
        let (out, memory) = unsafe { (Out::new(overall)?, memory_of(answers)?) };
        let kept = ANSWERS.find(memory)?;
        let none = || {
            let text = "the query has no answer over all keys: read its rows";
            Failure::new(ATP_ERROR_NO_ANSWER, text)
        };
        let overall = kept.overall.as_ref().map_err(|error| Failure::from(error.clone()))?;
        out.write(&overall.as_ref().ok_or_else(none)?.to_c());
        Ok(())
    })
}

/// Frees the memory behind answers, and empties them. Does nothing if they are empty. A copy of
/// freed answers gives ATP_ERROR_HANDLE.
///
/// # Safety
/// `answers` is null or as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_answers_free(answers: *mut atp_answers) -> atp_status {
    call_once(|| {
        // SAFETY: the caller promises the structure.
        let (out, memory) = unsafe { (Out::new(answers)?, memory_of(answers)?) };
        if memory != 0 {
            drop(ANSWERS.remove(memory)?);
        }
        out.write(&atp_answers::initial());
        Ok(())
    })
}
