//! The port to which other libraries connect.
//!
//! Strangers reach it too. A connection has no thread before its other end has agreed. One that has
//! waited for long makes room for a new one, and no host has all places.

use super::{
    GO, Hello, Join, LOOK_INTERVAL, NOBODY, carrier::Carrier, pace::Reporter, socket::is_pause,
};
use crate::{
    hosts, limit,
    secret::Secret,
    shared::{pass_calls_of_this_thread, warn},
};
use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long a connection keeps its place, also if others need it: the other end has to ask ATP
/// first.
const KEPT: Duration = Duration::from_secs(10);
/// How long the other end may take to find that it can carry the connection.
const GO_TIMEOUT: Duration = Duration::from_secs(60);

pub fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The port, and the connections whose other ends haven't agreed yet: the oldest one first.
pub struct Door {
    carrier: Arc<Carrier>,
    waiting: Vec<Waiting>,
}

struct Waiting {
    private: TcpStream,
    name: Secret,
    /// The client gets its pace on another connection.
    reporter: Option<Reporter>,
    host: IpAddr,
    since: Instant,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.carrier.places.remove_door();
    }
}

impl Door {
    pub fn new(carrier: Carrier) -> Self {
        carrier.places.add_door();
        Self { carrier: Arc::new(carrier), waiting: Vec::new() }
    }

    pub fn run(mut self, listener: TcpListener, at: SocketAddr) {
        pass_calls_of_this_thread();
        let (carrier, mut listener) = (self.carrier.clone(), Some(listener));
        while !carrier.life.has_ended() {
            // New connections are those of another process that listens at the program's port now.
            if carrier.life.is_closing() {
                listener = None;
            } else if listener.is_none() {
                listener = listen(at).ok();
            }
            self.look(listener.as_ref());
        }
    }

    /// Waits a while for a new connection, or for an answer of one that waits.
    fn look(&mut self, listener: Option<&TcpListener>) {
        let waiting = self.waiting.iter().map(|waiting| waiting.private.as_raw_fd());
        let all = waiting.chain(listener.map(AsRawFd::as_raw_fd));
        let mut ready: Vec<_> =
            all.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        // SAFETY: the array has that number of entries.
        let count = unsafe {
            let len = ready.len() as libc::nfds_t;
            libc::poll(ready.as_mut_ptr(), len, LOOK_INTERVAL.as_millis() as i32)
        };
        if count < 0 {
            return thread::sleep(LOOK_INTERVAL);
        }
        let is_ready: Vec<_> = ready.iter().map(|ready| ready.revents != 0).collect();
        let mut is_ready = is_ready.into_iter();
        for waiting in std::mem::take(&mut self.waiting) {
            if is_ready.next() == Some(true) {
                self.read_answer(waiting);
            } else if waiting.since.elapsed() < GO_TIMEOUT {
                self.waiting.push(waiting);
            }
        }
        if let Some(listener) = listener
            && is_ready.next() == Some(true)
        {
            self.accept_from(listener);
        }
    }

    fn accept_from(&mut self, listener: &TcpListener) {
        match listener.accept() {
            Ok((private, from)) => {
                let host = hosts::of(from.ip());
                if !self.make_room(host) {
                    // Without a word: its program connects plainly.
                    return self.count_refused();
                }
                // One that has gone already, for instance, needs no place.
                if let Ok(name) = greet(&private, &self.carrier) {
                    let since = Instant::now();
                    self.waiting.push(Waiting { private, name, reporter: None, host, since });
                }
            }
            Err(error) if is_pause(&error) => {}
            // For instance too many descriptors.
            Err(_) => thread::sleep(LOOK_INTERVAL),
        }
    }

    /// Makes room for a connection of this host, if there is none: the oldest connections go, of
    /// the host that has most. A place has room for two of one host, so the connection that tells
    /// the pace of another one finds it taken by no other host.
    fn make_room(&mut self, host: IpAddr) -> bool {
        let max = self.carrier.places.waiting_max();
        loop {
            let mut counts: HashMap<IpAddr, usize> = HashMap::new();
            for waiting in &self.waiting {
                let count = counts.entry(waiting.host).or_default();
                *count += 1 + usize::from(waiting.reporter.is_some());
            }
            let places = |count: &usize| count.div_ceil(limit::PER_WAITING);
            let own = counts.get(&host).copied().unwrap_or(0);
            let crowded = match places(&(own + 1)) <= hosts::share(max) {
                true if places(&own) == places(&(own + 1)) => return true,
                true if counts.values().map(places).sum::<usize>() < max => return true,
                true => counts.into_iter().max_by_key(|(_, count)| *count).map(|(host, _)| host),
                false => Some(host),
            };
            let oldest = self.waiting.iter().position(|waiting| Some(waiting.host) == crowded);
            let Some(oldest) = oldest.filter(|index| self.waiting[*index].since.elapsed() >= KEPT)
            else {
                return false;
            };
            let oldest = self.waiting.remove(oldest);
            self.refuse(&oldest.private);
        }
    }

    /// The other end may find another framing, or no answer of ATP. It connects plainly then.
    fn read_answer(&mut self, mut waiting: Waiting) {
        let mut answer = [0; Join::LEN];
        match (&waiting.private).read(&mut answer) {
            Ok(1) if answer[0] == GO => match waiting.reporter.take() {
                Some(reporter) => self.carry(waiting, reporter),
                None => self.refuse(&waiting.private),
            },
            // It was written with one call.
            Ok(Join::LEN) => self.join(&answer, waiting.private),
            Err(error) if is_pause(&error) => self.waiting.push(waiting),
            _ => {}
        }
    }

    /// The older connection of this name reports its pace on this one.
    fn join(&mut self, answer: &[u8; Join::LEN], private: TcpStream) {
        let Some(Join(name)) = Join::of(answer) else { return };
        let older = self.waiting.iter_mut().find(|waiting| waiting.name == name);
        if let Some(older) = older {
            older.reporter = Reporter::begin(private).ok();
        }
    }

    fn carry(&self, Waiting { private, host, .. }: Waiting, reporter: Reporter) {
        let Some(place) = self.carrier.places.take(host) else {
            return self.refuse(&private);
        };
        let Ok(copy) = private.try_clone() else { return self.refuse(&private) };
        let carrier = self.carrier.clone();
        let run = move || {
            pass_calls_of_this_thread();
            if let Err(error) = carrier.serve(private, reporter) {
                warn(format_args!("port {}: {error}", carrier.local.port()));
            }
            drop(place);
        };
        if thread::Builder::new().name("atp-run-connection".to_owned()).spawn(run).is_err() {
            self.refuse(&copy);
        }
    }

    /// The other end's program connects plainly.
    fn refuse(&self, private: &TcpStream) {
        self.count_refused();
        // It may have gone.
        drop((&*private).write_all(&NOBODY.to_be_bytes()));
    }

    fn count_refused(&self) {
        self.carrier.shared.counts.connections_refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Names the connection.
fn greet(private: &TcpStream, carrier: &Carrier) -> io::Result<Secret> {
    private.set_nonblocking(true)?;
    private.set_nodelay(true)?;
    let name = Secret::draw()?;
    Hello { framing: carrier.framing, name }.write(private)?;
    Ok(name)
}
