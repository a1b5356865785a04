//! The receiving thread: it owns the socket and the transport's state of every sender.

use super::{
    answers::Answers,
    events::Event,
    inbox::{Inbox, ReceiverStats, Verdict},
    registrar::Registrar,
    sources::{Source, Sources},
    traffic::Traffic,
    turn::Turn,
};
use crate::{
    control::Client,
    error::Error,
    udp::{Interest, SendBatch, SuperpacketBatch, UdpSocket, now_ns, wait},
};
use atp_common::wire::ResetReason;
use atp_proto::reset_header;
use std::{io, net::SocketAddr, os::fd::AsFd, path::PathBuf, sync::Arc, time::Duration};

/// However urgent, so that nothing can make this thread spin.
const SLEEP_NS_MIN: u64 = 20_000;
/// How often to look for senders to forget, and for a daemon that has come back.
const HOUSEKEEPING_NS: u64 = 1_000_000_000;

/// Everything that the receiving thread has.
pub struct Worker {
    pub socket: Arc<UdpSocket>,
    pub local: SocketAddr,
    pub sources: Sources,
    pub inbox: Arc<Inbox>,
    pub acknowledger: Acknowledger,
    pub stats: ReceiverStats,
    pub buffers: Buffers,
    pub housekeeping_due_ns: u64,
    pub traffic: Traffic,
}

/// Who acknowledges.
pub enum Acknowledger {
    /// The daemon's programs, as long as this connection lasts.
    Kernel { client: Client, path: PathBuf },
    /// This process. With a registrar: until the daemon is back.
    Userspace { registrar: Option<Registrar> },
}

/// Memory used again in every turn.
pub struct Buffers {
    receive: SuperpacketBatch,
    send: SendBatch,
    answers: Answers,
    events: Vec<Event>,
    /// Of messages, given back by the application.
    memory: Vec<Vec<u8>>,
}

impl Buffers {
    pub fn new() -> Self {
        Self {
            receive: SuperpacketBatch::new(),
            send: SendBatch::new(),
            answers: Answers::default(),
            events: Vec::new(),
            memory: Vec::new(),
        }
    }
}

impl Worker {
    /// Runs until the application is gone or the socket fails.
    pub fn run(mut self) {
        let inbox = self.inbox.clone();
        // If this thread panics, the application must not wait for it for ever.
        // The default of 50 us is half of a nap.
        let _ = nix::sys::prctl::set_timerslack(1_000);
        let mut gone = SayGone { inbox: &inbox, failure: None };
        gone.failure = self.work().err();
    }

    fn work(&mut self) -> Result<(), Error> {
        let mut verdict = Verdict { full: false, stop: false };
        while !verdict.stop {
            let now_ns = now_ns();
            let received = if verdict.full { 0 } else { self.receive(now_ns)? };
            self.traffic.observe(now_ns, received);
            self.write_receipts(now_ns);
            self.buffers.answers.send(&self.socket, &mut self.buffers.send);
            if now_ns >= self.housekeeping_due_ns {
                self.housekeeping(now_ns);
            }
            self.stats.sources = self.sources.len() as u32;
            self.stats.evicted = self.sources.evicted();
            let Buffers { receive, events, memory, .. } = &mut self.buffers;
            verdict = self.inbox.put(events, memory, self.stats);
            receive.refill(memory);
            let more = received > 0 && self.buffers.receive.is_full();
            if !more && !verdict.stop {
                self.sleep(now_ns, verdict.full)?;
            }
        }
        self.say_goodbye();
        Ok(())
    }

    fn receive(&mut self, now_ns: u64) -> Result<usize, Error> {
        let received = match self.buffers.receive.receive(&self.socket) {
            Ok(received) => received,
            // An ICMP answer to something sent; of no consequence here.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => 0,
            Err(source) => {
                return Err(Error::Socket { doing: "receiving at", address: self.local, source });
            }
        };
        let acknowledges = matches!(self.acknowledger, Acknowledger::Userspace { .. });
        let Buffers { receive, answers, events, .. } = &mut self.buffers;
        let mut turn = Turn {
            sources: &mut self.sources,
            stats: &mut self.stats,
            answers,
            events,
            acknowledges,
        };
        for superpacket in receive.superpackets() {
            turn.take_superpacket(now_ns, superpacket);
        }
        Ok(received)
    }

