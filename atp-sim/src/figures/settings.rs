//! The settings of a figure's or map's runs: those that all runs share, and those that differ.

use crate::experiment::Point;
use serde::Serialize;
use serde_json::{Map, Value};

/// Settings by name.
pub(crate) type Settings = Map<String, Value>;

/// A cell in the JSON of a figure or map.
#[derive(Serialize)]
pub(crate) struct CellDocument<'a, Cell> {
    #[serde(flatten)]
    pub cell: &'a Cell,
    /// The settings that not all runs share.
    pub settings: Settings,
}

/// The settings that all `points` share.
///
/// # Errors
/// Serialization fails only for maps whose keys are not strings, and there are none.
pub(crate) fn common<'a>(
    mut points: impl Iterator<Item = &'a Point>,
) -> Result<Settings, serde_json::Error> {
    let Some(first) = points.next() else { return Ok(Settings::new()) };
    let mut common = of(first)?;
    for point in points {
        let other = of(point)?;
        common.retain(|name, value| other.get(name) == Some(value));
    }
    Ok(common)
}

/// The settings of `point` that are not in `common`, except those named in `known`.
///
/// # Errors
/// Like [`common`].
pub(crate) fn beside(
    point: &Point,
    common: &Settings,
    known: &[&str],
) -> Result<Settings, serde_json::Error> {
    let mut own = of(point)?;
    own.retain(|name, _| !common.contains_key(name) && !known.contains(&name.as_str()));
    Ok(own)
}

fn of(point: &Point) -> Result<Settings, serde_json::Error> {
    match serde_json::to_value(point.settings())? {
        Value::Object(settings) => Ok(settings),
        _ => Ok(Settings::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common__and_beside_together_are_complete() {
        let one = Point::default();
        let other = Point { seed: 2, load: 0.9, ..Point::default() };
        let common = common([&one, &other].into_iter()).unwrap();
        assert_eq!(common["hosts"], 192);
        assert!(!common.contains_key("load") && !common.contains_key("seed"));
        let own = beside(&other, &common, &["seed"]).unwrap();
        assert_eq!(serde_json::to_string(&own).unwrap(), "{\"load\":0.9}");
    }
}
