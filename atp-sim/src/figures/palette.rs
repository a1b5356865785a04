//! The look of a series, which is the same in all figures.

use crate::scheme::{Features, Policy, Scheme};
use plotters::style::RGBColor;

/// The look of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// The color of the series' scheme.
    pub color: RGBColor,
    /// Whether the senders send a sample (SampleSend), or the series' name has a condition.
    pub is_dashed: bool,
}

/// The look of a series by its name. Color distinguishes schemes, and dashes distinguish policies
/// and conditions: readers couldn't tell eleven colors apart. Schemes with features are paler.
///
/// Most schemes' colors are Okabe and Ito's ("Color Universal Design", 2008; cited from memory),
/// without the yellow, which is invisible on white. ATP's variants have Tol's muted colors ("Colour
/// schemes", 2021; cited from memory).
pub(super) fn look(series: &str) -> Look {
    // Older files name a law after base.
    let series = if series.starts_with("atp:base:") { "atp:base" } else { series };
    // A condition of the network or the hosts may follow the scheme.
    let (name, condition) = series.split_once(", ").unwrap_or((series, ""));
    let scheme: Option<Scheme> = name.parse().ok();
    let samples = scheme.is_some_and(|scheme| scheme.policy() == Policy::SampleSend);
    let is_dashed = samples || !condition.is_empty();
    let has_features = scheme.is_some_and(|scheme| scheme.features() != Features::default());
    // With the default's receiver advice, the paper's scheme has the default's color. Other
    // additions are dashed.
    let additions = || name.split('+').skip(1);
    let shows_default = additions().any(|addition| addition.starts_with("advice"));
    let is_dashed = is_dashed || additions().any(|addition| !DEFAULTS.contains(&addition));
    let default = || DEFAULT.parse().ok();
    let color = if shows_default { scheme.and_then(|_| default()) } else { scheme };
    let color = color.map_or(BLACK, Scheme::color);
    let [red, green, blue] = if has_features { color.map(|part| part / 2 + 110) } else { color };
    Look { color: RGBColor(red, green, blue), is_dashed }
}

/// ATP as daemon and library run it, and its additions to the paper's protocol.
const DEFAULT: &str = "atp";
const DEFAULTS: [&str; 2] = ["advice", "window"];

/// The color of a series without a scheme, such as a job alone.
const BLACK: [u8; 3] = [0, 0, 0];

#[cfg(test)]
mod tests {
    use super::*;
    use atp_common::laws::Variant;

    #[test]
    fn look__no_two_schemes_alike() {
        let variants = Variant::ALL.map(|(_, name)| format!("atp:{name}"));
        let others = Scheme::others().map(|scheme| scheme.to_string());
        let mut known: Vec<Look> = Vec::new();
        let more = [
            "atp",
            "alone",
            "dctcp-es:low-priority",
            "ndp-es:shortest-first",
            "ndp-es:shortest-first, ecmp",
        ];
        for name in variants.into_iter().chain(others).chain(more.map(str::to_owned)) {
            let look = look(&name);
            assert!(!known.contains(&look), "{name}");
            known.push(look);
        }
        assert_eq!(look("atp:paper"), look("atp:full:frugal"));
        assert_eq!(look("atp:base:paper"), look("atp:base"));
        let of = ["", "+single", "+advice+window", "+advice+window+small-jobs"];
        let looks = of.map(|additions| look(&format!("atp:paper{additions}")));
        let is_twice = |look| looks.iter().filter(|other| *other == look).count() > 1;
        assert!(!looks.iter().any(is_twice), "{looks:?}");
    }
}
