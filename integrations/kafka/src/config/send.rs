//! The configuration of `atp-kafka send`.

use super::{
    AtpSend, Bytes, Check, Msr, Peers, Positive, SourceKafka, Span, accepted::AcceptedConfig,
};
use approx_windows::{Group, Limits, Peer, Rule, Sampling};
use serde::Deserialize;
use std::{net::SocketAddr, time::Duration};

/// The configuration of `atp-kafka send`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendConfig {
    /// Receivers of windows: partition `p` is sent to number `p` modulo their number.
    pub peer: Peers,
    /// Where records come from.
    pub kafka: SourceKafka,
    /// How they are cut.
    pub window: WindowConfig,
    /// Which share of them must arrive.
    pub sampling: SamplingConfig,
    /// Options of the transport.
    #[serde(default)]
    pub atp: AtpSend,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
}

/// How a partition is cut into windows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowConfig {
    records: Option<Positive>,
    length: Option<Span>,
    watermark_delay: Option<Span>,
    idle: Option<Span>,
    bytes_max: Option<Bytes>,
    record_bytes_max: Option<Bytes>,
    memory_max: Option<Bytes>,
}

/// The groups of records.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingConfig {
    /// The rate of records that no group takes.
    pub msr: Msr,
    /// The share that is sent while there is room, for groups with a lower rate.
    pub msr_max: Option<Msr>,
    /// As many records are sent as this error of averages needs, and the rates at least.
    pub accepted: Option<AcceptedConfig>,
    /// The groups. The first that takes a record has it.
    #[serde(default)]
    pub groups: Vec<GroupConfig>,
}

/// A group, and the rule for its records.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// The name.
    pub name: String,
    /// The rate.
    pub msr: Msr,
    /// Records with this header.
    pub header: Option<String>,
    /// Only those whose header has one of these values.
    pub values: Option<Vec<String>>,
    /// Records whose key begins so.
    pub key_prefix: Option<String>,
}

/// The name of the group of all other records.
pub const REST: &str = "rest";

impl WindowConfig {
    /// The rule.
    pub fn rule(&self) -> Rule {
        match (self.records, self.length) {
            (Some(records), _) => Rule::Records(records.0),
            (None, length) => Rule::Time {
                length_ms: length.map_or(1, Span::ms),
                watermark_delay_ms: self.watermark_delay.map_or(0, Span::ms),
            },
        }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        let bytes = |bytes: Option<Bytes>, default: usize| {
            bytes.map_or(default, |bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX))
        };
        Limits {
            window_bytes_max: bytes(self.bytes_max, 16 << 20),
            record_bytes_max: bytes(self.record_bytes_max, 8 << 20),
        }
    }

    /// Windows close after this long without a record of their partition.
    pub fn idle(&self) -> Duration {
        // Windows by event time close by themselves where records come more often than that.
        let time = self
            .length
            .map(|length| length.0 + self.watermark_delay.map_or(Duration::ZERO, |delay| delay.0));
        let default = time.unwrap_or_default().max(Duration::from_secs(10));
        self.idle.map_or(default, |span| span.0)
    }

    /// The most bytes of windows that are open or not confirmed.
    pub fn memory_bytes_max(&self) -> u64 {
        self.memory_max.map_or(256 << 20, |bytes| bytes.0)
    }
}

impl SendConfig {
    /// The groups as the transport has them: those of the file, then the rest.
    ///
    /// # Errors
    /// A sentence: there are too many, or the accepted error is none.
    pub fn sampling(&self) -> Result<Sampling, String> {
        let group = |group: &GroupConfig| Group { name: group.name.clone(), msr: group.msr.0 };
        let rest = Group { name: REST.to_owned(), msr: self.sampling.msr.0 };
        let groups = self.sampling.groups.iter().map(group).chain([rest]).collect();
        let sampling = Sampling::new(groups)
            .and_then(|groups| groups.up_to(self.sampling.msr_max.map_or(0.0, |msr| msr.0)))
            .map_err(|error| error.to_string())?;
        let accepted = self.sampling.accepted.as_ref().map(AcceptedConfig::accepted).transpose()?;
        Ok(match accepted {
            Some(accepted) => sampling.accepting(accepted),
            None => sampling,
        })
    }

    /// The receivers.
    pub fn peers(&self) -> Vec<Peer> {
        let bytes = self.window.limits().record_bytes_max;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).max(64 << 20);
        let options = self.atp.job().message_bytes_max(bytes);
        let peer = |address: &String| Peer { address: address.clone(), options: options.clone() };
        self.peer.0.iter().map(peer).collect()
    }
}

impl Check for SendConfig {
    fn check(&self) -> Result<(), String> {
        let window = &self.window;
        match (window.records, window.length) {
            (None, None) => return Err("[window] needs `records` or `length`".to_owned()),
            (Some(_), Some(_)) => {
                return Err("[window] has `records` and `length`: give one of them".to_owned());
            }
            (Some(_), None) if window.watermark_delay.is_some() => {
                return Err("[window] has `watermark_delay` without `length`".to_owned());
            }
            _ => {}
        }
        if self.kafka.topics.iter().all(String::is_empty) {
            return Err("[kafka] names no topic in `topics`".to_owned());
        }
        let has_port = |peer: &String| {
            let port = peer.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            port.is_some()
        };
        if !self.peer.0.iter().all(has_port) {
            return Err("`peer` needs a port: HOST:PORT".to_owned());
        }
        if self.peer.0.is_empty() {
            return Err("`peer` names no receiver".to_owned());
        }
        self.sampling()?;
        if self.sampling.accepted.is_some() && self.sampling.msr.0 == 0.0 {
            return Err(
                "`msr` is 0, with which any record may be lost: [sampling.accepted] needs \
                        a least rate, such as 0.01"
                    .to_owned(),
            );
        }
        let mut names = vec![REST, "exact"];
        for group in &self.sampling.groups {
            group.check()?;
            if names.contains(&group.name.as_str()) {
                return Err(format!("the name `{}` is taken", group.name));
            }
            names.push(&group.name);
        }
        Ok(())
    }
}

impl GroupConfig {
    fn check(&self) -> Result<(), String> {
        let Self { name, header, key_prefix, .. } = self;
        match (header.as_deref(), key_prefix.as_deref()) {
            (None, None) => Err(format!("group `{name}` needs `header` or `key_prefix`")),
            (Some(""), _) => Err(format!("group `{name}` has an empty `header`")),
            (_, Some("")) => Err(format!("group `{name}` has an empty `key_prefix`")),
            _ if name.is_empty() || name.len() > 32 => {
                Err(format!("the name of group {name:?} needs 1 to 32 bytes"))
            }
            (None, _) if self.values.is_some() => {
                Err(format!("group `{name}` has `values` without `header`"))
            }
            _ => Ok(()),
        }
    }
}
