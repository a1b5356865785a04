//! The parameters that maps vary, and the base values of the others.

use crate::{
    engine::US,
    experiment::{NetworkSpec, Pattern, Point, Scheme, Stragglers, msr_from_fraction},
    figures::Extent,
    net::topology::LeafSpine,
    workload::Sizes,
};
use atp_common::units::Msr;
use switch_profiles::Profile;

/// A parameter that a map varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// The load that all senders of a receiver offer together, as a share of its line.
    Load,
    /// The number of senders per receiver.
    FanIn,
    /// The buffer that a switch's ports share, bytes.
    BufferBytes,
    /// The ECN threshold of switches, packets (DCTCP's K).
    EcnThreshold,
    /// The mean message size.
    MessageBytes,
    /// The ratio of the longest to the shortest message.
    Spread,
    /// The minimal sampling rate of jobs.
    Msr,
    /// The share of sending hosts whose job is exact.
    ExactShare,
    /// The share of hosts with a slow line.
    SlowHosts,
    /// The factor by which slow hosts' lines are slower.
    HostSlowdown,
    /// The share of slow links between switches.
    SlowLinks,
    /// The factor by which slow links are slower.
    LinkSlowdown,
}

/// The parameters of one cell of a map, without scheme and seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// See [`Axis::Load`].
    pub load: f64,
    /// See [`Axis::FanIn`].
    pub fan_in: u32,
    /// See [`Axis::BufferBytes`].
    pub buffer_bytes: u64,
    /// See [`Axis::EcnThreshold`]. `None` leaves the schemes' own.
    pub ecn_threshold_packets: Option<u32>,
    /// See [`Axis::MessageBytes`].
    pub message_bytes: f64,
    /// See [`Axis::Spread`]. Sizes between the shortest and the longest are log-uniform.
    pub spread: f64,
    /// A distribution that replaces mean and spread; `None` in maps that vary these.
    pub sizes: Option<Sizes>,
    /// See [`Axis::Msr`].
    pub msr: f64,
    /// See [`Axis::ExactShare`].
    pub exact_share: f64,
    /// Slow hosts and links.
    pub stragglers: Stragglers,
    /// The queue profile of the switches; `None` leaves the scheme's own.
    pub profile: Option<Profile>,
}

impl Default for Setting {
    /// The base values. The load exceeds a receiver's line: in a network that delays no job, all
    /// schemes are equal.
    fn default() -> Self {
        Self {
            load: 1.5,
            fan_in: 7,
            buffer_bytes: 1_500_000,
            ecn_threshold_packets: None,
            message_bytes: 10_000.0,
            spread: 100.0,
            sizes: None,
            msr: 0.8,
            exact_share: 0.1,
            stragglers: Stragglers::default(),
            profile: None,
        }
    }
}

/// The minimum duration. It is extended if the mean number of messages of a job would be below
/// [`MESSAGES_MIN`].
const DURATION_US_MIN: u64 = 500;
const MESSAGES_MIN: f64 = 50.0;

impl Setting {
    /// The base values of maps of `extent`.
    pub fn base(extent: Extent) -> Self {
        match extent {
            Extent::Full => Self::default(),
            // The quick network has eight hosts.
            Extent::Quick => Self { fan_in: 3, ..Self::default() },
        }
    }

    /// Describes the messages for a caption.
    pub(super) fn messages(&self) -> String {
        match &self.sizes {
            None => format!("messages of {} bytes (spread {})", self.message_bytes, self.spread),
            Some(Sizes::Fixed(bytes)) => format!("messages of {bytes} bytes"),
            Some(sizes @ Sizes::Table(_)) => {
                format!("messages of a table (mean {:.0} bytes)", sizes.mean(f64::from))
            }
            Some(sizes) => format!("messages of {sizes}"),
        }
    }

    /// Changes one parameter.
    pub fn with(mut self, axis: Axis, value: f64) -> Self {
        match axis {
            Axis::Load => self.load = value,
            Axis::FanIn => self.fan_in = value as u32,
            Axis::BufferBytes => self.buffer_bytes = value as u64,
            Axis::EcnThreshold => self.ecn_threshold_packets = Some(value as u32),
            Axis::MessageBytes => self.message_bytes = value,
            Axis::Spread => self.spread = value,
            Axis::Msr => self.msr = value,
            Axis::ExactShare => self.exact_share = value,
            Axis::SlowHosts => self.stragglers.hosts_share = value,
            Axis::HostSlowdown => self.stragglers.hosts_slowdown = value,
            Axis::SlowLinks => self.stragglers.links_share = value,
            Axis::LinkSlowdown => self.stragglers.links_slowdown = value,
        }
        self
    }

