//! The sending thread of a job: it owns the socket and the transport's state, and sleeps whenever
//! there is nothing to do.

use super::{
    data::Data,
    mailbox::{Command, Handed, Mailbox, Outcome, Released},
    spare::Spares,
    store::Store,
    windows::Windows,
};
use crate::{
    datapath::{Datapath, Member, Userspace, UserspaceSettings},
    error::ShortCause,
    report::Timeline,
    udp::{BATCH, Interest, ReceiveBatch, SendBatch, Trouble, UdpSocket, now_ns, wait},
};
use atp_common::wire::{Header, Kind, PROBE_LEN};
use atp_proto::{Packet, QueueError, Sender};
use std::{net::SocketAddr, os::fd::AsFd, sync::Arc, time::Duration};

/// Batches read before packets are sent again.
const READS_PER_TURN: usize = 8;
/// However urgent, so that nothing can make this thread spin.
const SLEEP_NS_MIN: u64 = 20_000;
/// A pause of pacing in which acknowledgements are left to gather.
const SHORT_NS: u64 = 250_000;
/// How often to look for acknowledgements that wake nobody.
const LOOK_NS: u64 = 500_000;
/// How often the laws want to be asked while packets are in flight.
const LAW_NS: u64 = 1_000_000;
/// How often to look around when nothing at all is going on.
const IDLE_NS: u64 = 1_000_000_000;
/// However busy, a thread looks this often whether its daemon is there.
const BUSY_NS_MAX: u64 = 10_000_000;
/// Room for every control packet.
const CONTROL_BYTES: usize = 1_280;

/// Everything that the sending thread has.
pub struct Worker {
    pub socket: UdpSocket,
    pub peer: SocketAddr,
    pub sender: Sender,
    pub datapath: Datapath,
    /// To go on without the daemon.
    pub fallback: UserspaceSettings,
    pub mailbox: Arc<Mailbox>,
    pub timeline: Timeline,
    pub buffers: Buffers,
    pub trouble: Trouble,
    pub started_ns: Option<u64>,
    pub released: Released,
    pub finishing: bool,
    pub windows: Windows,
    /// Since when the host has refused every packet, and why.
    pub refused_here: Option<(u64, i32)>,
    /// When to see whether the daemon is there, should this thread not sleep before.
    pub look_ns: u64,
}

/// Memory used again in every turn.
pub struct Buffers {
    pub store: Store,
    taken: Vec<Handed>,
    /// Of messages that were released.
    spares: Spares,
    pub packets: Vec<Packet>,
    /// What leaves before them: a group's question.
    pub question: Option<(u8, [u8; PROBE_LEN])>,
    /// This host refused a superpacket: none again.
    pub no_bursts: bool,
    pub send: SendBatch,
    receive: ReceiveBatch,
    pub control: Box<[u8; CONTROL_BYTES]>,
    /// Of these, bytes that the socket had no room for yet.
    pub control_len: usize,
}

impl Buffers {
    pub fn new() -> Self {
        Self {
            store: Store::default(),
            taken: Vec::new(),
            spares: Spares::default(),
            packets: Vec::with_capacity(BATCH),
            question: None,
            no_bursts: false,
            send: SendBatch::new(),
            receive: ReceiveBatch::new(),
            control: Box::new([0; CONTROL_BYTES]),
            control_len: 0,
        }
    }
}

/// What keeps the next packet from leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Nothing does: look at acknowledgements, then go on.
    No,
    /// There is nothing to send.
    Nothing,
    /// The socket's buffer is full.
    Full,
    /// Its time has not come.
    Until(u64),
}

impl Worker {
    /// Runs the job to its end.
    pub fn run(mut self) {
        let mailbox = self.mailbox.clone();
        let _gone = CallOnDrop(|| mailbox.set_thread_gone());
        // The default of 50 us is half of what pacing sleeps.
        let _ = nix::sys::prctl::set_timerslack(1_000);
        let outcome = self.work();
        self.publish();
        self.mailbox.set_outcome(outcome);
    }

