//! The configuration of `atp-kafka receive`.

use super::{AtpReceive, Check, TargetKafka};
use serde::Deserialize;
use std::net::SocketAddr;

/// The configuration of `atp-kafka receive`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiveConfig {
    /// The address and the port where windows are received.
    pub listen: String,
    /// The name of this receiver among those of the cluster: of two with the same one, the first
    /// ends.
    pub name: String,
    /// Where records go.
    pub kafka: TargetKafka,
    /// Options of the transport.
    #[serde(default)]
    pub atp: AtpReceive,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
}

impl Check for ReceiveConfig {
    fn check(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("`name` is empty: give this receiver a name of its own".to_owned());
        }
        if self.kafka.topic.is_empty() {
            return Err("[kafka] has an empty `topic`".to_owned());
        }
        let [windows, counted] = [self.kafka.windows_topic(), self.kafka.counted_topic()];
        if windows == self.kafka.topic || counted == self.kafka.topic || windows == counted {
            return Err(
                "[kafka] `topic`, `windows_topic` and `counted_topic` must be three topics"
                    .to_owned(),
            );
        }
        self.atp.receiver().map(drop)
    }
}
