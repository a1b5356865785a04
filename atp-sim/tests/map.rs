//! Maps: every cell exists, and its value is the ratio of two runs. Waste: the accounts cover every
//! byte.

use atp_sim::{
    experiment::{Outcome, Pattern, Point, Scheme, Stragglers},
    figures::Extent,
    map::{Comparison, Map, MapResult, Measure, Setting, maps, run, write},
    net::topology::LeafSpine,
    runs::Runs,
    workload::Sizes,
};
use std::sync::OnceLock;
use switch_profiles::Profile;

fn pair(scheme: &str, against: &str) -> Comparison {
    Comparison { scheme: scheme.parse().unwrap(), against: against.parse().unwrap() }
}

#[test]
fn map__has_every_cell_in_three_files() {
    let pair = pair("atp:paper", "dctcp-es");
    let folder = tempfile::tempdir().unwrap();
    let (base, mut runs) = (Setting::base(Extent::Quick), Runs::default());
    for drawn in run(&maps(), pair, &base, Extent::Quick, 1, &mut runs).unwrap() {
        let MapResult { map, cells, .. } = &drawn;
        let number =
            map.x_axis.values(Extent::Quick).len() * map.y_axis.values(Extent::Quick).len();
        assert_eq!(cells.len(), number, "{}", map.name);
        write(&drawn, pair, Extent::Quick, 1, folder.path()).unwrap();
        let read = |extension: &str| {
            let name = format!("map-{}.{extension}", map.name);
            std::fs::read_to_string(folder.path().join(name)).unwrap()
        };
        assert_eq!(read("csv").lines().count(), 1 + 2 * number);
        let json: serde_json::Value = serde_json::from_str(&read("json")).unwrap();
        assert_eq!(json["cells"].as_array().unwrap().len(), number);
        // One rectangle for each cell and measure, and one for the background.
        let svg = read("svg");
        assert_eq!(svg.matches("<rect").count(), number * Measure::ALL.len() + 1, "{}", map.name);
        for cell in cells {
            let jobs = cell.scheme.jobs;
            assert_eq!((jobs, cell.scheme.jobs_complete), (cell.against.jobs, jobs));
            // Both schemes have the same jobs, so every cell has a ratio.
            assert!(jobs == 0 || Measure::Completion.of(cell).is_some(), "{cell:?}");
        }
    }
}

/// The last cell of three maps is the ratio of two separate runs.
#[test]
fn map__is_the_ratio_of_two_runs() {
    let (one, other) = ("atp:paper", "dctcp-es");
    let named = |map: &Map| ["fan-in", "exact-share", "slow-links"].contains(&map.name);
    let maps: Vec<Map> = maps().iter().copied().filter(named).collect();
    assert_eq!(maps.len(), 3);
    let base = Setting::base(Extent::Quick);
    let mut runs = Runs::default();
    for drawn in run(&maps, pair(one, other), &base, Extent::Quick, 1, &mut runs).unwrap() {
        let (position, setting) = drawn.map.settings(&base, Extent::Quick).pop().unwrap();
        let cell = drawn.cells.last().unwrap();
        assert_eq!((cell.x, cell.y), position, "{}", drawn.map.name);
        let mean_us = |scheme: &str| {
            let point = setting.point(scheme.parse().unwrap(), 1, Extent::Quick);
            let times = point.run().completions_us();
            times.iter().sum::<f64>() / times.len() as f64
        };
        let expected = mean_us(one) / mean_us(other);
        let ratio = Measure::Completion.of(cell).unwrap();

        assert!((ratio / expected - 1.0).abs() < 1e-9, "{}: {cell:?}", drawn.map.name);
        assert!(
            (expected - 1.0).abs() > 1e-4,
            "{}: both schemes take the same time",
            drawn.map.name
        );
    }
}

/// In one queue for all traffic both schemes have the same ports, and exact jobs are better off
/// beside lanes that yield than beside DCTCP, which nothing marks there.
#[test]
fn map__in_one_queue_both_schemes_share_it() {
    let pair = pair("atp:full:yield+advice+window", "dctcp-es");
    let profile = Some(Profile::one_queue());
    let base = Setting { profile, exact_share: 0.25, ..Setting::base(Extent::Quick) };
    let queues = |scheme| base.point(scheme, 1, Extent::Quick).port_queues();
    assert_eq!(queues(pair.scheme), queues(pair.against));
    let maps: Vec<Map> = maps().into_iter().filter(|map| map.name == "spread").collect();
    let drawn = run(&maps, pair, &base, Extent::Quick, 1, &mut Runs::default()).unwrap();
    let overloaded = drawn[0].cells.last().unwrap();
    assert!(Measure::ExactP99.of(overloaded).unwrap() < 1.0, "{overloaded:?}");
    // Jobs don't begin while lanes drain: a quarter of the rate would take longer.
    assert!(Measure::Completion.of(overloaded).unwrap() < 1.5, "{overloaded:?}");
}