    fn write_receipts(&mut self, now_ns: u64) {
        let answers = &mut self.buffers.answers;
        for Source { key, transport, .. } in self.sources.iter_mut() {
            if transport.receipt_due(now_ns) {
                answers.control(key.address, |out| transport.write_receipt(now_ns, out));
            }
        }
    }

    fn housekeeping(&mut self, now_ns: u64) {
        self.housekeeping_due_ns = now_ns + HOUSEKEEPING_NS;
        self.sources.expire(now_ns);
        if let Acknowledger::Userspace { registrar: Some(registrar) } = &self.acknowledger
            && let Some(client) = registrar.client()
        {
            tracing::info!("an ATP daemon is back: its datapath acknowledges again");
            self.acknowledger = Acknowledger::Kernel { client, path: registrar.path.clone() };
        }
    }

    fn sleep(&mut self, now_ns: u64, full: bool) -> Result<(), Error> {
        // The kernel acknowledges at once; what is left to do here can wait for company. Being
        // woken for every packet would cost more than reading it.
        if let Some(nap_ns) = self.traffic.nap_ns()
            && matches!(self.acknowledger, Acknowledger::Kernel { .. })
            && !full
        {
            std::thread::sleep(Duration::from_nanos(nap_ns));
            return Ok(());
        }
        let due = self.sources.iter_mut().filter_map(|source| source.transport.poll_timeout());
        let until_ns = due.min().unwrap_or(u64::MAX).min(self.housekeeping_due_ns);
        let control = match &self.acknowledger {
            Acknowledger::Kernel { client, .. } => Some(client.as_fd()),
            Acknowledger::Userspace { .. } => None,
        };
        let interest = Interest {
            socket: self.socket.as_fd(),
            readable: !full,
            room: false,
            wake: self.inbox.wake(),
            control,
        };
        let timeout = Duration::from_nanos(until_ns.saturating_sub(now_ns).max(SLEEP_NS_MIN));
        let ready = wait(&interest, timeout).map_err(Error::Thread)?;
        if ready.woken {
            self.inbox.clear_wake();
        }
        if ready.error {
            self.socket.take_errors();
        }
        if ready.hung_up {
            self.acknowledge_here();
        }
        Ok(())
    }

    /// The daemon is gone, and its programs with it.
    fn acknowledge_here(&mut self) {
        tracing::warn!("the ATP daemon went away: acknowledging in userspace");
        if let Acknowledger::Kernel { path, .. } = &self.acknowledger {
            let registrar = Registrar::start(path.clone(), &self.socket);
            if let Err(error) = &registrar {
                tracing::warn!(%error, "nobody will look whether it is back");
            }
            self.acknowledger = Acknowledger::Userspace { registrar: registrar.ok() };
        }
    }

    /// Last receipts, and a tombstone to whom they are not enough. Who has finished gets its answer
    /// once more: nobody will be here to repeat it.
    fn say_goodbye(&mut self) {
        let now_ns = now_ns();
        let Buffers { answers, send, .. } = &mut self.buffers;
        for Source { key, transport, fin_acks, .. } in self.sources.iter_mut() {
            if transport.is_finished() {
                answers.repeat(key.address, fin_acks);
            } else {
                answers.control(key.address, |out| transport.write_receipt(now_ns, out));
            }
        }
        for (to, fin_acks) in self.sources.last_answers() {
            answers.repeat(to, fin_acks);
        }
        answers.send(&self.socket, send);
        for source in self.sources.iter_mut() {
            if source.transport.is_finished() {
                answers.repeat(source.key.address, &source.fin_acks);
            } else {
                let reset = reset_header(&source.first, ResetReason::Gone);
                answers.headers.push((reset, source.key.address));
            }
        }
        answers.send(&self.socket, send);
    }
}

struct SayGone<'a> {
    inbox: &'a Inbox,
    failure: Option<Error>,
}

impl Drop for SayGone<'_> {
    fn drop(&mut self) {
        self.inbox.set_thread_gone(self.failure.take());
    }
}
