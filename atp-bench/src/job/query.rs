//! The queries of the job, by column names (command line) and by column numbers (table).

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// The number of destinations that the query for the most frequent ones returns.
const MOST_FREQUENT: usize = 15;

/// A query about the table. Columns are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Query {
    /// The average of `value` for each `key`; rows without a value are left out.
    Average { value: usize, key: usize },
    /// The `count` keys with the most rows; ties go to the first by name.
    MostFrequent { key: usize, count: usize },
}

impl Query {
    pub fn key(&self) -> usize {
        match *self {
            Query::Average { key, .. } | Query::MostFrequent { key, .. } => key,
        }
    }

    pub fn value(&self) -> Option<usize> {
        match *self {
            Query::Average { value, .. } => Some(value),
            Query::MostFrequent { .. } => None,
        }
    }
}

/// The queries of a run, by the names of their columns.
#[derive(Clone, Debug)]
pub enum QuerySpec {
    /// Average departure delay per carrier, and the fifteen most frequent destinations.
    Flights,
    /// The average of one column per key, for each of some key columns.
    Averages { value: String, keys: Vec<String> },
}

impl QuerySpec {
    /// The queries of a table with these columns.
    ///
    /// # Errors
    /// A column is missing, or its name occurs twice. The caller puts the table's name before the
    /// sentence.
    pub fn queries(&self, columns: &[String]) -> Result<Vec<Query>> {
        match self {
            QuerySpec::Flights => Ok(vec![
                Query::Average {
                    value: find(columns, "dep_delay")?,
                    key: find(columns, "carrier")?,
                },
                Query::MostFrequent { key: find(columns, "dest")?, count: MOST_FREQUENT },
            ]),
            QuerySpec::Averages { value, keys } => {
                let value = find(columns, value)?;
                keys.iter()
                    .map(|key| Ok(Query::Average { value, key: find(columns, key)? }))
                    .collect()
            }
        }
    }
}

fn find(columns: &[String], name: &str) -> Result<usize> {
    let mut indices = (0..columns.len()).filter(|&index| columns[index] == name);
    match (indices.next(), indices.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => bail!("has more than one column `{name}`"),
        (None, _) => bail!("has no column `{name}`; it has {}", columns.join(", ")),
    }
}
