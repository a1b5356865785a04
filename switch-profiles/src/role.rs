//! Where a port leads, and settings that depend on it.

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{fmt, marker::PhantomData};

/// Where a port of a switch leads.
///
/// Advice divides the line to a host, so lanes fill a deep queue there without losing much. No
/// receiver sees a line between switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRole {
    /// To a host.
    ToHost,
    /// To another switch.
    BetweenSwitches,
}

/// A setting for ports of either role. A file states one value, or a table of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PerRole<T> {
    /// For ports towards hosts.
    pub to_hosts: T,
    /// For ports between switches.
    pub between_switches: T,
}

/// [`PerRole`] as a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table<T> {
    to_hosts: T,
    between_switches: T,
}

impl<T: Copy> PerRole<T> {
    /// One value for both roles.
    pub const fn same(value: T) -> Self {
        Self { to_hosts: value, between_switches: value }
    }

    /// The value for ports of `role`.
    pub const fn of(&self, role: PortRole) -> T {
        match role {
            PortRole::ToHost => self.to_hosts,
            PortRole::BetweenSwitches => self.between_switches,
        }
    }

    /// Both values, converted. The first error ends it.
    pub(crate) fn try_map<U, E>(
        self,
        mut convert: impl FnMut(PortRole, T) -> Result<U, E>,
    ) -> Result<PerRole<U>, E> {
        Ok(PerRole {
            to_hosts: convert(PortRole::ToHost, self.to_hosts)?,
            between_switches: convert(PortRole::BetweenSwitches, self.between_switches)?,
        })
    }
}

impl<T: Copy + Ord> PerRole<T> {
    /// The lesser of both values.
    pub fn least(&self) -> T {
        self.to_hosts.min(self.between_switches)
    }
}

impl fmt::Display for PortRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToHost => "to_hosts",
            Self::BetweenSwitches => "between_switches",
        })
    }
}

impl<'de, T: Deserialize<'de> + Copy + TryFrom<u64>> Deserialize<'de> for PerRole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PerRoleVisitor(PhantomData))
    }
}

struct PerRoleVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Copy + TryFrom<u64>> Visitor<'de> for PerRoleVisitor<T> {
    type Value = PerRole<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, or { to_hosts = NUMBER, between_switches = NUMBER }")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        let value = u64::try_from(number).ok().and_then(|number| T::try_from(number).ok());
        value
            .map(PerRole::same)
            .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let Table { to_hosts, between_switches } =
            Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(PerRole { to_hosts, between_switches })
    }
}
