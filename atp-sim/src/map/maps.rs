//! The list of maps.

use super::{Axis, Setting};
use crate::figures::Extent;

/// A map: two parameters that vary together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// The name, for files and the command line.
    pub name: &'static str,
    /// The parameter from left to right.
    pub x_axis: Axis,
    /// The parameter from bottom to top.
    pub y_axis: Axis,
}

/// All maps.
pub const fn maps() -> [Map; 10] {
    const fn map(name: &'static str, x_axis: Axis, y_axis: Axis) -> Map {
        Map { name, x_axis, y_axis }
    }
    [
        map("fan-in", Axis::FanIn, Axis::Load),
        map("message-size", Axis::MessageBytes, Axis::Load),
        map("spread", Axis::Spread, Axis::Load),
        map("msr", Axis::Msr, Axis::Load),
        map("msr-spread", Axis::Spread, Axis::Msr),
        map("exact-share", Axis::ExactShare, Axis::Load),
        map("buffer", Axis::FanIn, Axis::BufferBytes),
        map("ecn-threshold", Axis::EcnThreshold, Axis::Load),
        map("slow-hosts", Axis::SlowHosts, Axis::HostSlowdown),
        map("slow-links", Axis::SlowLinks, Axis::LinkSlowdown),
    ]
}

impl Map {
    /// Whether the map varies message sizes.
    pub const fn varies_sizes(&self) -> bool {
        self.x_axis.varies_sizes() || self.y_axis.varies_sizes()
    }

    /// The positions of the cells, row by row from the bottom, with their settings. A setting is
    /// `base` with both parameters changed.
    pub fn settings(&self, base: &Setting, extent: Extent) -> Vec<((f64, f64), Setting)> {
        let mut settings = Vec::new();
        for y in self.y_axis.values(extent) {
            for x in self.x_axis.values(extent) {
                settings.push(((x, y), base.clone().with(self.x_axis, x).with(self.y_axis, y)));
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings__has_every_position_once_and_unique_names() {
        for extent in [Extent::Quick, Extent::Full] {
            let mut names = std::collections::BTreeSet::new();
            for map in maps() {
                let settings = map.settings(&Setting::base(extent), extent);
                let number = map.x_axis.values(extent).len() * map.y_axis.values(extent).len();
                assert_eq!(settings.len(), number);
                for (at, (position, setting)) in settings.iter().enumerate() {
                    let rest = &settings[at + 1..];
                    assert!(rest.iter().all(|other| other.0 != *position && other.1 != *setting));
                }
                assert!(names.insert(map.name));
            }
        }
    }
}
