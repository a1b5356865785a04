//! Changes Rmax while a lane is open: operators limit the lanes of users.

use super::{Lane, Settings};
use crate::units::Rate;
use core::mem::offset_of;

impl Lane {
    /// The position of Rmax in a lane that the programs run. The daemon writes it there.
    pub const RATE_MAX_AT: usize = offset_of!(Self, settings) + offset_of!(Settings, rate_max);

    /// Changes Rmax. The next tick or step lowers the lane's rate to it.
    pub const fn set_rate_max(&mut self, rate_max: Rate) {
        self.settings.rate_max = rate_max;
    }

    /// A rate that the law may have set before Rmax changed.
    pub(super) const fn limited(&self, rate: Rate) -> Rate {
        let rate_max = self.settings.rate_max;
        if rate.bytes_per_s() > rate_max.bytes_per_s() { rate_max } else { rate }
    }
}
