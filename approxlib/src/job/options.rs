//! The options of a job: the table from which [`JobBuilder`] follows.
//!
//! A new option is a row here. The tests below name the places that still lack it: the bindings,
//! their texts and the guide. `builder.rs` passes the options to the transport and the datapath.

use super::{group::Group, open::DatapathChoice, requests::Requests};
use crate::{job_id::JobId, order::Order};
use atp_common::laws::{Rules, rtt::Rtt};
use std::{path::PathBuf, time::Duration};

/// Generates [`JobBuilder`] from the table of options: its fields, its defaults, and a method for
/// each option.
macro_rules! job_options {
    ($(#[$meta:meta])* pub struct JobBuilder;
     set { $($(#[$doc:meta])*
             $name:ident: $field:ty = $default:expr, $text:literal,
             |$given:ident: $type:ty| $value:expr;)+ }
     add { $($(#[$list_doc:meta])*
             $list:ident: [$item:ty], $list_text:literal;)+ }
    ) => {
        $(#[$meta])*
        pub struct JobBuilder {
            $(pub(super) $name: $field,)+
            $(pub(super) $list: Vec<$item>,)+
        }

        impl Default for JobBuilder {
            fn default() -> Self {
                Self { $($name: $default,)+ $($list: Vec::new(),)+ }
            }
        }

        impl JobBuilder {
            $($(#[$doc])*
            #[doc = concat!("\nDefault: ", $text, ".")]
            pub fn $name(mut self, $given: $type) -> Self {
                self.$name = $value;
                self
            })+

            $($(#[$list_doc])*
            #[doc = concat!("\nDefault: ", $list_text, ".")]
            pub fn $list(mut self, $list: impl IntoIterator<Item = $item>) -> Self {
                self.$list.extend($list);
                self
            })+
        }

        /// Every option with its default in words.
        #[cfg(test)]
        const JOB_OPTIONS: &[(&str, &str)] =
            &[$((stringify!($name), $text),)+ $((stringify!($list), $list_text),)+];
    };
}

// A row of `set`: documentation, name: field = default, the default in words, |parameter| value.
// A row of `add`: documentation, name: [element], the default in words. The method adds elements.
job_options! {
    /// Options of a [`Job`](crate::Job).
    ///
    /// ```no_run
    /// # fn main() -> Result<(), approxlib::Error> {
    /// use std::time::Duration;
    /// let job = approxlib::Job::builder()
    ///     .messages(10_000)
    ///     .msr(0.9)
    ///     .peer_timeout(Duration::from_secs(3))
    ///     .connect("10.0.0.9:4747")?;
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Clone, Debug)]
    pub struct JobBuilder;

    set {
        /// The job's id, a number or a name.
        id: Option<u32> = None,
        "the job of the process's cgroup if a daemon knows one, else a random id",
        |id: impl Into<JobId>| Some(id.into().number());

        /// Announces N, the number of messages of group 0 from this sender, in each window.
        ///
        /// An announced N makes the target loss rate right from the first packet, and lets the job
        /// complete before all messages were sent. If [`Job::finish`](crate::Job::finish) is called
        /// after fewer messages, N is the number of messages sent.
        ///
        /// A window has at most 2^24 - 1 messages in all groups together, announced or not. Longer
        /// jobs have several: see [`Job::end_window`](crate::Job::end_window).
        messages: Option<u32> = None, "counted at the end", |messages: u32| Some(messages);

        /// The minimal sampling rate (MSR) of group 0, the group of
        /// [`Job::send`](crate::Job::send): the share of its messages that must arrive, 0 to 1. At
        /// 1 the group is exact: see [`Group::msr`].
        msr: Option<f64> = None, "1", |msr: f64| Some(msr);

        /// The order of the messages of group 0, for the receiver: see [`Group::order`].
        order: Option<Order> = None, "unknown", |order: Order| Some(order);

        /// Sends every message at least once before the job is complete. Without this option the
        /// job is complete as soon as every group has `ceil(MSR * N)` messages.
        try_every_message: bool = false, "off", |on: bool| on;

        /// How long a window, or a job without windows, may take from its first message.
        ///
        /// A window that misses its deadline ends with the messages delivered by then, if its N was
        /// announced. Otherwise N is unknown until [`Job::end_window`](crate::Job::end_window) or
        /// [`Job::finish`](crate::Job::finish), and the deadline takes effect at that call.
        window_deadline: Option<Duration> = None, "no limit", |deadline: Duration| Some(deadline);

        /// The control socket of the daemon to use; `None` uses no daemon. The default daemon is at
        /// [`default_socket`](crate::control::default_socket).
        control_socket: DatapathChoice = DatapathChoice::Auto,
        "the default daemon if it takes the job, else none",
        |path: Option<PathBuf>| path.map_or(DatapathChoice::Userspace, DatapathChoice::Daemon);

        /// Without a daemon: the rate of the host's port (Rmax), the most that the rate law may
        /// choose. At least 1,000.
        // Nearly every port reaches 1 Gbit/s. The rate law starts there, and reaches the rate of a
        // slower path within some epochs.
        rate_max_bytes_per_s: u64 = 125_000_000, "125,000,000 (1 Gbit/s)", |rate: u64| rate;

        /// How long the receiver may be silent before the job fails.
        peer_timeout: Duration = Duration::from_secs(10), "10 s", |timeout: Duration| timeout;

        /// How long the receiver may be silent if its host says that nothing listens on the port
        /// (ICMP port unreachable). For a receiver that is known to have been there: it may have
        /// ended. One that opens its port later needs this long.
        refused_timeout: Option<Duration> = None, "`peer_timeout`, which is its maximum",
        |timeout: Duration| Some(timeout);

        /// Assumed timer granularity of the sending and receiving hosts (RFC 6298's G), 1 us to 25
        /// ms.
        ///
        /// A packet without an acknowledgment counts as lost after at least five times this long.
        /// Before the first acknowledgment of the job it is twenty to forty times.
        ///
        /// | hosts | value | effect |
        /// |---|---|---|
        /// | both ends poll without sleeping | down to 50 us | incasts of first packets end earlier |
        /// | virtual machines, often descheduled | more than 1 ms | fewer needless retransmissions |
        ///
        /// A smaller value sends more duplicates. If the receiving process is replaced while a
        /// duplicate is in flight, its successor takes the duplicate for a new message.
        ///
        /// The value decides when this job's packets count as lost. The datapath's clocks (probes,
        /// epochs) don't depend on it.
        timer_granularity: Duration = Duration::from_nanos(Rtt::TIMER_GRANULARITY_NS), "1 ms",
        |timer_granularity: Duration| timer_granularity;

        /// Bytes of messages that the job holds before [`Job::send`](crate::Job::send) blocks.
        buffer_bytes: u64 = 4 << 20, "4 MiB", |bytes: u64| bytes;

        /// Message bytes in one packet, 1 to 8,900; fewer if the path's MTU requires it. An MTU of
        /// 1,500 allows 1,440 over IPv4 and 1,420 over IPv6.
        payload_bytes: Option<u32> = None, "as many as the path's MTU allows",
        |bytes: u32| Some(bytes);

        /// The longest message, bytes.
        message_bytes_max: u32 = 64 << 20, "64 MiB", |bytes: u32| bytes;

        /// Whether to send the message with the minimal remaining data first (MRDF, NetApprox
        /// §4.3). Off sends messages in order.
        mrdf: bool = true, "on", |on: bool| on;

        /// Whether MRDF compares messages by bytes, in classes of 64, instead of by packets. A job
        /// whose messages differ in length completes faster, but it leaves out the longest
        /// messages: the delivered ones are no fair sample.
        rank_by_bytes: bool = false, "off", |on: bool| on;

        /// Whether several short messages of a group may share a packet. A message never waits for
        /// others, and a receiver that doesn't know packed packets gets single ones.
        packing: bool = true, "on", |on: bool| on;

        /// Whether the reports of the job and its windows name the lost messages:
        /// [`GroupReport::lost_ids`](crate::GroupReport::lost_ids). Error feedback needs them. The
        /// end waits until receipts have named all delivered messages; if receipts were lost, that
        /// takes another round trip or more.
        ///
        /// A loss is certain once the end of its job or window is confirmed: until then the job may
        /// send the message again. The receiver always learns the ids, in
        /// [`GroupSummary::lost`](crate::GroupSummary::lost).
        name_lost: bool = false, "off", |on: bool| on;

        /// Lets a job end several windows although every group announces N. Jobs in which a group
        /// announces no N don't need the option.
        ///
        /// A window with an announced N ends by itself, and the receiver is told then whether
        /// another one follows. Without the option the job ends with its first window, and
        /// [`Job::end_window`](crate::Job::end_window) returns
        /// [`Error::Options`](crate::Error::Options). With it, call `end_window` after each window:
        /// it gives the report, and only then do messages begin the next window.
        windows: bool = false, "off", |on: bool| on;

        /// Whether the next window may begin while the last one ends: see
        /// [`Job::next_window`](crate::Job::next_window). At most two windows are open. If the
        /// receiver is of a version that can't follow, windows don't overlap. The option includes
        /// [`JobBuilder::windows`].
        overlap_windows: bool = false, "off", |on: bool| on;

        /// The most packets in flight until the receiver or its host has answered: 16 are about one
        /// bandwidth-delay product of a fast network. If the daemon knows the RTT of an earlier job
        /// to the host, it is one and a half of them at most. For up to 25 ms more, until the first
        /// advice, the limit is this or what the line sends in a millisecond, the larger one. 0 is
        /// no limit.
        initial_window_packets: u32 = 16, "16", |packets: u32| packets;

        /// The requests of the receiver that the job obeys: [`Requests::Obey`] are all.
        requests: Requests = Requests::Obey, "obey", |requests: Requests| requests;

        /// Without a daemon: the rate law and its rules. With a daemon, the daemon's options
        /// decide.
        ///
        /// The law `yield` is for networks with one queue for all traffic. On a network with the
        /// queues of the profile `default`, `RateLaw::Paper` is faster: it is the default once a
        /// daemon that was told of such queues is gone.
        rules: Option<Rules> = None, "the law `yield`", |rules: Rules| Some(rules);
    }

    add {
        /// Adds groups. With this call, the job has group 0 if it is among `groups`, or if
        /// [`JobBuilder::msr`], [`JobBuilder::messages`] or [`JobBuilder::order`] set it.
        groups: [Group], "group 0 only";
    }
}

#[cfg(test)]
mod tests {
    use super::JOB_OPTIONS;
    use std::{fs, path::Path};

    const PYTHON_KEYWORDS: &str = "bindings/python/src/options.rs";
    const PYTHON_TYPES: &str = "bindings/python/python/atp/_types.py";
    const C_SOURCE: &str = "bindings/c/src/options.rs";
    const C_HEADER: &str = "bindings/c/include/atp.h";
    const WRITE_HEADER: &str = "run: ATP_WRITE_HEADER=1 cargo test -p atp-c --test header";
    const JAVA_SOURCE: &str = "bindings/jvm/src/options.rs";
    const JAVA_BUILDER: &str = "bindings/jvm/java/src/main/java/org/netapprox/atp/JobBuilder.java";
    const GUIDE: &str = "docs/src/guide/library.md";

    /// Options that the C interface doesn't have yet.
    const NOT_IN_C: [&str; 1] = ["refused_timeout"];
    /// Options whose C fields describe the default as the meaning of 0 or of a null pointer.
    const OTHER_DEFAULT_IN_C: [&str; 3] = ["id", "msr", "control_socket"];
    /// The keyword that limits the time to open a job isn't an option of the builder.
    const ONLY_IN_PYTHON: [&str; 1] = ["timeout"];
    /// The text of this one's default links to another method.
    const OTHER_DEFAULT_IN_JAVA: [&str; 1] = ["refused_timeout"];

    /// The part of a file from `begin` to the next `end`.
    fn part(file: &str, begin: &str, end: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = fs::read_to_string(path).expect(file);
        let (_, text) = text.split_once(begin).unwrap_or_else(|| panic!("{file}: no {begin:?}"));
        text.split(end).next().expect("a part").to_owned()
    }

    /// Whether the text states the default, in the markup of any language.
    fn states(text: &str, default: &str) -> bool {
        let words = |text: &str| {
            let text = text.replace("{@code ", "").replace(['`', '"', '*', '}'], "");
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        words(text).contains(&words(default))
    }

    fn sentence(default: &str) -> String {
        format!("Default: {default}.")
    }

    fn finish(faults: &[String]) {
        assert!(faults.is_empty(), "the table of job options differs:\n{}", faults.join("\n"));
    }

    /// The compiler doesn't warn of a field that is only set.
    #[test]
    fn job_options__are_passed_on() {
        let is_read = |name: &str| {
            let field = format!("self.{name}");
            let mut ends = include_str!("builder.rs").split(&field).skip(1);
            ends.any(|end| !end.starts_with(|next: char| next == '_' || next.is_alphanumeric()))
        };
        let unread = JOB_OPTIONS.iter().filter(|(name, _)| !is_read(name));
        let faults = unread.map(|(name, _)| {
            format!(
                "approxlib/src/job/builder.rs: pass self.{name} to the transport or the datapath"
            )
        });
        finish(&faults.collect::<Vec<_>>());
    }

    #[test]
    fn job_options__are_in_the_guide() {
        let section = part(GUIDE, "## Options of a job\n", "\n## ");
        let is_there =
            |name: &str| ['`', '('].iter().any(|end| section.contains(&format!("`{name}{end}")));
        let missing = JOB_OPTIONS.iter().filter(|(name, _)| !is_there(name));
        let faults = missing.map(|(name, _)| {
            format!("{GUIDE}: add `{name}` to the table of \"Options of a job\", with its task")
        });
        finish(&faults.collect::<Vec<_>>());
    }

    #[test]
    fn job_options__are_keywords_in_python() {
        let arms = part(PYTHON_KEYWORDS, "pub fn job(", "\n}");
        let missing =
            JOB_OPTIONS.iter().filter(|(name, _)| !arms.contains(&format!("\"{name}\" =>")));
        let faults = missing.map(|(name, _)| {
            format!("{PYTHON_KEYWORDS}: add `\"{name}\" => builder.{name}(..),` to `job`")
        });
        finish(&faults.collect::<Vec<_>>());
    }

    #[test]
    fn job_options__have_types_and_texts_in_python() {
        let class = part(PYTHON_TYPES, "class JobOptions(", "\n\n\n");
        let mut faults = Vec::new();
        for (name, default) in JOB_OPTIONS {
            let default = sentence(default);
            let Some((_, key)) = class.split_once(&format!("\n    {name}: ")) else {
                faults.push(format!(
                    "{PYTHON_TYPES}: add `{name}: TYPE` to JobOptions, and below it a text that \
                     ends in {default:?}"
                ));
                continue;
            };
            let text = key.split("\"\"\"").nth(1).expect("a text below the key");
            if !states(text, &default) {
                faults.push(format!("{PYTHON_TYPES}: end the text of {name} in {default:?}"));
            }
        }
        let is_name =
            |text: &str| text.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase());
        let keys = class.split("\n    ").filter_map(|line| Some(line.split_once(": ")?.0));
        for key in keys.filter(|key| is_name(key) && !ONLY_IN_PYTHON.contains(key)) {
            if JOB_OPTIONS.iter().all(|(name, _)| *name != key) {
                faults.push(format!("{PYTHON_TYPES}: remove {key} from JobOptions: no job has it"));
            }
        }
        finish(&faults);
    }

    #[test]
    fn job_options__are_fields_or_flags_in_c() {
        let fields = part(C_HEADER, "typedef struct atp_job_options {", "\n}");
        let flags = part(C_HEADER, "typedef enum atp_flag {", "\n}");
        let mut faults = Vec::new();
        for (name, default) in JOB_OPTIONS {
            let flag = match *default {
                "on" => format!("ATP_NO_{}", name.to_uppercase()),
                _ => format!("ATP_{}", name.to_uppercase()),
            };
            let name = if *name == "rules" { "law" } else { name };
            let names = ["", "_ms", "_us"].map(|unit| format!("{name}{unit};\n"));
            // A pointer's name follows its asterisk.
            let declared = |name: &String| {
                [" ", "*"].iter().find_map(|before| fields.find(&format!("{before}{name}")))
            };
            let field = names.iter().find_map(declared);
            let is_in_c = field.is_some() || flags.contains(&format!("{flag} ="));
            if is_in_c == NOT_IN_C.contains(&name) {
                faults.push(match is_in_c {
                    true => format!("{C_SOURCE}: {name} is there: remove it from NOT_IN_C"),
                    false => format!(
                        "{C_SOURCE}: add a flag {flag}, or a field {name}, {name}_ms or {name}_us \
                         of atp_job_options, and {WRITE_HEADER}"
                    ),
                });
            }
            // The name of a flag says the default.
            let Some(end) = field.filter(|_| !OTHER_DEFAULT_IN_C.contains(&name)) else { continue };
            let text = fields[..end].rsplit("/**").next().expect("a text above the field");
            let default = sentence(default);
            if !states(text, &default) {
                faults.push(format!(
                    "{C_SOURCE}: end the text of {name} in {default:?}, and {WRITE_HEADER}"
                ));
            }
        }
        finish(&faults);
    }

    #[test]
    fn job_options__are_methods_in_java() {
        let arms = part(JAVA_SOURCE, "pub fn job(", "\n}");
        let methods = part(JAVA_BUILDER, "JobBuilder() {}", "public Job connect");
        let mut faults = Vec::new();
        for (name, default) in JOB_OPTIONS {
            if !arms.contains(&format!("\"{name}\" =>")) {
                faults.push(format!(
                    "{JAVA_SOURCE}: add `\"{name}\" => builder.{name}(..),` to `job`"
                ));
            }
            let calls = ["set", "setId"].map(|set| format!("options.{set}(\"{name}\", "));
            let Some(at) = calls.iter().find_map(|call| methods.find(call)) else {
                faults.push(format!("{JAVA_BUILDER}: add a method that sets \"{name}\""));
                continue;
            };
            let text = methods[..at].rsplit("/**").next().expect("a text above the method");
            let default = sentence(default);
            if !OTHER_DEFAULT_IN_JAVA.contains(name) && !states(text, &default) {
                faults.push(format!("{JAVA_BUILDER}: end the text of {name} in {default:?}"));
            }
        }
        finish(&faults);
    }
}
