//! Moves a flow between the daemon's datapath and userspace. Messages, slots and the cookie
//! continue, so the receiver notices nothing.
//!
//! ```text
//!                 not covered, daemon gone, job ended there
//!          ebpf ──────────────────────────────────────────────▶ userspace
//!            ▲                                                      │ pause
//!            │ granted                                              ▼
//!            └────────────────────────────────────────────── registering ⟲ refused: pause
//! ```

use super::SenderThread;
use crate::{
    control::{Client, ClientError, FlowOpen, GroupOpen, Registrar},
    datapath::{Datapath, End, FlowProgress, ReturnPause, Userspace},
    job::open::Granted,
    udp::now_ns,
};
use atp_common::units::Msr;
use atp_proto::GroupConfig;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The pause before the first attempt to register with a daemon that is gone or refused the flow.
const RETURN_PAUSE: Duration = Duration::from_millis(250);
/// The interval at which the registering thread learns the lanes' epochs and rates.
const DESCRIBE_NS: u64 = 50_000_000;
/// Epochs from the last one that the registering thread knows to the lane's first one at the
/// daemon. In userspace an epoch takes at least a millisecond, and a reply ten seconds at most
/// (`control::client::REPLY_TIMEOUT`).
const EPOCHS_AHEAD: u16 = 16_384;

/// The state of a flow's moves.
pub struct Switching {
    /// The daemon to which the flow belongs, or to which it may return.
    daemon: Option<PathBuf>,
    returning: Option<Returning>,
    pause: ReturnPause,
    /// Ids of the exact groups. The MSR of another group may be 1 by now, and it still isn't exact.
    exact: Vec<u8>,
}

/// A flow in userspace that tries to return to the daemon.
struct Returning {
    registrar: Registrar<Granted>,
    /// The groups with the state of their lanes.
    groups: Arc<Mutex<Vec<GroupOpen>>>,
    described_ns: u64,
}

impl Switching {
    /// For a flow of `daemon`, or of none, with its first groups.
    pub fn new(daemon: Option<PathBuf>, groups: &[GroupConfig]) -> Self {
        let exact = groups.iter().filter(|group| group.msr.is_exact()).map(|group| group.group);
        Self { daemon, returning: None, pause: ReturnPause::default(), exact: exact.collect() }
    }
}

impl SenderThread {
    /// Leaves the kernel datapath if it ended, and returns to it if the daemon takes the flow.
    pub(super) fn switch(&mut self, now_ns: u64) {
        if let Some(end) = self.datapath.end() {
            return self.leave_kernel(now_ns, end);
        }
        if matches!(self.datapath, Datapath::Kernel(_)) || self.switching.daemon.is_none() {
            return;
        }
        match &self.switching.returning {
            None => self.start_returning(now_ns, RETURN_PAUSE),
            Some(returning) => match returning.registrar.take() {
                Some(granted) => self.return_to_kernel(now_ns, granted),
                None => self.describe_lanes(now_ns),
            },
        }
    }

    /// The connection to the daemon ended.
    pub(super) fn on_hang_up(&mut self) {
        let now_ns = now_ns();
        // The status page says whether an operator ended the job.
        self.datapath.tick(now_ns, &mut self.job.sender, &self.socket);
        let end = self.datapath.end().unwrap_or(End::DaemonGone);
        self.leave_kernel(now_ns, end);
    }

    /// Goes on without the daemon: from now on this process paces, stamps and counts.
    ///
    /// If the daemon's programs are gone too, acknowledgments come to the socket. If they were left
    /// behind, they write acknowledgments to the ring. If both fail, receipts still tell what
    /// arrived.
    fn leave_kernel(&mut self, now_ns: u64, end: End) {
        let groups = self.groups_of_lanes();
        let alone = || FlowProgress::new(None);
        let fresh = Userspace::new(self.fallback, &groups, alone(), None, now_ns);
        let before = std::mem::replace(&mut self.datapath, Datapath::Userspace(fresh.into()));
        let Datapath::Kernel(kernel) = before else { return };
        let handover = Some(kernel.into_handover());
        let lanes = Userspace::new(self.fallback, &groups, alone(), handover, now_ns);
        self.datapath = Datapath::Userspace(lanes.into());
        self.job.sender.stop_probing();
        let (job, peer) = (self.job.sender.config().job, self.peer);
        match end {
            End::DaemonGone => {
                tracing::warn!(
                    job,
                    %peer,
                    "the ATP daemon closed this job's lanes (it stopped, or was killed): the job \
                     continues with pacing in userspace until a daemon is back"
                );
                self.start_returning(now_ns, RETURN_PAUSE);
            }
            End::JobEnded => {
                tracing::warn!(
                    job,
                    %peer,
                    "the job was ended at the ATP daemon: it continues with pacing in userspace"
                );
                self.switching.daemon = None;
            }
            End::NotCovered(lost) => {
                let pause = Duration::from_nanos(self.switching.pause.after_loss(now_ns));
                tracing::warn!(
                    job,
                    %peer,
                    packets = lost.packets,
                    after_ms = lost.after_ns / 1_000_000,
                    "the ATP daemon's programs don't see this job's packets any more (has the \
                     route changed?): the job continues with pacing in userspace"
                );
                self.start_returning(now_ns, pause);
            }
        }
    }

