//! The settings of a point, as written beside its outcome.

use super::{Pattern, Point, Tenant, Traffic, fraction_from_msr};
use crate::{
    engine::US,
    net::Unit,
    workload::{Background, Between, Gaps, Shape, Sizes, Trace},
};
use serde::Serialize;
use switch_profiles::{PerRole, Profile};

/// All settings that an outcome depends on, except the messages of a trace. The names follow the
/// command line, with units last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    network: String,
    hosts: u64,
    line_gbit_per_s: f64,
    slow_hosts_share: f64,
    slow_hosts_times: f64,
    slow_links_share: f64,
    slow_links_times: f64,
    load_balancing: String,
    switch_buffer_bytes: u64,
    /// `null` if the scheme or the profile decides.
    ecn_threshold_packets: Option<u32>,
    /// `null` if it is the scheme's own.
    profile: Option<ProfileSettings>,
    profile_limits_count: &'static str,
    #[serde(flatten)]
    messages: MessageSettings,
    begins_us: f64,
    duration_us: f64,
    msr: f64,
    scheme: String,
    exact_hosts_share: f64,
    tenants: Vec<TenantSettings>,
    background: Vec<BackgroundSettings>,
    timer_granularity_us: f64,
    receipt_delay_us: f64,
    seed: u64,
}

