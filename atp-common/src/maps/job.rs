use bytemuck::{Pod, Zeroable};

/// The element has no job.
pub const JOB_FREE: u32 = 0;
/// The element has a job.
pub const JOB_ACTIVE: u32 = 1;

/// A job as the programs see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Job {
    /// The id of the cgroup (v2) whose sockets belong to the job; 0 if the flow's cookie alone
    /// proves membership.
    pub cgroup: u64,
    /// The job's id.
    pub id: u32,
    /// [`JOB_FREE`] or [`JOB_ACTIVE`].
    pub state: u32,
}

const _: () = assert!(size_of::<Job>() == 16);
