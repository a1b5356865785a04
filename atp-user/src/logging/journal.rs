//! Log lines as entries of the journal, each field as a field of its own. The format is journald's
//! [native protocol](https://systemd.io/JOURNAL_NATIVE_PROTOCOL/) without its binary form.

use std::{
    fmt::{self, Display},
    io,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter, format::Writer, layer},
    registry::LookupSpan,
};

/// The socket of the host's journal.
pub const SOCKET: &str = "/run/systemd/journal/socket";
/// Journald ignores fields with longer names.
const NAME_BYTES_MAX: usize = 64;
/// Longer values are cut off, so that an entry fits into a datagram.
const VALUE_CHARS_MAX: usize = 4096;

/// Sends each buffer as one entry. Waits while the journal's queue is full.
pub struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// The journal with this socket. Fails if no journal listens there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Self { socket, path: path.to_owned() })
    }
}

impl io::Write for Journal {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        // By path: a journal that was started again has another socket there.
        self.socket.send_to(entry, &self.path)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes each event as an entry.
pub fn entries<S, W>(writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    layer().event_format(Format).with_ansi(false).with_writer(writer)
}

struct Format;

impl<S, N> FormatEvent<S, N> for Format
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut entry = Entry { writer, result: Ok(()) };
        entry.put("PRIORITY", priority(*metadata.level()));
        entry.put("SYSLOG_IDENTIFIER", env!("CARGO_PKG_NAME"));
        entry.put("TARGET", metadata.target());
        if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
            entry.put("CODE_FILE", file);
            entry.put("CODE_LINE", line);
        }
        event.record(&mut entry);
        entry.result
    }
}

/// The levels of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 5,
        Level::DEBUG => 6,
        Level::TRACE => 7,
    }
}

/// Writes `NAME=value` lines.
struct Entry<'a> {
    writer: Writer<'a>,
    result: fmt::Result,
}

impl Entry<'_> {
    fn put(&mut self, name: &str, value: impl Display) {
        self.result = self.result.and_then(|()| {
            write!(self.writer, "{name}=")?;
            // Only the binary form has values of several lines.
            for char in value.to_string().chars().take(VALUE_CHARS_MAX) {
                self.writer.write_char(if char.is_control() { ' ' } else { char })?;
            }
            self.writer.write_char('\n')
        });
    }

    fn put_field(&mut self, field: &Field, value: impl Display) {
        match field.name() {
            "message" => self.put("MESSAGE", value),
            name => self.put(&journal_name(name), value),
        }
    }
}

impl Visit for Entry<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_field(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_field(field, format_args!("{value:?}"));
    }
}

/// A name of A-Z, 0-9 and _ that doesn't begin with a digit or _: journald ignores others.
fn journal_name(field: &str) -> String {
    let bytes = field.bytes().map(|byte| match byte.to_ascii_uppercase() {
        letter @ (b'A'..=b'Z' | b'0'..=b'9') => char::from(letter),
        _ => '_',
    });
    "F_".chars().chain(bytes).take(NAME_BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };
    use tracing_subscriber::prelude::*;

    /// The fields of the entry for the events of a function.
    fn entry(log: impl FnOnce()) -> BTreeMap<String, String> {
        #[derive(Clone, Default)]
        struct Bytes(Arc<Mutex<Vec<u8>>>);
        impl io::Write for Bytes {
            fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(entry)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let bytes = Bytes::default();
        let writer = bytes.clone();
        let subscriber = tracing_subscriber::registry().with(entries(move || writer.clone()));
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(bytes.0.lock().unwrap().clone()).unwrap();
        assert!(text.ends_with('\n'));
        let fields = text.lines().map(|line| line.split_once('=').expect("a field"));
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn entries__have_the_fields_of_an_event() {
        let entry = entry(|| {
            tracing::warn!(target: "datapath", interface = "v0", job = 7, from = %"::1", "no {}", 1);
        });
        let expected = [
            ("CODE_FILE", file!()),
            ("F_FROM", "::1"),
            ("F_INTERFACE", "v0"),
            ("F_JOB", "7"),
            ("MESSAGE", "no 1"),
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "atp-user"),
            ("TARGET", "datapath"),
        ];
        assert!(entry["CODE_LINE"].parse::<u32>().is_ok());
        let others = entry.iter().filter(|(name, _)| *name != "CODE_LINE");
        assert_eq!(others.map(|(n, v)| (n.as_str(), v.as_str())).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn entries__no_value_adds_a_field() {
        let entry = entry(|| tracing::info!(text = "a=b\nPRIORITY=0\n\nx", "one\rtwo\nTARGET=x"));
        assert_eq!(entry["F_TEXT"], "a=b PRIORITY=0  x");
        assert_eq!(entry["MESSAGE"], "one two TARGET=x");
        assert_eq!((entry["PRIORITY"].as_str(), entry["TARGET"].as_str()), ("5", module_path!()));
    }

    #[test]
    fn entries__long_values_are_cut_off() {
        let entry = entry(|| tracing::info!(text = "ä".repeat(100_000), "long"));
        assert_eq!(entry["F_TEXT"].chars().count(), VALUE_CHARS_MAX);
        assert_eq!(entry["MESSAGE"], "long");
    }

    #[test]
    fn journal_name__is_one_that_journald_takes() {
        for (field, name) in [("ifindex", "F_IFINDEX"), ("_a.b-c", "F__A_B_C"), ("1é", "F_1__")] {
            assert_eq!(journal_name(field), name);
        }
        assert_eq!(journal_name(&"x".repeat(99)).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn open__fails_without_a_journal() {
        assert!(Journal::open(Path::new("/nonexistent/socket")).is_err());
    }
}
