//! A sending host's side of the exact traffic: a Poisson process of requests over as many
//! connections as necessary.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use super::super::clock::now_ns;
use super::super::tcp;
use super::{REQUEST_BYTES, RESPONSE_BYTES};

/// Connections opened before the start, so that few requests pay for a handshake.
const CONNECTIONS_MIN: usize = 8;
/// The maximum number of connections. Further requests wait, and their wait counts.
const CONNECTIONS_MAX: usize = 1_000;
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// The maximum time between two iterations of the loop.
const PAUSE_NS_MAX: u64 = 50_000_000;
/// The time limit for the last responses, from the end of the requests.
const GIVE_UP_NS: u64 = 10_000_000_000;

static REQUEST: [u8; REQUEST_BYTES] = [0; REQUEST_BYTES];

/// The measurements of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Each request's due time, and the time from then to its response, nanoseconds.
    pub times_ns: Vec<(u64, u64)>,
    /// The number of requests without a response. Their time counts until the end.
    pub unanswered: usize,
}

/// The requests of a client: an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Mean over time.
    pub requests_per_s: f64,
    /// The number of requests that are due at the same instant.
    pub at_once: u32,
}

/// A client with its connections.
pub struct Client {
    server: SocketAddr,
    connections: Vec<Connection>,
    /// Indices of idle connections as a stack, so that the pool grows no larger than necessary.
    idle: Vec<usize>,
    /// The due times of requests that wait for a connection.
    waiting: VecDeque<u64>,
    finished: Requests,
}

struct Connection {
    socket: Socket,
    request: Option<Request>,
}

struct Request {
    due_ns: u64,
    sent_bytes: usize,
    received_bytes: usize,
}

impl Client {
    /// Connects to the server.
    pub fn connect(server: SocketAddr) -> Result<Client> {
        let mut client = Client {
            server,
            connections: Vec::new(),
            idle: (0..CONNECTIONS_MIN).collect(),
            waiting: VecDeque::new(),
            finished: Requests::default(),
        };
        for _ in 0..CONNECTIONS_MIN {
            let stream = TcpStream::connect_timeout(&server, CONNECT_MAX)
                .with_context(|| format!("connecting to {server}"))?;
            tcp::prepare(&stream)?;
            stream.set_nonblocking(true)?;
            client.connections.push(Connection { socket: stream.into(), request: None });
        }
        Ok(client)
    }

    /// Sends requests from `start_ns` on until `ended` returns true
    /// (asked at least every 50 ms). Then it waits up to 10 s for the missing responses.
    ///
    /// # Errors
    /// A connection failed.
    pub fn run(
        mut self,
        start_ns: u64,
        load: Load,
        seed: u64,
        mut ended: impl FnMut() -> Result<bool>,
    ) -> Result<Requests> {
        ensure!(load.requests_per_s > 0.0 && load.at_once > 0, "a client needs a rate of requests");
        let mut arrivals =
            Arrivals::new(start_ns, load.requests_per_s / f64::from(load.at_once), seed);
        let mut give_up_ns = None;
        loop {
            let now = now_ns();
            if give_up_ns.is_none() {
                while arrivals.next_ns <= now {
                    let due_ns = arrivals.take();
                    (0..load.at_once).try_for_each(|_| self.begin(due_ns))?;
                }
                if ended()? {
                    give_up_ns = Some(now + GIVE_UP_NS);
                }
            }
            let all_answered = self.idle.len() == self.connections.len();
            if give_up_ns.is_some_and(|give_up_ns| all_answered || now >= give_up_ns) {
                return Ok(self.finish(now));
            }
            let next_ns = if give_up_ns.is_none() { arrivals.next_ns } else { u64::MAX };
            let pause_ns = next_ns.saturating_sub(now_ns()).min(PAUSE_NS_MAX);
            for index in self.wait(Duration::from_nanos(pause_ns))? {
                self.advance(index)?;
            }
        }
    }

    fn begin(&mut self, due_ns: u64) -> Result<()> {
        let index = match self.idle.pop() {
            Some(index) => index,
            None if self.connections.len() < CONNECTIONS_MAX => self.open()?,
            None => {
                self.waiting.push_back(due_ns);
                return Ok(());
            }
        };
        self.connections[index].request =
            Some(Request { due_ns, sent_bytes: 0, received_bytes: 0 });
        self.advance(index)
    }

