//! The native methods of `Query.java`: a query whose messages a program adds.

use crate::{
    answer_failures::data,
    answers,
    call::call,
    failure::{self, Failure, Outcome},
    job::{optional, text, texts},
    memory, options, query_options,
    table::Table,
};
use approx_answers::{Action, Answering, Confidence, Delivery, Order, Planner, Reason};
use approx_session::{Answered, Verdict};
use jni::{
    Env, EnvUnowned, jni_mangle,
    objects::{JByteArray, JByteBuffer, JClass, JIntArray, JObjectArray, JString},
    sys::{jboolean, jint, jlong},
};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Mutex, PoisonError},
};

static QUERIES: Table<Mutex<Asked>> = Table::new("query");

pub struct Asked {
    answering: Answering,
    confidence: Confidence,
    planner: Option<Planner>,
    /// Actions that the program hasn't taken yet.
    pub actions: VecDeque<Action>,
}

impl Asked {
    pub fn planner(&mut self) -> Outcome<&mut Planner> {
        self.planner.as_mut().ok_or_else(|| {
            let text = "the query has no plan: set an accepted error when it is opened";
            Failure::new(failure::STATE, text)
        })
    }

    pub fn next_action(&mut self) -> Outcome<Option<Action>> {
        if self.actions.is_empty() {
            self.planner()?;
            if let Some(planner) = &mut self.planner {
                self.actions.extend(planner.look_at(&self.answering)?);
            }
        }
        Ok(self.actions.pop_front())
    }

    fn answers(&self) -> Outcome<Answered> {
        let answers = match &self.planner {
            Some(planner) => planner.answers(&self.answering)?,
            None => self.answering.answers(self.confidence)?,
        };
        let report = self.planner.as_ref().and_then(Planner::report).cloned();
        let verdict = match report.as_ref().and_then(|report| report.because) {
            None => Verdict::Fine,
            Some(Reason::InDoubt) => Verdict::InDoubt,
            Some(_) => Verdict::NotMet,
        };
        let (query, notes) = (self.answering.query().clone(), Vec::new());
        Ok(Answered { query, answers, report, verdict, notes, left_out: 0 })
    }
}

pub fn with<T>(query: jlong, work: impl FnOnce(&mut Asked) -> Outcome<T>) -> Outcome<T> {
    let asked = QUERIES.find(query)?;
    let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
    work(&mut asked)
}

/// The number of a stratum, from Java's `int`.
pub fn of_stratum(stratum: jint) -> Outcome<u32> {
    u32::try_from(stratum).map_err(|_| {
        Failure::argument(format!("the number of a stratum must be 0 or more, not {stratum}"))
    })
}

fn of_messages(messages: jlong) -> Outcome<u64> {
    // A group has as many messages as an u32 counts.
    u32::try_from(messages).map(u64::from).map_err(|_| {
        let text = format!("a number of messages must be from 0 to 4294967295, not {messages}");
        Failure::argument(text)
    })
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_open<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: JString<'local>,
    header: JByteArray<'local>,
    options: JObjectArray<'local, JString<'local>>,
) -> jlong {
    call(env, |env| {
        let header = env.convert_byte_array(&header)?;
        let (query, options) = query_options::parsed(&text(env, &query)?, &texts(env, &options)?)?;
        let (confidence, senders) = (options.confidence, options.senders as usize);
        let planner = options.accepted.map(|accepted| {
            let planner = Planner::new(accepted.error, confidence).with_sources(senders);
            planner.end_in_doubt(accepted.ends_in_doubt)
        });
        let answering = Answering::of_csv(query, &header)?;
        let asked = Asked { answering, confidence, planner, actions: VecDeque::new() };
        Ok(QUERIES.add(Mutex::new(asked)))
    })
}

