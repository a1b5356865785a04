//! The configuration files: strict TOML, whose errors name the file and the line.

mod accepted;
mod atp;
mod kafka;
mod receive;
mod security;
mod send;
mod types;

pub use accepted::NumberConfig;
pub use atp::{AtpReceive, AtpSend};
pub use kafka::{SourceKafka, Start, TargetKafka};
pub use receive::ReceiveConfig;
pub use send::{GroupConfig, SendConfig};
pub use types::{Bytes, Msr, Peers, Positive, Span};

use anyhow::{Context, Result, anyhow};
use serde::de::DeserializeOwned;
use std::path::Path;

/// Reads a configuration.
///
/// # Errors
/// It can't be read, or a line of it is wrong.
pub fn read<T: DeserializeOwned + Check>(path: &Path) -> Result<T> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {name}"))?;
    let config: T = toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| format!(":{}", line_of(&text, span.start)));
        anyhow!("{name}{}: {}", line.unwrap_or_default(), error.message())
    })?;
    config.check().map_err(|why| anyhow!("{name}: {why}"))?;
    Ok(config)
}

/// Checks that several lines must pass together.
pub trait Check {
    /// # Errors
    /// A sentence that names the lines.
    fn check(&self) -> Result<(), String>;
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        peer = "10.0.0.2:4747"
        [kafka]
        brokers = "localhost:9092"
        group = "bridge"
        topics = ["readings"]
        [window]
        records = 1000
        [sampling]
        msr = 0.8
    "#;

    fn error_of(from: &str, to: &str) -> String {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD, "{from} isn't there");
        let file = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
        std::fs::write(file.path(), text).unwrap();
        let error = read::<SendConfig>(file.path()).unwrap_err().to_string();
        let name = file.path().display().to_string();
        error.strip_prefix(&name).unwrap_or_else(|| panic!("{error}")).to_owned()
    }

    #[test]
    fn read__names_the_line_and_the_fault() {
        for (from, to, expected) in [
            ("msr = 0.8", "msr = 1.5", ":10: the MSR 1.5 isn't between 0 and 1"),
            (
                "msr = 0.8",
                "mrs = 0.8",
                ":10: unknown field `mrs`, expected one of `msr`, `msr_max`, `accepted`, `groups`",
            ),
            ("records = 1000", "records = 0", ":8: 0 isn't allowed: give at least 1"),
            (
                "records = 1000",
                "length = \"0s\"",
                ":8: `0s` isn't a time: use 500ms, 10s, 5m or 1h",
            ),
            (
                "records = 1000",
                "length = \"1 day\"",
                ":8: `1 day` isn't a time: use 500ms, 10s, 5m or 1h",
            ),
            ("records = 1000", "", ": [window] needs `records` or `length`"),
            (
                "records = 1000",
                "records = 1\nlength = \"1s\"",
                ": [window] has `records` and `length`: give one of them",
            ),
            (
                "records = 1000",
                "records = 1\nwatermark_delay = \"1s\"",
                ": [window] has `watermark_delay` without `length`",
            ),
            ("[\"readings\"]", "[]", ": [kafka] names no topic in `topics`"),
            ("brokers = \"localhost:9092\"", "", ":3: missing field `brokers`"),
            ("peer = \"10.0.0.2:4747\"", "peer = \"10.0.0.2\"", ": `peer` needs a port: HOST:PORT"),
            ("\"10.0.0.2:4747\"", "[\"10.0.0.2:1\", \"b\"]", ": `peer` needs a port: HOST:PORT"),
            ("\"10.0.0.2:4747\"", "[]", ": `peer` names no receiver"),
            (
                "\"10.0.0.2:4747\"",
                "7",
                ":2: invalid type: integer `7`, expected HOST:PORT, or a list of them",
            ),
        ] {
            assert_eq!(error_of(from, to), expected, "{to}");
        }
    }

    #[test]
    fn read__checks_groups() {
        for (group, expected) in [
            ("name = \"a\"\nmsr = 1.0", ": group `a` needs `header` or `key_prefix`"),
            (
                "name = \"a\"\nmsr = 1.0\nvalues = [\"x\"]",
                ": group `a` needs `header` or `key_prefix`",
            ),
            ("name = \"a\"\nmsr = 1.0\nheader = \"\"", ": group `a` has an empty `header`"),
            ("name = \"rest\"\nmsr = 1.0\nheader = \"h\"", ": the name `rest` is taken"),
        ] {
            let to = format!("msr = 0.8\n[[sampling.groups]]\n{group}\n");
            assert_eq!(error_of("msr = 0.8", &to), expected, "{group}");
        }
    }
}
