//! Summarizes the rounds as rows and ratios, in a table and in JSON.

use std::collections::BTreeMap;

use comfy_table::Table;
use serde::Serialize;

use super::scheme::{Run, Scheme};
use crate::bench::table;
use crate::median::median;

/// All runs of one round, by scheme.
pub type Round = BTreeMap<Scheme, Run>;

/// The content of `--json`.
#[derive(Debug, Serialize)]
pub struct Results {
    pub kernel: String,
    pub processors: usize,
    pub payload_bytes: u32,
    pub msr: f64,
    pub seconds: f64,
    /// The meaning of `cpu_s`.
    pub cpu_s_counts: &'static str,
    pub rows: Vec<Row>,
    /// Medians of the rounds' ratios.
    pub ratios: BTreeMap<&'static str, f64>,
    pub ratio_spread: BTreeMap<&'static str, Spread>,
    /// The runs of each round, by scheme.
    pub rounds: Vec<BTreeMap<String, Run>>,
}

/// Medians of one scheme's runs.
#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    /// Packets that reached the receiver; `None` for TCP, which has no such counter.
    pub packets_per_s: Option<f64>,
    /// Packets that the sender sent.
    pub offered_packets_per_s: Option<f64>,
    /// Packets that reached the receiver, per second of the sender's processor time. On a busy
    /// machine this is steadier than packets per second.
    pub packets_per_sender_cpu_s: Option<f64>,
    pub goodput_bits_per_s: f64,
    pub cpu_s: f64,
    pub goodput_bits_per_cpu_s: f64,
    /// The share of retransmitted packets among those sent.
    pub retransmitted_share: Option<f64>,
}

/// The spread of a ratio over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

/// The meaning of `cpu_s`.
pub const CPU_S_COUNTS: &str = "user and system time of the sender's and the receiver's process, \
of both daemons, and of ksoftirqd (machine-wide); packets handled in a process's time are in that \
process's";

type Value = fn(&Run) -> Option<f64>;

/// Name, numerator, denominator, and the value compared.
const RATIOS: [(&str, Scheme, Scheme, Value); 16] = {
    use Scheme::{
        Iperf3, Iperf3Segmented, LibraryBurst, LibraryBurstSegmented, LibraryEbpf, LibraryEbpf64k,
        LibraryShort, LibraryShortUnpacked, LibraryUserspace, LibraryUserspace64k, RawUdp,
        RawUdpNap, RawUdpPacked, Tcp, TcpSegmented,
    };
    const GOODPUT: Value = |run| Some(run.goodput_bits_per_s());
    const PER_CPU: Value = |run| Some(run.goodput_bits_per_cpu_s());
    [
        ("packets_vs_raw_udp", LibraryEbpf, RawUdp, Run::packets_per_s),
        ("burst_vs_tcp_whole", LibraryBurst, Iperf3, PER_CPU),
        ("burst_vs_tcp_segmented", LibraryBurstSegmented, Iperf3Segmented, PER_CPU),
        ("burst_vs_in_process_tcp_whole", LibraryBurst, Tcp, PER_CPU),
        ("burst_vs_in_process_tcp_segmented", LibraryBurstSegmented, TcpSegmented, PER_CPU),
        ("packets_vs_raw_udp_nap", LibraryEbpf, RawUdpNap, Run::packets_per_s),
        ("packets_per_cpu_vs_raw_udp", LibraryEbpf, RawUdp, Run::packets_per_sender_cpu_s),
        ("packets_64k_vs_raw_udp", LibraryEbpf64k, RawUdp, Run::packets_per_s),
        ("userspace_packets_vs_raw_udp", LibraryUserspace, RawUdp, Run::packets_per_s),
        ("userspace_packets_64k_vs_raw_udp", LibraryUserspace64k, RawUdp, Run::packets_per_s),
        ("short_messages_vs_unpacked", LibraryShort, LibraryShortUnpacked, GOODPUT),
        ("short_messages_vs_raw_udp", LibraryShort, RawUdpPacked, GOODPUT),
        ("goodput_vs_tcp", LibraryEbpf, Tcp, GOODPUT),
        ("goodput_64k_vs_tcp", LibraryEbpf64k, Tcp, GOODPUT),
        ("goodput_per_cpu_vs_raw_udp", LibraryEbpf, RawUdp, PER_CPU),
        ("goodput_per_cpu_vs_tcp", LibraryEbpf, Tcp, PER_CPU),
    ]
};

/// The medians of each scheme.
pub fn rows(rounds: &[Round]) -> Vec<Row> {
    let mut schemes: Vec<Scheme> = rounds.iter().flat_map(Round::keys).copied().collect();
    schemes.sort_unstable();
    schemes.dedup();
    schemes.into_iter().map(|scheme| row(scheme, rounds)).collect()
}

