//! A minimal daemon's side of the control socket. Each test gives its replies as a closure.

use approxlib::control::{INTERFACE_WORDS, PACKET_BYTES_MAX, PROTOCOL, Reply, Request};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, SockFlag,
    SockType, UnixAddr, accept, bind, listen, recvmsg, sendmsg, shutdown, socket,
};
use std::{
    fs::File,
    io::{IoSlice, IoSliceMut},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver},
    thread,
};

/// A reply as bytes, so that a test can send invalid ones, and its descriptors.
pub type Answer = (Vec<u8>, Vec<OwnedFd>);

/// A socket that answers one client.
pub struct TestDaemon {
    pub socket: PathBuf,
    /// The connection to the client.
    pub connection: Receiver<OwnedFd>,
    _folder: Option<tempfile::TempDir>,
}

pub fn reply(reply: &Reply) -> Answer {
    (serde_json::to_vec(reply).unwrap(), Vec::new())
}

/// The answer to the registration of a receiver: the programs cover `interfaces`.
pub fn registered(interfaces: &[u32]) -> Answer {
    let page = File::from(memfd_create(c"atp-test", MFdFlags::MFD_CLOEXEC).unwrap());
    page.set_len(4 * INTERFACE_WORDS as u64).unwrap();
    let words: Vec<u32> = [interfaces.len() as u32].iter().chain(interfaces).copied().collect();
    page.write_all_at(bytemuck::cast_slice(&words), 0).unwrap();
    (serde_json::to_vec(&Reply::Receiver).unwrap(), vec![page.into()])
}

pub fn welcome(protocol: u32) -> Answer {
    reply(&Reply::Welcome { version: "test".into(), pacing: "fq".into(), protocol })
}

/// A socket at `path`, replacing an earlier one, that accepts connections and never replies.
pub fn listen_at(path: &Path) -> OwnedFd {
    let _ = std::fs::remove_file(path);
    let kind = (AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC);
    let listener = socket(kind.0, kind.1, kind.2, None).unwrap();
    bind(listener.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    listen(&listener, Backlog::new(1).unwrap()).unwrap();
    listener
}

impl TestDaemon {
    /// Welcomes one client, and answers all other requests with `answer`.
    pub fn start(answer: impl FnMut(Request, Vec<OwnedFd>) -> Answer + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let started = Self::start_at(&folder.path().join("atp.sock"), answer);
        Self { _folder: Some(folder), ..started }
    }

    /// Answers one client's hello with `hello_answer`, and no other request.
    pub fn with_hello_answer(hello_answer: Answer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("atp.sock");
        let unexpected = |request, _| panic!("{request:?}");
        Self { _folder: Some(folder), ..Self::serve(&path, hello_answer, unexpected) }
    }

    /// As `start`, at `path`, replacing an earlier socket.
    pub fn start_at(
        path: &Path,
        answer: impl FnMut(Request, Vec<OwnedFd>) -> Answer + Send + 'static,
    ) -> Self {
        Self::serve(path, welcome(PROTOCOL), answer)
    }

    fn serve(
        path: &Path,
        hello_answer: Answer,
        mut answer: impl FnMut(Request, Vec<OwnedFd>) -> Answer + Send + 'static,
    ) -> Self {
        let listener = listen_at(path);
        let (sender, connection) = mpsc::channel();
        thread::spawn(move || {
            let fd = accept(listener.as_raw_fd()).unwrap();
            // SAFETY: accept has just created this descriptor, and no other value owns it.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            sender.send(socket.try_clone().unwrap()).unwrap();
            let mut hello_answer = Some(hello_answer);
            while let Some((request, fds)) = receive(&socket) {
                let (bytes, fds) = match request {
                    Request::Hello { protocol: PROTOCOL, .. } if hello_answer.is_some() => {
                        hello_answer.take().unwrap()
                    }
                    request => answer(request, fds),
                };
                send(&socket, &bytes, &fds);
            }
        });
        Self { socket: path.into(), connection, _folder: None }
    }

    /// Closes the connection, as a daemon that stops does.
    pub fn hang_up(&self) {
        shutdown(self.connection.recv().unwrap().as_raw_fd(), Shutdown::Both).unwrap();
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
            // SAFETY: recvmsg has just created these descriptors, and no other value owns them.
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
