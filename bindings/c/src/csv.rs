//! Jobs that send a table to a receiver that answers a query of it.

use crate::{
    job::{JOBS, atp_job},
    options::{
        self,
        atp_flag::ATP_NO_MRDF,
        atp_group, atp_job_options,
        atp_order::{ATP_ORDER_OF_DATA, ATP_ORDER_SHUFFLED},
    },
    sender::Sender,
    sized::{self, SizeFirst, put},
    status::{
        Failure, Outcome, atp_status,
        atp_status::{ATP_ERROR_ARGUMENT, ATP_ERROR_ROW},
        call_once,
    },
    text,
};
use approx_answers::{RecordOrder, Table, TableError};
use std::{
    error::Error,
    ffi::{c_char, c_void},
};

/// How a table becomes messages. Begin with ATP_INIT. A number of 0 is the default.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct atp_csv_options {
    /// The size of the structure.
    pub struct_size: usize,
    /// The most records of a message. Default: as many as fit a packet.
    pub rows: u32,
    /// 1 if the records keep the order of the file: incomplete answers then have a warning. By
    /// default they are shuffled, so that those that arrive are a fair sample.
    pub ordered: u32,
    /// The seed of shuffled records. Default: drawn.
    pub seed: u64,
}

// SAFETY: repr(C), begins with its size, and holds numbers only.
unsafe impl SizeFirst for atp_csv_options {
    const NAME: &'static str = "atp_csv_options";

    fn initial() -> Self {
        Self { struct_size: size_of::<Self>(), rows: 0, ordered: 0, seed: 0 }
    }
}

/// Opens a job that sends a table to a receiver that answers a query of it: CSV with a header. It
/// sends whole records, in the group 0 with the sampling rate `msr` of `options`. The exact group
/// 255 has two messages: the header is message 0, and the totals for atp_query_add_totals are
/// message 1. Blocks while a name is resolved and while the buffer is full. atp_job_finish then
/// ends the job.
///
/// In `options`, `messages`, `order` and `groups` stay unset. Messages are sent without MRDF, which
/// would deliver the short ones. `csv_options` and `options` may be null: all defaults.
///
/// `long_records` gets the number of records with a value of several lines. A stray quote may have
/// made one of several records: check the table if it should have none. It may be null.
///
/// ATP_ERROR_ROW if the text is no CSV, or a quote without an end hides rows. ATP_ERROR_ARGUMENT if
/// it has no header, or no record. After any error there is no job.
///
/// # Safety
/// `csv` is null or has `len` readable bytes; other pointers are null or as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atp_job_connect_csv(
    peer: *const c_char,
    csv: *const c_void,
    len: usize,
    csv_options: *const atp_csv_options,
    options: *const atp_job_options,
    job: *mut atp_job,
    long_records: *mut u64,
) -> atp_status {
    call_once(|| {
        if job.is_null() {
            return Err(Failure::null("job"));
        }
        // SAFETY: the caller promises a text, the bytes and options.
        let (peer, csv, csv_options, options) = unsafe {
            let csv = text::list(csv.cast::<u8>(), len, "csv")?;
            (text::text(peer, "peer")?, csv, or_initial(csv_options)?, or_initial(options)?)
        };
        let table = read(csv, &csv_options)?;
        let groups = groups(&table, &csv_options, &options)?;
        let options = atp_job_options {
            struct_size: size_of::<atp_job_options>(),
            msr: 0.0,
            flags: options.flags | ATP_NO_MRDF as u32,
            groups: groups.as_ptr(),
            groups_len: groups.len(),
            ..options
        };
        // SAFETY: the caller promises the options; the groups live until the end of this call.
        let builder = unsafe { options::job_builder(&raw const options)? };
        let handle = Sender::open(&JOBS, builder, peer)?;
        if let Err(failure) = send(handle, &table) {
            JOBS.remove(handle)?.abandon();
            return Err(failure);
        }
        // SAFETY: the caller promises it.
        unsafe {
            put(job, atp_job { handle });
            put(long_records, table.long_records.number);
        }
        Ok(())
    })
}

/// The options, or the defaults if the pointer is null.
///
/// # Safety
/// As [`sized::read`].
unsafe fn or_initial<T: SizeFirst>(from: *const T) -> Outcome<T> {
    // SAFETY: the caller promises the same.
    if from.is_null() { Ok(T::initial()) } else { unsafe { sized::read(from) } }
}

fn read(csv: &[u8], options: &atp_csv_options) -> Outcome<Table> {
    let &atp_csv_options { rows, ordered, seed, .. } = options;
    let order = match (ordered, seed) {
        (0, 0) => RecordOrder::Shuffled,
        (0, seed) => RecordOrder::ShuffledBy(seed),
        (_, 0) => RecordOrder::OfFile,
        _ => return Err(Failure::new(ATP_ERROR_ARGUMENT, "ordered records need no seed")),
    };
    let table = Table::read(csv, Some(rows).filter(|rows| *rows > 0), order)?;
    if table.messages.is_empty() {
        let text = "the CSV holds no record: nothing was sent";
        return Err(Failure::new(ATP_ERROR_ARGUMENT, text));
    }
    Ok(table)
}

/// The groups of the records, and of the header with the totals.
fn groups(
    table: &Table,
    csv_options: &atp_csv_options,
    options: &atp_job_options,
) -> Outcome<[atp_group; 2]> {
    if options.messages != 0 || options.order != 0 || options.groups_len != 0 {
        let text = "the table sets messages, order and groups: leave them out of the job's options";
        return Err(Failure::new(ATP_ERROR_ARGUMENT, text));
    }
    let messages = u32::try_from(table.messages.len()).map_err(|_| {
        let text = "the CSV has more messages than a job can send: set rows to a larger number";
        Failure::new(ATP_ERROR_ARGUMENT, text)
    })?;
    let order = if csv_options.ordered != 0 { ATP_ORDER_OF_DATA } else { ATP_ORDER_SHUFFLED };
    let rows = atp_group {
        group: Table::ROWS_GROUP.into(),
        messages,
        msr: options.msr,
        name: c"rows".as_ptr(),
        order: order as u32,
        ..atp_group::initial()
    };
    let header = atp_group {
        group: Table::HEADER_GROUP.into(),
        messages: table.heads().len() as u32,
        name: c"header".as_ptr(),
        ..atp_group::initial()
    };
    Ok([rows, header])
}

fn send(handle: u64, table: &Table) -> Outcome {
    JOBS.find(handle)?.with(|job| {
        let heads = table.heads();
        heads.iter().try_for_each(|head| job.send_in(Table::HEADER_GROUP, head).map(drop))?;
        let mut messages = table.messages.iter();
        messages.try_for_each(|message| job.send_in(Table::ROWS_GROUP, message).map(drop))
    })
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        let status = match error {
            TableError::Empty => ATP_ERROR_ARGUMENT,
            _ => ATP_ERROR_ROW,
        };
        let source = error.source().map(|source| format!(": {source}"));
        Self::new(status, format!("{error}{}", source.unwrap_or_default()))
    }
}
