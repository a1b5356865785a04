//! Which options stand on the command line, and which of those say nothing about what is run.

use anyhow::{Result, bail};
use atp_sim::experiment::{Point, Scheme, Traffic};
use clap::{ArgMatches, parser::ValueSource};
use std::collections::BTreeSet;

/// Options that the user wrote, by the names of their fields: not those that have their defaults.
#[derive(Debug, Default)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// Of a subcommand.
    pub fn of(matches: &ArgMatches) -> Self {
        let is_written = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        // Groups have names too, and no values.
        let is_option = |id: &&str| matches.try_contains_id(id).unwrap_or(false);
        let ids = matches.ids().map(clap::Id::as_str);
        Self(ids.filter(is_option).filter(is_written).map(str::to_owned).collect())
    }

    /// Refuses what would say nothing: whoever writes it expects something of it.
    ///
    /// # Errors
    /// Which option, and why nothing follows from it.
    pub fn refuse_idle(&self, point: &Point, schemes: &[Scheme]) -> Result<()> {
        let is_traced = self.0.contains("trace") && point.background.is_empty();
        let of_trace = ("duration_us", is_traced, "messages come when the trace says".to_owned());
        for (option, is_idle, why) in idle(point, schemes).into_iter().chain([of_trace]) {
            if is_idle && self.0.contains(option) {
                bail!("--{} says nothing here: {why}", option.replace('_', "-"))
            }
        }
        Ok(())
    }

    /// What says something about some of the schemes only, in a sentence.
    pub fn partly_idle(&self, point: &Point, schemes: &[Scheme]) -> Option<String> {
        let own: Vec<String> = schemes
            .iter()
            .filter(|scheme| has_own_buffer(point, **scheme))
            .map(Scheme::to_string)
            .collect();
        (self.0.contains("buffer") && !own.is_empty()).then(|| {
            format!(
                "--buffer says nothing about {}: ports have small ones of their own",
                own.join(", ")
            )
        })
    }
}

fn has_own_buffer(point: &Point, scheme: Scheme) -> bool {
    let queues = Point { scheme, ..point.clone() }.port_queues();
    if !scheme.spec().shares_buffer && queues.buffer_bytes != u64::MAX {
        // Only exact jobs' packets wait in the switch's own beside NDP.
        return point.exact_share == 0.0;
    }
    queues.buffer_bytes == u64::MAX
}

fn idle(point: &Point, schemes: &[Scheme]) -> Vec<(&'static str, bool, String)> {
    let all_reduce = matches!(point.traffic, Traffic::AllReduce(_));
    // Background traffic goes on for so long.
    let undisturbed = all_reduce && point.background.is_empty();
    let no_atp = !schemes.iter().any(|scheme| scheme.spec().takes_laws);
    let only_ndp = schemes.iter().all(|scheme| scheme.spec().always_sprays)
        && point.exact_share == 0.0
        && point.background.is_empty();
    let own_buffers = schemes.iter().all(|scheme| has_own_buffer(point, *scheme));
    let one_switch = point.place.switches_max() == 1;
    let place = point.place;
    let why = str::to_owned;
    let mut idle = vec![
        ("vector_bytes", !all_reduce, why("only ring-allreduce and tree-allreduce have a vector")),
        ("load", all_reduce, why("an all-reduce sends as soon as it can, whatever the load")),
        ("gaps", all_reduce, why("an all-reduce has all messages of a transfer at once")),
        ("msr", point.exact_share == 1.0, why("with --exact 1 every job is exact")),
        ("spray", one_switch, format!("{place} has one way from host to host")),
        ("spray", only_ndp, why("NDP's packets take ways of their own anyway")),
        ("slow_links", one_switch, format!("no link of {place} lies between two switches")),
        ("profile", no_atp, why("only ATP's switches have a profile, and no scheme is atp")),
        ("timer_granularity_us", no_atp, why("only ATP goes by it, and no scheme is atp")),
        ("receipt_delay_us", no_atp, why("only ATP has receipts, and no scheme is atp")),
        ("duration_us", undisturbed, why("an all-reduce goes on until it is done")),
        ("packet_limits", no_atp, why("only ATP's switches have a profile, and no scheme is atp")),
        ("buffer", own_buffers, why("the schemes' ports have small ones of their own")),
    ];
    idle.extend(idle_stragglers(point));
    idle
}

