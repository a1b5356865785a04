//! The queue profile of a host's daemon, which may be another one than the switch's.

use crate::scheme::LawChoice;
use atp_common::laws::RateLaw;
use switch_profiles::Profile;

/// The queue profile that the daemon of a host was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DaemonProfile {
    /// The switch's.
    #[default]
    OfSwitch,
    /// None. Lanes write the DSCPs of the default one, and nothing is known of the queues.
    Unstated,
    /// Another one, or the same.
    Stated(Profile),
}

impl DaemonProfile {
    /// The profile that gives lanes their DSCPs, on a network whose switches have `switch`.
    pub(super) fn of_dscps(&self, switch: &Profile) -> Profile {
        self.known(switch).cloned().unwrap_or_default()
    }

    /// The packets that an approximate queue holds towards a host, as the daemon believes; 0 for
    /// one queue, and without a profile.
    pub(super) fn depth_packets(&self, switch: &Profile) -> u32 {
        self.known(switch).map_or(0, Profile::advised_depth_packets)
    }

    /// The laws that the daemon runs: `chosen`, or those that fit the network as it knows it.
    pub(super) fn laws(&self, chosen: LawChoice, switch: &Profile) -> LawChoice {
        match self.known(switch) {
            Some(profile) => chosen.on(profile),
            None => chosen.or_law(RateLaw::UNKNOWN_NETWORK),
        }
    }

    /// Whether lanes write DSCPs that the switch has no approximate queue for.
    pub(super) fn is_in_queue_0(&self, switch: &Profile) -> bool {
        let (profile, known) = (self.of_dscps(switch), switch.approximate_dscps());
        (1..=7).all(|queue| known & 1 << profile.dscp_of_queue(queue) == 0)
    }

    fn known<'a>(&'a self, switch: &'a Profile) -> Option<&'a Profile> {
        match self {
            Self::OfSwitch => Some(switch),
            Self::Unstated => None,
            Self::Stated(profile) => Some(profile),
        }
    }
}
