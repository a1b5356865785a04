//! Metrics for Prometheus, over HTTP.
//!
//! Labels are names of topics, groups and clusters, and numbers of partitions: neither addresses
//! nor properties of clients.

use anyhow::{Context, Result};
use atp_metrics::{Peer, Scrapes, Server};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use std::{fmt::Debug, hash::Hash, net::SocketAddr, sync::atomic::AtomicU64};

type Value = Gauge<f64, AtomicU64>;
type Total = Counter<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

/// Labels of a metric.
pub trait Labels: EncodeLabelSet + Clone + Debug + Eq + Hash + Send + Sync + 'static {}

impl<T: EncodeLabelSet + Clone + Debug + Eq + Hash + Send + Sync + 'static> Labels for T {}

/// A counter: its name, its meaning, and its value.
pub type TotalOf<T> = (&'static str, &'static str, fn(&T) -> u64);

/// Serves metrics at `address`, if there is one. `fill` registers them for each page.
///
/// # Errors
/// The address can't be bound.
pub fn serve(
    address: Option<SocketAddr>,
    prefix: &'static str,
    mut fill: impl FnMut(&mut Registry) + Send + 'static,
) -> Result<Option<Server>> {
    let Some(address) = address else { return Ok(None) };
    let render = move |scrapes| text(prefix, scrapes, &mut fill);
    // The users of this host are one peer: the monitor of another host keeps its places.
    let find_peer = |remote: SocketAddr, _| Peer::host(remote.ip());
    let server = Server::start(address, find_peer, render)
        .with_context(|| format!("can't serve metrics at {address}: choose another `metrics`"))?;
    tracing::info!(url = format!("http://{}/metrics", server.address()), "serving metrics");
    Ok(Some(server))
}

fn text(prefix: &'static str, scrapes: Scrapes, fill: &mut impl FnMut(&mut Registry)) -> String {
    let mut registry = Registry::with_prefix(prefix);
    let build = [(Build { version: env!("CARGO_PKG_VERSION") }, 1.0)];
    gauge(&mut registry, "build", None, "The program's version; always 1", build);
    let help = "Scrapes of these metrics before this page was rendered";
    one_total(&mut registry, "scrapes", help, scrapes.answered);
    let help = "Connections for these metrics that were closed to make room for others";
    one_total(&mut registry, "scrape_connections_evicted", help, scrapes.evicted);
    fill(&mut registry);
    let mut out = String::new();
    // Writing to a string doesn't fail.
    encode(&mut out, &registry).unwrap_or_default();
    out
}

/// Registers a counter that the program has once.
pub fn one_total(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let total = Total::default();
    total.inc_by(value as f64);
    registry.register(name, help, total);
}

/// Registers a gauge that the program has once.
pub fn one_gauge(registry: &mut Registry, name: &str, unit: Unit, help: &str, value: f64) {
    let gauge = Value::default();
    gauge.set(value);
    registry.register_with_unit(name, help, unit, gauge);
}

/// Registers a gauge with these values.
pub fn gauge<L: Labels>(
    registry: &mut Registry,
    name: &str,
    unit: Option<Unit>,
    help: &str,
    values: impl IntoIterator<Item = (L, f64)>,
) {
    let family = Family::<L, Value>::default();
    for (labels, value) in values {
        family.get_or_create(&labels).set(value);
    }
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family),
        None => registry.register(name, help, family),
    }
}

/// Registers a counter with these values.
pub fn total<L: Labels>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (L, u64)>,
) {
    let family = Family::<L, Total>::default();
    for (labels, value) in values {
        family.get_or_create(&labels).inc_by(value as f64);
    }
    registry.register(name, help, family);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct Of {
        topic: String,
    }

    /// A sender chooses the names of its topics.
    #[test]
    fn text__escapes_labels() {
        let fill = &mut |registry: &mut Registry| {
            let of = Of { topic: "a\"} 1\n\\b".to_owned() };
            total(registry, "records", "Records", [(of, 7)]);
        };
        let text = text("atp_kafka", Scrapes { answered: 3, evicted: 0 }, fill);
        let line = r#"atp_kafka_records_total{topic="a\"} 1\n\\b"} 7.0"#;
        assert!(text.lines().any(|has| has == line), "{line} in\n{text}");
        assert!(text.contains("\natp_kafka_scrapes_total 3.0\n"), "{text}");
    }
}
