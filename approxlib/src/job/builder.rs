//! Opens a job by its options: a socket, a datapath, the sender thread.

use super::{
    Job,
    group::Group,
    known_path,
    open::{self, OpenedFlow},
    options::JobBuilder,
    shared::{Limits, Shared},
    thread::{SenderThread, Setup},
    windows::WindowInput,
};
use crate::{
    datapath::JobProgress,
    error::Error,
    peer::{ToAddresses, first_reachable, resolve},
    udp::{PATH_MTU_BYTES_MIN, UdpSocket},
};
use atp_common::{units::Rate, wire::HEADER_LEN};
use atp_proto::{
    CompleteAt, ConfigError, GroupConfig, MESSAGES_MAX, PAYLOAD_BYTES_MAX, Sender, SenderConfig,
    flow::LaneSettings,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

/// The least Rmax. At lower rates a packet would take longer than a second.
const RATE_MAX_BYTES_PER_S_MIN: u64 = 1_000;

/// Message bytes of a packet if the path's MTU is unknown: with all headers they fit 1,500.
const PAYLOAD_BYTES: u32 = 1_400;
const MESSAGES_HELD_MAX: u32 = 65_536;

impl JobBuilder {
    /// Opens the job to the receiver at `peer`, an address or a host name with a port. Sends
    /// nothing yet.
    ///
    /// If a name has several addresses, the job takes the first that this host can reach. It can't
    /// tell whether a receiver listens there. The call blocks while a name is resolved.
    ///
    /// # Errors
    /// - [`Error::Name`]: the name can't be resolved.
    /// - [`Error::Msr`], [`Error::NoMessages`], [`Error::Options`], [`Error::RateMax`]: an option
    ///   is invalid.
    /// - [`Error::Peer`], [`Error::PathTooNarrow`], [`Error::Socket`]: the peer can't be reached
    ///   from this host.
    /// - [`Error::Daemon`]: no daemon answers at the socket that was named, or the daemon refused.
    pub fn connect(self, peer: impl ToAddresses) -> Result<Job, Error> {
        self.open_first(&resolve(&peer)?, None)
    }

    pub(super) fn open_first(
        &self,
        peers: &[SocketAddr],
        job_progress: Option<&Arc<JobProgress>>,
    ) -> Result<Job, Error> {
        first_reachable(peers, |peer| self.clone().open(peer, job_progress))
    }

    fn group_configs(&self) -> Result<Vec<GroupConfig>, Error> {
        let mut groups = self.groups.clone();
        let has_own = self.msr.is_some() || self.messages.is_some() || self.order.is_some();
        if groups.is_empty() || has_own {
            let group = Group::new(0).msr(self.msr.unwrap_or(1.0));
            let group = group.order(self.order.unwrap_or_default());
            groups.push(self.messages.map_or(group, |messages| group.messages(messages)));
        }
        let configs: Vec<_> = groups.into_iter().map(Group::config).collect::<Result<_, _>>()?;
        let is_empty = |group: &GroupConfig| group.total == Some(0);
        if configs.len() == 1 && configs.iter().all(is_empty) {
            return Err(Error::NoMessages);
        }
        Ok(configs)
    }

    fn open(self, peer: SocketAddr, job_progress: Option<&Arc<JobProgress>>) -> Result<Job, Error> {
        let groups = self.group_configs()?;
        let is_broadcast = peer.ip() == Ipv4Addr::BROADCAST;
        if peer.port() == 0 || peer.ip().is_multicast() || is_broadcast {
            return Err(Error::Peer(peer));
        }
        if self.rate_max_bytes_per_s < RATE_MAX_BYTES_PER_S_MIN {
            return Err(Error::RateMax(self.rate_max_bytes_per_s));
        }
        let socket = open::socket(peer)?;
        let payload_bytes = self.fitting_payload(&socket, peer)?;
        let userspace = LaneSettings {
            rate_max: Rate::from_bytes_per_s(self.rate_max_bytes_per_s),
            rules: self.rules,
            payload_bytes: payload_bytes + HEADER_LEN as u32,
            overhead_bytes: socket.overhead_bytes() as u32,
            first_window: self.initial_window_packets > 0,
        };
        let request = open::FlowRequest {
            id: self.id,
            groups: &groups,
            peer,
            first_window: userspace.first_window,
            job_progress,
        };
        let opened = self.control_socket.open(&request, socket, &userspace)?;
        let config = self.transport(&opened, groups, payload_bytes)?;
        self.start(peer, opened, userspace, config)
    }

    fn fitting_payload(&self, socket: &UdpSocket, peer: SocketAddr) -> Result<u32, Error> {
        if let Some(bytes) = self.payload_bytes.filter(|bytes| *bytes > PAYLOAD_BYTES_MAX) {
            return Err(ConfigError::Payload(bytes).into());
        }
        let Some(mtu_bytes) = socket.path_mtu_bytes() else {
            return Ok(self.payload_bytes.unwrap_or(PAYLOAD_BYTES));
        };
        if mtu_bytes < PATH_MTU_BYTES_MIN {
            return Err(Error::PathTooNarrow { peer, mtu_bytes });
        }
        let room = mtu_bytes - socket.overhead_bytes() - HEADER_LEN;
        let room = room.min(PAYLOAD_BYTES_MAX as usize) as u32;
        Ok(self.payload_bytes.map_or(room, |bytes| bytes.min(room)))
    }

    fn transport(
        &self,
        opened: &OpenedFlow,
        groups: Vec<GroupConfig>,
        payload_bytes: u32,
    ) -> Result<SenderConfig, Error> {
        let first = groups[0];
        // A job that announces N ends by itself, and tells the receiver then what follows.
        let is_announced = groups.iter().all(|group| group.total.is_some());
        Ok(SenderConfig {
            groups,
            complete_at: match self.try_every_message {
                true => CompleteAt::EveryMessageTried,
                false => CompleteAt::Msr,
            },
            payload_bytes_max: payload_bytes,
            message_bytes_max: self.message_bytes_max,
            // `Shared::put` limits the buffer. The transport takes every message that passed there,
            // which may be one that is longer than the buffer.
            buffer_bytes_max: self.buffer_bytes.saturating_add(self.message_bytes_max.into()),
            buffer_messages_max: MESSAGES_HELD_MAX,
            ack_ring_words: opened.ack_ring_words,
            mrdf: self.mrdf,
            rank_by_bytes: self.rank_by_bytes,
            packing: self.packing,
            initial_window_packets: self.initial_window_packets,
            timer_granularity_ns: self.timer_granularity.as_nanos().try_into().unwrap_or(u64::MAX),
            peer_timeout_ns: nanos(self.peer_timeout),
            refused_timeout_ns: self.refused_timeout.map_or(u64::MAX, nanos),
            announce_terms: true,
            requests: self.requests.policy()?,
            names_lost: self.name_lost,
            windows: self.windows || self.overlap_windows || !is_announced,
            overlap: self.overlap_windows,
            ..SenderConfig::new(opened.job, opened.cookie, first)
        })
    }

    fn start(
        self,
        peer: SocketAddr,
        opened: OpenedFlow,
        fallback: LaneSettings,
        config: SenderConfig,
    ) -> Result<Job, Error> {
        let OpenedFlow { datapath, socket, daemon, path, .. } = opened;
        let id = config.job;
        let windows = WindowInput::new(!config.windows, self.overlap_windows);
        let mut sender = Sender::new(config)?;
        known_path::apply(path, &mut sender, fallback.packet_bytes());
        let limits = Limits { buffer_bytes: self.buffer_bytes, buffer_messages: MESSAGES_HELD_MAX };
        let groups = &sender.config().groups;
        let most = groups.iter().map(|group| (group.group, group.total.unwrap_or(MESSAGES_MAX)));
        let shared = Arc::new(Shared::new(limits, most).map_err(Error::Thread)?);
        let (name, pacing) = (datapath.name(), datapath.pacing().to_owned());
        let setup = Setup {
            socket,
            peer,
            sender,
            datapath,
            fallback,
            daemon,
            shared: shared.clone(),
            window_deadline: self.window_deadline,
        };
        let thread = SenderThread::start(setup).map_err(Error::Thread)?;
        Ok(Job {
            id,
            peer,
            datapath: name,
            pacing,
            message_bytes_max: self.message_bytes_max as usize,
            shared,
            pool: Default::default(),
            copies: Vec::new(),
            windows,
            thread: Some(thread),
        })
    }
}

/// A time for the transport, which adds it to others.
fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX / 2)
}
