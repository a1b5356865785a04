//! Messages over TCP: one connection per sender; an index and a length precede each message.

use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::SockRef;

use super::super::clock::now_ns;
use super::super::control::Control;
use super::super::protocol::SenderReport;
use super::super::tcp::{prepare, segments};
use super::{Received, ReceiverSetup, SenderSetup};

/// The header of a message: index and length, both big-endian u32.
const FRAME_HEADER_BYTES: usize = 8;
/// The maximum length of a frame, far above the longest message.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// The bytes of one write. Between two writes a sender checks whether it may stop.
const PIECE_BYTES: usize = 64 << 10;
/// The idle limit of a connection: a peer silent for this time has failed.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const STOP: u8 = b'S';

/// Sends the messages `indices` until all are written or the receiver says stop.
pub fn send(
    setup: &SenderSetup,
    control: &mut Control,
    indices: impl Iterator<Item = usize>,
) -> Result<SenderReport> {
    let mut stream = TcpStream::connect_timeout(&setup.receiver, SILENCE_MAX)
        .with_context(|| format!("connecting to {}", setup.receiver))?;
    prepare(&stream)?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    control.ready(0)?;
    control.wait_for_start()?;
    let stopped = write_frames(setup, &mut stream, indices)?;
    if !stopped {
        // The receiver says stop once it has enough messages, which may be long after this sender's
        // last one. The run ends a sender that waits in vain.
        stream.shutdown(Shutdown::Write)?;
        let mut word = [0];
        stream.read(&mut word).with_context(|| format!("waiting for {}", setup.receiver))?;
    }
    let segments = segments(&stream)?;
    // No receiver needs the rest of a stopped sender's buffer.
    SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    Ok(SenderReport {
        packets_sent: segments.sent,
        packets_lost: Some(segments.retransmitted),
        ..SenderReport::default()
    })
}

/// Writes the messages as frames. Returns whether the receiver said stop before the end.
fn write_frames(
    setup: &SenderSetup,
    stream: &mut TcpStream,
    indices: impl Iterator<Item = usize>,
) -> Result<bool> {
    let mut piece = Vec::with_capacity(2 * PIECE_BYTES);
    for index in indices {
        append_frame(&mut piece, index, setup.messages.message(index));
        if piece.len() >= PIECE_BYTES {
            if is_stopped(stream)? {
                return Ok(true);
            }
            stream.write_all(&piece).with_context(|| format!("sending to {}", setup.receiver))?;
            piece.clear();
        }
    }
    stream.write_all(&piece).with_context(|| format!("sending to {}", setup.receiver))?;
    Ok(false)
}

fn append_frame(piece: &mut Vec<u8>, index: usize, message: &[u8]) {
    piece.extend_from_slice(&(index as u32).to_be_bytes());
    piece.extend_from_slice(&(message.len() as u32).to_be_bytes());
    piece.extend_from_slice(message);
}

/// Checks without blocking whether the receiver has said stop.
fn is_stopped(stream: &TcpStream) -> Result<bool> {
    let mut word = [MaybeUninit::uninit()];
    match SockRef::from(stream).recv_with_flags(&mut word, libc::MSG_DONTWAIT) {
        Ok(1) => Ok(true),
        Ok(_) => bail!("the receiver closed the connection before it had what it needs"),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error).context("the receiver's connection"),
    }
}

/// Receives from every sender until `needed` messages are delivered, then tells them to stop.
pub fn receive(setup: &ReceiverSetup, control: &mut Control, needed: usize) -> Result<Received> {
    let listener = TcpListener::bind((setup.bind, 0))?;
    control.ready(listener.local_addr()?.port())?;
    let streams = accept(&listener, setup.senders())?;
    control.wait_for_start()?;
    let batches = read_in_background(&streams)?;
    let received = collect(control, &batches, needed)?;
    for mut stream in &streams {
        // A sender that has sent all its messages may have ended already.
        let _ = stream.write_all(&[STOP]);
    }
    // Keep reading until the senders abort their connections.
    while batches.recv_timeout(SILENCE_MAX).is_ok() {}
    Ok(received)
}

