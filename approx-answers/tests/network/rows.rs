//! The rows of the book's table: what is asked, of which data, and how it travels.

use crate::answers::Question;
use crate::data::{Order, Table};
use crate::simulated::Network;

/// Where a job ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// At this minimal sampling rate.
    Msr(f64),
    /// At this relative half-width, as a planner decides while messages arrive.
    Emax(f64),
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub question: Question,
    pub table: Table,
    pub order: Order,
    /// Messages of all senders.
    pub messages: usize,
    pub senders: usize,
    pub network: Network,
    pub mrdf: bool,
    pub end: End,
}

impl Row {
    /// Whether a few values hold most of the sum. The squares of skewed values are such values.
    pub fn is_heavy(&self) -> bool {
        let is_of_squares = |query: &str| query.contains("stddev") || query.contains("variance");
        self.table == Table::Tail
            || matches!(self.question, Question::Query(query, _) if is_of_squares(query))
    }

    /// Whether the messages that arrive are as good as drawn. Without a heavy tail, warnings are
    /// false alarms then.
    pub fn is_fair(&self) -> bool {
        let is_equal = !matches!(self.table, Table::TwoSizes | Table::Lengths);
        self.order == Order::Shuffled && (is_equal || !self.mrdf)
    }
}

/// Other rows differ from it in a few fields.
const PLAIN: Row = Row {
    name: "",
    question: Question::Mean,
    table: Table::Plain,
    order: Order::Shuffled,
    messages: 400,
    senders: 1,
    network: Network::SHORT_QUEUES,
    // As `atp-user send --csv` sends shuffled records.
    mrdf: false,
    end: End::Msr(0.8),
};
const DROPS: Row = Row { network: Network::RANDOM_DROPS, ..PLAIN };
const TREND: Row = Row { table: Table::Trend, order: Order::InTime, mrdf: true, ..PLAIN };
const BY_KEY: Row = Row { order: Order::ByKey, mrdf: true, ..PLAIN };
const TWO_SIZES: Row = Row { table: Table::TwoSizes, ..PLAIN };
const EMAX: Row = Row { messages: 1_000, end: End::Emax(0.02), ..PLAIN };
/// The key whose records end near the MSR, if records are sorted by key.
const KEY: u32 = 4;

/// All rows, in the order of the table.
pub const ROWS: [Row; 32] = [
    Row { name: "sum_shuffled", question: Question::Sum, ..PLAIN },
    Row { name: "mean_shuffled", ..DROPS },
    Row { name: "mean_shuffled_low_msr", end: End::Msr(0.3), ..PLAIN },
    Row { name: "mean_shuffled_high_msr", end: End::Msr(0.95), ..DROPS },
    Row {
        name: "sum_shuffled_senders",
        question: Question::Sum,
        senders: 4,
        end: End::Msr(0.95),
        ..PLAIN
    },
    Row { name: "count_by_key_shuffled", question: Question::CountOf(KEY), ..PLAIN },
    Row { name: "quantile_shuffled", question: Question::Quantile(0.9), ..PLAIN },
    Row {
        name: "median_shuffled_low_msr",
        question: Question::Quantile(0.5),
        end: End::Msr(0.3),
        ..DROPS
    },
    Row { name: "ratio_shuffled", question: Question::Ratio, ..PLAIN },
    Row {
        name: "ratio_shuffled_senders",
        question: Question::Ratio,
        senders: 4,
        end: End::Msr(0.95),
        ..DROPS
    },
    Row { name: "stddev_shuffled", question: Question::Query("stddev(y)", &[]), ..PLAIN },
    Row {
        name: "variance_shuffled_senders",
        question: Question::Query("variance(y)", &[]),
        senders: 4,
        end: End::Msr(0.95),
        ..DROPS
    },
    Row {
        name: "stddev_by_key_shuffled_low_msr",
        question: Question::Query("stddev(y) by key", &["1"]),
        end: End::Msr(0.3),
        ..PLAIN
    },
    Row {
        name: "mean_where_shuffled",
        question: Question::Query("SELECT avg(y) WHERE x > 2.5 AND key <> '0'", &[]),
        ..PLAIN
    },
    Row {
        name: "count_where_by_two_keys_shuffled",
        question: Question::Query(
            "SELECT count(*) WHERE y BETWEEN 10 AND 30 GROUP BY key, size",
            &["1", "small"],
        ),
        ..DROPS
    },
    Row {
        name: "sum_where_by_two_keys_shuffled",
        question: Question::Query(
            "SELECT sum(y), count(*) WHERE y > 12 GROUP BY size, key",
            &["large", "1"],
        ),
        messages: 1_000,
        ..PLAIN
    },
    Row { name: "mean_in_time", ..TREND },
    Row {
        name: "sum_in_time_high_msr",
        question: Question::Sum,
        end: End::Msr(0.95),
        network: Network::RANDOM_DROPS,
        ..TREND
    },
    Row {
        name: "mean_in_time_sent_in_order",
        mrdf: false,
        network: Network::RANDOM_DROPS,
        ..TREND
    },
    Row {
        name: "quantile_in_time_high_msr",
        question: Question::Quantile(0.9),
        end: End::Msr(0.95),
        ..TREND
    },
    Row { name: "count_by_key_sorted", question: Question::CountOf(KEY), ..BY_KEY },
    Row {
        name: "mean_sorted_senders_low_msr",
        senders: 4,
        network: Network::RANDOM_DROPS,
        end: End::Msr(0.3),
        ..BY_KEY
    },
    Row { name: "mean_two_sizes", ..TWO_SIZES },
    Row {
        name: "sum_two_sizes_high_msr",
        question: Question::Sum,
        network: Network::RANDOM_DROPS,
        end: End::Msr(0.95),
        ..TWO_SIZES
    },
    Row { name: "mean_two_sizes_shortest_first", mrdf: true, ..TWO_SIZES },
    Row { name: "mean_many_lengths", table: Table::Lengths, end: End::Msr(0.95), ..PLAIN },
    Row {
        name: "sum_heavy_tail_low_msr",
        question: Question::Sum,
        table: Table::Tail,
        end: End::Msr(0.3),
        ..DROPS
    },
    Row { name: "emax_shuffled", ..EMAX },
    Row {
        name: "emax_shuffled_senders",
        senders: 4,
        messages: 2_000,
        network: Network::RANDOM_DROPS,
        ..EMAX
    },
    Row { name: "emax_in_time", table: Table::Trend, order: Order::InTime, mrdf: true, ..EMAX },
    Row { name: "emax_two_sizes", table: Table::TwoSizes, end: End::Emax(0.05), ..EMAX },
    Row { name: "emax_heavy_tail", table: Table::Tail, end: End::Emax(0.2), ..EMAX },
];