fn points() -> Vec<Point> {
    let atp = ["atp:paper", "atp:base"].map(|name| name.parse().unwrap());
    let schemes = atp.into_iter().chain(Scheme::others());
    let stragglers = Stragglers {
        hosts_share: 0.25,
        hosts_slowdown: 4.0,
        links_share: 0.25,
        links_slowdown: 4.0,
    };
    let network_spec = atp_sim::experiment::NetworkSpec::LeafSpine(LeafSpine {
        leaves: 3,
        hosts_per_leaf: 4,
        spines: 2,
    });
    let point = |scheme: Scheme, sizes: &Sizes, seed| Point {
        scheme,
        network_spec,
        pattern: Pattern::FanIn(3),
        sizes: sizes.clone(),
        load: 0.6,
        duration_ps: atp_sim::engine::MS / 10,
        exact_share: 0.2,
        stragglers,
        buffer_bytes: 40_000,
        seed,
        ..Point::default()
    };
    let mut points = Vec::new();
    for scheme in schemes {
        for (sizes, seed) in [(Sizes::KeyValue, 1), (Sizes::Fixed(10_000), 2), (Sizes::Hadoop, 3)] {
            points.push(point(scheme, &sizes, seed));
        }
    }
    points
}

/// The outcomes of [`points`], shared by two tests.
fn outcomes() -> &'static [(Point, Outcome)] {
    static OUTCOMES: OnceLock<Vec<(Point, Outcome)>> = OnceLock::new();
    OUTCOMES.get_or_init(|| {
        let run = |point: Point| {
            let outcome = point.run();
            (point, outcome)
        };
        points().into_iter().map(run).collect()
    })
}

/// At the end, every byte sent by approximate jobs is useful or wasted. At least the needed
/// messages are useful.
#[test]
fn waste__every_sent_byte_is_useful_or_wasted() {
    for (point, outcome) in outcomes() {
        let (spent, name) = (outcome.spent, point.scheme);
        assert!(spent.sent_bytes > 0, "{name}");
        assert_eq!(spent.sent_bytes, spent.useful_bytes + spent.wasted_bytes(), "{name}");
        assert!(spent.dropped_upstream_bytes <= spent.dropped_bytes, "{name}");
        if spent.dropped_bytes > 0 {
            assert!(outcome.packets_dropped + outcome.packets_trimmed > 0, "{name}");
        }
        // A message takes at least 84 bytes on the wire. Messages of a stream share segments.
        let needed: u64 = outcome
            .approximate()
            .filter(|job| job.completion_ps.is_some())
            .map(|job| u64::from(job.needed))
            .sum();
        let packs = ["DCTCP", "NDP", "MLT", "Aeolus"].contains(&name.spec().title);
        let least = if packs { 1 } else { 84 };
        assert!(spent.useful_bytes >= least * needed, "{name}: {spent:?}, {needed} needed");
    }
}

/// SampleSend leaves no message unfinished, and UDP repeats nothing.
#[test]
fn waste__has_the_kinds_that_a_scheme_allows() {
    for (point, outcome) in outcomes() {
        let spent = outcome.spent;
        match point.scheme.to_string().as_str() {
            "dctcp-ss" | "pfabric-ss" | "ndp-ss" => {
                assert_eq!(spent.unfinished_bytes, 0, "{}", point.scheme)
            }
            "udp" => assert_eq!(spent.repeated_bytes, 0),
            _ => {}
        }
    }
}

/// Slow hosts and links make jobs slower.
#[test]
fn stragglers__jobs_take_longer() {
    let setting = Setting::base(Extent::Quick);
    let mean_us = |setting: &Setting| {
        let times =
            setting.point("dctcp-es".parse().unwrap(), 1, Extent::Quick).run().completions_us();
        times.iter().sum::<f64>() / times.len() as f64
    };
    let of = |stragglers| mean_us(&Setting { stragglers, ..setting.clone() });
    let none = Stragglers::default();
    let slow_hosts = of(Stragglers { hosts_share: 0.5, hosts_slowdown: 10.0, ..none });
    let slow_links = of(Stragglers { links_share: 1.0, links_slowdown: 10.0, ..none });
    assert!(slow_hosts > 1.5 * of(none), "{slow_hosts}");
    assert!(slow_links > 1.5 * of(none), "{slow_links}");
}
