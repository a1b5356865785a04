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
    /// ATP without a daemon in the receiving host: its library gives advice
    AtpReceiverAlone,
    /// The paper's protocol, in the paper's queues: no receiver advice, and no first window
    AtpPaper,
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
            SchemeName::AtpReceiverAlone => "atp-receiver-alone",
            SchemeName::AtpPaper => "atp-paper",
            SchemeName::TcpEarlySend => "tcp-early-send",
            SchemeName::TcpSampleSend => "tcp-sample-send",
            SchemeName::Udp => "udp",
        }
    }

    /// Whether it is ATP, which has a daemon in each host that sends.
    pub fn is_atp(self) -> bool {
        self.daemon_options().is_some()
    }

    /// Whether the receiver can ask for another sampling rate, or for the end.
    pub fn obeys_requests(self) -> bool {
        self.is_atp()
    }

    /// Options of the daemons in the hosts, if there are any.
    pub fn daemon_options(self) -> Option<&'static [&'static str]> {
        match self {
            SchemeName::Atp | SchemeName::AtpReceiverAlone => Some(&[]),
            SchemeName::AtpPaper => Some(&["--advice", "off"]),
            SchemeName::TcpEarlySend | SchemeName::TcpSampleSend | SchemeName::Udp => None,
        }
    }

    /// Whether the receiver uses its host's daemon.
    pub fn receives_with_daemon(self) -> bool {
        self != SchemeName::AtpReceiverAlone
    }

    /// Whether ATP's receiver gives advice, with or without a daemon.
    pub fn gives_advice(self) -> bool {
        self != SchemeName::AtpPaper
    }

    /// The queue profile of switch and daemons, unless the command line states one.
    pub fn profile(self) -> &'static str {
        if self == SchemeName::AtpPaper { "paper" } else { "default" }
    }

    /// Packets in flight until an ATP lane receives something from its peer; 0: without limit.
    pub fn initial_window_packets(self) -> u32 {
        if self == SchemeName::AtpPaper { 0 } else { 16 }
    }

    /// Whether a job can only end with MSR*N messages delivered.
    pub fn guarantees_msr(self) -> bool {
        self != SchemeName::Udp
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
