//! A path between two libraries that the test holds up.

use crate::tools::Ports;
use anyhow::Result;
use socket2::{Domain, Socket, Type};
use std::{
    collections::{HashMap, hash_map::Entry},
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Less than a reply has: the rest stays with the sender until the relay reads.
const RECEIVE_BUFFER_BYTES: usize = 4_096;
/// The bytes with which the server's library answers: its hello, and a job with its secret.
const HELLO_LEN: usize = 20;
const JOB_LEN: usize = 4 + 8;

/// Passes datagrams to `at` on to the port `to`, each sender's from a socket of its own at `from`,
/// and the replies back.
pub fn translate(at: SocketAddr, from: Ipv4Addr, to: u16) -> Result<()> {
    let outside = UdpSocket::bind(at)?;
    let mut inside = HashMap::new();
    let pass_on = move || -> io::Result<()> {
        let mut bytes = [0; 65_536];
        loop {
            let (len, client) = outside.recv_from(&mut bytes)?;
            let socket: &UdpSocket = match inside.entry(client) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let socket = UdpSocket::bind((from, 0))?;
                    socket.connect((Ipv4Addr::LOCALHOST, to))?;
                    let (replies, outside) = (socket.try_clone()?, outside.try_clone()?);
                    thread::spawn(move || pass_back(&replies, &outside, client));
                    place.insert(socket)
                }
            };
            // The server may not be there yet.
            let _ = socket.send(&bytes[..len]);
        }
    };
    thread::spawn(pass_on);
    Ok(())
}

fn pass_back(replies: &UdpSocket, outside: &UdpSocket, client: SocketAddr) {
    let mut bytes = [0; 65_536];
    loop {
        if let Ok(len) = replies.recv(&mut bytes) {
            let _ = outside.send_to(&bytes[..len], client);
        }
    }
}

/// The port of ATP at which a client's library finds the relay.
pub struct Entrance {
    listener: TcpListener,
    server: SocketAddr,
}

impl Entrance {
    pub fn open(client: &Ports, server: &Ports) -> Result<Self> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, client.atp));
        translate(at, Ipv4Addr::LOCALHOST, server.atp)?;
        let server = (Ipv4Addr::LOCALHOST, server.atp).into();
        Ok(Self { listener: TcpListener::bind(at)?, server })
    }

    /// Passes on how the libraries agree, the connection of the pace as a whole, and then what the
    /// client's sends. Replies wait.
    pub fn accept(&self) -> Result<Relay> {
        let (mut client, _) = self.listener.accept()?;
        let server = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        server.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        server.connect(&self.server.into())?;
        let mut server = TcpStream::from(server);
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        let of_client = thread::spawn(move || {
            // A library may reset its connection.
            drop(io::copy(&mut from, &mut to));
            drop(to.shutdown(Shutdown::Write));
        });
        let (mut hello, mut job) = ([0; HELLO_LEN], [0; JOB_LEN]);
        server.read_exact(&mut hello)?;
        client.write_all(&hello)?;
        let pace = self.pass_pace()?;
        server.read_exact(&mut job)?;
        client.write_all(&job)?;
        Ok(Relay { client, server, pace, of_client })
    }

    /// The client's end of the connection that tells the pace.
    fn pass_pace(&self) -> io::Result<TcpStream> {
        let (client, server) = (self.listener.accept()?.0, TcpStream::connect(self.server)?);
        let pace = client.try_clone()?;
        for (mut from, mut to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
            thread::spawn(move || {
                // Each end may reset it.
                drop(io::copy(&mut from, &mut to));
                drop(to.shutdown(Shutdown::Write));
            });
        }
        Ok(pace)
    }
}

/// A connection between the libraries of a client and a server, in two parts.
pub struct Relay {
    client: TcpStream,
    server: TcpStream,
    pace: TcpStream,
    of_client: JoinHandle<()>,
}

impl Relay {
    /// Waits until all that the client's library sends has been passed on, or `deadline`.
    pub fn wait_for_client(&self, deadline: Instant) {
        while !self.of_client.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Breaks the connection that tells the pace.
    pub fn lose_pace(&self) -> io::Result<()> {
        self.pace.shutdown(Shutdown::Both)
    }

    /// Reads the replies to their end, which may be a reset.
    pub fn read(&mut self) -> Vec<u8> {
        let mut replies = Vec::new();
        drop(self.server.read_to_end(&mut replies));
        replies
    }

    /// Passes replies to the client's library, which may have reset its connection.
    pub fn pass_on(mut self, replies: &[u8]) {
        drop(self.client.write_all(replies));
        drop(self.client.shutdown(Shutdown::Write));
    }
}