    fn work(&mut self) -> Outcome {
        loop {
            let now_ns = now_ns();
            // First what came in: room that receipts free is given back before this thread sleeps.
            self.receive(now_ns);
            if !self.exchange(now_ns) {
                return Err(self.shortfall(ShortCause::Abandoned));
            }
            if self.window_deadline_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                self.sender.end_now();
            }
            self.datapath.tick(now_ns, &mut self.sender, &self.socket);
            if self.datapath.is_closed() {
                self.leave_kernel();
            }
            if self.sender.poll_timeout().is_some_and(|at_ns| at_ns <= now_ns) {
                self.sender.handle_timeout(now_ns);
            }
            let blocked = match self.send_control(now_ns) {
                true => self.send_data(now_ns),
                false => Blocked::Full,
            };
            self.observe(now_ns);
            if let Some(outcome) = self.ended(now_ns) {
                return outcome;
            }
            if blocked != Blocked::No || now_ns >= self.look_ns {
                self.sleep(now_ns, blocked);
            }
        }
    }

    /// Gives room back, takes in new messages, then commands: those were given after. `false` if the
    /// application lets go of the job.
    fn exchange(&mut self, now_ns: u64) -> bool {
        self.release();
        let mut taken = std::mem::take(&mut self.buffers.taken);
        let released = std::mem::take(&mut self.released);
        let untried = self.sender.untried_messages();
        let spares = &mut self.buffers.spares;
        let commands = self.mailbox.exchange(&mut taken, released, untried, spares);
        // The next window's messages come after the command that begins it, and none before has any.
        let begins = |command: &Command| matches!(command, Command::BeginWindow { .. });
        let first = commands.iter().position(begins).map_or(0, |at| at + 1);
        let mut keeps = true;
        for command in &commands[..first] {
            keeps &= self.obey(now_ns, command);
        }
        for handed in taken.drain(..) {
            self.started_ns.get_or_insert(now_ns);
            self.windows.message_came(now_ns);
            self.queue(handed);
        }
        self.buffers.taken = taken;
        for command in &commands[first..] {
            keeps &= self.obey(now_ns, command);
        }
        keeps
    }

    fn queue(&mut self, Handed { group, data }: Handed) {
        let len = data.len();
        match self.sender.queue(group, len as u32) {
            Ok(id) => self.buffers.store.insert(id, data),
            Err(error) => {
                // Lengths and numbers were checked by `Job::send`; what is left is a job that has
                // ended, and needs no more messages.
                if !matches!(error, QueueError::Complete | QueueError::Failed) {
                    tracing::error!(%error, "a message was not queued");
                }
                self.released.messages += 1;
                self.released.bytes += len as u64;
            }
        }
    }

    fn receive(&mut self, now_ns: u64) {
        for _ in 0..READS_PER_TURN {
            match self.buffers.receive.receive(&self.socket) {
                Ok(0) => return,
                Ok(_) => {
                    for packet in self.buffers.receive.packets() {
                        take_in(&mut self.sender, &mut self.datapath, now_ns, packet);
                    }
                    if !self.buffers.receive.is_full() {
                        return;
                    }
                }
                Err(_) => {
                    self.note_errors();
                    self.fit_path(now_ns);
                }
            }
        }
    }

    fn release(&mut self) {
        let Self { sender, buffers, released, .. } = self;
        for id in sender.released() {
            released.messages += 1;
            let data = buffers.store.remove(id);
            released.bytes += data.len() as u64;
            if let Data::Own(data) = data {
                buffers.spares.keep(data);
            }
        }
    }

    fn sleep(&mut self, now_ns: u64, blocked: Blocked) {
        // With packets waiting for their time or for room, new messages can wait for them.
        if blocked == Blocked::Nothing && !self.mailbox.prepare_to_sleep() {
            return;
        }
        self.look_ns = now_ns + BUSY_NS_MAX;
        let until_ns = match blocked {
            Blocked::No => now_ns,
            _ => self.wake_at(now_ns, blocked).max(now_ns + SLEEP_NS_MIN),
        };
        // Before a short pause of pacing, acknowledgements can wait as well: waking for each of
        // them would cost more than reading them together.
        let short = until_ns - now_ns <= SHORT_NS;
        let readable = !(short && matches!(blocked, Blocked::Until(_)));
        let interest = Interest {
            socket: self.socket.as_fd(),
            readable,
            room: blocked == Blocked::Full,
            wake: self.mailbox.wake(),
            control: self.datapath.control(),
        };
        let timeout = Duration::from_nanos(until_ns.saturating_sub(now_ns));
        let ready = wait(&interest, timeout).unwrap_or_default();
        self.mailbox.awake(ready.woken);
        if ready.error {
            self.note_errors();
            self.fit_path(now_ns);
        }
        if ready.hung_up {
            self.leave_kernel();
        }
    }

    fn wake_at(&self, now_ns: u64, blocked: Blocked) -> u64 {
        let in_flight = self.sender.in_flight() > 0;
        let law_ns = match (in_flight, self.datapath.acks_are_silent()) {
            (true, true) => LOOK_NS,
            (true, false) => LAW_NS,
            (false, _) => IDLE_NS,
        };
        let until_ns = self.sender.poll_timeout().unwrap_or(u64::MAX).min(now_ns + law_ns);
        let until_ns = until_ns.min(self.window_deadline_ns().unwrap_or(u64::MAX));
        match blocked {
            Blocked::Until(at_ns) => until_ns.min(at_ns),
            _ => until_ns,
        }
    }

    /// The daemon is gone: pace, stamp and count here from now on. Acknowledgements come to the
    /// socket if its programs went with it, and into the ring if they were left behind; where
    /// neither happens, receipts still tell what arrived.
    fn leave_kernel(&mut self) {
        tracing::warn!(
            job = self.sender.config().job,
            "the ATP daemon took the lanes away (it stopped, or the job was ended there): the job goes on with pacing in userspace"
        );
        let now_ns = now_ns();
        let groups = &self.sender.config().groups;
        let alone = || Member::of(None);
        let fresh = Userspace::new(self.fallback, groups, alone(), None, now_ns);
        if let Datapath::Kernel(kernel) =
            std::mem::replace(&mut self.datapath, Datapath::Userspace(fresh.into()))
        {
            let remains = Some(kernel.into_remains());
            self.datapath = Datapath::Userspace(
                Userspace::new(self.fallback, groups, alone(), remains, now_ns).into(),
            );
            self.sender.stop_probing();
        }
    }
}

fn take_in(sender: &mut Sender, datapath: &mut Datapath, now_ns: u64, payload: &[u8]) {
    match Header::parse(payload) {
        Ok((header, Kind::Ack)) => {
            if sender.on_ack(now_ns, &header).is_ok() {
                datapath.on_ack(now_ns, &header);
            }
        }
        _ => {
            if let Err(refused) = sender.on_packet(now_ns, payload) {
                tracing::trace!(%refused, "packet refused");
            }
        }
    }
}

struct CallOnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for CallOnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
