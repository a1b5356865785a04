//! The program that answers windows at the receiving host.

use serde::{Deserialize, Serialize};

use super::scheme::Scheme;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// A program of the benchmark: a plain consumer, or a receiver of windows
    #[default]
    Plain,
    /// Four task managers of Flink, with the connector of Kafka or that of ATP
    Flink,
}

impl Engine {
    /// The receiving host, at the beginning of a sentence.
    pub fn receiver(self) -> &'static str {
        match self {
            Engine::Plain => "Another host",
            Engine::Flink => "Flink, four task managers in another host,",
        }
    }

    /// How records reach the program.
    pub fn about(self, scheme: Scheme) -> &'static str {
        match (scheme, self) {
            (Scheme::TcpFull, Engine::Plain) => "a plain consumer reads the whole topic over TCP",
            (Scheme::TcpSample, Engine::Plain) => {
                "the producer writes a sample, which a plain consumer reads over TCP"
            }
            (Scheme::TcpFull, Engine::Flink) => "Kafka's connector reads the whole topic over TCP",
            (Scheme::TcpSample, Engine::Flink) => {
                "the producer writes a sample, which Kafka's connector reads over TCP"
            }
            (Scheme::Atp, _) => "the bridge sends windows of the whole topic over ATP",
        }
    }

    /// The file name of the demonstration's picture.
    pub fn picture(self) -> &'static str {
        match self {
            Engine::Plain => "kafka.svg",
            Engine::Flink => "flink.svg",
        }
    }
}