/// The bytes of a message: of the direct buffer from `offset` on, or all of the array.
///
/// They are copied: a text that another thread changes while it is read would be undefined.
fn message(
    env: &Env<'_>,
    buffer: &JByteBuffer<'_>,
    offset: jint,
    len: jint,
    heap: &JByteArray<'_>,
) -> Outcome<Vec<u8>> {
    if !heap.is_null() {
        return Ok(env.convert_byte_array(heap)?);
    }
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let (start, len) = memory::part(env, buffer, offset, len)?;
    let mut copy = Vec::with_capacity(len);
    // SAFETY: the part lies in the buffer, and the copy has room for it.
    unsafe {
        start.copy_to_nonoverlapping(copy.as_mut_ptr(), len);
        copy.set_len(len);
    }
    Ok(copy)
}

/// Adds a message: rows, or the totals of the table.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_add<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
    stratum: jint,
    buffer: JByteBuffer<'local>,
    offset: jint,
    len: jint,
    heap: JByteArray<'local>,
    is_totals: jboolean,
) {
    call(env, |env| {
        let stratum = of_stratum(stratum)?;
        let message = message(env, &buffer, offset, len, &heap)?;
        with(query, |Asked { answering, .. }| {
            let added = match is_totals {
                true => answering.push_totals(stratum, &message),
                false => answering.push_csv(stratum, &message),
            };
            added.map_err(data)
        })
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_set_messages_sent<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
    stratum: jint,
    messages: jlong,
) {
    call(env, |_| {
        let (stratum, messages) = (of_stratum(stratum)?, of_messages(messages)?);
        with(query, |asked| Ok(asked.answering.set_messages_sent(stratum, messages)?))
    });
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_set_rows<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
    stratum: jint,
    rows: jlong,
) {
    call(env, |_| {
        let stratum = of_stratum(stratum)?;
        let rows = u64::try_from(rows).map_err(|_| {
            Failure::argument(format!("a number of rows must be 0 or more, not {rows}"))
        })?;
        with(query, |asked| Ok(asked.answering.set_exact_records(stratum, rows as f64)?))
    });
}

/// `lost` has the first id and the id behind the last of each range; null before the end.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_set_delivery<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
    stratum: jint,
    order: JString<'local>,
    shortest_first: jboolean,
    lost: JIntArray<'local>,
) {
    call(env, |env| {
        let stratum = of_stratum(stratum)?;
        let order = match options::order(&text(env, &order)?)? {
            approxlib::Order::Unknown => Order::Unknown,
            approxlib::Order::Ordered => Order::Ordered,
            approxlib::Order::Shuffled { buffer } => {
                Order::Shuffled { buffer: buffer.map(u64::from) }
            }
        };
        let lost = if lost.is_null() { None } else { Some(ranges(env, &lost)?) };
        let delivery = Delivery { order, shortest_first, lost };
        with(query, |asked| Ok(asked.answering.set_delivery(stratum, &delivery)?))
    });
}

fn ranges(env: &Env<'_>, ends: &JIntArray<'_>) -> Outcome<Vec<Range<u64>>> {
    let mut numbers = vec![0; ends.len(env)?];
    ends.get_region(env, 0, &mut numbers)?;
    if !numbers.is_sorted() || numbers.first().is_some_and(|first| *first < 0) {
        let text = "the lost ids must be ranges in ascending order, as in GroupSummary";
        return Err(Failure::argument(text));
    }
    let (ranges, _) = numbers.as_chunks::<2>();
    Ok(ranges.iter().map(|&[start, end]| start as u64..end as u64).collect())
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_messages<'local>(env: EnvUnowned<'local>, _: JClass<'local>, query: jlong) -> jlong {
    call(env, |_| with(query, |asked| Ok(asked.answering.messages() as jlong)))
}

#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_answers<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let answered = with(query, |asked| asked.answers())?;
        optional(env, Some(answers::answers(&answered)))
    })
}

/// The answer over all keys; null for functions that have none.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_overall<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    query: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let overall = with(query, |Asked { answering, confidence, planner, .. }| {
            Ok(match planner {
                Some(planner) => planner.overall(answering)?,
                None => answering.overall(*confidence)?,
            })
        })?;
        optional(env, overall.map(|overall| answers::estimate(&overall)))
    })
}

/// Frees the query. Does nothing for one that was freed.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn query_close<'local>(env: EnvUnowned<'local>, _: JClass<'local>, query: jlong) {
    call(env, |_| {
        drop(QUERIES.remove(query));
        Ok(())
    });
}
