//! The names of the schemes.

use serde::{Deserialize, Serialize};

/// The schemes' names, on the command line and in files.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum SchemeName {
    /// ATP, through ApproxLib
    Atp,
    /// TCP that stops once MSR*N messages are delivered
    TcpEarlySend,
    /// TCP with a uniform sample of MSR*N messages
    TcpSampleSend,
    /// Plain UDP: every message once
    Udp,
}

impl SchemeName {
    pub fn name(self) -> &'static str {
        match self {
            SchemeName::Atp => "atp",
            SchemeName::TcpEarlySend => "tcp-early-send",
            SchemeName::TcpSampleSend => "tcp-sample-send",
            SchemeName::Udp => "udp",
        }
    }

    /// Whether a job can only end with MSR*N messages delivered.
    pub fn guarantees_msr(self) -> bool {
        match self {
            SchemeName::Atp | SchemeName::TcpEarlySend | SchemeName::TcpSampleSend => true,
            SchemeName::Udp => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn name__is_the_same_for_people_and_files() {
        for scheme in SchemeName::value_variants() {
            let typed = scheme.to_possible_value().unwrap();
            assert_eq!(typed.get_name(), scheme.name());
            let written = serde_json::to_string(scheme).unwrap();
            assert_eq!(written, format!("\"{}\"", scheme.name()));
        }
    }
}
