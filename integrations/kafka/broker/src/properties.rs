//! The configuration of a broker that is a controller too.

use std::fmt::Write;
use std::net::SocketAddr;

/// The name of the file, in the broker's folder.
pub const FILE: &str = "server.properties";

/// The addresses of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The clients'.
    pub broker: SocketAddr,
    /// The other controllers'.
    pub controller: SocketAddr,
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
    let Addresses { broker, controller } = all[node - 1];
    let replicas = all.len().min(3).to_string();
    // With three replicas, topics outlive one broker.
    let replicas_in_sync = if all.len() < 3 { "1" } else { "2" };
    let mut lines: Vec<(&str, String)> = vec![
        ("process.roles", "broker,controller".into()),
        ("node.id", node.to_string()),
        ("controller.quorum.voters", voters.join(",")),
        ("controller.listener.names", "CONTROLLER".into()),
        ("listeners", format!("PLAINTEXT://{broker},CONTROLLER://{controller}")),
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
        Addresses { broker: at(port), controller: at(port + 1) }
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
    fn text__a_property_of_the_caller_replaces_ours() {
        let more = [("num.partitions", "9"), ("message.max.bytes", "5")];
        let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let text = text(1, &[at("127.0.0.1", 9092)], 4, &more);
        assert!(has(&text, "num.partitions=9") && has(&text, "message.max.bytes=5"));
        assert!(!has(&text, "num.partitions=4"));
    }
}