    /// Opens a connection without blocking.
    fn open(&mut self) -> Result<usize> {
        let socket = Socket::new(Domain::for_address(self.server), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        tcp::prepare(&socket)?;
        match socket.connect(&self.server.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("connecting to {}", self.server));
            }
        }
        self.connections.push(Connection { socket, request: None });
        Ok(self.connections.len() - 1)
    }

    /// The indices of the connections that are ready.
    fn wait(&self, pause: Duration) -> Result<Vec<usize>> {
        let busy: Vec<(usize, BorrowedFd, PollFlags)> = self
            .connections
            .iter()
            .enumerate()
            .filter_map(|(index, connection)| {
                let request = connection.request.as_ref()?;
                Some((index, connection.socket.as_fd(), request.interest()))
            })
            .collect();
        let mut polled: Vec<PollFd> =
            busy.iter().map(|&(_, socket, interest)| PollFd::new(socket, interest)).collect();
        match ppoll(&mut polled, Some(TimeSpec::from(pause)), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting for responses"),
        }
        let ready = busy.iter().zip(&polled);
        Ok(ready
            .filter(|(_, polled)| polled.any().unwrap_or(false))
            .map(|(&(index, ..), _)| index)
            .collect())
    }

    fn advance(&mut self, index: usize) -> Result<()> {
        let Some(due_ns) = self.connections[index].advance().with_context(|| {
            format!("a connection of the exact traffic to {} failed", self.server)
        })?
        else {
            return Ok(());
        };
        self.finished.times_ns.push((due_ns, now_ns().saturating_sub(due_ns)));
        self.idle.push(index);
        match self.waiting.pop_front() {
            Some(due_ns) => self.begin(due_ns),
            None => Ok(()),
        }
    }

    fn finish(mut self, now: u64) -> Requests {
        let unanswered = self
            .connections
            .iter()
            .filter_map(|connection| connection.request.as_ref().map(|request| request.due_ns));
        let unanswered: Vec<u64> = unanswered.chain(self.waiting.iter().copied()).collect();
        self.finished.unanswered = unanswered.len();
        let waited = unanswered.into_iter().map(|due_ns| (due_ns, now.saturating_sub(due_ns)));
        self.finished.times_ns.extend(waited);
        self.finished
    }
}

impl Connection {
    /// Sends and receives without blocking. Returns the due time of a request that was answered.
    fn advance(&mut self) -> std::io::Result<Option<u64>> {
        let Some(request) = &mut self.request else { return Ok(None) };
        while request.sent_bytes < REQUEST_BYTES {
            match (&self.socket).write(&REQUEST[request.sent_bytes..]) {
                Ok(bytes) => request.sent_bytes += bytes,
                Err(error) if is_not_yet(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let mut response = [0; RESPONSE_BYTES];
        while request.received_bytes < RESPONSE_BYTES {
            match (&self.socket).read(&mut response[request.received_bytes..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => request.received_bytes += bytes,
                Err(error) if is_not_yet(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(self.request.take().map(|request| request.due_ns))
    }
}

impl Request {
    fn interest(&self) -> PollFlags {
        if self.sent_bytes < REQUEST_BYTES { PollFlags::POLLOUT } else { PollFlags::POLLIN }
    }
}

/// Whether the socket would block or is not connected yet.
fn is_not_yet(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected | ErrorKind::Interrupted)
}

/// The arrivals of a Poisson process.
struct Arrivals {
    next_ns: u64,
    mean_gap_ns: f64,
    draws: ChaCha8Rng,
}

impl Arrivals {
    fn new(start_ns: u64, rate_per_s: f64, seed: u64) -> Arrivals {
        let draws = ChaCha8Rng::seed_from_u64(seed);
        let mut arrivals = Arrivals { next_ns: start_ns, mean_gap_ns: 1e9 / rate_per_s, draws };
        arrivals.take();
        arrivals
    }

    /// Returns the next arrival and draws the one after it.
    fn take(&mut self) -> u64 {
        let uniform: f64 = self.draws.random();
        // `uniform` is in [0, 1), so the logarithm of its complement exists.
        let gap_ns = -(1.0 - uniform).ln() * self.mean_gap_ns;
        let arrival_ns = self.next_ns;
        self.next_ns += gap_ns as u64;
        arrival_ns
    }
}

#[cfg(test)]
mod tests {
    use super::super::server::serve;
    use super::*;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn arrivals__have_the_rate_and_the_spread() {
        let mut arrivals = Arrivals::new(1_000, 500.0, 9);
        let times: Vec<u64> = (0..20_000).map(|_| arrivals.take()).collect();
        assert!(times.is_sorted() && times[0] > 1_000);
        let gaps: Vec<f64> =
            times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 500.0 - 1.0).abs() < 0.03, "{mean}");
        // The standard deviation of an exponential distribution equals its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn run__measures_every_request_of_a_live_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let done = AtomicBool::new(false);
        let requests = thread::scope(|scope| {
            let server = scope.spawn(|| serve(&listener, || done.load(Ordering::Relaxed)));
            let start_ns = now_ns();
            let ended = || Ok(now_ns() > start_ns + 400_000_000);
            let requests = Client::connect(address).unwrap().run(
                start_ns,
                Load { requests_per_s: 500.0, at_once: 2 },
                1,
                ended,
            );
            done.store(true, Ordering::Relaxed);
            server.join().unwrap().unwrap();
            requests.unwrap()
        });
        assert_eq!(requests.unanswered, 0);
        // 100 pairs are expected, with a standard deviation of 10.
        assert!((120..300).contains(&requests.times_ns.len()), "{}", requests.times_ns.len());
        assert!(requests.times_ns.iter().all(|&(_, time_ns)| time_ns > 0));
    }
}
