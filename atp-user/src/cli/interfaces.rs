//! The interfaces that a command line names.

use anyhow::{Context, Result, bail};
use approxlib::Interface;
use atp_datapath::DatapathError;

/// The own names of the interfaces that are given by name or alternative name. Locks, logs and
/// messages have these.
pub fn own_names(given: &[String]) -> Result<Vec<String>> {
    let mut own: Vec<String> = Vec::new();
    for name in given {
        let found = Interface::named(name).with_context(|| format!("can't look up {name}"))?;
        let found = found.ok_or_else(|| DatapathError::NoSuchInterface(name.clone()))?.name;
        match own.iter().position(|other| *other == found) {
            None => own.push(found),
            Some(at) if given[at] == *name => {
                bail!("--iface {name} occurs twice: name every interface once")
            }
            Some(at) => bail!(
                "--iface {} and --iface {name} are one interface, {found}: name it once",
                given[at]
            ),
        }
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names__refuses_a_name_that_occurs_twice() {
        let names = |text: &str| {
            let given: Vec<_> = text.split(' ').map(str::to_owned).collect();
            own_names(&given).map_err(|error| error.to_string())
        };
        assert_eq!(names("lo"), Ok(vec!["lo".to_owned()]));
        assert!(names("lo lo").unwrap_err().contains("--iface lo occurs twice"));
        assert!(names("lo nowhere7").unwrap_err().contains("\"nowhere7\": `ip link` lists"));
    }
}
