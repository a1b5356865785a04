//! The lanes of one sender that get advice, from the daemon or from this library.

use super::{arriving::AdvisedLane, counted_lane::CountedLane};
use atp_common::wire::Advice;
use atp_proto::endpoint::{Lanes, SourceLanes};

/// The lanes of one sender.
#[derive(Default)]
pub struct AdvisedLanes {
    /// Lanes that get the daemon's advice.
    pub by_daemon: SourceLanes<AdvisedLane>,
    /// Lanes that get this library's advice.
    pub counted: SourceLanes<CountedLane>,
}

impl Lanes for AdvisedLanes {
    fn take_advice(&mut self, mut give: impl FnMut(u8, Advice)) {
        for (group, lane) in self.by_daemon.iter_mut() {
            if let Some(advice) = lane.take_advice() {
                give(group, advice);
            }
        }
        for (group, lane) in self.counted.iter_mut() {
            if let Some(advice) = lane.take_advice() {
                give(group, advice);
            }
        }
    }

    fn clear(&mut self) -> impl Iterator<Item = u8> {
        self.by_daemon.clear().chain(self.counted.clear())
    }
}
