//! The configuration of a broker that is a controller too.

use std::fmt::Write;
use std::net::SocketAddr;

/// The name of the file, in the broker's folder.
pub const FILE: &str = "server.properties";

/// The addresses of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The clients' and the other brokers'.
    pub broker: SocketAddr,
    /// The other controllers'.
    pub controller: SocketAddr,
    /// Other listeners for clients, with their addresses.
    pub more: Vec<(Listener, SocketAddr)>,
}

/// Another listener for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub name: String,
    /// Such as `SASL_SSL`.
    pub protocol: String,
}

impl Addresses {
    /// `at`: the clients' address, the controllers', and one for each of `more`.
    pub fn new(at: &[SocketAddr], more: &[Listener]) -> Addresses {
        let more = more.iter().cloned().zip(at[2..].iter().copied()).collect();
        Addresses { broker: at[0], controller: at[1], more }
    }
}

/// The configuration of the broker `node`, whose addresses are `all[node - 1]`. `more` replaces
/// properties of the same name.
///
/// Paths are relative: the file's encoding is not that of paths, and a comma would end one.
pub fn text(
    node: usize,
    all: &[Addresses],
    partitions_default: u32,
    more: &[(String, String)],
) -> String {
    let voter = |(index, at): (usize, &Addresses)| format!("{}@{}", index + 1, at.controller);
    let voters: Vec<String> = all.iter().enumerate().map(voter).collect();
    let Addresses { broker, controller, more: others } = &all[node - 1];
    let mut listeners = format!("PLAINTEXT://{broker},CONTROLLER://{controller}");
    let mut protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned();
    for (Listener { name, protocol }, address) in others {
        let _ = write!(listeners, ",{name}://{address}");
        let _ = write!(protocols, ",{name}:{protocol}");
    }
    let replicas = all.len().min(3).to_string();
    // With three replicas, topics outlive one broker.
    let replicas_in_sync = if all.len() < 3 { "1" } else { "2" };
    let mut lines: Vec<(&str, String)> = vec![
        ("process.roles", "broker,controller".into()),
        ("node.id", node.to_string()),
        ("controller.quorum.voters", voters.join(",")),
        ("controller.listener.names", "CONTROLLER".into()),
        ("listeners", listeners),
        ("listener.security.protocol.map", protocols),
        ("log.dirs", "data".into()),
        ("num.partitions", partitions_default.to_string()),
        ("default.replication.factor", replicas.clone()),
        ("min.insync.replicas", replicas_in_sync.into()),
        // The first consumer of a group would wait for others.
        ("group.initial.rebalance.delay.ms", "0".into()),
        // Of each internal topic, 50 partitions would be made when it is used first.
        ("offsets.topic.num.partitions", "1".into()),
        ("offsets.topic.replication.factor", replicas.clone()),
        ("transaction.state.log.num.partitions", "1".into()),
        ("transaction.state.log.replication.factor", replicas),
        ("transaction.state.log.min.isr", replicas_in_sync.into()),
    ];
    lines.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
    let more = more.iter().map(|(name, value)| (name.as_str(), value.clone()));
    lines.into_iter().chain(more).fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name}={value}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str, port: u16) -> Addresses {
        let address = address.parse().unwrap();
        let at = |port| SocketAddr::new(address, port);
        Addresses::new(&[at(port), at(port + 1)], &[])
    }

    fn has(text: &str, line: &str) -> bool {
        text.lines().any(|other| other == line)
    }

    #[test]
    fn text__one_broker_needs_no_other() {
        let text = text(1, &[at("127.0.0.1", 9092)], 4, &[]);
        for line in [
            "process.roles=broker,controller",
            "controller.quorum.voters=1@127.0.0.1:9093",
            "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "log.dirs=data",
            "num.partitions=4",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.min.isr=1",
        ] {
            assert!(has(&text, line), "{line} isn't in\n{text}");
        }
    }

    #[test]
    fn text__three_brokers_replicate() {
        let all = [at("10.0.0.1", 9092), at("10.0.0.2", 9092), at("::1", 9092)];
        let text = text(3, &all, 1, &[]);
        for line in [
            "node.id=3",
            "controller.quorum.voters=1@10.0.0.1:9093,2@10.0.0.2:9093,3@[::1]:9093",
            "listeners=PLAINTEXT://[::1]:9092,CONTROLLER://[::1]:9093",
            "default.replication.factor=3",
            "min.insync.replicas=2",
        ] {
            assert!(has(&text, line), "{line} isn't in\n{text}");
        }
    }

    #[test]
    fn text__other_listeners_have_protocols() {
        let addresses = [9092, 9093, 9094].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let secure = Listener { name: "SECURE".into(), protocol: "SASL_SSL".into() };
        let text = text(1, &[Addresses::new(&addresses, &[secure])], 1, &[]);
        for end in [
            "://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093,SECURE://127.0.0.1:9094",
            "map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        ] {
            assert!(text.lines().any(|line| line.ends_with(end)), "{end} isn't in\n{text}");
        }
    }

    #[test]
    fn text__a_property_of_the_caller_replaces_ours() {
        let more = [("num.partitions", "9"), ("message.max.bytes", "5")];
        let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let text = text(1, &[at("127.0.0.1", 9092)], 4, &more);
        assert!(has(&text, "num.partitions=9") && has(&text, "message.max.bytes=5"));
        assert!(!has(&text, "num.partitions=4"));
    }
}