    /// The point of this setting, for a scheme and a seed.
    pub fn point(&self, scheme: Scheme, seed: u64, extent: Extent) -> Point {
        let msr = msr_from_fraction(self.msr);
        let (leaves, hosts_per_leaf, spines, shorter) = match extent {
            Extent::Full => (4, 8, 4, 1),
            Extent::Quick => (2, 4, 2, 5),
        };
        let duration_ps = DURATION_US_MIN * US / shorter;
        let point = Point {
            network_spec: NetworkSpec::LeafSpine(LeafSpine { leaves, hosts_per_leaf, spines }),
            pattern: Pattern::FanIn(self.fan_in),
            load: self.load / f64::from(self.fan_in),
            buffer_bytes: self.buffer_bytes,
            ecn_threshold_packets: self.ecn_threshold_packets,
            sizes: self
                .sizes
                .clone()
                .unwrap_or_else(|| log_uniform(self.message_bytes, self.spread)),
            msr: msr.unwrap_or(Msr::EXACT),
            exact_share: self.exact_share,
            stragglers: self.stragglers,
            profile: self.profile.clone(),
            duration_ps,
            scheme,
            seed,
            ..Point::default()
        };
        let longer = (MESSAGES_MIN / point.mean_messages_per_job()).max(1.0);
        Point { duration_ps: (duration_ps as f64 * longer) as u64, ..point }
    }
}

/// Log-uniform sizes: the longest is `spread` times the shortest, and the mean is `mean_bytes`.
fn log_uniform(mean_bytes: f64, spread: f64) -> Sizes {
    const STEPS: u32 = 32;
    if spread <= 1.0 {
        return Sizes::Fixed((mean_bytes.round() as u32).max(1));
    }
    let shortest = mean_bytes * libm::log(spread) / (spread - 1.0);
    let at = |step: u32| {
        let share = f64::from(step) / f64::from(STEPS);
        (shortest * libm::pow(spread, share), share)
    };
    Sizes::Table((0..=STEPS).map(at).collect())
}

impl Axis {
    /// Whether the parameter changes message sizes.
    pub const fn varies_sizes(self) -> bool {
        matches!(self, Self::MessageBytes | Self::Spread)
    }

    /// The label of the axis in a drawing.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Load => "load of a receiver's line",
            Self::FanIn => "senders to one receiver",
            Self::BufferBytes => "buffer of a switch [kB]",
            Self::EcnThreshold => "ECN threshold K [packets]",
            Self::MessageBytes => "mean message [bytes]",
            Self::Spread => "longest message / shortest",
            Self::Msr => "MSR",
            Self::ExactShare => "share of exact jobs",
            Self::SlowHosts => "share of slow hosts",
            Self::HostSlowdown => "times slower (host's line)",
            Self::SlowLinks => "share of slow links",
            Self::LinkSlowdown => "times slower (link)",
        }
    }

    /// The values of the axis.
    pub fn values(self, extent: Extent) -> Vec<f64> {
        let values: &[f64] = match (self, extent) {
            (Self::FanIn, Extent::Quick) => &[1.0, 3.0, 7.0],
            (Self::Load, _) => &[0.3, 0.6, 0.9, 1.5, 3.0],
            (Self::FanIn, Extent::Full) => &[1.0, 3.0, 7.0, 15.0, 31.0],
            (Self::BufferBytes, _) => &[30e3, 100e3, 300e3, 1_500e3],
            (Self::EcnThreshold, _) => &[5.0, 10.0, 20.0, 35.0, 50.0, 65.0],
            (Self::MessageBytes, _) => &[100.0, 300.0, 1_000.0, 10_000.0, 100_000.0],
            (Self::Spread, _) => &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5],
            (Self::Msr, _) => &[0.5, 0.7, 0.8, 0.9, 0.95],
            (Self::ExactShare, _) => &[0.05, 0.1, 0.25, 0.5, 0.75],
            (Self::SlowHosts | Self::SlowLinks, _) => &[0.125, 0.25, 0.5],
            (Self::HostSlowdown | Self::LinkSlowdown, _) => &[2.0, 4.0, 10.0],
        };
        match (extent, values) {
            (Extent::Quick, [first, .., last]) => vec![*first, *last],
            _ => values.to_vec(),
        }
    }

    /// Formats a value for the axis of a drawing.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::BufferBytes => (value / 1e3).to_string(),
            _ => value.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_uniform__has_its_mean_and_its_ends() {
        for (mean, spread) in [(100.0, 10.0), (10_000.0, 100.0), (10_000.0, 1_000.0)] {
            let sizes = log_uniform(mean, spread);
            let own = sizes.mean(f64::from);
            // The table interpolates linearly, and sizes are whole bytes.
            assert!((own / mean - 1.0).abs() < 0.02, "{mean}, {spread}: {own}");
            let ends = f64::from(sizes.quantile(1.0)) / f64::from(sizes.quantile(0.0));
            assert!((ends / spread - 1.0).abs() < 0.05, "{mean}, {spread}: {ends}");
        }
        assert_eq!(log_uniform(300.0, 1.0), Sizes::Fixed(300));
    }

    #[test]
    fn point__has_enough_messages_in_a_job() {
        for axis in [Axis::Load, Axis::FanIn, Axis::MessageBytes, Axis::Spread] {
            for value in axis.values(Extent::Full) {
                let setting = Setting::default().with(axis, value);
                let point = setting.point(Scheme::default(), 1, Extent::Full);
                assert!(point.mean_messages_per_job() > 0.999 * MESSAGES_MIN, "{axis:?} {value}");
                assert!(point.duration_ps >= DURATION_US_MIN * US);
            }
        }
    }
}
