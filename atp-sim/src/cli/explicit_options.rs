//! Finds options that the user wrote but that have no effect on the run.

use anyhow::{Result, bail};
use atp_sim::{
    experiment::{Point, Scheme, Traffic},
    scheme::{SCHEMES, Spec, dctcp, udp},
};
use clap::{ArgMatches, parser::ValueSource};
use std::collections::BTreeSet;

/// The options that the user wrote, by field name. Options with their default values are not
/// included.
#[derive(Debug, Default)]
pub struct ExplicitOptions(BTreeSet<String>);

impl ExplicitOptions {
    /// The explicit options of a subcommand.
    pub fn of(matches: &ArgMatches) -> Self {
        let is_written = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        // Groups have ids but no values.
        let is_option = |id: &&str| matches.try_contains_id(id).unwrap_or(false);
        let ids = matches.ids().map(clap::Id::as_str);
        Self(ids.filter(is_option).filter(is_written).map(str::to_owned).collect())
    }

    /// Refuses an option without an effect, because the user expects one.
    ///
    /// # Errors
    /// The first such option, and the reason why it has no effect.
    pub fn refuse_without_effect(&self, point: &Point, schemes: &[Scheme]) -> Result<()> {
        let is_traced = self.0.contains("trace") && point.background.is_empty();
        let of_trace =
            ("duration_us", is_traced, "the trace has the times of the messages".to_owned());
        for (option, has_no_effect, why) in
            without_effect(point, schemes).into_iter().chain([of_trace])
        {
            if has_no_effect && self.0.contains(option) {
                bail!("--{} has no effect here: {why}; leave it out", option.replace('_', "-"))
            }
        }
        Ok(())
    }

    /// A note about an option that has no effect on some of the schemes.
    pub fn partly_without_effect(&self, point: &Point, schemes: &[Scheme]) -> Option<String> {
        let own: Vec<String> = schemes
            .iter()
            .filter(|scheme| has_own_buffer(point, **scheme))
            .map(Scheme::to_string)
            .collect();
        (self.0.contains("buffer") && !own.is_empty()).then(|| {
            format!(
                "--buffer has no effect on {}: their ports have small buffers of their own",
                own.join(", ")
            )
        })
    }
}

fn has_own_buffer(point: &Point, scheme: Scheme) -> bool {
    let queues = Point { scheme, ..point.clone() }.port_queues();
    if !scheme.spec().shares_buffer && queues.buffer_bytes != u64::MAX {
        // Only the packets of exact jobs wait in the switch's shared buffer.
        return point.exact_share == 0.0;
    }
    queues.buffer_bytes == u64::MAX
}

/// Whether a scheme's switches have a queue that marks packets.
fn has_marks(point: &Point, scheme: Scheme) -> bool {
    let queues = Point { scheme, ..point.clone() }.port_queues();
    queues.clone().with_ecn_threshold(1) != queues.with_ecn_threshold(2)
}

