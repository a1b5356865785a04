//! Calls on queries and their answers.

use super::{
    Caller, Memory, call, check, pointer,
    step::{Rare, Share, Size},
    text,
};
use arbitrary::{Arbitrary, Unstructured};
use atp_c::*;
use std::ffi::CStr;

const QUERIES: [&CStr; 8] = [
    c"sum(a)",
    c"avg(a) by k",
    c"count(*)",
    c"ratio(a, b)",
    c"quantile(b, 0.9) by k",
    c"top(2, k)",
    c"count(a) by k",
    c"median(a)",
];
const HEADER: &[u8] = b"k,a,b\n";

/// A text, mostly one of a list.
#[derive(Debug)]
pub enum Query {
    Usual(u8),
    Any(Vec<u8>),
}

impl<'a> Arbitrary<'a> for Query {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(match u8::arbitrary(bytes)? {
            0..=219 => Self::Usual(u8::arbitrary(bytes)?),
            _ => Self::Any(Vec::arbitrary(bytes)?),
        })
    }
}

/// A message, mostly with rows of the usual header.
#[derive(Debug)]
pub enum Rows {
    Usual(Vec<(u8, u16, u16)>),
    Any(Vec<u8>),
}

impl<'a> Arbitrary<'a> for Rows {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(match u8::arbitrary(bytes)? {
            0..=199 => Self::Usual(Vec::arbitrary(bytes)?),
            _ => Self::Any(Vec::arbitrary(bytes)?),
        })
    }
}

#[derive(Arbitrary, Debug)]
pub enum Step {
    Open {
        query: Query,
        header: Rare<Vec<u8>>,
        null: Rare<()>,
        size: Size,
        confidence: Rare<Share>,
        relative: Rare<Share>,
        absolute: Rare<Share>,
    },
    Add {
        on: u8,
        stratum: u8,
        rows: Rows,
        null: Rare<()>,
    },
    SetSent {
        on: u8,
        stratum: u8,
        messages: Rare<u64>,
    },
    SetDelivery {
        on: u8,
        stratum: u8,
        flags: u8,
        lost: Vec<(u8, u8)>,
        size: Size,
    },
    Source {
        on: u8,
        stratum: u8,
        call: u8,
        msr: Share,
    },
    Plan {
        on: u8,
        size: Size,
    },
    Answers {
        on: u8,
        size: Size,
    },
    Rows {
        of: u8,
        index: Rare<usize>,
        size: Size,
    },
    FreeAnswers {
        of: u8,
    },
    Free {
        on: u8,
    },
}

/// The queries and answers that a program has seen, and those that are open.
#[derive(Default)]
pub struct Seen {
    queries: Vec<u64>,
    answers: Vec<u64>,
    open_answers: Vec<u64>,
}

