//! The native methods of `Table.java`: a table of CSV as messages of a job.

use crate::{
    call::call,
    failure::{Failure, Outcome},
    job::{text, texts},
    options,
    record::Record,
    sender::{JOBS, Sender},
    table::Table as Numbers,
};
use approx_answers::{RecordOrder, Table};
use approxlib::{Group, JobBuilder, Order};
use jni::{
    EnvUnowned, jni_mangle,
    objects::{JByteArray, JClass, JObjectArray, JString},
    sys::{jboolean, jint, jlong},
};

static TABLES: Numbers<Shared> = Numbers::new("table");

/// The most messages of one call.
const MESSAGES_MAX: usize = 1024;

struct Shared {
    table: Table,
    heads: [Vec<u8>; 2],
    order: Order,
}

/// Reads a table. `rows`: the most records of a message, or 0. `seed` counts for shuffled records
/// with `has_seed` only.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn table_read<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    csv: JByteArray<'local>,
    rows: jint,
    ordered: jboolean,
    has_seed: jboolean,
    seed: jlong,
) -> jlong {
    call(env, |env| {
        let csv = env.convert_byte_array(&csv)?;
        let (of_records, order) = match (ordered, has_seed) {
            (false, false) => (RecordOrder::Shuffled, Order::Shuffled { buffer: None }),
            (false, true) => {
                (RecordOrder::ShuffledBy(seed as u64), Order::Shuffled { buffer: None })
            }
            (true, false) => (RecordOrder::OfFile, Order::Ordered),
            (true, true) => return Err(Failure::argument("ordered records need no seed")),
        };
        let rows = u32::try_from(rows).map_err(|_| {
            Failure::argument(format!("a message must have 1 row at least, not {rows}"))
        })?;
        let table = Table::read(csv.as_slice(), Some(rows).filter(|rows| *rows > 0), of_records)?;
        if table.messages.is_empty() {
            return Err(Failure::argument("the CSV holds no record: give one at least"));
        }
        let heads = table.heads();
        Ok(TABLES.add(Shared { table, heads, order }))
    })
}

/// The numbers of messages and records, and the note.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn table_facts<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    table: jlong,
) -> JByteArray<'local> {
    call(env, |env| {
        let shared = TABLES.find(table)?;
        let mut record = Record::default();
        record.u64(shared.table.messages.len() as u64);
        record.u64(shared.table.totals.records.unwrap_or_default());
        record.option(shared.table.note().as_deref(), Record::text);
        Ok(env.byte_array_from_slice(&record.into_bytes())?)
    })
}

/// Opens a job for the table.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn table_connect<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    table: jlong,
    peer: JString<'local>,
    options: JObjectArray<'local, JString<'local>>,
) -> jlong {
    call(env, |env| {
        let shared = TABLES.find(table)?;
        let options = texts(env, &options)?;
        Sender::open(shared.job(options)?, &text(env, &peer)?)
    })
}

impl Shared {
    /// A job with the groups of the header and the rows, and the length of its longest message. The
    /// rate of group 0 is that of the rows.
    fn job(&self, options: Vec<String>) -> Outcome<(JobBuilder, u32)> {
        let (mut rows, mut others) = (Group::new(Table::ROWS_GROUP).name("rows"), Vec::new());
        for (name, value) in options::pairs(&options) {
            match name {
                "msr" => rows = rows.msr(options::number(name, value)?),
                "messages" | "order" | "groups" => {
                    let text = format!("the table sets {name}: leave it out of the job's options");
                    return Err(Failure::argument(text));
                }
                _ => others.extend([name.to_owned(), value.to_owned()]),
            }
        }
        let messages = u32::try_from(self.table.messages.len()).map_err(|_| {
            let text =
                "the table has more messages than a job can send: set rowsPerMessage to more";
            Failure::argument(text)
        })?;
        let header = Group::new(Table::HEADER_GROUP).name("header");
        let groups =
            [rows.messages(messages).order(self.order), header.messages(self.heads.len() as u32)];
        // MRDF would deliver the short messages, whose records may differ from the others.
        let (job, message_bytes_max) = options::job(&others)?;
        Ok((job.groups(groups).mrdf(false), message_bytes_max))
    }

    /// The group of the messages from number `from` on, which counts the header first.
    fn part(&self, from: usize) -> (u8, &[Vec<u8>]) {
        match from.checked_sub(self.heads.len()) {
            None => (Table::HEADER_GROUP, &self.heads[from..]),
            Some(from) => (Table::ROWS_GROUP, self.table.messages.get(from..).unwrap_or_default()),
        }
    }
}

/// Sends messages from number `from` on, for which there is room. Returns their number; -1 if all
/// were sent.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn table_try_send<'local>(
    env: EnvUnowned<'local>,
    _: JClass<'local>,
    table: jlong,
    job: jlong,
    from: jint,
) -> jint {
    call(env, |_| {
        let shared = TABLES.find(table)?;
        let negative = |_| Failure::argument(format!("a table has no message {from}"));
        let from = usize::try_from(from).map_err(negative)?;
        let (group, messages) = shared.part(from);
        if messages.is_empty() {
            return Ok(-1);
        }
        let some: Vec<&[u8]> = messages.iter().take(MESSAGES_MAX).map(Vec::as_slice).collect();
        let taken = JOBS.find(job)?.with(|job| job.try_send_all(group, &some))?;
        Ok(taken.len() as jint)
    })
}

/// Frees the table. Does nothing for one that was freed.
#[jni_mangle("org.netapprox.atp.Native")]
pub fn table_close<'local>(env: EnvUnowned<'local>, _: JClass<'local>, table: jlong) {
    call(env, |_| {
        drop(TABLES.remove(table));
        Ok(())
    });
}
