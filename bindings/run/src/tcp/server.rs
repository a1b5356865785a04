//! The listening end: messages become the bytes of a connection to the program.

use super::{
    LOOK_INTERVAL,
    carrier::Carrier,
    door::{Door, listen},
    life::Life,
    places::Places,
    socket::OnPanic,
};
use crate::{
    framing::Framing,
    map::Rule,
    outgoing::PROBE_JOB,
    port,
    shared::{Shared, join_until, lock, pass_calls_of_this_thread, warn},
};
use approxlib::{Event, JobId, Receiver};
use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Instant,
};

/// The receiver beside a listening socket.
pub struct Listening {
    local: SocketAddr,
    life: Arc<Life>,
    thread: thread::JoinHandle<()>,
}

impl Listening {
    /// Receives for the program's socket that listens at `local`.
    pub fn start(
        shared: &'static Shared,
        places: &'static Places,
        local: SocketAddr,
        rule: Rule,
        framing: Framing,
    ) -> Option<Self> {
        let mut at = local;
        at.set_port(rule.atp_port);
        let open = move || Ok((port::bind(at)?, listen(at)?));
        let failed = move |error| warn(format_args!("port {}: {error}", local.port()));
        // Clients that know the port can ask at once.
        let first = port::try_open(open).map_err(failed).ok()?;
        let life = Arc::new(Life::default());
        let inlet = Inlet { life: life.clone(), shared, local };
        let carrier = Carrier { life: life.clone(), shared, places, local, framing };
        let run = move || {
            pass_calls_of_this_thread();
            let later = || port::open_later(open, || !carrier.life.end_without_connections());
            let opened = match first.map_or_else(later, |opened| Ok(Some(opened))) {
                Ok(opened) => opened,
                Err(error) => return failed(error),
            };
            let Some((receiver, listener)) = opened else { return };
            let accept = thread::Builder::new().name("atp-run-acceptor".to_owned());
            match accept.spawn(move || Door::new(carrier).run(listener, at)) {
                Ok(accept) => {
                    inlet.run(receiver);
                    // A panic of the thread was printed.
                    drop(accept.join());
                }
                Err(error) => failed(error),
            }
        };
        let thread = thread::Builder::new().name("atp-run-receiver".to_owned()).spawn(run);
        Some(Self { local, life, thread: thread.map_err(failed).ok()? })
    }

    /// Ends the receiver after its last connection.
    pub fn end(&self) {
        self.life.close();
    }

    /// Takes up a receiver that is ending, for a program that listens at `local` again.
    pub fn revive(&self, local: SocketAddr) -> bool {
        self.local == local && self.life.reopen()
    }

    pub fn has_ended(&self) -> bool {
        self.life.has_ended()
    }

    pub fn life(&self) -> Arc<Life> {
        self.life.clone()
    }

    /// Ends the receiver and waits for that until `deadline`: the senders hear of the end.
    pub fn end_now(self, deadline: Instant) {
        self.life.end();
        join_until(self.thread, deadline);
    }
}

/// The way of messages to the program.
struct Inlet {
    life: Arc<Life>,
    shared: &'static Shared,
    local: SocketAddr,
}

impl Inlet {
    fn run(self, mut receiver: Receiver) {
        pass_calls_of_this_thread();
        let life = self.life.clone();
        // Without this thread no message comes: the connections break.
        let _guard = OnPanic(|| life.connections().iter().for_each(|open| open.abort()));
        while !self.life.end_without_connections() {
            match receiver.recv(Some(LOOK_INTERVAL)) {
                Ok(Some(event)) => self.handle(event, &mut receiver),
                Ok(None) => {}
                Err(error) => {
                    warn(format_args!("port {}: {error}", self.local.port()));
                    self.life.connections().iter().for_each(|open| open.abort());
                    break;
                }
            }
        }
    }

    fn handle(&self, event: Event, receiver: &mut Receiver) {
        let connection = |source: SocketAddr, job| {
            lock(&self.life.jobs).get(&(source.ip().to_canonical(), job)).cloned()
        };
        let connection_of =
            |source, job, run| connection(source, job).filter(|connection| connection.has_run(run));
        match event {
            Event::Message { source, job, run, data, .. } => {
                let known = connection(source, job);
                match known.filter(|connection| connection.admits(run, &data)) {
                    Some(connection) if connection.is_open() => {
                        self.shared.counts.received.fetch_add(1, Ordering::Relaxed);
                        if connection.take(&data).is_err() {
                            warn(format_args!(
                                "port {}: a connection of {source} is reset: it sends more than \
                                 the program has room for",
                                self.local.port()
                            ));
                            connection.abort();
                        }
                    }
                    Some(_) => receiver.request_end(run),
                    None if job == JobId::from(PROBE_JOB).number() => {}
                    None => {
                        self.shared.counts.refused.fetch_add(1, Ordering::Relaxed);
                        receiver.request_end(run);
                    }
                }
                receiver.recycle(data);
            }
            Event::WindowEnded { source, job, run, summary } => {
                if let Some(connection) = connection_of(source, job, run) {
                    connection.end_window(summary.complete, false);
                }
            }
            Event::Finished { source, job, run, summary } => {
                if let Some(connection) = connection_of(source, job, run) {
                    connection.end_window(summary.complete, true);
                }
            }
            Event::Started { .. } | Event::TermsChanged { .. } => {}
        }
    }
}
