//! How a series is drawn: the same in all figures.

use crate::experiment::{Atp, Policy, Scheme};
use atp_common::laws::Variant;
use plotters::style::RGBColor;

/// What a series looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Of its transport.
    pub color: RGBColor,
    /// Its senders send a sample: SampleSend.
    pub is_dashed: bool,
}

/// By a series' name. Transports differ in colour, what their senders do in dashes: eleven colours that
/// everybody can tell apart are not to be had.
pub(super) fn look(series: &str) -> Look {
    // Older files name a law with base.
    let series = if series.starts_with("atp:base:") { "atp:base" } else { series };
    let scheme: Option<Scheme> = series.parse().ok();
    let is_dashed = scheme.is_some_and(|scheme| scheme.policy() == Policy::SampleSend);
    Look { color: scheme.map_or(BLACK, color), is_dashed }
}

/// A series that is no scheme, such as a job alone.
const BLACK: RGBColor = RGBColor(0, 0, 0);

/// Most are Okabe and Ito's ("Color Universal Design", 2008; cited from memory), whose yellow can't be
/// seen on white; ATP's variants are Tol's muted ones ("Colour schemes", 2021; cited from memory).
const fn color(scheme: Scheme) -> RGBColor {
    match scheme {
        Scheme::Atp(Atp { variant, .. }) => match variant {
            Variant::Full => RGBColor(0, 114, 178),
            Variant::Base => RGBColor(153, 153, 51),
            Variant::Rc => RGBColor(68, 170, 153),
            Variant::Mrdf => RGBColor(51, 34, 136),
            Variant::FixTlr => RGBColor(17, 119, 51),
            Variant::FixPrio => RGBColor(136, 34, 85),
        },
        Scheme::Dctcp(_) => RGBColor(213, 94, 0),
        Scheme::PFabric(_) => RGBColor(0, 158, 115),
        Scheme::Ndp(_) => RGBColor(204, 121, 167),
        Scheme::Mlt => RGBColor(230, 159, 0),
        Scheme::Aeolus(_) => RGBColor(86, 180, 233),
        Scheme::Udp => RGBColor(120, 120, 120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look__no_two_schemes_alike() {
        let variants = Variant::ALL.map(|(_, name)| format!("atp:{name}"));
        let others = Scheme::OTHERS.map(|(_, name)| name.to_owned());
        let mut known: Vec<Look> = Vec::new();
        for name in variants.into_iter().chain(others).chain(["alone".to_owned()]) {
            let look = look(&name);
            assert!(!known.contains(&look), "{name}");
            known.push(look);
        }
        assert_eq!(look("atp"), look("atp:full:frugal"));
        assert_eq!(look("atp:base:paper"), look("atp:base"));
    }
}
