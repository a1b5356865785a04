//! One client of the control socket, from its hello to its end.

use super::{
    host::{Host, SenderOpen},
    internal,
    jobs::SessionId,
    socket_addresses::no_socket,
    users::{Place, Turn, User},
};
use approxlib::control::{REQUEST_BYTES_MAX, Refusal, RefusalKind, Reply, Request, SENDER_FDS};
use std::{
    cell::RefCell,
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
    os::fd::OwnedFd,
    rc::Rc,
    time::Duration,
};
use tokio::sync::Notify;
use tokio_seqpacket::{
    UnixSeqpacket,
    ancillary::{AncillaryMessageReader, AncillaryMessageWriter, OwnedAncillaryMessage},
};

/// Who is at the other end, from the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The connection.
    pub session: SessionId,
    /// The user.
    pub uid: u32,
    /// The process.
    pub pid: i32,
}

/// What a request leads to: a reply, and descriptors to go with it.
pub type Answer = (Reply, Vec<OwnedFd>);

/// How long a client that is one too many has to listen to the reason.
const FAREWELL: Duration = Duration::from_secs(1);

/// Room for as many descriptors as one packet can bring (the kernel's SCM_MAX_FD, 253): those that
/// don't fit would be closed here, by the kernel.
#[repr(C, align(8))]
struct AncillaryBuffer([u8; 16 + 253 * 4 + 4]);

/// A client's socket. It is closed by the client's user's thread, for with it goes whatever was sent
/// and never read.
pub struct Connection {
    /// `None` only while it is dropped.
    open: Option<(UnixSeqpacket, Place)>,
    user: Rc<User>,
}

impl Connection {
    /// A new one.
    pub fn new(socket: UnixSeqpacket, user: Rc<User>) -> Self {
        let place = user.place();
        Self { open: Some((socket, place)), user }
    }

    /// Whether its user has so many that it isn't even told why it ends.
    pub fn is_surplus(&self) -> bool {
        self.open.as_ref().is_none_or(|(_, place)| !place.exists())
    }

    /// Tells the client at once that it is over.
    pub fn hang_up(&self) {
        self.shut_down(Shutdown::Both);
    }

    /// Takes no request any more; what is being answered will be.
    pub fn stop_listening(&self) {
        self.shut_down(Shutdown::Read);
    }

    fn shut_down(&self, how: Shutdown) {
        // It fails where the client was faster.
        self.socket().and_then(|socket| socket.shutdown(how)).ok();
    }