    fn start_returning(&mut self, now_ns: u64, pause: Duration) {
        let Some(daemon) = self.switching.daemon.clone() else { return };
        let groups = Arc::new(Mutex::new(self.lanes_to_continue()));
        let (socket, present) = (Arc::downgrade(&self.socket), groups.clone());
        let (job, cookie) = (self.job.sender.config().job, self.job.sender.config().cookie);
        let registrar = Registrar::start(pause, move || {
            // Holds no strong reference while it waits: the job's end frees the port. The state of
            // the lanes is as late as possible.
            let client = Client::connect(&daemon)?;
            let socket = socket.upgrade().ok_or(ClientError::Closed)?;
            let groups = present.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let flow = FlowOpen { id: Some(job), cookie: Some(cookie), groups };
            Granted::request(client, flow, &socket)
        });
        match registrar {
            Ok(registrar) => {
                let returning = Returning { registrar, groups, described_ns: now_ns };
                self.switching.returning = Some(returning);
            }
            Err(error) => {
                tracing::warn!(
                    %error,
                    "starting a thread to find the ATP daemon again failed: this job stays in \
                     userspace"
                );
                self.switching.daemon = None;
            }
        }
    }

    /// Tells the registering thread the state of the lanes.
    fn describe_lanes(&mut self, now_ns: u64) {
        let due =
            self.switching.returning.as_ref().is_some_and(|returning| {
                now_ns.saturating_sub(returning.described_ns) >= DESCRIBE_NS
            });
        if !due {
            return;
        }
        let lanes = self.lanes_to_continue();
        if let Some(returning) = &mut self.switching.returning {
            returning.described_ns = now_ns;
            *returning.groups.lock().unwrap_or_else(PoisonError::into_inner) = lanes;
        }
    }

    /// The groups with the MSR that decides whether their lanes are exact.
    fn groups_of_lanes(&self) -> Vec<GroupConfig> {
        let mut groups = self.job.sender.config().groups.clone();
        for group in &mut groups {
            if group.msr.is_exact() && !self.switching.exact.contains(&group.group) {
                group.msr = Msr::BELOW_EXACT;
            }
        }
        groups
    }

    fn lanes_to_continue(&self) -> Vec<GroupOpen> {
        let groups = self.groups_of_lanes();
        let groups = groups.iter().map(|group| {
            let lane = self.datapath.lane(group.group);
            let progress = self.job.sender.progress(group.group).unwrap_or_default();
            GroupOpen {
                group: group.group,
                msr_parts_per_billion: group.msr.parts_per_billion(),
                messages: progress.messages,
                epoch: lane.epoch.wrapping_add(EPOCHS_AHEAD),
                rate_bytes_per_s: lane.rate_bytes_per_s,
                first_window: false,
            }
        });
        groups.collect()
    }

    fn return_to_kernel(&mut self, now_ns: u64, granted: Granted) {
        self.switching.returning = None;
        let config = self.job.sender.config();
        if granted.identity() != (config.job, config.cookie, config.ack_ring_words) {
            tracing::warn!(job = config.job, "the ATP daemon granted another flow: not using it");
            self.switching.daemon = None;
            return;
        }
        let kernel = granted.into_kernel(&config.groups, &self.fallback, FlowProgress::new(None));
        let kernel = match kernel {
            Ok(kernel) => kernel,
            Err(error) => {
                tracing::warn!(%error, "mapping the ATP daemon's memory failed");
                self.switching.daemon = None;
                return;
            }
        };
        // Takes in the last acknowledgments of the earlier ring.
        self.datapath.tick(now_ns, &mut self.job.sender, &self.socket);
        let groups = self.groups_of_lanes();
        let fresh = Userspace::new(self.fallback, &groups, FlowProgress::new(None), None, now_ns);
        let before = std::mem::replace(&mut self.datapath, Datapath::Userspace(fresh.into()));
        let Datapath::Userspace(userspace) = before else { return };
        let kernel = kernel.with_progress(userspace.into_progress());
        self.datapath = Datapath::Kernel(kernel.into());
        tracing::info!(
            job = self.job.sender.config().job,
            peer = %self.peer,
            pacing = self.datapath.pacing(),
            "the ATP daemon serves this job again"
        );
    }
}
