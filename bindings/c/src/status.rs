//! Results of calls: a code, and a sentence for each thread.

use approx_answers::{AnswerError, QueryError};
use approxlib::Error;
use std::{
    cell::{Cell, RefCell},
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// The result of a call. Errors are negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum atp_status {
    /// Done.
    ATP_OK = 0,
    /// Nothing at present: no room, no event within the timeout, or the job or window hasn't ended.
    ATP_AGAIN = 1,
    /// A pointer that is needed is null.
    ATP_ERROR_NULL = -1,
    /// struct_size is too small or too large, or bytes that this version doesn't know aren't 0.
    ATP_ERROR_SIZE = -2,
    /// The handle was freed, or belongs to no object of this kind.
    ATP_ERROR_HANDLE = -3,
    /// A text is not UTF-8.
    ATP_ERROR_TEXT = -4,
    /// An argument is out of its range.
    ATP_ERROR_ARGUMENT = -5,
    /// The job has ended: only its report can be read.
    ATP_ERROR_STATE = -6,
    /// The receiver was closed during the call.
    ATP_ERROR_CLOSED = -7,
    /// The function can't be called in a release callback.
    ATP_ERROR_CALLBACK = -8,
    /// A fault of the library. The sentence is worth a report.
    ATP_ERROR_INTERNAL = -9,
    /// The handle belongs to the process that forked this one.
    ATP_ERROR_FORKED = -10,
    /// The minimal sampling rate is not between 0 and 1.
    ATP_ERROR_MSR = -20,
    /// The job was announced with no messages.
    ATP_ERROR_NO_MESSAGES = -21,
    /// A message is longer than the job allows.
    ATP_ERROR_TOO_LARGE = -22,
    /// The job was opened without this group.
    ATP_ERROR_NO_GROUP = -23,
    /// The job's input was ended.
    ATP_ERROR_ENDED = -24,
    /// The sampling rate can't be changed to this value at present.
    ATP_ERROR_MSR_REFUSED = -25,
    /// The group has its announced number of messages already.
    ATP_ERROR_TOO_MANY = -26,
    /// Options are invalid or contradict each other.
    ATP_ERROR_OPTIONS = -27,
    /// A host name has no address.
    ATP_ERROR_NAME = -28,
    /// The address can't be a receiver's.
    ATP_ERROR_PEER = -29,
    /// The highest rate is too low.
    ATP_ERROR_RATE_MAX = -30,
    /// The path's MTU is too small for ATP.
    ATP_ERROR_PATH_TOO_NARROW = -31,
    /// A socket could not be opened, or failed.
    ATP_ERROR_SOCKET = -32,
    /// The daemon can't be reached, or refused.
    ATP_ERROR_DAEMON = -33,
    /// The memory that the daemon shared can't be mapped.
    ATP_ERROR_SHARED_MEMORY = -34,
    /// A thread of the library could not be started, or ended unexpectedly.
    ATP_ERROR_THREAD = -35,
    /// The job ended below its minimal sampling rate: see atp_job_shortfall.
    ATP_ERROR_SHORT = -36,
    /// The receiver has ended the job: atp_job_finish has the report.
    ATP_ERROR_ENDED_BY_RECEIVER = -37,
    /// The name of a group is too long or has a control character.
    ATP_ERROR_GROUP_NAME = -38,
    /// The bounds of a request's sampling rate are the wrong way round.
    ATP_ERROR_REQUEST_BOUNDS = -39,
    /// The end of the window is awaited.
    ATP_ERROR_WINDOW_ENDING = -40,
    /// A job to several receivers has none.
    ATP_ERROR_NO_PEERS = -41,
    /// The ids of the lost messages are not known: it doesn't follow that none was lost.
    ATP_ERROR_LOST_UNKNOWN = -42,
    /// A text is no query, or its table lacks a column.
    ATP_ERROR_QUERY = -50,
    /// A row of a message can't be read: it isn't CSV, lacks a column, or has a text as a number.
    ATP_ERROR_ROW = -51,
    /// A message or a number doesn't fit the others: more arrived than were sent, for example.
    ATP_ERROR_SAMPLE = -52,
    /// The messages so far have no answer: the sentence says what is missing.
    ATP_ERROR_NO_ANSWER = -53,
    /// An error that has no code in this version.
    ATP_ERROR_OTHER = -99,
}

