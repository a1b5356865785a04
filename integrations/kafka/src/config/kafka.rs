//! `[kafka]`: brokers, topics, and librdkafka's own properties with secrets from files or the
//! environment.

use super::security;
use anyhow::{Context, Result, anyhow, bail};
use rdkafka::ClientConfig;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The settings of every client.
#[derive(Clone, Debug, Deserialize)]
pub struct Client {
    /// Hosts and ports of brokers, with commas between them.
    pub brokers: String,
    /// Properties of librdkafka, such as `security.protocol`.
    #[serde(default)]
    pub properties: BTreeMap<String, Property>,
}

/// The value of a property: in the file, or, for secrets, elsewhere.
#[derive(Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "a text, a number, true, false, { file = PATH }, { env = NAME } or \
                 { credential = NAME }"
)]
pub enum Property {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// A switch.
    Flag(bool),
    /// The content of a file, without white space at its end.
    File {
        /// The path.
        file: PathBuf,
    },
    /// The value of an environment variable.
    Env {
        /// The name.
        env: String,
    },
    /// The content of a credential that systemd loads (`LoadCredential=`), without white space at
    /// its end.
    Credential {
        /// The name.
        credential: String,
    },
}

/// The folder of credentials, as systemd.exec(5) says.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// A secret in the file may be shown to nobody.
impl std::fmt::Debug for Property {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(not shown)")
    }
}

/// Properties that this program sets itself.
const OWN: [&str; 7] = [
    "auto.offset.reset",
    "bootstrap.servers",
    "group.id",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "transactional.id",
    "enable.idempotence",
];

impl Client {
    /// The configuration of a client, with librdkafka's own errors left to the caller.
    ///
    /// # Errors
    /// A secret can't be read, a property is this program's own, or those for TLS and the login
    /// contradict each other.
    pub fn config(&self) -> Result<ClientConfig> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config.set("client.id", "atp-kafka");
        for (name, property) in &self.properties {
            if OWN.contains(&name.as_str()) {
                bail!("[kafka.properties] can't set `{name}`: the program sets it itself");
            }
            let value = property.value().with_context(|| format!("[kafka.properties] {name}"))?;
            config.set(name, value);
        }
        security::check(&config).map_err(|why| anyhow!("[kafka.properties] {why}"))?;
        Ok(config)
    }
}

impl Property {
    fn value(&self) -> Result<String> {
        Ok(match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::File { file } => {
                let value = content(file)?;
                if value.is_empty() {
                    bail!("{} is empty: write the secret into it", file.display());
                }
                value
            }
            // The error of one that is no text has its value.
            Self::Env { env } => std::env::var(env)
                .map_err(|_| anyhow!("there is no text in the environment variable {env}"))?,
            Self::Credential { credential } => {
                if credential.is_empty() || credential.contains('/') {
                    bail!("the credential {credential:?} isn't the name of a file");
                }
                let Some(folder) = std::env::var_os(CREDENTIALS) else {
                    bail!(
                        "there is no credential {credential:?}: start this by a unit of systemd \
                         with LoadCredential={credential}:PATH"
                    );
                };
                let value = content(&PathBuf::from(folder).join(credential))?;
                if value.is_empty() {
                    bail!(
                        "the credential {credential:?} is empty: write the file that \
                         LoadCredential= of the unit names"
                    );
                }
                value
            }
        })
    }
}

fn content(file: &Path) -> Result<String> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    Ok(text.trim_end().to_owned())
}

/// Where records come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceKafka {
    /// As [`Client::brokers`].
    pub brokers: String,
    /// The group of consumers. Bridges of one group share the partitions.
    pub group: String,
    /// The topics.
    pub topics: Vec<String>,
    /// Where a group without committed offsets begins.
    #[serde(default)]
    pub start: Start,
    /// As [`Client::properties`].
    #[serde(default)]
    pub properties: BTreeMap<String, Property>,
}

/// The first offset of a group that has committed none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// The first record that is there.
    #[default]
    Earliest,
    /// The next record that comes.
    Latest,
}

impl SourceKafka {
    /// As [`Client`].
    pub fn client(&self) -> Client {
        Client { brokers: self.brokers.clone(), properties: self.properties.clone() }
    }
}

/// Where records go.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetKafka {
    /// As [`Client::brokers`].
    pub brokers: String,
    /// The topic for the records.
    pub topic: String,
    /// The topic for a record per window: its counts, and which records were lost. Default: the
    /// name of `topic` with `.windows`.
    pub windows_topic: Option<String>,
    /// The topic for the offsets that were counted, for a receiver that is started again. Default:
    /// the name of `topic` with `.counted`.
    pub counted_topic: Option<String>,
    /// As [`Client::properties`].
    #[serde(default)]
    pub properties: BTreeMap<String, Property>,
}

impl TargetKafka {
    /// As [`Client`].
    pub fn client(&self) -> Client {
        Client { brokers: self.brokers.clone(), properties: self.properties.clone() }
    }

    /// The topic of counted offsets.
    pub fn counted_topic(&self) -> String {
        self.counted_topic.clone().unwrap_or_else(|| format!("{}.counted", self.topic))
    }

    /// The topic of windows.
    pub fn windows_topic(&self) -> String {
        self.windows_topic.clone().unwrap_or_else(|| format!("{}.windows", self.topic))
    }
}