impl Caller {
    pub(super) fn answer(&mut self, step: &Step) {
        match step {
            Step::Open { query, header, null, size, confidence, relative, absolute } => {
                let numbers = [confidence, relative, absolute];
                let numbers = numbers.map(|number| number.0.map_or(0.0, |Share(share)| share));
                let header = header.0.as_deref().unwrap_or(HEADER);
                self.open_query(query, header, null.0.is_some(), *size, numbers);
            }
            Step::Add { on, stratum, rows, null } => {
                let is_totals = *stratum >= 240;
                let rows = match rows {
                    Rows::Usual(rows) if is_totals => {
                        let fact = |(_, records, messages): &(u8, u16, u16)| {
                            format!("records {records}\nmessages {messages}\n")
                        };
                        rows.iter().map(fact).collect::<String>().into_bytes()
                    }
                    Rows::Usual(rows) => {
                        let line = |(k, a, b): &(u8, u16, u16)| format!("{k},{a},{b}\n");
                        rows.iter().map(line).collect::<String>().into_bytes()
                    }
                    Rows::Any(bytes) => bytes.clone(),
                };
                let data = if null.0.is_some() { std::ptr::null() } else { rows.as_ptr().cast() };
                let (query, stratum) = (self.query(*on), u32::from(stratum % 3));
                let status = match is_totals {
                    true => call!(atp_query_add_totals(query, stratum, data, rows.len())),
                    false => call!(atp_query_add(query, stratum, data, rows.len())),
                };
                self.expect(&self.answered.queries, query.handle, status);
            }
            Step::SetSent { on, stratum, messages } => {
                let (query, stratum) = (self.query(*on), u32::from(stratum % 3));
                let messages = messages.0.unwrap_or(100);
                let status = call!(atp_query_set_messages_sent(query, stratum, messages));
                self.expect(&self.answered.queries, query.handle, status);
                let mut added = 0;
                call!(atp_query_messages(query, &raw mut added));
            }
            Step::SetDelivery { on, stratum, flags, lost, size } => {
                let (query, stratum) = (self.query(*on), u32::from(stratum % 3));
                let range = |(start, end): &(u8, u8)| atp_range {
                    start: (*start).into(),
                    end: (*end).into(),
                };
                let lost: Vec<_> = lost.iter().map(range).collect();
                let delivery = atp_delivery {
                    struct_size: 0,
                    order: u32::from(flags & 3),
                    shuffle_buffer: u32::from(flags & 12),
                    shortest_first: u32::from(flags & 16),
                    has_ended: u32::from(flags & 32),
                    lost: lost.as_ptr(),
                    lost_len: lost.len(),
                };
                let mut memory = Memory::of(delivery, *size);
                let status = call!(atp_query_set_delivery(query, stratum, memory.at()));
                self.expect(&self.answered.queries, query.handle, status);
            }
            Step::Source { on, stratum, call, msr } => {
                let (query, stratum) = (self.query(*on), u32::from(stratum % 3));
                let status = match call % 4 {
                    1 if *call >= 128 => call!(atp_query_source_known(query, stratum)),
                    0 | 1 => call!(atp_query_source_started(query, stratum, msr.0)),
                    2 => call!(atp_query_source_ending(query, stratum)),
                    _ => call!(atp_query_source_ended(query, stratum)),
                };
                self.expect(&self.answered.queries, query.handle, status);
            }
            Step::Plan { on, size } => self.plan(*on, *size),
            Step::Answers { on, size } => self.answers(*on, *size),
            Step::Rows { of, index, size } => {
                if let Some(&memory) = self.answered.answers.get(usize::from(*of)) {
                    self.rows(memory, index.0.unwrap_or(0), *size);
                }
            }
            Step::FreeAnswers { of } => {
                if let Some(&memory) = self.answered.answers.get(usize::from(*of)) {
                    self.free_answers(memory);
                }
            }
            Step::Free { on } => self.free_query(self.handle(*on)),
        }
    }

    fn query(&self, on: u8) -> atp_query {
        atp_query { handle: self.handle(on) }
    }

    fn open_query(
        &mut self,
        query: &Query,
        header: &[u8],
        null: bool,
        size: Size,
        [confidence, error_relative, error_absolute]: [f64; 3],
    ) {
        // The rest of a usual query's number.
        let sources = match query {
            Query::Usual(at) => u32::from(*at) / QUERIES.len() as u32 % 4,
            Query::Any(_) => 0,
        };
        let options = atp_query_options {
            struct_size: 0,
            confidence,
            error_relative,
            error_absolute,
            sources,
            end_in_doubt: u32::from(sources == 3),
        };
        let mut memory = Memory::of(options, size);
        let any = match query {
            Query::Usual(_) => None,
            Query::Any(bytes) => text(&Some(bytes.clone())),
        };
        let query = match query {
            Query::Usual(at) => QUERIES[usize::from(*at) % QUERIES.len()].as_ptr(),
            Query::Any(_) => pointer(&any),
        };
        let header_at = if null { std::ptr::null() } else { header.as_ptr().cast() };
        let (mut opened, len) = (atp_query { handle: 0 }, header.len());
        let at = memory.at::<atp_query_options>();
        let status = call!(atp_query_open(query, header_at, len, at, &raw mut opened));
        if status == atp_status::ATP_OK {
            self.seen.push(opened.handle);
            self.answered.queries.push(opened.handle);
        }
    }

    fn plan(&mut self, on: u8, size: Size) {
        let query = self.query(on);
        // A plan has an action for each stratum at most, and one more.
        for _ in 0..8 {
            let mut action = Memory::new(size, size_of::<atp_action>());
            let status = call!(atp_query_next_action(query, action.at()));
            self.expect(&self.answered.queries, query.handle, status);
            if status != atp_status::ATP_OK {
                break;
            }
        }
        let mut report = Memory::new(size, size_of::<atp_plan_report>());
        let status = call!(atp_query_plan_report(query, report.at()));
        self.expect(&self.answered.queries, query.handle, status);
    }