    fn socket(&self) -> io::Result<&UnixSeqpacket> {
        let open = self.open.as_ref().map(|(socket, _)| socket);
        open.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// The next request and the descriptors that came with it; `None` at the end. One that is too
    /// long ends the connection: nothing after it could be trusted.
    async fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(usize, Vec<OwnedFd>, Turn)>> {
        let socket = self.socket()?;
        loop {
            socket.as_async_fd().readable().await?.retain_ready();
            let turn = self.user.turn().await?;
            // What was there may be gone by now, and a turn is nothing to wait with.
            let (len, fds) = tokio::select! {
                biased;
                received = receive(socket, buffer) => received?,
                () = std::future::ready(()) => continue,
            };
            if let Some(len) = len.filter(|len| *len > 0) {
                return Ok(Some((len, fds, turn)));
            }
            self.user.inspect(fds, turn).await.ok();
            return match len {
                Some(_) => Ok(None),
                None => Err(io::Error::other("a request was too long")),
            };
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some((socket, place)) = self.open.take() {
            self.user.close(socket.into(), place);
        }
    }
}

/// Serves a client until it goes away, and lets go of everything that was its.
pub async fn serve(
    connection: Rc<Connection>,
    peer: Peer,
    host: Rc<RefCell<Host>>,
    stop: Rc<Notify>,
) {
    if connection.user.is_crowded() {
        tokio::time::timeout(FAREWELL, send_away(&connection)).await.ok();
        return;
    }
    host.borrow_mut().open_session(peer, connection.clone());
    if let Err(error) = exchange(&connection, peer, &host, &stop).await {
        tracing::debug!(session = peer.session, %error, "control connection ended");
    }
    host.borrow_mut().close_session(peer.session);
}

/// Answers whatever comes first with the reason why there will be no more.
async fn send_away(connection: &Connection) -> io::Result<()> {
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    if let Some((_, fds, turn)) = connection.receive(&mut buffer).await? {
        connection.user.inspect(fds, turn).await.ok();
    }
    let message = format!(
        "user {} has too many connections to this daemon: end some of its jobs and receivers first",
        connection.user.uid
    );
    let refusal = Refusal { kind: RefusalKind::NoRoom, message };
    send(connection.socket()?, &Reply::Refused(refusal), &[]).await
}

async fn exchange(
    connection: &Connection,
    peer: Peer,
    host: &RefCell<Host>,
    stop: &Notify,
) -> io::Result<()> {
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    let mut greeted = false;
    while let Some((len, fds, turn)) = connection.receive(&mut buffer).await? {
        // Only a request with descriptors takes time, and only its user's.
        let ends = if fds.is_empty() {
            drop(turn);
            no_socket()
        } else {
            connection.user.inspect(fds, turn).await
        };
        let (reply, fds) = match Request::parse(&buffer[..len], &mut greeted) {
            Ok(Request::Hello { .. }) => Ok((host.borrow().welcome(), Vec::new())),
            Ok(Request::Stop {}) => host.borrow().may_stop(peer).map(|()| {
                stop.notify_one();
                (Reply::Done, Vec::new())
            }),
            Ok(Request::SenderOpen { id, groups }) => {
                let open = |ends| SenderOpen::new(id, &groups, ends);
                open_sender(ends.and_then(open), peer, host).await
            }
            Ok(request) => host.borrow_mut().handle(request, ends, peer),
            Err(refusal) => Err(refusal),
        }
        .unwrap_or_else(|refusal| (Reply::Refused(refusal), Vec::new()));
        send(connection.socket()?, &reply, &fds).await?;
    }
    Ok(())
}

/// Makes the flow's ACK ring, for which the kernel takes its time, before the host is asked.
async fn open_sender(
    open: Result<SenderOpen, Refusal>,
    peer: Peer,
    host: &RefCell<Host>,
) -> Result<Answer, Refusal> {
    let open = open?;
    let (flow, rings) = host.borrow_mut().reserve_flow()?;
    let made = tokio::task::spawn_blocking(move || rings.renew(flow as u32)).await;
    let ring = made.map_err(internal).and_then(|made| made.map_err(internal));
    host.borrow_mut().sender_open(&open, flow, ring, peer)
}

/// One packet, its length `None` if it was cut off, and the descriptors that came with it.
async fn receive(
    socket: &UnixSeqpacket,
    buffer: &mut [u8],
) -> io::Result<(Option<usize>, Vec<OwnedFd>)> {
    let mut ancillary = AncillaryBuffer([0; _]);
    let mut buffers = [IoSliceMut::new(buffer)];
    let (info, reader): (_, AncillaryMessageReader<'_>) =
        socket.recv_vectored_with_ancillary(&mut buffers, &mut ancillary.0).await?;
    let mut fds = Vec::new();
    for message in reader.into_messages() {
        if let OwnedAncillaryMessage::FileDescriptors(received) = message {
            fds.extend(received);
        }
    }
    let whole = !info.truncated() && !info.ancillary_truncated();
    Ok((whole.then_some(info.bytes_read()), fds))
}

async fn send(socket: &UnixSeqpacket, reply: &Reply, fds: &[OwnedFd]) -> io::Result<()> {
    let text = serde_json::to_vec(reply)?;
    let mut ancillary = [0; 64];
    debug_assert!(fds.len() <= SENDER_FDS);
    let mut writer = AncillaryMessageWriter::new(&mut ancillary);
    if !fds.is_empty() {
        writer.add_fds(fds).map_err(|_| io::Error::other("too many descriptors for a reply"))?;
    }
    socket.send_vectored_with_ancillary(&[IoSlice::new(&text)], &mut writer).await?;
    Ok(())
}
