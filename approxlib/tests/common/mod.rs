//! Helpers of several tests: a receiving application, and a network that loses packets.

#![allow(dead_code, reason = "every test file uses some of it")]

pub mod daemon;

use approxlib::{Event, Receiver, Summary};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::HashMap,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The messages of one job that an application received.
pub struct Received {
    pub messages: HashMap<u32, Vec<u8>>,
    pub summary: Summary,
    pub receiver: Receiver,
}

/// Receives until one job ends. Panics if a message comes twice, or if no event comes for 20 s.
/// Also returns the receiver, to be kept until the sender has the answer to its FIN.
pub fn receive(mut receiver: Receiver) -> JoinHandle<Received> {
    thread::spawn(move || {
        let mut messages = HashMap::new();
        loop {
            match receiver.recv(Some(Duration::from_secs(20))).unwrap() {
                Some(Event::Message { message, data, .. }) => {
                    assert!(messages.insert(message, data).is_none(), "{message} came twice");
                }
                Some(Event::Finished { summary, .. }) => {
                    return Received { messages, summary, receiver };
                }
                Some(Event::Started { .. } | Event::TermsChanged { .. }) => {}
                Some(event @ Event::WindowEnded { .. }) => panic!("{event:?}"),
                None => panic!("no event for 20 s, after {} messages", messages.len()),
            }
        }
    })
}

/// A message whose bytes depend on its id and their position, so that tests detect alterations.
pub fn message(id: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (id.wrapping_mul(31) ^ at.wrapping_mul(7) ^ (at >> 8)) as u8).collect()
}

/// A port where nothing listens, and that no other socket can get: the socket that holds it is
/// connected to itself, so it receives from no other.
pub struct ClosedPort {
    pub address: SocketAddr,
    _holder: UdpSocket,
}

impl ClosedPort {
    pub fn hold() -> Self {
        let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = holder.local_addr().unwrap();
        holder.connect(address).unwrap();
        Self { address, _holder: holder }
    }
}

/// Forwards datagrams between one sender and `receiver`. Drops a share of them, and reorders a few.
pub struct LossyNetwork {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LossyNetwork {
    /// Drops a share of `loss` of the packets in each direction.
    pub fn start(receiver: SocketAddr, loss: f64, seed: u64) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.connect(receiver).unwrap();
        let address = near.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (near, far) = (Arc::new(near), Arc::new(far));
        let stopped = stop.clone();
        let thread = thread::spawn(move || forward(&near, &far, loss, seed, &stopped));
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for LossyNetwork {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn forward(near: &UdpSocket, far: &UdpSocket, loss: f64, seed: u64, stop: &AtomicBool) {
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut packet = [0; 65_536];
    let mut delayed: Option<Vec<u8>> = None;
    let mut sender = None;
    while !stop.load(Ordering::Relaxed) {
        let mut idle = true;
        while let Ok((len, source)) = near.recv_from(&mut packet) {
            (sender, idle) = (Some(source), false);
            if random.random_bool(loss) {
                continue;
            }
            if delayed.is_none() && random.random_bool(0.02) {
                delayed = Some(packet[..len].to_vec());
                continue;
            }
            let _ = far.send(&packet[..len]);
            if let Some(late) = delayed.take() {
                let _ = far.send(&late);
            }
        }
        while let (Ok(len), Some(to)) = (far.recv(&mut packet), sender) {
            idle = false;
            if !random.random_bool(loss) {
                let _ = near.send_to(&packet[..len], to);
            }
        }
        if idle {
            thread::sleep(Duration::from_micros(200));
        }
    }
}
