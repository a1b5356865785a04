//! A window that is ended by force, while a relay between real sockets holds back the FIN before.
//!
//! The host has what the job needs, so the sender asks for the end. The relay holds that FIN. A
//! cancel or a deadline then forces the end; the relay drops the answer, and delivers the FIN that
//! it held. Its answer must not pass for the confirmation of a complete end.

mod common;

use approxlib::{Event, Job, Receiver, Summary};
use atp_common::wire::{Flags, Header, Kind};
use common::{message, receive};
use std::{
    net::{SocketAddr, UdpSocket},
    sync::mpsc,
    thread,
    time::Duration,
};

const MESSAGES: u32 = 100;
const NEEDED: u32 = 80;
/// Messages that reach the receiving library. The relay acknowledges the others as a host does
/// whose socket buffer is full.
const ARRIVING: u32 = 57;
const LIMIT: Duration = Duration::from_secs(20);

/// A relay, for one job.
struct Relay {
    address: SocketAddr,
    /// Receives a notice of the FIN that is held back.
    held: mpsc::Receiver<()>,
}

impl Relay {
    fn start(receiver: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.connect(receiver).unwrap();
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let address = near.local_addr().unwrap();
        let (tell, held) = mpsc::channel();
        thread::spawn(move || relay(&near, &far, &tell));
        Self { address, held }
    }
}

/// Relays for a limited time: the test's process ends before.
fn relay(near: &UdpSocket, far: &UdpSocket, tell: &mpsc::Sender<()>) {
    let mut packet = [0; 65_536];
    // The FIN that is held back, and after its delivery its attempt.
    let (mut held, mut delivered) = (None::<Vec<u8>>, None::<u32>);
    let mut sender = None;
    let started = std::time::Instant::now();
    while started.elapsed() < LIMIT {
        thread::sleep(Duration::from_micros(200));
        while let Ok((len, source)) = near.recv_from(&mut packet) {
            sender = Some(source);
            let (header, kind) = Header::parse(&packet[..len]).unwrap();
            let is_forced = header.flags().contains(Flags::FORCED);
            match kind {
                Kind::Data if header.message() >= ARRIVING => {
                    near.send_to(header.into_ack(false).as_bytes(), source).unwrap();
                }
                Kind::Fin if !is_forced && delivered.is_none() => {
                    if held.replace(packet[..len].to_vec()).is_none() {
                        let _ = tell.send(());
                    }
                }
                _ => _ = far.send(&packet[..len]),
            }
        }
        while let (Ok(len), Some(to)) = (far.recv(&mut packet), sender) {
            let (header, kind) = Header::parse(&packet[..len]).unwrap();
            if kind == Kind::FinAck {
                // The first one answers the forced FIN.
                if let Some(fin) = held.take() {
                    delivered = Some(Header::parse(&fin).unwrap().0.index());
                    let _ = far.send(&fin);
                }
                if delivered != Some(header.index()) {
                    continue;
                }
            }
            let _ = near.send_to(&packet[..len], to);
        }
    }
}

fn bind() -> Receiver {
    Receiver::builder().control_socket(None).bind("127.0.0.1:0").unwrap()
}

#[test]
fn cancel__is_no_complete_end_although_an_earlier_fin_is_answered_last() {
    let receiver = bind();
    let relay = Relay::start(receiver.local_addr().unwrap());
    let received = receive(receiver);
    let builder = Job::builder().control_socket(None).messages(MESSAGES).msr(0.8).packing(false);
    let mut job = builder.connect(relay.address).unwrap();
    for id in 0..MESSAGES {
        // The job may be ending by now.
        let _ = job.send(&message(id, 700));
    }
    relay.held.recv_timeout(LIMIT).expect("a FIN");
    let report = job.cancel().unwrap();
    let summary = received.join().unwrap().summary;
    assert!(!summary.complete && report.canceled, "{report:?}\n{summary:?}");
    assert_eq!((summary.delivered, summary.groups[0].needed), (ARRIVING, NEEDED));
    assert_eq!((report.groups[0].delivered, report.groups[0].needed), (ARRIVING, NEEDED));
}

#[test]
fn window_deadline__is_no_complete_end_although_an_earlier_fin_is_answered_last() {
    let mut receiver = bind();
    let relay = Relay::start(receiver.local_addr().unwrap());
    // The receiver stays until its sender knows of the end.
    let received = thread::spawn(move || -> (Summary, Receiver) {
        loop {
            match receiver.recv(Some(LIMIT)).unwrap().expect("an event") {
                Event::WindowEnded { summary, .. } => return (summary, receiver),
                Event::Finished { summary, .. } => return (summary, receiver),
                _ => {}
            }
        }
    });
    let builder = Job::builder().control_socket(None).messages(MESSAGES).msr(0.8).packing(false);
    let builder = builder.windows(true).window_deadline(Duration::from_millis(300));
    let mut job = builder.connect(relay.address).unwrap();
    for id in 0..MESSAGES {
        let _ = job.send(&message(id, 700));
    }
    let window = job.end_window().unwrap();
    let (summary, _receiver) = received.join().unwrap();
    assert_eq!(summary.delivered, window.groups[0].delivered);
    assert!(!summary.complete && !window.complete, "{window:?}\n{summary:?}");
}
