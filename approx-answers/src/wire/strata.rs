//! Maps of strata, as they are read.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::stratum::STRATA_MAX;

/// A map with strata in ascending order, each once and not too many.
pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<BTreeMap<u32, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Strata<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Strata<T> {
        type Value = BTreeMap<u32, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("strata by number")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut strata = BTreeMap::new();
            while let Some((number, stratum)) = map.next_entry::<u32, T>()? {
                if strata.last_key_value().is_some_and(|(last, _)| *last >= number) {
                    return Err(A::Error::custom(format!("stratum {number} isn't in order")));
                }
                if strata.len() >= STRATA_MAX {
                    return Err(A::Error::custom(format!("more than {STRATA_MAX} strata")));
                }
                strata.insert(number, stratum);
            }
            Ok(strata)
        }
    }

    deserializer.deserialize_map(Strata(PhantomData))
}
