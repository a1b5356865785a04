//! A small job's account of the small jobs' queue.

use crate::scheme::{Context, wire_bytes};
use atp_common::{laws::small_job, wire::MEMBER_HEADER_LEN};
use atp_proto::GroupConfig;
use switch_profiles::Profile;

/// The first code point for the small jobs' queue, which follows those of the default profile.
const DSCP_FIRST: u8 = 31;

/// The code point of the small jobs' queue: the first one for local use (RFC 2474) that `profile`
/// doesn't use, or the exact queue's.
pub fn dscp(profile: &Profile) -> u8 {
    let mut local = (0..16).map(|n| (DSCP_FIRST + 4 * n) % 64);
    let is_free = |dscp: &u8| profile.queues().iter().all(|queue| !queue.dscp.contains(dscp));
    local.find(is_free).unwrap_or(0)
}

/// The bytes that a job may send in the small jobs' queue. Its host granted them as its messages
/// came, while the job looked small.
#[derive(Clone, Copy, Debug)]
pub struct SmallJob {
    needed: u32,
    payload_bytes: u32,
    queued: u32,
    queued_bytes: u64,
    granted_bytes: u64,
    dscp: u8,
}

impl SmallJob {
    /// The account of a job, whose queue has `dscp`; `None` if its N is unknown, or if it is exact.
    pub fn of(group: &GroupConfig, payload_bytes: u32, dscp: u8) -> Option<Self> {
        let needed = group.msr.needed(group.total?);
        let (queued, queued_bytes, granted_bytes) = (0, 0, 0);
        let account = Self { needed, payload_bytes, queued, queued_bytes, granted_bytes, dscp };
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

    /// Pays for a packet of `bytes`, the headers of its members included if it is packed, from the
    /// bytes that the host granted. Returns the code point of the queue if they were enough.
    pub fn spend(&mut self, bytes: u32) -> Option<u8> {
        self.granted_bytes = self.granted_bytes.checked_sub(bytes.into())?;
        Some(self.dscp)
    }
}
