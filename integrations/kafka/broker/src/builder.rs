//! The choices before a broker starts.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::broker::{Broker, Place};
use crate::jvm::{Jvm, Launcher};
use crate::port::ReservedPort;
use crate::properties::{self, Addresses, Listener};

/// The prefix of folders for temporary files. The next broker removes those of killed programs.
const PREFIX: &str = "atp-kafka-broker-";
/// The most brokers of a cluster: each takes 400 MB of memory.
const BROKERS_MAX: usize = 9;

/// Builds a broker, or a cluster of brokers.
#[derive(Debug)]
pub struct Builder {
    jars: PathBuf,
    folder: Option<PathBuf>,
    listen: IpAddr,
    port: Option<u16>,
    partitions_default: u32,
    properties: Vec<(String, String)>,
    listeners: Vec<Listener>,
    files: Vec<(String, String)>,
    scram_users: Vec<String>,
    launcher: Launcher,
}

impl Broker {
    /// Builds a broker of the jars in a folder.
    pub fn builder(jars: &Path) -> Builder {
        Builder::new(jars)
    }
}

impl Builder {
    fn new(jars: &Path) -> Builder {
        Builder {
            jars: jars.to_owned(),
            folder: None,
            listen: Ipv4Addr::LOCALHOST.into(),
            port: None,
            partitions_default: 1,
            properties: Vec::new(),
            listeners: Vec::new(),
            files: Vec::new(),
            scram_users: Vec::new(),
            launcher: Launcher::default(),
        }
    }