fn row(scheme: Scheme, rounds: &[Round]) -> Row {
    let runs: Vec<&Run> = rounds.iter().filter_map(|round| round.get(&scheme)).collect();
    let of = |value: fn(&Run) -> f64| median(runs.iter().map(|run| value(run))).unwrap_or(f64::NAN);
    let counted = |value: Value| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| value(run)).collect();
        values.and_then(median)
    };
    Row {
        name: scheme.title(),
        packets_per_s: counted(Run::packets_per_s),
        offered_packets_per_s: counted(Run::offered_packets_per_s),
        packets_per_sender_cpu_s: counted(Run::packets_per_sender_cpu_s),
        goodput_bits_per_s: of(Run::goodput_bits_per_s),
        cpu_s: of(Run::cpu_s),
        goodput_bits_per_cpu_s: of(Run::goodput_bits_per_cpu_s),
        retransmitted_share: counted(|run| {
            let sent = run.sender.packets;
            (sent > 0).then(|| run.sender.packets_retransmitted as f64 / sent as f64)
        }),
    }
}

/// The spread of each ratio; each quotient comes from one round.
pub fn ratios(rounds: &[Round]) -> BTreeMap<&'static str, Spread> {
    let spread = |&(name, over, under, value): &(&'static str, Scheme, Scheme, Value)| {
        let ratios = rounds
            .iter()
            .filter_map(|round| Some(value(round.get(&over)?)? / value(round.get(&under)?)?));
        Spread::of(ratios.collect()).map(|spread| (name, spread))
    };
    RATIOS.iter().filter_map(spread).collect()
}

impl Spread {
    fn of(values: Vec<f64>) -> Option<Self> {
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        Some(Self { min, median: median(values)?, max })
    }
}

/// The rows as a text table.
pub fn row_table(rows: &[Row]) -> Table {
    let thousands = |value: Option<f64>| value.map_or("-".into(), |v| format!("{:.1}", v / 1e3));
    let rows = rows.iter().map(|row| {
        [
            row.name.clone(),
            thousands(row.packets_per_s),
            thousands(row.offered_packets_per_s),
            thousands(row.packets_per_sender_cpu_s),
            row.retransmitted_share.map_or("-".into(), |share| format!("{:.2} %", share * 100.0)),
            format!("{:.2}", row.goodput_bits_per_s / 1e9),
            format!("{:.2}", row.cpu_s),
            format!("{:.2}", row.goodput_bits_per_cpu_s / 1e9),
        ]
    });
    let header = [
        "scheme",
        "k packets/s",
        "k offered/s",
        "k packets per sender CPU s",
        "retransmitted",
        "goodput Gbit/s",
        "CPU s",
        "Gbit per CPU s",
    ];
    table(header, 1, rows)
}

/// The ratios as a text table.
pub fn ratio_table(ratios: &BTreeMap<&'static str, Spread>) -> Table {
    let rows = ratios.iter().map(|(name, Spread { min, median, max })| {
        [(*name).to_owned(), format!("{min:.3}"), format!("{median:.3}"), format!("{max:.3}")]
    });
    table(["ratio within a round", "min", "median", "max"], 1, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::library::tally::Tally;

    fn run(packets: u64, seconds: f64) -> Run {
        let tally = Tally {
            packets,
            bytes: packets * 1_000,
            active_s: seconds,
            cpu_s: seconds,
            ..Tally::default()
        };
        Run { sender: tally, receiver: tally, daemons_cpu_s: 0.0, softirq_cpu_s: 0.0 }
    }

    #[test]
    fn ratios__are_taken_within_rounds() {
        // The machine is half as fast in the second round, and the ratios hide it.
        let round = |speed: f64| {
            let raw = run((1000.0 * speed) as u64, 1.0);
            let library = run((700.0 * speed) as u64, 1.0);
            Round::from([(Scheme::RawUdp, raw), (Scheme::LibraryEbpf, library)])
        };
        let ratios = ratios(&[round(1.0), round(0.5)]);
        let Spread { min, median, max } = ratios["packets_vs_raw_udp"];
        assert_eq!((min, median, max), (0.7, 0.7, 0.7));
        assert!(!ratios.contains_key("goodput_vs_tcp"));
    }

    #[test]
    fn rows__are_medians() {
        let rounds = [10, 30, 20].map(|packets| Round::from([(Scheme::RawUdp, run(packets, 2.0))]));
        let rows = rows(&rounds);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].packets_per_s, Some(10.0));
        assert_eq!(rows[0].goodput_bits_per_s, 80_000.0);
        assert_eq!(rows[0].goodput_bits_per_cpu_s, 40_000.0);
    }
}