fn without_effect(point: &Point, schemes: &[Scheme]) -> Vec<(&'static str, bool, String)> {
    let all_reduce = matches!(point.traffic, Traffic::AllReduce(_));
    // The duration of an all-reduce matters only to background traffic.
    let no_duration = all_reduce && point.background.is_empty();
    let no_laws = !schemes.iter().any(|scheme| scheme.spec().takes_laws);
    let keeps_path = |spec: &Spec| point.load_balancing.sprays(spec.sprays) == spec.sprays;
    let all_keep_path = schemes.iter().all(|scheme| keeps_path(scheme.spec()))
        && (point.exact_share == 0.0 || keeps_path(&dctcp::SPEC))
        && (point.background.is_empty() || keeps_path(&udp::SPEC));
    let own_buffers = schemes.iter().all(|scheme| has_own_buffer(point, *scheme));
    let no_marks = !schemes.iter().any(|scheme| has_marks(point, *scheme));
    let one_switch = point.network_spec.switches_max() == 1;
    let network_spec = point.network_spec;
    let why = str::to_owned;
    let with_laws = titles(|spec| spec.takes_laws);
    // One queue for all traffic is that of other schemes too.
    let no_queues = no_laws && {
        let own = Point { profile: None, ..point.clone() };
        let of = |point: &Point, scheme| Point { scheme, ..point.clone() }.port_queues();
        schemes.iter().all(|scheme| of(point, *scheme) == of(&own, *scheme))
    };
    let no_profile =
        format!("only the switches of {with_laws} have a profile, and no scheme is {with_laws}");
    let mut idle = vec![
        ("vector_bytes", !all_reduce, why("only ring-allreduce and tree-allreduce have a vector")),
        ("load", all_reduce, why("an all-reduce sends as fast as it can")),
        ("gaps", all_reduce, why("all messages of an all-reduce transfer are available at once")),
        ("msr", point.exact_share == 1.0, why("with --exact 1 every job is exact")),
        ("load_balancing", one_switch, format!("{network_spec} has one path between two hosts")),
        ("load_balancing", all_keep_path, why("it is the schemes' own choice")),
        ("slow_links", one_switch, format!("{network_spec} has no link between two switches")),
        ("profile", no_queues, no_profile.clone()),
        (
            "timer_granularity_us",
            no_laws,
            format!("only {with_laws} uses it, and no scheme is {with_laws}"),
        ),
        (
            "receipt_delay_us",
            no_laws,
            format!("only {with_laws} has receipts, and no scheme is {with_laws}"),
        ),
        ("duration_us", no_duration, why("an all-reduce runs until it is complete")),
        ("packet_limits", no_queues, no_profile),
        ("ecn_threshold_packets", no_marks, why("the ports of these schemes mark no packets")),
        ("buffer", own_buffers, why("the ports of these schemes have small buffers of their own")),
    ];
    idle.extend(stragglers_without_effect(point));
    idle
}

/// The titles of the schemes with a property, for texts.
fn titles(has: impl Fn(&Spec) -> bool) -> String {
    let titles: Vec<_> = SCHEMES.iter().filter(|spec| has(spec)).map(|spec| spec.title).collect();
    titles.join(" or ")
}

