//! One connection at the listening end: the library connects to the program, which sees the
//! client's address, and carries the bytes.

use super::{
    NOBODY,
    connection::Connection,
    life::Life,
    pace::Reporter,
    places::Places,
    reachable,
    socket::{OnDrop, ToProgram},
    with_port,
};
use crate::{
    framing::Framing,
    names::{self, Ends, Protocol as Named},
    outgoing::PROBE_JOB,
    shared::{Shared, lock},
};
use approxlib::JobId;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{
    hash::{BuildHasher, RandomState},
    io::{self, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

/// How long the program's own port may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Carries the connections of a port.
pub struct Carrier {
    pub life: Arc<Life>,
    pub shared: &'static Shared,
    pub places: &'static Places,
    pub local: SocketAddr,
    pub framing: Framing,
}

impl Carrier {
    /// Carries one connection to its end.
    pub fn serve(&self, private: TcpStream, reporter: Reporter) -> io::Result<()> {
        private.set_nonblocking(false)?;
        let ends = Ends {
            peer: private.peer_addr()?,
            local: self.seen_address(private.local_addr()?),
            interface: 0,
        };
        let Some(beginning) = self.life.begin_connection() else { return Ok(()) };
        let Ok((program, far, was_reset)) = self.connect(ends) else {
            // The other end connects plainly, and hears it from the kernel.
            return (&private).write_all(&NOBODY.to_be_bytes());
        };
        let _named = OnDrop(|| names::forget(Named::Tcp, far));
        // The program sees a reset if anything fails from here on.
        let program = ToProgram::new(program, was_reset)?;
        let connection = Arc::new(Connection::new(private, program, far)?);
        let client = ends.peer.ip().to_canonical();
        let job = self.register(client, &connection);
        drop(beginning);
        let _registered = OnDrop(|| drop(lock(&self.life.jobs).remove(&(client, job))));
        connection.relay(job, reporter)
    }

    fn seen_address(&self, private: SocketAddr) -> SocketAddr {
        with_port(private, self.local.port())
    }

    /// Connects to the program, which sees the ends of the other connection. Gives the library's
    /// address, and whether the program has reset the connection already.
    fn connect(&self, ends: Ends) -> io::Result<(TcpStream, SocketAddr, bool)> {
        let to = reachable(self.local);
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_linger(Some(Duration::ZERO))?;
        socket.bind(&SockAddr::from(with_port(to, 0)))?;
        let far = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        // The program may accept before the call returns.
        names::note(Named::Tcp, far, ends);
        match socket.connect_timeout(&SockAddr::from(to), CONNECT_TIMEOUT) {
            Ok(()) => Ok((socket.into(), far, false)),
            // It has seen the connection, and there is no second one.
            Err(error) if has_reset(&error) => Ok((socket.into(), far, true)),
            Err(error) => {
                names::forget(Named::Tcp, far);
                Err(error)
            }
        }
    }

    /// Gives the connection a job of its own among those of its client's address.
    fn register(&self, client: IpAddr, connection: &Arc<Connection>) -> u32 {
        let random = RandomState::new();
        let mut jobs = lock(&self.life.jobs);
        let is_free = |job: &u32| {
            let others = [NOBODY, JobId::from(PROBE_JOB).number()];
            !others.contains(job) && !jobs.contains_key(&(client, *job))
        };
        let mut free = (0u64..).map(|index| random.hash_one(index) as u32).filter(is_free);
        let job = free.next().unwrap_or(1);
        jobs.insert((client, job), connection.clone());
        job
    }
}

/// Whether a program has reset a connection at once: the kernel doesn't refuse one in this way.
fn has_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}
