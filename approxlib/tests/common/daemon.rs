//! The daemon's side of the control socket, as small as can be: what a test wants answered is a
//! closure.

use approxlib::control::{PACKET_BYTES_MAX, PROTOCOL, Reply, Request};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType,
    UnixAddr, accept, bind, listen, recvmsg, sendmsg, socket,
};
use std::{
    io::{IoSlice, IoSliceMut},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    path::PathBuf,
    sync::mpsc::{self, Receiver},
    thread,
};

/// What to send back: bytes, so that a test can send nonsense, and descriptors.
pub type Answer = (Vec<u8>, Vec<OwnedFd>);

/// A socket that answers one client.
pub struct TestDaemon {
    pub socket: PathBuf,
    /// The connection, to be closed by dropping it.
    pub connection: Receiver<OwnedFd>,
    _folder: tempfile::TempDir,
}

pub fn reply(reply: &Reply) -> Answer {
    (serde_json::to_vec(reply).unwrap(), Vec::new())
}

pub fn welcome() -> Answer {
    reply(&Reply::Welcome { version: "test".into(), pacing: "fq".into() })
}

impl TestDaemon {
    /// Says welcome to one client, and answers everything else with `answer`.
    pub fn start(mut answer: impl FnMut(Request, Vec<OwnedFd>) -> Answer + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("atp.sock");
        let kind = (AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
        let listener = socket(kind.0, kind.1, kind.2, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&listener, Backlog::new(1).unwrap()).unwrap();
        let (sender, connection) = mpsc::channel();
        thread::spawn(move || {
            let fd = accept(listener.as_raw_fd()).unwrap();
            // SAFETY: accept has just made this descriptor, for nobody else.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            sender.send(socket.try_clone().unwrap()).unwrap();
            while let Some((request, fds)) = receive(&socket) {
                let (bytes, fds) = match request {
                    Request::Hello { protocol: PROTOCOL } => welcome(),
                    request => answer(request, fds),
                };
                send(&socket, &bytes, &fds);
            }
        });
        Self { socket: path, connection, _folder: folder }
    }
}

fn receive(socket: &OwnedFd) -> Option<(Request, Vec<OwnedFd>)> {
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let mut space = nix::cmsg_space!([RawFd; 4]);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags).ok()?;
    let mut fds = Vec::new();
    for control in message.cmsgs().ok()? {
        if let ControlMessageOwned::ScmRights(raw) = control {
            // SAFETY: recvmsg has just made these descriptors, for nobody else.
            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    let len = message.bytes;
    Some((serde_json::from_slice(&buffer[..len]).ok()?, fds))
}

fn send(socket: &OwnedFd, bytes: &[u8], fds: &[OwnedFd]) {
    let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let rights = if raw.is_empty() { &[][..] } else { &rights[..] };
    let flags = MsgFlags::MSG_NOSIGNAL;
    let _ = sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], rights, flags, None);
}
