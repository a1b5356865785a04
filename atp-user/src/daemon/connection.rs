//! A connection of the control socket: reads requests with their descriptors, writes replies.

use super::{
    passed_descriptors,
    policy::Identity,
    tenant::Tenant,
    users::{ConnectionSlot, RequestPermit, User},
};
use approxlib::control::{JobUser, Refusal, Reply, SENDER_FDS};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
};
use tokio_seqpacket::{
    UnixSeqpacket,
    ancillary::{AncillaryMessageReader, AncillaryMessageWriter, OwnedAncillaryMessage},
};

/// A connection of the control socket.
pub type SessionId = u64;

/// The client at the other end, from the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The connection.
    pub session: SessionId,
    /// The user.
    pub uid: u32,
    /// The process.
    pub pid: i32,
    /// The owner, whose budgets it uses.
    pub tenant: Tenant,
}

impl Peer {
    /// Whether it is root of the daemon's own namespaces. Uid 0 of a container isn't.
    pub fn is_root(self) -> bool {
        self.tenant == Tenant::Root
    }

    /// The user, as its jobs have it.
    pub const fn user(self) -> JobUser {
        JobUser { uid: self.uid, container: self.tenant.container() }
    }
}

/// The answer to a request: a reply and the descriptors to send with it.
pub type Answer = (Reply, Vec<OwnedFd>);

/// Room for as many descriptors as one packet can carry: the kernel's SCM_MAX_FD, 253. If some
/// didn't fit, the kernel would close them on this thread, which can block.
#[repr(C, align(8))]
struct AncillaryBuffer([u8; 16 + 253 * 4 + 4]);

/// A client's socket. Its owner closes it on a thread, because that also closes its unread
/// descriptors, which can block.
pub struct Connection {
    /// `None` only while it is dropped.
    open: Option<(UnixSeqpacket, ConnectionSlot)>,
    user: Rc<User>,
    client: Rc<Identity>,
}

impl Connection {
    /// Takes one of the owner's places for a new connection.
    pub fn new(socket: UnixSeqpacket, user: Rc<User>, client: Rc<Identity>) -> Self {
        let slot = user.slot();
        if slot.is_served() {
            passed_descriptors::allow(&socket, true);
        }
        Self { open: Some((socket, slot)), user, client }
    }

    /// The client, as the operator's policy knows it.
    pub const fn client(&self) -> &Rc<Identity> {
        &self.client
    }

    /// The client's owner.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// The ids of the cgroup of its process, when that connected, and of the cgroup's ancestors,
    /// nearest first.
    pub fn cgroups(&self) -> &[u64] {
        &self.client.cgroup_ids
    }

    /// Whether the client gets no refusal, because too many connections are over the limit.
    pub fn is_surplus(&self) -> bool {
        self.open.as_ref().is_none_or(|(_, slot)| slot.is_surplus())
    }

    /// The refusal of a client over the limit.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.open.as_ref().and_then(|(_, slot)| slot.refusal())
    }

    /// Whether it has ended, at either end.
    pub fn is_closed(&self) -> bool {
        let Ok(socket) = self.socket() else { return true };
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::empty())];
        // HUP is reported unasked.
        poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Ends the connection; the client learns it at once.
    pub fn hang_up(&self) {
        self.shut_down(Shutdown::Both);
    }

    /// Reads no further request. The current one still gets its reply.
    pub fn stop_listening(&self) {
        self.shut_down(Shutdown::Read);
    }

    fn shut_down(&self, how: Shutdown) {
        // Fails if the client has already disconnected.
        self.socket().and_then(|socket| socket.shutdown(how)).ok();
    }

    fn socket(&self) -> io::Result<&UnixSeqpacket> {
        let open = self.open.as_ref().map(|(socket, _)| socket);
        open.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// The next request's length, descriptors and permit; `None` at the end.
    ///
    /// # Errors
    /// The socket failed, or the request was too long for `buffer`. Both end the connection.
    pub async fn receive(
        &self,
        buffer: &mut [u8],
    ) -> io::Result<Option<(usize, Vec<OwnedFd>, RequestPermit)>> {
        let socket = self.socket()?;
        loop {
            socket.as_async_fd().readable().await?.retain_ready();
            let permit = self.user.request_permit().await?;
            // Doesn't wait while holding the permit if the packet is gone by now.
            let (len, fds) = tokio::select! {
                biased;
                received = receive(socket, buffer) => received?,
                () = std::future::ready(()) => continue,
            };
            if let Some(len) = len.filter(|len| *len > 0) {
                return Ok(Some((len, fds, permit)));
            }
            self.user.inspect(fds, permit).await.ok();
            return match len {
                Some(_) => Ok(None),
                None => Err(io::Error::other("a request was too long")),
            };
        }
    }

    /// Sends a reply.
    pub async fn send(&self, reply: &Reply, fds: &[impl AsFd]) -> io::Result<()> {
        let text = serde_json::to_vec(reply)?;
        let mut ancillary = [0; 64];
        debug_assert!(fds.len() <= SENDER_FDS);
        let mut writer = AncillaryMessageWriter::new(&mut ancillary);
        if !fds.is_empty() {
            writer
                .add_fds(fds.iter().map(AsFd::as_fd))
                .map_err(|_| io::Error::other("too many descriptors for a reply"))?;
        }
        let buffers = [IoSlice::new(&text)];
        self.socket()?.send_vectored_with_ancillary(&buffers, &mut writer).await?;
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some((socket, slot)) = self.open.take() {
            self.user.close(socket.into(), slot);
        }
    }
}

/// One packet with its descriptors. Its length is `None` if the packet was truncated.
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
    let complete = !info.truncated() && !info.ancillary_truncated();
    Ok((complete.then_some(info.bytes_read()), fds))
}
