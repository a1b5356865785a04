//! The metrics, in OpenMetrics text.

use approxlib::control::{HostStats, JobUser, LaneStats, PolicyRefusals};
use atp_metrics::Scrapes;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use std::sync::atomic::AtomicU64;

type Value = Gauge<f64, AtomicU64>;
type Total = Counter<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    /// The job's user, who has job ids of its own; empty if the daemon doesn't say.
    user: String,
    /// Not `job`: Prometheus puts the name of its scrape job there.
    job_id: u32,
    group: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Event {
    event: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Program {
    program: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Limit {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
    pacing: String,
    law: String,
    epochs: String,
}

/// The state of a host as OpenMetrics text.
pub fn text(stats: &HostStats, scrapes: Scrapes) -> String {
    let mut registry = Registry::with_prefix("atp");
    host(registry.sub_registry_with_prefix("daemon"), stats, scrapes);
    policy(&mut registry, stats);
    programs(&mut registry, stats);
    groups(&mut registry, stats);
    let mut out = String::new();
    // Writing to a string doesn't fail.
    encode(&mut out, &registry).unwrap_or_default();
    out
}

fn host(registry: &mut Registry, stats: &HostStats, scrapes: Scrapes) {
    let info = Family::<Build, Value>::default();
    let build = Build {
        version: env!("CARGO_PKG_VERSION"),
        pacing: stats.pacing.clone(),
        law: stats.law.clone(),
        epochs: stats.epochs.clone(),
    };
    info.get_or_create(&build).set(1.0);
    registry.register("build", "The daemon's version and settings; always 1", info);
    let uptime = Value::default();
    uptime.set(stats.uptime_s);
    let help = "Time from the daemon's start to the last run of its control loop";
    registry.register_with_unit("uptime", help, Unit::Seconds, uptime);
    let age = Value::default();
    age.set((stats.uptime_s - stats.counters_read_s).max(0.0));
    let help = "Age of the datapath's counters at the last run of the control loop";
    registry.register_with_unit("counters_age", help, Unit::Seconds, age);
    for (name, help, value) in [
        ("jobs", "Jobs of this host", stats.jobs.len()),
        ("lanes", "Lanes of this host", stats.lanes.len()),
    ] {
        let gauge = Value::default();
        gauge.set(value as f64);
        registry.register(name, help, gauge);
    }
    let interfaces = Family::<State, Value>::default();
    for state in ["native", "tc", "gone", "not covered"] {
        let number = stats.interfaces.values().filter(|one| *one == state).count();
        interfaces.get_or_create(&State { state }).set(number as f64);
    }
    let help = "Interfaces, by the hook that consumes ACKs or the reason why there is none";
    registry.register("interfaces", help, interfaces);
    let help = "Connections for these metrics that were closed to make room for others";
    for (name, help, count) in [
        ("scrapes", "Scrapes of these metrics before this page was rendered", scrapes.answered),
        ("scrape_connections_evicted", help, scrapes.evicted),
    ] {
        let total = Total::default();
        total.inc_by(count as f64);
        registry.register(name, help, total);
    }
    let skipped = Total::default();
    skipped.inc_by(stats.skipped_entries as f64);
    let help = "Entries of the snapshot page that these metrics left out, because the daemon was \
                writing them";
    registry.register("skipped_entries", help, skipped);
}

fn policy(registry: &mut Registry, stats: &HostStats) {
    let refusals = Family::<Limit, Total>::default();
    let PolicyRefusals { jobs_max, msr_min, queue_highest } = stats.policy_refusals;
    for (limit, count) in
        [("jobs_max", jobs_max), ("msr_min", msr_min), ("queue_highest", queue_highest)]
    {
        refusals.get_or_create(&Limit { limit }).inc_by(count as f64);
    }
    let help = "Requests beyond a limit of the operator's policy";
    registry.register("policy_refusals", help, refusals);
}

fn programs(registry: &mut Registry, stats: &HostStats) {
    let events = Family::<Event, Total>::default();
    for (name, count) in &stats.counters {
        events.get_or_create(&Event { event: name.clone() }).inc_by(*count as f64);
    }
    let help = "Events of the eBPF programs; every drop has one";
    registry.register("datapath_events", help, events);
    let coverage = Family::<Outcome, Total>::default();
    for (outcome, count) in [
        ("refused", stats.coverage.refused_flows),
        ("lost", stats.coverage.lost_flows),
        ("returned", stats.coverage.returned_flows),
    ] {
        coverage.get_or_create(&Outcome { outcome }).inc_by(count as f64);
    }
    let help = "Flows whose packets pass no program: refused, lost while they ran, or returned";
    registry.register("coverage_flows", help, coverage);
    let (runs, times) = (Family::<Program, Total>::default(), Family::<Program, Total>::default());
    for (name, program) in stats.programs.iter().flatten() {
        let labels = Program { program: name.clone() };
        runs.get_or_create(&labels).inc_by(program.runs as f64);
        times.get_or_create(&labels).inc_by(program.run_ns as f64 / 1e9);
    }
    let help = "Runs of a program while kernel.bpf_stats_enabled was 1";
    registry.register("program_runs", help, runs);
    let help = "Time of these runs";
    registry.register_with_unit("program_run", help, Unit::Seconds, times);
}

/// A metric of a group: its name, its unit, its help, and its value from the group's lanes.
type GroupMetric = (&'static str, Option<Unit>, &'static str, fn(&[&LaneStats]) -> Option<f64>);

fn groups(registry: &mut Registry, stats: &HostStats) {
    let mut groups = std::collections::BTreeMap::<_, Vec<&LaneStats>>::new();
    for lane in &stats.lanes {
        groups.entry((lane.job_user(), lane.job, lane.group.group)).or_default().push(lane);
    }
    let metrics: [GroupMetric; 11] = [
        ("group_lanes", None, "Lanes of the group on this host", |lanes| Some(lanes.len() as f64)),
        ("group_msr", Some(Unit::Ratios), "Minimal sampling rate", |lanes| {
            lanes.first().map(|lane| lane.group.msr)
        }),
        // The lanes of one connection share these three: the largest is the group's.
        ("group_messages", None, "N of the group's current window, once it is known", |lanes| {
            known(max(lanes, |lane| f64::from(lane.group.messages)))
        }),
        ("group_delivered_messages", None, "Messages with a receipt", |lanes| {
            max(lanes, |lane| f64::from(lane.group.delivered))
        }),
        ("group_lost_messages", None, "Messages lost", |lanes| {
            max(lanes, |lane| f64::from(lane.group.lost))
        }),
        (
            "group_rate",
            Some(Unit::Other("bytes_per_second".into())),
            "Sum of the lanes' rates",
            |lanes| Some(lanes.iter().map(|lane| lane.rate_bytes_per_s as f64).sum()),
        ),
        (
            "group_advice",
            Some(Unit::Other("bytes_per_second".into())),
            "Sum of the rates that receivers advise, on the wire",
            |lanes| {
                let advice = lanes.iter().filter_map(|lane| lane.advice_bytes_per_s);
                advice.reduce(u64::saturating_add).map(|sum| sum as f64)
            },
        ),
        ("group_loss", Some(Unit::Ratios), "Highest loss of a lane's last epoch", |lanes| {
            max(lanes, |lane| lane.loss)
        }),
        ("group_target_loss", Some(Unit::Ratios), "Highest target loss rate of a lane", |lanes| {
            max(lanes, |lane| lane.tlr)
        }),
        ("group_queue", None, "Lowest switch queue of a lane, as its number: 0 to 7", |lanes| {
            max(lanes, |lane| f64::from(lane.queue))
        }),
        ("group_rtt", Some(Unit::Seconds), "Longest smoothed round-trip time of a lane", |lanes| {
            known(max(lanes, |lane| lane.rtt_us.unwrap_or(0.0) / 1e6))
        }),
    ];
    for (name, unit, help, value) in metrics {
        let family = Family::<Of, Value>::default();
        for (&(user, job_id, group), lanes) in &groups {
            let user = user.as_ref().map(JobUser::to_string).unwrap_or_default();
            if let Some(value) = value(lanes) {
                family.get_or_create(&Of { user, job_id, group }).set(value);
            }
        }
        match unit {
            Some(unit) => registry.register_with_unit(name, help, unit, family),
            None => registry.register(name, help, family),
        }
    }
}

fn max(lanes: &[&LaneStats], value: impl Fn(&LaneStats) -> f64) -> Option<f64> {
    lanes.iter().map(|lane| value(lane)).reduce(f64::max)
}

/// A value of which the snapshot says by 0 that it isn't known.
fn known(value: Option<f64>) -> Option<f64> {
    value.filter(|value| *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use approxlib::control::{GroupStats, ProgramRuns};
    use std::{collections::BTreeSet, path::Path};

    fn sample() -> HostStats {
        let group = GroupStats { group: 3, msr: 0.8, messages: 10, delivered: 4, lost: 1 };
        let lane = |lane, rate_bytes_per_s, loss| LaneStats {
            lane,
            job: 7,
            job_uid: Some(1000),
            job_container: None,
            flow: 0,
            identity: None,
            opened_s: 1.0,
            group,
            rate_bytes_per_s,
            advice_bytes_per_s: (lane == 0).then_some(900),
            achieved_bytes_per_s: None,
            sent_packets: None,
            sent_bytes: None,
            queue: 2,
            dscp: None,
            epoch: 1,
            epochs_evaluated: 1,
            loss,
            tlr: 0.2,
            rtt_us: Some(150.0),
            rtt_min_us: Some(100.0),
            burst_packets: 1,
            too_far_packets: 0,
        };
        HostStats {
            interfaces: [("eth0".to_owned(), "tc".to_owned())].into(),
            counters: [("too_far".to_owned(), 5)].into(),
            programs: Some(
                [("atp_egress".to_owned(), ProgramRuns { runs: 2, run_ns: 4_000 })].into(),
            ),
            policy_refusals: PolicyRefusals { jobs_max: 4, msr_min: 1, queue_highest: 0 },
            lanes: vec![lane(0, 1_000, 0.1), lane(1, 500, 0.3)],
            ..HostStats::default()
        }
    }

    #[test]
    fn text__sums_lanes_of_a_group_and_ends_as_openmetrics_does() {
        let text = text(&sample(), Scrapes { answered: 9, evicted: 3 });
        for line in [
            "atp_group_rate_bytes_per_second{user=\"1000\",job_id=\"7\",group=\"3\"} 1500.0",
            "atp_group_advice_bytes_per_second{user=\"1000\",job_id=\"7\",group=\"3\"} 900.0",
            "atp_group_loss_ratios{user=\"1000\",job_id=\"7\",group=\"3\"} 0.3",
            "atp_group_lost_messages{user=\"1000\",job_id=\"7\",group=\"3\"} 1.0",
            "atp_datapath_events_total{event=\"too_far\"} 5.0",
            "atp_policy_refusals_total{limit=\"jobs_max\"} 4.0",
            "atp_policy_refusals_total{limit=\"queue_highest\"} 0.0",
            "atp_daemon_interfaces{state=\"tc\"} 1.0",
            "atp_daemon_scrapes_total 9.0",
            "atp_daemon_scrape_connections_evicted_total 3.0",
        ] {
            assert!(text.lines().any(|has| has == line), "{line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    /// Two users' jobs of one id, and that of a daemon that names no user.
    #[test]
    fn text__keeps_the_jobs_of_users_apart() {
        let mut stats = sample();
        stats.lanes[1].job_uid = Some(1001);
        stats.lanes.push(LaneStats { lane: 2, job_uid: None, ..stats.lanes[0].clone() });
        let text = text(&stats, Scrapes::default());
        let rates = text.lines().filter(|line| line.starts_with("atp_group_rate"));
        let expected =
            [("1000", "1000.0"), ("1001", "500.0"), ("", "1000.0")].map(|(user, rate)| {
                let of = format!("{{user=\"{user}\",job_id=\"7\",group=\"3\"}}");
                format!("atp_group_rate_bytes_per_second{of} {rate}")
            });
        assert_eq!(rates.collect::<BTreeSet<_>>(), expected.iter().map(String::as_str).collect());
    }

    /// A dashboard would show a round trip of 0 s, or an advice to send nothing.
    #[test]
    fn text__has_no_value_that_is_not_known() {
        let mut stats = sample();
        let unknown = ["atp_group_messages{", "atp_group_rtt_seconds{", "atp_group_advice_bytes"];
        let has = |stats: &HostStats| {
            let text = text(stats, Scrapes::default());
            unknown.map(|name| text.lines().any(|line| line.starts_with(name)))
        };
        assert_eq!(has(&stats), [true; 3]);
        for lane in &mut stats.lanes {
            (lane.group.messages, lane.rtt_us, lane.advice_bytes_per_s) = (0, None, None);
        }
        assert_eq!(has(&stats), [false; 3]);
    }

    /// A dashboard or an alert with a name that doesn't exist shows nothing, and nobody notices.
    #[test]
    fn text__has_every_name_of_dashboard_and_alerts() {
        let text = text(&sample(), Scrapes::default());
        let has: BTreeSet<&str> =
            text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/monitoring");
        for file in ["grafana.json", "alerts.yml", "alerts-test.yml"] {
            let used = std::fs::read_to_string(folder.join(file)).unwrap();
            let words = used.split(|c: char| !c.is_ascii_lowercase() && c != '_');
            let names: BTreeSet<&str> = words.filter(|word| word.starts_with("atp_")).collect();
            assert!(names.len() >= 3, "{file}");
            let unknown: Vec<_> = names.difference(&has).collect();
            assert!(unknown.is_empty(), "{file}: {unknown:?}");
        }
    }
}
