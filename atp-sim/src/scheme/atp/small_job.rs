//! A small job's account of the exact queue.

use crate::scheme::{Context, wire_bytes};
use atp_common::{laws::small_job, wire::MEMBER_HEADER_LEN};
use atp_proto::GroupConfig;

/// The bytes that a job may send in the exact queue. Its host granted them as its messages came,
/// while the job looked small.
#[derive(Clone, Copy, Debug)]
pub struct SmallJob {
    needed: u32,
    payload_bytes: u32,
    queued: u32,
    queued_bytes: u64,
    granted_bytes: u64,
}

impl SmallJob {
    /// The account of a job; `None` if its N is unknown, or if it is exact.
    pub fn of(group: &GroupConfig, payload_bytes: u32) -> Option<Self> {
        let needed = group.msr.needed(group.total?);
        let account = Self { needed, payload_bytes, queued: 0, queued_bytes: 0, granted_bytes: 0 };
        (!group.msr.is_exact()).then_some(account)
    }

    /// Asks the host for the bytes of a further message.
    pub fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        self.queued += 1;
        self.queued_bytes += u64::from(bytes);
        let Self { needed, queued, queued_bytes, payload_bytes, .. } = *self;
        if small_job::is_small(needed, queued, queued_bytes, payload_bytes)
            && context.host.take_for_small_job(context.now_ns(), wire_bytes(bytes))
        {
            self.granted_bytes += u64::from(bytes) + MEMBER_HEADER_LEN as u64;
        }
    }

    /// Takes the bytes of a packet, with the headers of its members if it is packed.
    pub fn spend(&mut self, bytes: u32) -> bool {
        let is_granted = self.granted_bytes >= u64::from(bytes);
        if is_granted {
            self.granted_bytes -= u64::from(bytes);
        }
        is_granted
    }
}