use atp_status::*;

/// Each code with its name.
const NAMES: [(atp_status, &CStr); 40] = {
    macro_rules! names {
        ($($code:ident)+) => {
            [$(($code, match CStr::from_bytes_with_nul(concat!(stringify!($code), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("an identifier holds no 0"),
            })),+]
        };
    }
    names! {
        ATP_OK ATP_AGAIN ATP_ERROR_NULL ATP_ERROR_SIZE ATP_ERROR_HANDLE ATP_ERROR_TEXT
        ATP_ERROR_ARGUMENT ATP_ERROR_STATE ATP_ERROR_CLOSED ATP_ERROR_CALLBACK ATP_ERROR_INTERNAL
        ATP_ERROR_FORKED ATP_ERROR_MSR ATP_ERROR_NO_MESSAGES ATP_ERROR_TOO_LARGE ATP_ERROR_NO_GROUP ATP_ERROR_ENDED
        ATP_ERROR_MSR_REFUSED ATP_ERROR_TOO_MANY ATP_ERROR_OPTIONS ATP_ERROR_NAME ATP_ERROR_PEER
        ATP_ERROR_RATE_MAX ATP_ERROR_PATH_TOO_NARROW ATP_ERROR_SOCKET ATP_ERROR_DAEMON
        ATP_ERROR_SHARED_MEMORY ATP_ERROR_THREAD ATP_ERROR_SHORT ATP_ERROR_ENDED_BY_RECEIVER
        ATP_ERROR_GROUP_NAME ATP_ERROR_REQUEST_BOUNDS ATP_ERROR_WINDOW_ENDING ATP_ERROR_NO_PEERS
        ATP_ERROR_LOST_UNKNOWN ATP_ERROR_QUERY ATP_ERROR_ROW ATP_ERROR_SAMPLE ATP_ERROR_NO_ANSWER ATP_ERROR_OTHER
    }
};

/// Why a call fails: its code, and one sentence.
#[derive(Clone, Debug)]
pub struct Failure {
    pub status: atp_status,
    pub text: String,
}

impl Failure {
    pub fn new(status: atp_status, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// A row of a message can't be read.
    pub fn row(error: &QueryError) -> Self {
        Self::new(ATP_ERROR_ROW, error.to_string())
    }

    /// The pointer `name` is null.
    pub fn null(name: &str) -> Self {
        Self::new(ATP_ERROR_NULL, format!("{name} is null: give a pointer"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Msr(_) => ATP_ERROR_MSR,
            Error::NoMessages => ATP_ERROR_NO_MESSAGES,
            Error::TooLarge { .. } => ATP_ERROR_TOO_LARGE,
            Error::NoGroup(_) => ATP_ERROR_NO_GROUP,
            Error::Ended => ATP_ERROR_ENDED,
            Error::MsrRefused(_) => ATP_ERROR_MSR_REFUSED,
            Error::TooMany { .. } => ATP_ERROR_TOO_MANY,
            Error::Options(_) => ATP_ERROR_OPTIONS,
            Error::Name { .. } => ATP_ERROR_NAME,
            Error::Peer(_) => ATP_ERROR_PEER,
            Error::RateMax(_) => ATP_ERROR_RATE_MAX,
            Error::PathTooNarrow { .. } => ATP_ERROR_PATH_TOO_NARROW,
            Error::Socket { .. } => ATP_ERROR_SOCKET,
            Error::Daemon(_) => ATP_ERROR_DAEMON,
            Error::SharedMemory(_) => ATP_ERROR_SHARED_MEMORY,
            Error::Thread(_) => ATP_ERROR_THREAD,
            Error::Short(_) => ATP_ERROR_SHORT,
            Error::EndedByReceiver => ATP_ERROR_ENDED_BY_RECEIVER,
            Error::GroupName(_) => ATP_ERROR_GROUP_NAME,
            Error::RequestBounds { .. } => ATP_ERROR_REQUEST_BOUNDS,
            Error::WindowEnding => ATP_ERROR_WINDOW_ENDING,
            Error::NoPeers => ATP_ERROR_NO_PEERS,
            _ => ATP_ERROR_OTHER,
        };
        Self::new(status, error.to_string())
    }
}

impl From<AnswerError> for Failure {
    fn from(error: AnswerError) -> Self {
        use AnswerError as E;
        let status = match &error {
            E::Confidence { .. } | E::AcceptedError { .. } | E::Rank { .. } => ATP_ERROR_ARGUMENT,
            E::SentUnknown { .. } | E::EmptyStratum { .. } | E::NoMessages => ATP_ERROR_NO_ANSWER,
            E::ZeroDenominator | E::UnknownKey => ATP_ERROR_NO_ANSWER,
            E::Value { .. } | E::MoreThanSent { .. } | E::Conflict { .. } => ATP_ERROR_SAMPLE,
            E::TooManyStrata { .. } | E::Overflow { .. } => ATP_ERROR_SAMPLE,
            E::KeyLimits { .. } | E::TooManyKeys { .. } => ATP_ERROR_SAMPLE,
            _ => ATP_ERROR_OTHER,
        };
        Self::new(status, error.to_string())
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Answer(error) => error.into(),
            QueryError::Row { .. } | QueryError::Number { .. } | QueryError::NotNumber { .. } => {
                Self::row(&error)
            }
            _ => Self::new(ATP_ERROR_QUERY, error.to_string()),
        }
    }
}

/// A call that may find nothing: `None` is [`ATP_AGAIN`].
pub type Outcome<T = ()> = Result<T, Failure>;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
    static IN_RELEASE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function of the interface. No panic leaves it.
pub fn call(function: impl FnOnce() -> Outcome<atp_status>) -> atp_status {
    if in_release() {
        let text = "a release callback can't call this function: let another thread do it";
        return keep(Failure::new(ATP_ERROR_CALLBACK, text));
    }
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => keep(failure),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
            keep(Failure::new(ATP_ERROR_INTERNAL, format!("the library has a fault: {said}")))
        }
    }
}