    /// The folder for configuration and data, which stays. If it has a broker's data already, that
    /// broker goes on. Default: a folder for temporary files, removed with the broker.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Builder {
        self.folder = Some(folder.into());
        self
    }

    /// The address that clients connect to; 127.0.0.1 by default.
    pub fn listen(mut self, ip: impl Into<IpAddr>) -> Builder {
        self.listen = ip.into();
        self
    }

    /// The port that clients connect to. The next one is the controller's, and other listeners
    /// follow. By default, free ports of this network namespace are reserved: a broker in another
    /// one needs this choice.
    pub fn port(mut self, port: u16) -> Builder {
        self.port = Some(port);
        self
    }

    /// The partitions of a topic that a client uses without having made it; 1 by default.
    pub fn partitions_default(mut self, partitions: u32) -> Builder {
        self.partitions_default = partitions;
        self
    }

    /// Another property of the broker's configuration, such as `message.max.bytes`.
    pub fn property(mut self, name: &str, value: &str) -> Builder {
        self.properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another listener for clients, such as `SECURE` with the protocol `SASL_SSL`. Properties that
    /// begin with `listener.name.secure.` configure it, and [`Broker::listener`] tells its address.
    /// Without one, clients connect in plain text.
    pub fn listener(mut self, name: &str, protocol: &str) -> Builder {
        self.listeners.push(Listener { name: name.to_owned(), protocol: protocol.to_owned() });
        self
    }

    /// A file in the broker's folder, such as a key store. Properties name it without a folder.
    pub fn file(mut self, name: &str, content: &str) -> Builder {
        self.files.push((name.to_owned(), content.to_owned()));
        self
    }

    /// A user who logs in by SCRAM-SHA-512. Both words are letters and digits. Other users of this
    /// machine can see the password while the folder is formatted.
    pub fn scram_user(mut self, name: &str, password: &str) -> Builder {
        self.scram_users.push(format!("SCRAM-SHA-512=[name={name},password={password}]"));
        self
    }

    /// Makes the command that starts a JVM, given its path: for example `Namespace::command`, which
    /// enters a network.
    pub fn command(
        mut self,
        command: impl Fn(&Path) -> Command + Send + Sync + 'static,
    ) -> Builder {
        self.launcher = Launcher(Arc::new(command));
        self
    }

    /// Words before the command that starts a JVM: a program that becomes it by `exec`, such as
    /// `nice` or `ip netns exec NAME`.
    pub fn command_prefix<W: Into<String>>(self, words: impl IntoIterator<Item = W>) -> Builder {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        self.command(move |program| {
            let Some((first, others)) = words.split_first() else { return Command::new(program) };
            let mut command = Command::new(first);
            command.args(others).arg(program);
            command
        })
    }

    /// Starts a broker, and waits until it answers. It dies with the calling thread.
    ///
    /// # Errors
    /// There is no Java, or no Kafka among the jars; or the broker doesn't start: the error has its
    /// log.
    pub fn start(self) -> Result<Broker> {
        let mut brokers = self.start_cluster(1)?;
        brokers.pop().context("no broker was started")
    }

    /// Starts so many brokers of one cluster, and waits until they answer. From three on, topics
    /// have three replicas, and one broker may end.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_cluster(self, count: usize) -> Result<Vec<Broker>> {
        ensure!((1..=BROKERS_MAX).contains(&count), "1 to {BROKERS_MAX} brokers, not {count}");
        let jvm = Jvm::new(&self.jars, self.launcher.clone())?;
        let reserved = (0..count).map(|index| self.addresses(index)).collect::<Result<Vec<_>>>()?;
        let all: Vec<Addresses> = reserved.iter().map(|(addresses, _)| addresses.clone()).collect();
        let mut brokers = Vec::new();
        for (node, (addresses, ports)) in (1..).zip(reserved) {
            let (folder, temporary) = self.folder_of(node, count)?;
            let text = properties::text(node, &all, self.partitions_default, &self.properties);
            let files = self.files.iter().map(|(name, content)| (name.as_str(), content.as_str()));
            for (name, content) in files.chain([(properties::FILE, text.as_str())]) {
                let file = folder.join(name);
                fs::write(&file, content)
                    .with_context(|| format!("can't write {}", file.display()))?;
            }
            let place =
                Place { jvm: jvm.clone(), addresses, folder, _ports: ports, _temporary: temporary };
            place.format(&self.scram_users)?;
            brokers.push(Broker::launch(place)?);
        }
        // None answers before most of them run.
        brokers.iter_mut().try_for_each(Broker::wait_until_started)?;
        Ok(brokers)
    }

    /// The addresses of one broker, with the ports that were reserved for it.
    fn addresses(&self, index: usize) -> Result<(Addresses, Vec<ReservedPort>)> {
        let count = 2 + self.listeners.len();
        if let Some(first) = self.port {
            let port = |of: usize| u16::try_from(usize::from(first) + index * count + of);
            let ports = (0..count).map(port).collect::<Result<Vec<_>, _>>();
            let ports = ports.context("the port must leave room for the next ones")?;
            let at: Vec<_> = ports.iter().map(|port| SocketAddr::new(self.listen, *port)).collect();
            return Ok((Addresses::new(&at, &self.listeners), Vec::new()));
        }
        let reserve = |_| ReservedPort::new(self.listen);
        let reserved = (0..count).map(reserve).collect::<Result<Vec<_>>>()?;
        let at: Vec<_> = reserved.iter().map(|port| port.address).collect();
        Ok((Addresses::new(&at, &self.listeners), reserved))
    }

    /// The folder of one broker, made, with its owner if it is temporary.
    fn folder_of(&self, node: usize, count: usize) -> Result<(PathBuf, Option<TempDir>)> {
        let Some(folder) = &self.folder else {
            let temporary = testbed::own_folder(PREFIX)?;
            return Ok((temporary.path().to_owned(), Some(temporary)));
        };
        let folder = if count == 1 { folder.clone() } else { folder.join(format!("node-{node}")) };
        fs::create_dir_all(&folder)
            .with_context(|| format!("can't make the folder {}", folder.display()))?;
        Ok((folder, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses__given_ports_follow_each_other() {
        let builder = Builder::new(Path::new("jars")).port(9092);
        let ports = |index| {
            let (at, reserved) = builder.addresses(index).unwrap();
            assert!(reserved.is_empty());
            [at.broker.port(), at.controller.port()]
        };
        assert_eq!([ports(0), ports(1)], [[9092, 9093], [9094, 9095]]);
        let builder = Builder::new(Path::new("jars")).port(9092).listener("SECURE", "SSL");
        let (second, _) = builder.addresses(1).unwrap();
        assert_eq!([second.broker.port(), second.more[0].1.port()], [9095, 9097]);
        assert!(Builder::new(Path::new("jars")).port(u16::MAX).addresses(0).is_err());
    }

    #[test]
    fn addresses__are_reserved_otherwise() {
        let (at, reserved) = Builder::new(Path::new("jars")).addresses(0).unwrap();
        assert_eq!(reserved.len(), 2);
        assert!(at.broker.ip().is_loopback() && at.broker != at.controller);
    }

    #[test]
    fn command_prefix__comes_before_the_program() {
        let builder = Builder::new(Path::new("jars")).command_prefix(["nice", "-n", "5"]);
        let command = (builder.launcher.0)(Path::new("java"));
        assert_eq!(command.get_program(), "nice");
        assert!(command.get_args().eq(["-n", "5", "java"]));
        let builder = Builder::new(Path::new("jars")).command_prefix([""; 0]);
        assert_eq!((builder.launcher.0)(Path::new("java")).get_program(), "java");
    }

    #[test]
    fn start__leaves_nothing_without_jars() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        let error = Builder::new(folder.path()).folder(&own).start().unwrap_err().to_string();
        assert!(error.starts_with("no jar of Kafka is in "), "{error}");
        assert!(!own.exists());
    }
}