/// The source of messages, limited to settings that have an effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "messages", rename_all = "snake_case")]
enum MessageSettings {
    Drawn(DrawnSettings),
    Burst { pattern: String, sizes: String, burst_messages: u32 },
    Trace { trace_jobs: usize, trace_messages: usize, trace_bytes: u64, trace_ends_us: f64 },
    AllReduce { pattern: String, vector_bytes: u64, sizes: String },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct DrawnSettings {
    pattern: String,
    sizes: String,
    gaps: &'static str,
    load: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct TenantSettings {
    #[serde(flatten)]
    messages: DrawnSettings,
    begins_us: f64,
    duration_us: f64,
    msr: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct BackgroundSettings {
    between: String,
    line_share: f64,
    payload_bytes: u32,
    intervals: Vec<IntervalSettings>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct IntervalSettings {
    from_us: f64,
    until_us: f64,
    queue: u8,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ProfileSettings {
    mtu_bytes: u32,
    queues: Vec<QueueSettings>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct QueueSettings {
    dscp: Vec<u8>,
    limit_packets: PerRole<u32>,
    ecn_threshold_packets: Option<u32>,
}

impl Point {
    /// The settings of this point.
    pub fn settings(&self) -> Settings {
        // Destructure all fields, so that a new field cannot be forgotten.
        let Self {
            network_spec,
            rate,
            stragglers,
            load_balancing,
            buffer_bytes,
            ecn_threshold_packets,
            profile,
            unit,
            traffic,
            pattern,
            sizes,
            gaps,
            load,
            begins_ps,
            duration_ps,
            msr,
            scheme,
            exact_share,
            tenants,
            background,
            timer_granularity_ns,
            receipt_delay_ns,
            seed,
        } = self;
        let messages = match traffic {
            Traffic::Drawn => MessageSettings::Drawn(drawn(*pattern, sizes, *gaps, *load)),
            Traffic::Burst(burst) => MessageSettings::Burst {
                pattern: name_of(*pattern),
                sizes: sizes.to_string(),
                burst_messages: burst.messages,
            },
            Traffic::Trace(trace) => of_trace(trace),
            Traffic::AllReduce(all_reduce) => MessageSettings::AllReduce {
                pattern: match all_reduce.shape {
                    Shape::Ring => "ring-allreduce".to_owned(),
                    Shape::Tree => "tree-allreduce".to_owned(),
                },
                vector_bytes: all_reduce.bytes,
                sizes: sizes.to_string(),
            },
        };
        Settings {
            network: network_spec.to_string(),
            hosts: network_spec.hosts(),
            line_gbit_per_s: rate.bits_per_s() as f64 / 1e9,
            slow_hosts_share: stragglers.hosts_share,
            slow_hosts_times: stragglers.hosts_slowdown,
            slow_links_share: stragglers.links_share,
            slow_links_times: stragglers.links_slowdown,
            load_balancing: load_balancing.to_string(),
            switch_buffer_bytes: *buffer_bytes,
            ecn_threshold_packets: *ecn_threshold_packets,
            profile: profile.as_ref().map(of_profile),
            profile_limits_count: match unit {
                Unit::Bytes => "bytes",
                Unit::Packets => "packets",
            },
            messages,
            begins_us: us(*begins_ps),
            duration_us: us(*duration_ps),
            msr: fraction_from_msr(*msr),
            scheme: scheme.to_string(),
            exact_hosts_share: *exact_share,
            tenants: tenants.iter().map(of_tenant).collect(),
            background: background.iter().map(of_background).collect(),
            timer_granularity_us: *timer_granularity_ns as f64 / 1e3,
            receipt_delay_us: *receipt_delay_ns as f64 / 1e3,
            seed: *seed,
        }
    }
}

fn us(ps: u64) -> f64 {
    ps as f64 / US as f64
}

fn of_profile(profile: &Profile) -> ProfileSettings {
    let queues = profile.queues().iter().map(|queue| QueueSettings {
        dscp: queue.dscp.clone(),
        limit_packets: queue.limit_packets,
        ecn_threshold_packets: queue.ecn_threshold_packets,
    });
    ProfileSettings { mtu_bytes: profile.mtu_bytes(), queues: queues.collect() }
}

fn name_of(pattern: Pattern) -> String {
    match pattern {
        Pattern::Random => "random".to_owned(),
        Pattern::Permutation => "permutation".to_owned(),
        Pattern::Incast(None) => "incast".to_owned(),
        Pattern::Incast(Some(senders)) => format!("incast:{senders}"),
        Pattern::FanIn(senders) => format!("fan-in:{senders}"),
    }
}

fn drawn(pattern: Pattern, sizes: &Sizes, gaps: Gaps, load: f64) -> DrawnSettings {
    let gaps = match gaps {
        Gaps::None => "none",
        Gaps::Poisson => "poisson",
        Gaps::KeyValue => "keyvalue",
    };
    DrawnSettings { pattern: name_of(pattern), sizes: sizes.to_string(), gaps, load }
}

fn of_trace(trace: &Trace) -> MessageSettings {
    let messages = || trace.jobs.iter().flat_map(|job| job.messages.iter());
    MessageSettings::Trace {
        trace_jobs: trace.jobs.len(),
        trace_messages: messages().count(),
        trace_bytes: messages().map(|message| u64::from(message.1)).sum(),
        trace_ends_us: us(trace.last_ps()),
    }
}

fn of_tenant(tenant: &Tenant) -> TenantSettings {
    let Tenant { pattern, sizes, gaps, load, begins_ps, duration_ps, msr } = tenant;
    TenantSettings {
        messages: drawn(*pattern, sizes, *gaps, *load),
        begins_us: us(*begins_ps),
        duration_us: us(*duration_ps),
        msr: fraction_from_msr(*msr),
    }
}

fn of_background(background: &Background) -> BackgroundSettings {
    let pair = |(from, to): &(u32, u32)| format!("{from}-{to}");
    BackgroundSettings {
        between: match &background.between {
            Between::Drawn(number) => format!("{number} drawn pairs"),
            Between::Pairs(pairs) => pairs.iter().map(pair).collect::<Vec<_>>().join(" "),
        },
        line_share: background.share,
        payload_bytes: background.payload_bytes,
        intervals: background
            .intervals
            .iter()
            .map(|interval| IntervalSettings {
                from_us: us(interval.from_ps),
                until_us: us(interval.until_ps),
                queue: interval.queue,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{AllReduce, LoadBalancing};

    fn json(point: &Point) -> serde_json::Value {
        serde_json::to_value(point.settings()).unwrap()
    }

    #[test]
    fn settings__include_only_what_has_an_effect() {
        let drawn = json(&Point::default());
        assert_eq!((&drawn["messages"], &drawn["pattern"]), (&"drawn".into(), &"random".into()));
        assert_eq!((&drawn["load"], &drawn["duration_us"]), (&0.6.into(), &1000.0.into()));
        let trace: Trace = "1 0 1 300\n2.5 0 2 50".parse().unwrap();
        let traced = json(&Point { traffic: Traffic::Trace(trace.into()), ..Point::default() });
        assert_eq!((&traced["trace_bytes"], &traced["trace_ends_us"]), (&350.into(), &2.5.into()));
        assert!(traced.get("load").is_none() && traced.get("pattern").is_none());
        let ring = Traffic::AllReduce(AllReduce { shape: Shape::Ring, bytes: 9 });
        let ring = json(&Point { traffic: ring, ..Point::default() });
        assert_eq!(
            (&ring["pattern"], &ring["vector_bytes"]),
            (&"ring-allreduce".into(), &9.into())
        );
        assert!(ring.get("load").is_none());
    }

    /// Different points have different settings.
    #[test]
    fn settings__show_every_change() {
        let base = Point::default();
        let settings = base.settings();
        for changed in [
            Point { seed: 2, ..base.clone() },
            Point { load_balancing: LoadBalancing::Spray, ..base.clone() },
            Point { unit: Unit::Packets, ..base.clone() },
            Point { buffer_bytes: 9, ..base.clone() },
            Point { ecn_threshold_packets: Some(9), ..base.clone() },
            Point { sizes: Sizes::Table(vec![(9.0, 0.5), (10.0, 1.0)]), ..base.clone() },
            Point { pattern: Pattern::FanIn(3), ..base.clone() },
            Point { exact_share: 0.5, ..base.clone() },
            Point { begins_ps: 1, ..base.clone() },
            Point { background: vec!["0.5@3".parse().unwrap()], ..base.clone() },
        ] {
            assert_ne!(changed.settings(), settings, "{changed:?}");
        }
    }
}
