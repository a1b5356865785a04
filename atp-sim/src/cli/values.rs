//! Parses option values. Each error names the valid values.

use atp_common::laws::RateLaw;
use atp_sim::{experiment::DaemonProfile, workload::Sizes};
use std::{
    fmt::{self, Display},
    str::FromStr,
};
use switch_profiles::Profile;

/// The size limit of a file with message sizes.
const SIZES_BYTES_MAX: u64 = 1 << 20;

/// Message sizes, with their name on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedSizes {
    pub sizes: Sizes,
    name: String,
    /// A warning about the file.
    pub note: Option<String>,
}

/// A name for captions: a table is named by its file.
impl fmt::Display for NamedSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sizes {
            Sizes::Fixed(bytes) => write!(f, "{bytes} bytes"),
            _ => f.write_str(&self.name),
        }
    }
}

/// Loads a queue profile: a shipped one by its name, or a file.
pub fn profile(name: &str) -> Result<Profile, String> {
    let profile = Profile::load(name.as_ref());
    let profile = profile.map_err(|error| format!("{:#}", anyhow::Error::from(error)))?;
    match profile.law() {
        Some(law) if RateLaw::ALL.iter().all(|known| known.1 != law) => Err(format!(
            "{name} has the law {law:?}, which isn't known: choose one of {}",
            RateLaw::ALL.map(|known| known.1).join(", ")
        )),
        _ => Ok(profile),
    }
}

/// Loads the queue profile of a daemon, which may have none.
pub fn daemon_profile(name: &str) -> Result<DaemonProfile, String> {
    match name {
        "none" => Ok(DaemonProfile::Unstated),
        _ => profile(name).map(DaemonProfile::Stated),
    }
}

/// Parses a number between two limits.
pub fn number(
    least: f64,
    most: f64,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    within("number", least, most)
}

/// Parses a whole number between two limits.
pub fn whole_number(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    within("whole number", least, most)
}

fn within<T>(
    what: &'static str,
    least: T,
    most: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| match text.parse() {
        Ok(number) if (&least..=&most).contains(&&number) => Ok(number),
        _ => Err(format!("choose a {what} from {least} to {most}")),
    }
}

/// Parses an MSR. The minimum is one part per billion, because a job that needs no message would
/// be complete at once.
pub fn sampling_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (1e-9..=1.0).contains(&rate) => Ok(rate),
        _ => Err("choose a share of messages above 0 and up to 1".to_owned()),
    }
}

/// Parses `SHARE:TIMES`.
pub fn share_and_slowdown(text: &str) -> Result<(f64, f64), String> {
    let (share, slowdown) = text.split_once(':').unwrap_or((text, ""));
    match (share.parse(), slowdown.parse()) {
        (Ok(share), Ok(slowdown))
            if (0.0..=1.0).contains(&share) && (1.0..=1_000.0).contains(&slowdown) =>
        {
            Ok((share, slowdown))
        }
        _ => {
            Err("choose SHARE:TIMES, a share from 0 to 1 and a factor from 1 to 1,000, as in 0.1:4"
                .to_owned())
        }
    }
}

/// Parses the name of a distribution, one size, or the path of a table.
pub fn sizes(text: &str) -> Result<NamedSizes, String> {
    let named = |sizes| NamedSizes { sizes, name: text.to_owned(), note: None };
    let is_number = text.strip_prefix('-').unwrap_or(text).parse::<f64>().is_ok();
    match text {
        "fbkv" => Ok(named(Sizes::KeyValue)),
        "fbhd" => Ok(named(Sizes::Hadoop)),
        number if is_number => match number.parse() {
            Ok(bytes @ 1..=67_108_864) => Ok(named(Sizes::Fixed(bytes))),
            _ => Err("choose a message size from 1 to 67,108,864 bytes".to_owned()),
        },
        path => {
            let table = super::read_file(path.as_ref(), SIZES_BYTES_MAX).map_err(|error| {
                format!("{error:#}; choose fbkv, fbhd, a number of bytes or a file")
            })?;
            let named = named(Sizes::parse(&table)?);
            Ok(NamedSizes { note: mean_warning(path, &table, &named.sizes), ..named })
        }
    }
}

/// Warns if the stated mean of a table differs from its actual mean by more than 5 %. The published
/// tables were made from steps and differ by less.
fn mean_warning(path: &str, table: &str, sizes: &Sizes) -> Option<String> {
    let mut lines = table.lines().map(str::trim);
    let said: f64 = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?.parse().ok()?;
    let own = sizes.mean(f64::from);
    ((own / said - 1.0).abs() > 0.05).then(|| {
        format!(
            "{path} states a mean of {said} bytes, but its sizes have a mean of {own:.1}, which the \
             simulator uses"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number__rejects_values_outside_the_range() {
        let of = number(0.001, 10.0);
        assert_eq!((of("10"), of("0.001")), (Ok(10.0), Ok(0.001)));
        for wrong in ["-1", "nan", "inf", "0", "10.1", "x", ""] {
            assert_eq!(of(wrong), Err("choose a number from 0.001 to 10".to_owned()), "{wrong}");
            assert!(whole_number(1, 9)(wrong).is_err() && sampling_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes__parses_names_numbers_and_files() {
        let fixed = sizes("300").unwrap();
        assert_eq!(
            (fixed.sizes.clone(), fixed.to_string()),
            (Sizes::Fixed(300), "300 bytes".into())
        );
        assert_eq!(sizes("fbhd").unwrap().to_string(), "fbhd");
        for wrong in ["0", "-5", "1e3", "67108865"] {
            assert!(sizes(wrong).unwrap_err().contains("67,108,864"), "{wrong}");
        }
        assert!(sizes("no/such").unwrap_err().contains("cannot read no/such"));
        // A file without an end.
        assert!(sizes("/dev/zero").unwrap_err().contains("longer than"));
    }

    #[test]
    fn sizes__warns_of_a_wrong_mean() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sizes.txt");
        let path = path.to_str().unwrap();
        for (mean, is_warned) in [("15", false), ("15.5", false), ("20", true), ("10", true)] {
            std::fs::write(path, format!("# bytes\n{mean}\n10 0\n20 1\n")).unwrap();
            let sizes = sizes(path).unwrap();
            assert_eq!(sizes.to_string(), path);
            assert_eq!(sizes.note.is_some(), is_warned, "{mean}: {:?}", sizes.note);
        }
    }
}