/// As [`call`], for a function that either does its work or fails.
pub fn call_once(function: impl FnOnce() -> Outcome) -> atp_status {
    call(|| function().map(|()| ATP_OK))
}

fn keep(failure: Failure) -> atp_status {
    let text = failure.text.replace('\0', "?");
    // A thread that is ending has no text any more.
    let _ = LAST_ERROR.try_with(|last| last.replace(CString::new(text).unwrap_or_default()));
    failure.status
}

/// Whether this thread runs a release callback.
pub fn in_release() -> bool {
    IN_RELEASE.try_with(Cell::get).unwrap_or(false)
}

/// Runs a release callback.
pub fn releasing(callback: impl FnOnce()) {
    let before = IN_RELEASE.try_with(|flag| flag.replace(true)).unwrap_or(false);
    callback();
    let _ = IN_RELEASE.try_with(|flag| flag.set(before));
}

/// The sentence of the calling thread's last error: what failed, on what, what to do. Empty before
/// the first error. Valid until the thread's next error.
#[unsafe(no_mangle)]
pub extern "C" fn atp_last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The name of a code, such as "ATP_ERROR_MSR"; "unknown" for other numbers.
#[unsafe(no_mangle)]
pub extern "C" fn atp_status_name(status: i32) -> *const c_char {
    let found = NAMES.iter().find(|(code, _)| *code as i32 == status);
    found.map_or(c"unknown", |(_, name)| name).as_ptr()
}

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn atp_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_error() -> String {
        // SAFETY: the text is valid until this thread's next error.
        unsafe { CStr::from_ptr(atp_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn call__turns_a_panic_into_an_error() {
        let status = call_once(|| panic!("on {}", "purpose"));
        assert_eq!(status, ATP_ERROR_INTERNAL);
        assert!(last_error().contains("on purpose"));
    }

    #[test]
    fn call__refuses_in_a_release_callback() {
        let mut status = ATP_OK;
        releasing(|| status = call_once(|| Ok(())));
        assert_eq!(status, ATP_ERROR_CALLBACK);
        assert_eq!(call_once(|| Ok(())), ATP_OK);
    }

    #[test]
    fn last_error__belongs_to_its_thread() {
        call_once(|| Err(Failure::new(ATP_ERROR_ARGUMENT, "a\0b")));
        assert_eq!(last_error(), "a?b");
        assert_eq!(std::thread::spawn(last_error).join().unwrap(), "");
    }
}
