//! Which things are varied together.

use super::{Axis, Setting};
use crate::figures::Extent;

/// Two things that are varied together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// For files and the command line.
    pub name: &'static str,
    /// From left to right.
    pub across: Axis,
    /// From the bottom to the top.
    pub up: Axis,
}

/// All maps.
pub const fn maps() -> [Map; 9] {
    const fn map(name: &'static str, across: Axis, up: Axis) -> Map {
        Map { name, across, up }
    }
    [
        map("fan-in", Axis::FanIn, Axis::Load),
        map("message-size", Axis::MessageBytes, Axis::Load),
        map("spread", Axis::Spread, Axis::Load),
        map("msr", Axis::Msr, Axis::Load),
        map("msr-spread", Axis::Spread, Axis::Msr),
        map("exact-share", Axis::ExactShare, Axis::Load),
        map("buffer", Axis::FanIn, Axis::BufferBytes),
        map("slow-hosts", Axis::SlowHosts, Axis::HostSlowdown),
        map("slow-links", Axis::SlowLinks, Axis::LinkSlowdown),
    ]
}

impl Map {
    /// It varies how long messages are.
    pub const fn is_of_lengths(&self) -> bool {
        self.across.is_of_lengths() || self.up.is_of_lengths()
    }

    /// Its places, from left to right and then up, and what is run there: `base` where it isn't varied.
    pub fn settings(&self, base: &Setting, extent: Extent) -> Vec<((f64, f64), Setting)> {
        let mut settings = Vec::new();
        for y in self.up.values(extent) {
            for x in self.across.values(extent) {
                settings.push(((x, y), base.clone().with(self.across, x).with(self.up, y)));
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings__every_place_once_and_names_are_unique() {
        for extent in [Extent::Quick, Extent::Full] {
            let mut names = std::collections::BTreeSet::new();
            for map in maps() {
                let settings = map.settings(&Setting::base(extent), extent);
                let number = map.across.values(extent).len() * map.up.values(extent).len();
                assert_eq!(settings.len(), number);
                for (at, (place, setting)) in settings.iter().enumerate() {
                    let rest = &settings[at + 1..];
                    assert!(rest.iter().all(|other| other.0 != *place && other.1 != *setting));
                }
                assert!(names.insert(map.name));
            }
        }
    }
}
