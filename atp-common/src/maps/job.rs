use bytemuck::{Pod, Zeroable};

/// No job lives here.
pub const JOB_FREE: u32 = 0;
/// A job lives here.
pub const JOB_ACTIVE: u32 = 1;

/// A job as the programs see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Job {
    /// The cgroup (v2) whose sockets belong to the job, by id; 0 if it is bound to none and the
    /// flow's cookie alone proves membership.
    pub cgroup: u64,
    /// The job's id.
    pub id: u32,
    /// [`JOB_FREE`] or [`JOB_ACTIVE`].
    pub state: u32,
}

const _: () = assert!(size_of::<Job>() == 16);
