//! The rules of ports: which UDP datagrams and frames of TCP become messages, and how.

use crate::framing::Framing;
use anyhow::{Context, Result, bail, ensure};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

/// The variable that carries the rules from the launcher to the library.
pub const VARIABLE: &str = "ATP_RUN_MAP";
/// The variable with the file to which the library appends its counts.
pub const REPORT_VARIABLE: &str = "ATP_RUN_REPORT";

/// The distance from a port to the one where its messages arrive, unless the rule names it.
const ATP_PORT_DISTANCE: u16 = 20_000;

/// The rule of one port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// For a port of TCP: where its messages begin and end.
    pub framing: Option<Framing>,
    /// The share of a window's messages that must arrive.
    pub msr: f64,
    pub window: Duration,
    /// The UDP port at which ATP receives, and the TCP port of carried connections.
    pub atp_port: u16,
    /// How long the first datagram, or a connection, to a destination waits for an answer.
    pub probe: Duration,
}

/// Rules by port, of UDP without a framing and of TCP with one.
pub type Rules = HashMap<u16, Rule>;

/// Parses rules such as `8125=msr:0.9,window:1s`, divided by semicolons.
pub fn parse(text: &str) -> Result<Rules> {
    let rules = text.split(';').filter(|rule| !rule.is_empty());
    let parsed = rules.map(|rule| parse_rule(rule).with_context(|| format!("the rule {rule:?}")));
    let mut rules = HashMap::new();
    for parsed in parsed {
        let (port, rule) = parsed?;
        ensure!(rules.insert(port, rule).is_none(), "port {port} has two rules: give it one");
    }
    for (port, Rule { atp_port, .. }) in &rules {
        let others = rules.values().filter(|other| other.atp_port == *atp_port).count();
        ensure!(
            others == 1 && !rules.contains_key(atp_port),
            "port {port} needs the port {atp_port} for ATP, which another rule uses: set atp:PORT"
        );
    }
    Ok(rules)
}

fn parse_rule(text: &str) -> Result<(u16, Rule)> {
    let (port, settings) = match text.split_once('=') {
        Some((port, settings)) => (port, settings.split(',').collect()),
        None => (text, Vec::new()),
    };
    let port: u16 =
        port.parse().ok().filter(|port| *port > 0).context("give a port: 1 to 65535")?;
    let mut rule = Rule {
        framing: None,
        msr: 1.0,
        window: Duration::from_secs(1),
        atp_port: port
            .checked_add(ATP_PORT_DISTANCE)
            .unwrap_or(port.wrapping_sub(ATP_PORT_DISTANCE)),
        probe: Duration::from_millis(100),
    };
    let mut names = HashSet::new();
    for setting in settings {
        let (name, value) = setting.split_once(':').context("write a setting as NAME:VALUE")?;
        ensure!(names.insert(name), "{name} is set twice: set it once");
        match name {
            "msr" => {
                rule.msr = value.parse().context("msr is a number")?;
                ensure!((0.0..=1.0).contains(&rule.msr), "msr lies between 0 and 1, not {value}");
            }
            "window" => rule.window = duration(value)?,
            "probe" => rule.probe = duration(value)?,
            "tcp" => rule.framing = Some(Framing::parse(value)?),
            "atp" => rule.atp_port = value.parse().context("atp is a port")?,
            _ => bail!("no setting {name:?}: there are tcp, msr, window, atp and probe"),
        }
    }
    ensure!(rule.atp_port != port && rule.atp_port > 0, "the port of ATP must be another one");
    Ok((port, rule))
}

fn duration(text: &str) -> Result<Duration> {
    let (number, ms_each) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1_000),
        (None, None) => bail!("{text:?} is no time: write 200ms or 1s"),
    };
    let number: u64 = number.parse().with_context(|| format!("{text:?} is no time"))?;
    ensure!((1..=3_600_000).contains(&(number * ms_each)), "{text} isn't between 1ms and 3600s");
    Ok(Duration::from_millis(number * ms_each))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse__takes_every_setting() {
        let rules = parse("8125=msr:0.9,window:2s;60000;7=atp:9,probe:5ms,msr:0").unwrap();
        let rule = rules[&8125];
        assert_eq!((rule.msr, rule.window), (0.9, Duration::from_secs(2)));
        assert_eq!(rule.atp_port, 28_125);
        assert_eq!((rules[&60_000].atp_port, rules[&60_000].msr), (40_000, 1.0));
        let last = rules[&7];
        assert_eq!((last.atp_port, last.probe), (9, Duration::from_millis(5)));
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn parse__tells_udp_from_tcp() {
        let rules = parse("514=tcp:syslog,msr:0.5;8125").unwrap();
        assert_eq!((rules[&514].msr, rules[&514].framing), (0.5, Some(Framing::Syslog)));
        assert_eq!(rules[&8125].framing, None);
    }

    #[test]
    fn parse__refuses_two_rules_of_a_port() {
        assert!(parse("9;9=tcp:lines").unwrap_err().to_string().contains("port 9 has two rules"));
    }

    #[test]
    fn parse__refuses_ports_of_two_uses() {
        for text in ["1=atp:2;2", "1=atp:9;2=atp:9"] {
            assert!(parse(text).unwrap_err().to_string().contains("set atp:PORT"), "{text}");
        }
    }

    #[test]
    fn parse__names_the_rule_and_the_fault() {
        for (text, words) in [
            ("0", "port"),
            ("x=msr:1", "port"),
            ("9=msr:2", "between 0 and 1"),
            ("9=msr:NaN", "between 0 and 1"),
            ("9=msr", "NAME:VALUE"),
            ("9=", "NAME:VALUE"),
            ("9=msr:0.9,,", "NAME:VALUE"),
            ("9=msr:0.9,", "NAME:VALUE"),
            ("9=msr:0.9,msr:0.8", "msr is set twice"),
            ("9=rate:1", "tcp, msr, window, atp and probe"),
            ("9=tcp:words", "lines, u32-length or syslog"),
            ("9=tcp", "NAME:VALUE"),
            ("9=window:1", "200ms or 1s"),
            ("9=window:0s", "between"),
            ("9=atp:9", "another"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(words) && error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