/// `0:1` asks for none; of any other it is expected that something becomes slower.
fn idle_stragglers(point: &Point) -> impl Iterator<Item = (&'static str, bool, String)> {
    let Point { place, stragglers, .. } = point;
    let numbers = stragglers.numbers(*place);
    let (place, what) = (place.to_string(), ["hosts", "links between switches"]);
    let each = [
        ("slow_hosts", stragglers.hosts_share, stragglers.hosts_slowdown, numbers.0, what[0]),
        ("slow_links", stragglers.links_share, stragglers.links_slowdown, numbers.1, what[1]),
    ];
    each.into_iter().filter(|(_, share, times, ..)| *share > 0.0 || *times > 1.0).flat_map(
        move |(option, share, times, number, what)| {
            let alike =
                "what is 1 times slower is as fast as the rest: choose more than 1".to_owned();
            let none =
                format!("{share} of the {what} of {place} is none of them: choose a larger share");
            [(option, times == 1.0, alike), (option, number == 0, none)]
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use atp_sim::experiment::Stragglers;

    fn given(options: &[&str]) -> Given {
        Given(options.iter().map(|option| (*option).to_owned()).collect())
    }

    fn schemes(names: &str) -> Vec<Scheme> {
        names.split(',').map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn refuse_idle__what_says_nothing() {
        let star = Point { place: "star:5".parse().unwrap(), ..Point::default() };
        let exact = Point { exact_share: 1.0, ..Point::default() };
        let plain = Point::default();
        for (option, point, names) in [
            ("spray", &star, "atp"),
            ("slow_links", &star, "atp"),
            ("msr", &exact, "atp,udp"),
            ("vector_bytes", &plain, "atp"),
            ("profile", &plain, "pfabric-es,udp"),
            ("packet_limits", &plain, "dctcp-es"),
            ("buffer", &plain, "pfabric-es,ndp-ss"),
            ("spray", &plain, "ndp-es"),
        ] {
            let schemes = schemes(names);
            let error = given(&[option]).refuse_idle(point, &schemes).unwrap_err().to_string();
            assert!(error.contains(&option.replace('_', "-")), "{error}");
            given(&["seed"]).refuse_idle(point, &schemes).unwrap();
        }
    }

    /// Background traffic goes on for as long as it says; else a trace's and a vector's end is theirs.
    #[test]
    fn refuse_idle__a_duration_that_nothing_goes_by() {
        let shape = atp_sim::workload::Shape::Ring;
        let ring = Traffic::AllReduce(atp_sim::experiment::AllReduce { shape, bytes: 9 });
        let ring = Point { traffic: ring, ..Point::default() };
        let beside =
            |point: &Point| Point { background: vec!["0.5@4".parse().unwrap()], ..point.clone() };
        let (plain, udp) = (Point::default(), schemes("udp"));
        for (options, point) in [(&["duration_us"][..], &ring), (&["duration_us", "trace"], &plain)]
        {
            let error = given(options).refuse_idle(point, &udp).unwrap_err().to_string();
            assert!(error.contains("--duration-us says nothing here"), "{error}");
            given(options).refuse_idle(&beside(point), &udp).unwrap();
        }
        given(&["duration_us", "coflows"]).refuse_idle(&plain, &udp).unwrap();
    }

    #[test]
    fn refuse_idle__stragglers_that_are_none_or_no_slower() {
        let refused = |option: &str, stragglers| {
            let place = "leaf-spine:2,3,2".parse().unwrap();
            let point = Point { place, stragglers, ..Point::default() };
            let refused = given(&[option]).refuse_idle(&point, &schemes("udp"));
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
        // Half a host or link is one.
        assert!(hosts(0.1, 4.0).is_none() && links(0.125, 4.0).is_none());
        assert!(hosts(0.0, 1.0).is_none() && links(0.0, 1.0).is_none(), "nobody asked for any");
        assert!(hosts(0.0, 4.0).unwrap().contains("choose a larger share"));
        let error = hosts(0.08, 4.0).unwrap();
        assert!(error.contains("0.08 of the hosts of leaf-spine:2,3,2 is none"), "{error}");
        assert!(links(0.1, 4.0).unwrap().contains("links between switches"));
        for error in [hosts(0.5, 1.0), links(0.5, 1.0)] {
            assert!(error.unwrap().contains("choose more than 1"));
        }
    }

    #[test]
    fn refuse_idle__not_what_says_something() {
        let all = ["spray", "slow_links", "msr", "profile", "packet_limits", "buffer", "load"];
        given(&all).refuse_idle(&Point::default(), &schemes("atp,pfabric-es,ndp-es")).unwrap();
        let note = given(&all).partly_idle(&Point::default(), &schemes("atp,pfabric-es")).unwrap();
        assert!(note.contains("pfabric-es") && !note.contains("atp"), "{note}");
        assert!(given(&all).partly_idle(&Point::default(), &schemes("atp,udp")).is_none());
    }
}