    fn answers(&mut self, on: u8, size: Size) {
        let query = self.query(on);
        let mut memory = Memory::new(size, size_of::<atp_answers>());
        let status = call!(atp_query_answers(query, memory.at()));
        self.expect(&self.answered.queries, query.handle, status);
        if status == atp_status::ATP_OK {
            let handle = memory.0[1];
            assert_ne!(handle, 0, "answers that nobody can free");
            self.answered.answers.push(handle);
            self.answered.open_answers.push(handle);
        }
    }

    fn answers_of(memory: u64) -> Memory {
        let mut answers = Memory::new(Size::Right, size_of::<atp_answers>());
        answers.0[1] = memory;
        answers
    }

    fn rows(&self, memory: u64, index: usize, size: Size) {
        let mut answers = Self::answers_of(memory);
        let mut row = Memory::new(size, size_of::<atp_estimate>());
        let status = call!(atp_answers_row(answers.at(), index, row.at()));
        self.expect(&self.answered.open_answers, memory, status);
        if status == atp_status::ATP_OK && row.0[0] as usize >= size_of::<atp_estimate>() {
            // SAFETY: the call has filled it in.
            look_at(&unsafe { row.at::<atp_estimate>().read() });
        }
        let status = call!(atp_answers_overall(answers.at(), row.at()));
        self.expect(&self.answered.open_answers, memory, status);
    }

    fn free_answers(&mut self, memory: u64) {
        let mut answers = Self::answers_of(memory);
        let status = call!(atp_answers_free(answers.at()));
        assert_eq!(self.answered.open_answers.contains(&memory), status == atp_status::ATP_OK);
        self.answered.open_answers.retain(|open| *open != memory);
    }

    fn free_query(&mut self, handle: u64) {
        let status = call!(atp_query_free(atp_query { handle }));
        assert_eq!(self.answered.queries.contains(&handle), status == atp_status::ATP_OK);
        self.answered.queries.retain(|open| *open != handle);
    }

    pub(super) fn end_answers(&mut self) {
        self.answered.queries.clone().into_iter().for_each(|handle| self.free_query(handle));
        // Answers outlive their queries.
        for memory in self.answered.open_answers.clone() {
            self.rows(memory, 0, Size::Right);
            self.free_answers(memory);
        }
    }
}

/// Reads all that a row points to.
fn look_at(row: &atp_estimate) {
    assert!(row.low <= row.high && row.confidence > 0.0 && row.confidence < 1.0, "{row:?}");
    assert!(row.messages_sent_known == 0 || row.messages <= row.messages_sent, "{row:?}");
    if !row.key.is_null() {
        // SAFETY: a key has as many bytes and a 0, until the answers are freed.
        let key = unsafe { std::slice::from_raw_parts(row.key.cast::<u8>(), row.key_len + 1) };
        assert!(key.ends_with(&[0]) && std::str::from_utf8(key).is_ok());
    }
    for index in 0..row.warnings_len {
        // SAFETY: so many texts are there until the answers are freed.
        let warning = unsafe { CStr::from_ptr(*row.warnings.add(index)) }.to_string_lossy();
        assert!(warning.len() > 10 && !warning.contains('\n'), "no sentence: {warning:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without rows that are counted, the calls would test little.
    #[test]
    fn steps__can_answer_a_query() {
        let mut caller = Caller::default();
        let (none, size) = (|| Rare(None), Size::Right);
        let [confidence, absolute] = [Rare(None), Rare(None)];
        caller.answer(&Step::Open {
            query: Query::Usual(1),
            header: Rare(None),
            null: Rare(None),
            size,
            confidence,
            relative: Rare(Some(Share(0.1))),
            absolute,
        });
        // 255 is no handle, and 1 the only one.
        caller.answer(&Step::Source { on: 1, stratum: 0, call: 0, msr: Share(1.0) });
        for message in 0..40 {
            let rows = Rows::Usual(vec![(message % 2, 1 + u16::from(message), 3)]);
            caller.answer(&Step::Add { on: 1, stratum: 0, rows, null: none() });
        }
        caller.answer(&Step::SetSent { on: 1, stratum: 0, messages: Rare(None) });
        caller.answer(&Step::Plan { on: 1, size });
        caller.answer(&Step::Answers { on: 1, size });
        assert_eq!(caller.answered.open_answers.len(), 1);
        caller.answer(&Step::Rows { of: 0, index: Rare(Some(1)), size });
        caller.end();
    }
}
