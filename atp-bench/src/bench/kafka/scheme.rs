//! The ways to carry a topic's windows to another host.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// The bridge sends windows over ATP
    Atp,
    /// A plain consumer reads the whole topic over TCP
    TcpFull,
    /// The producer writes a sample, which a plain consumer reads over TCP
    TcpSample,
}

impl Scheme {
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Atp => "atp",
            Scheme::TcpFull => "tcp-full",
            Scheme::TcpSample => "tcp-sample",
        }
    }

    /// Whether some records may be missing, so that the MSR matters.
    pub fn samples(self) -> bool {
        self != Scheme::TcpFull
    }
}