/// Straggler options without an effect. Any value but the default `0:1` must slow something down.
fn stragglers_without_effect(point: &Point) -> impl Iterator<Item = (&'static str, bool, String)> {
    let Point { network_spec, stragglers, .. } = point;
    let numbers = stragglers.numbers(*network_spec);
    let (network_spec, what) = (network_spec.to_string(), ["hosts", "links between switches"]);
    let each = [
        ("slow_hosts", stragglers.hosts_share, stragglers.hosts_slowdown, numbers.0, what[0]),
        ("slow_links", stragglers.links_share, stragglers.links_slowdown, numbers.1, what[1]),
    ];
    each.into_iter().filter(|(_, share, times, ..)| *share > 0.0 || *times > 1.0).flat_map(
        move |(option, share, times, number, what)| {
            let no_slower =
                "a factor of 1 slows nothing down: choose more than 1".to_owned();
            let none =
                format!(
                "{share} of the {what} of {network_spec} rounds to none of them: choose a larger share"
            );
            [(option, times == 1.0, no_slower), (option, number == 0, none)]
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_sim::experiment::{LoadBalancing, Stragglers};

    fn explicit_options(options: &[&str]) -> ExplicitOptions {
        ExplicitOptions(options.iter().map(|option| (*option).to_owned()).collect())
    }

    fn schemes(names: &str) -> Vec<Scheme> {
        names.split(',').map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn refuse_without_effect__options_without_effect() {
        let star = Point { network_spec: "star:5".parse().unwrap(), ..Point::default() };
        let exact = Point { exact_share: 1.0, ..Point::default() };
        let plain = Point::default();
        let sprayed = Point { load_balancing: LoadBalancing::Spray, ..Point::default() };
        for (option, point, names) in [
            ("load_balancing", &star, "atp"),
            ("slow_links", &star, "atp"),
            ("msr", &exact, "atp,udp"),
            ("vector_bytes", &plain, "atp"),
            ("profile", &plain, "pfabric-es,udp"),
            ("packet_limits", &plain, "dctcp-es"),
            ("buffer", &plain, "pfabric-es,ndp-ss"),
            ("load_balancing", &sprayed, "ndp-es"),
            ("load_balancing", &plain, "atp,ndp-es"),
        ] {
            let schemes = schemes(names);
            let error = explicit_options(&[option])
                .refuse_without_effect(point, &schemes)
                .unwrap_err()
                .to_string();
            assert!(error.contains(&option.replace('_', "-")), "{error}");
            explicit_options(&["seed"]).refuse_without_effect(point, &schemes).unwrap();
        }
    }

    /// The duration limits background traffic. Without background traffic, a trace or an all-reduce
    /// ends by itself.
    #[test]
    fn refuse_without_effect__a_duration_without_effect() {
        let shape = atp_sim::workload::Shape::Ring;
        let ring = Traffic::AllReduce(atp_sim::experiment::AllReduce { shape, bytes: 9 });
        let ring = Point { traffic: ring, ..Point::default() };
        let beside =
            |point: &Point| Point { background: vec!["0.5@4".parse().unwrap()], ..point.clone() };
        let (plain, udp) = (Point::default(), schemes("udp"));
        for (options, point) in [(&["duration_us"][..], &ring), (&["duration_us", "trace"], &plain)]
        {
            let error = explicit_options(options)
                .refuse_without_effect(point, &udp)
                .unwrap_err()
                .to_string();
            assert!(error.contains("--duration-us has no effect here"), "{error}");
            explicit_options(options).refuse_without_effect(&beside(point), &udp).unwrap();
        }
        explicit_options(&["duration_us", "coflows"]).refuse_without_effect(&plain, &udp).unwrap();
    }

    #[test]
    fn refuse_without_effect__stragglers_that_change_nothing() {
        let refused = |option: &str, stragglers| {
            let network_spec = "leaf-spine:2,3,2".parse().unwrap();
            let point = Point { network_spec, stragglers, ..Point::default() };
            let refused =
                explicit_options(&[option]).refuse_without_effect(&point, &schemes("udp"));
            refused.err().map(|error| error.to_string())
        };
        let hosts = |hosts_share, hosts_slowdown| {
            let none = Stragglers::default();
            refused("slow_hosts", Stragglers { hosts_share, hosts_slowdown, ..none })
        };
        let links = |links_share, links_slowdown| {
            let none = Stragglers::default();
            refused("slow_links", Stragglers { links_share, links_slowdown, ..none })
        };
        // Half a host or half a link rounds up to one.
        assert!(hosts(0.1, 4.0).is_none() && links(0.125, 4.0).is_none());
        assert!(
            hosts(0.0, 1.0).is_none() && links(0.0, 1.0).is_none(),
            "the default must be accepted"
        );
        assert!(hosts(0.0, 4.0).unwrap().contains("choose a larger share"));
        let error = hosts(0.08, 4.0).unwrap();
        assert!(error.contains("0.08 of the hosts of leaf-spine:2,3,2 rounds to none"), "{error}");
        assert!(links(0.1, 4.0).unwrap().contains("links between switches"));
        for error in [hosts(0.5, 1.0), links(0.5, 1.0)] {
            assert!(error.unwrap().contains("choose more than 1"));
        }
    }

    #[test]
    fn refuse_without_effect__accepts_options_with_an_effect() {
        let all = ["slow_links", "msr", "profile", "packet_limits", "buffer", "load"];
        explicit_options(&all)
            .refuse_without_effect(&Point::default(), &schemes("atp,pfabric-es,ndp-es"))
            .unwrap();
        for load_balancing in [LoadBalancing::Ecmp, LoadBalancing::Spray] {
            let point = Point { load_balancing, ..Point::default() };
            explicit_options(&["load_balancing"])
                .refuse_without_effect(&point, &schemes("dctcp-es,ndp-es"))
                .unwrap();
        }
        // One queue for all traffic is DCTCP's too.
        let profile = Some(switch_profiles::Profile::one_queue());
        let one_queue = Point { profile, ..Point::default() };
        explicit_options(&["profile", "packet_limits"])
            .refuse_without_effect(&one_queue, &schemes("dctcp-es"))
            .unwrap();
        let note = explicit_options(&all)
            .partly_without_effect(&Point::default(), &schemes("atp,pfabric-es"))
            .unwrap();
        assert!(note.contains("pfabric-es") && !note.contains("atp"), "{note}");
        assert!(
            explicit_options(&all)
                .partly_without_effect(&Point::default(), &schemes("atp,udp"))
                .is_none()
        );
    }
}