fn accept(listener: &TcpListener, senders: usize) -> Result<Vec<TcpStream>> {
    let mut streams = Vec::new();
    while streams.len() < senders {
        let mut polled = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(SILENCE_MAX)?;
        ensure!(
            poll(&mut polled, timeout)? > 0,
            "{} of {senders} senders connected",
            streams.len()
        );
        let (stream, _) = listener.accept()?;
        prepare(&stream)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        streams.push(stream);
    }
    Ok(streams)
}

/// The messages of one read, and the time of the read.
struct Batch {
    at_ns: u64,
    messages: Vec<(usize, Vec<u8>)>,
}

/// Starts a thread for each connection. The channel ends when all threads have ended.
fn read_in_background(streams: &[TcpStream]) -> Result<Receiver<Result<Batch>>> {
    let (sender, receiver) = channel();
    for stream in streams {
        let (stream, sender) = (stream.try_clone()?, sender.clone());
        thread::spawn(move || read_batches(stream, &sender));
    }
    Ok(receiver)
}

fn read_batches(mut stream: TcpStream, batches: &Sender<Result<Batch>>) {
    let mut frames = Frames::default();
    let mut piece = vec![0; 4 * PIECE_BYTES];
    loop {
        let outcome = stream.read(&mut piece).context("a sender's connection");
        let batch = match outcome {
            Ok(0) => return,
            Ok(bytes) => {
                frames.take(&piece[..bytes]).map(|messages| Batch { at_ns: now_ns(), messages })
            }
            Err(error) => Err(error),
        };
        let failed = batch.is_err();
        if batches.send(batch).is_err() || failed {
            return;
        }
    }
}

fn collect(
    control: &mut Control,
    batches: &Receiver<Result<Batch>>,
    needed: usize,
) -> Result<Received> {
    let mut messages = Vec::new();
    loop {
        let batch = match batches.recv_timeout(SILENCE_MAX) {
            Ok(batch) => batch?,
            Err(RecvTimeoutError::Timeout) => bail!(
                "nothing arrived for {} s; {} of {needed} messages were delivered",
                SILENCE_MAX.as_secs(),
                messages.len()
            ),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the senders ended with {} of {needed} messages delivered", messages.len())
            }
        };
        messages.extend(batch.messages);
        control.progress(messages.len())?;
        if messages.len() >= needed {
            return Ok(Received {
                ended_ns: batch.at_ns,
                messages,
                packets_arrived: None,
                accepted: None,
            });
        }
    }
}

/// Splits a byte stream into messages.
#[derive(Default)]
struct Frames {
    buffer: Vec<u8>,
}

impl Frames {
    fn take(&mut self, bytes: &[u8]) -> Result<Vec<(usize, Vec<u8>)>> {
        self.buffer.extend_from_slice(bytes);
        let mut messages = Vec::new();
        let mut rest = &self.buffer[..];
        while let Some((header, body)) = rest.split_first_chunk::<FRAME_HEADER_BYTES>() {
            let [a, b, c, d, length @ ..] = *header;
            let length = u32::from_be_bytes(length) as usize;
            ensure!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
            let Some((message, after)) = body.split_at_checked(length) else { break };
            messages.push((u32::from_be_bytes([a, b, c, d]) as usize, message.to_vec()));
            rest = after;
        }
        let consumed = self.buffer.len() - rest.len();
        self.buffer.drain(..consumed);
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take__messages_survive_any_cut() {
        let sent: Vec<(usize, Vec<u8>)> =
            (0..50).map(|index| (index * 7, vec![index as u8; index * 13 % 40])).collect();
        let mut stream = Vec::new();
        sent.iter().for_each(|(index, message)| append_frame(&mut stream, *index, message));
        for piece in [1, 3, 8, 17, stream.len()] {
            let mut frames = Frames::default();
            let received: Vec<_> =
                stream.chunks(piece).flat_map(|bytes| frames.take(bytes).unwrap()).collect();
            assert_eq!(received, sent, "{piece}");
            assert!(frames.buffer.is_empty());
        }
    }

    #[test]
    fn take__refuses_an_absurd_length() {
        assert!(Frames::default().take(&[0xff; 8]).is_err());
    }
}
