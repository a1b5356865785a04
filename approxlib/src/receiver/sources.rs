//! Who sends: the transport's state per (address, job, cookie), bounded in number.

use atp_common::wire::{Header, ResetReason};
use atp_proto::{Receiver as Transport, ReceiverConfig};
use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
};

/// A run of a job at one sender. The cookie is the run's: the same job started anew has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceKey {
    /// The sender.
    pub address: SocketAddr,
    /// The job.
    pub job: u32,
    /// The sender's secret.
    pub cookie: u32,
}

impl SourceKey {
    pub fn new(address: SocketAddr, header: &Header) -> Self {
        Self { address, job: header.job(), cookie: header.cookie() }
    }
}

/// A known sender.
pub struct Source {
    pub key: SourceKey,
    pub transport: Transport,
    /// Its first header: names the job and its cookie to whoever has to be told something.
    pub first: Header,
    /// The last answer to its FIN, to be repeated.
    pub fin_ack: Vec<u8>,
    /// Its end was told to the application.
    pub end_told: bool,
}

/// What is accepted.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Senders at once.
    pub sources_max: usize,
    /// These jobs only, if any is named.
    pub jobs: HashSet<u32>,
    /// Limits of each.
    pub transport: ReceiverConfig,
}

/// All senders.
pub struct Sources {
    admission: Admission,
    sources: Vec<Source>,
    index: HashMap<SourceKey, usize>,
    /// Most packets come from the sender of the packet before.
    last: usize,
}

impl Sources {
    pub fn new(admission: Admission) -> Self {
        Self { admission, sources: Vec::new(), index: HashMap::new(), last: 0 }
    }

    pub fn len(&self) -> usize {
        self.sources.len()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Source> {
        self.sources.iter_mut()
    }

    /// The sender of a packet, admitted now if it is new.
    pub fn admit(
        &mut self,
        now_ns: u64,
        address: SocketAddr,
        header: &Header,
    ) -> Result<&mut Source, ResetReason> {
        let key = SourceKey::new(address, header);
        if self.sources.get(self.last).is_none_or(|source| source.key != key) {
            self.last = match self.index.get(&key) {
                Some(at) => *at,
                None => self.add(now_ns, key, header)?,
            };
        }
        Ok(&mut self.sources[self.last])
    }

    fn add(&mut self, now_ns: u64, key: SourceKey, first: &Header) -> Result<usize, ResetReason> {
        if !self.admission.jobs.is_empty() && !self.admission.jobs.contains(&key.job) {
            return Err(ResetReason::NotWanted);
        }
        if self.sources.len() >= self.admission.sources_max {
            self.expire(now_ns);
        }
        if self.sources.len() >= self.admission.sources_max {
            return Err(ResetReason::NoRoom);
        }
        let transport = Transport::new(self.admission.transport, now_ns, first);
        self.sources.push(Source {
            key,
            transport,
            first: *first,
            fin_ack: Vec::new(),
            end_told: false,
        });
        self.index.insert(key, self.sources.len() - 1);
        Ok(self.sources.len() - 1)
    }

    /// Forgets senders that have ended, or are gone.
    pub fn expire(&mut self, now_ns: u64) {
        let before = self.sources.len();
        self.sources.retain(|source| {
            let expired = source.transport.expired(now_ns);
            if expired && !source.transport.is_finished() {
                let (job, source) = (source.key.job, source.key.address);
                tracing::info!(job, %source, "a sender fell silent before its job's end");
            }
            !expired
        });
        if self.sources.len() != before {
            self.last = 0;
            self.index.clear();
            self.index.extend(self.sources.iter().enumerate().map(|(at, s)| (s.key, at)));
        }
    }
}
