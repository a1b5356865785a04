//! One client of the control socket, from its hello to its end.

use super::{host::Host, jobs::SessionId, refuse};
use approxlib::control::{
    PACKET_BYTES_MAX, PROTOCOL, Refusal, RefusalKind, Reply, Request, SENDER_FDS,
};
use std::{
    cell::RefCell,
    io::{IoSlice, IoSliceMut},
    os::fd::OwnedFd,
    rc::Rc,
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

/// Descriptors that a request may bring; every kind needs one at most.
const FDS_MAX: usize = 4;

/// Serves a client until it goes away, and lets go of everything that was its.
pub async fn serve(
    socket: UnixSeqpacket,
    session: SessionId,
    host: Rc<RefCell<Host>>,
    stop: Rc<Notify>,
) {
    let Some(peer) = identify(&socket, session) else { return };
    if let Err(error) = exchange(&socket, peer, &host, &stop).await {
        tracing::debug!(session, %error, "control connection ended");
    }
    host.borrow_mut().close_session(session);
}

fn identify(socket: &UnixSeqpacket, session: SessionId) -> Option<Peer> {
    let credentials = socket.peer_cred().ok()?;
    Some(Peer { session, uid: credentials.uid(), pid: credentials.pid()? })
}

async fn exchange(
    socket: &UnixSeqpacket,
    peer: Peer,
    host: &RefCell<Host>,
    stop: &Notify,
) -> std::io::Result<()> {
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let mut greeted = false;
    while let Some((len, fds)) = receive(socket, &mut buffer).await? {
        let (reply, fds) = answer(&buffer[..len], fds, &mut greeted, peer, host, stop)
            .unwrap_or_else(|refusal| (Reply::Refused(refusal), Vec::new()));
        send(socket, &reply, &fds).await?;
    }
    Ok(())
}

fn answer(
    packet: &[u8],
    fds: Vec<OwnedFd>,
    greeted: &mut bool,
    peer: Peer,
    host: &RefCell<Host>,
    stop: &Notify,
) -> Result<Answer, Refusal> {
    let request = match serde_json::from_slice(packet) {
        Ok(request) => request,
        Err(error) => return refuse(RefusalKind::BadRequest, format!("not a request: {error}")),
    };
    match request {
        Request::Hello { protocol: PROTOCOL } => {
            *greeted = true;
            Ok((host.borrow().welcome(), Vec::new()))
        }
        Request::Hello { protocol } => refuse(
            RefusalKind::BadRequest,
            format!(
                "the client speaks protocol {protocol}, this daemon {PROTOCOL}: use programs of one version"
            ),
        ),
        _ if !*greeted => refuse(RefusalKind::BadRequest, "the first request must be a hello"),
        Request::Stop => {
            host.borrow().may_stop(peer)?;
            stop.notify_one();
            Ok((Reply::Done, Vec::new()))
        }
        request => host.borrow_mut().handle(request, fds, peer),
    }
}

/// One packet and the descriptors that came with it; `None` at the end. A packet too long, or with
/// too many descriptors, ends the connection: nothing after it could be trusted.
async fn receive(
    socket: &UnixSeqpacket,
    buffer: &mut [u8],
) -> std::io::Result<Option<(usize, Vec<OwnedFd>)>> {
    let mut ancillary = [0; 256];
    let mut buffers = [IoSliceMut::new(buffer)];
    let (info, reader): (_, AncillaryMessageReader<'_>) =
        socket.recv_vectored_with_ancillary(&mut buffers, &mut ancillary).await?;
    let mut fds = Vec::new();
    for message in reader.into_messages() {
        if let OwnedAncillaryMessage::FileDescriptors(received) = message {
            fds.extend(received);
        }
    }
    if info.truncated() || info.ancillary_truncated() || fds.len() > FDS_MAX {
        return Err(std::io::Error::other("a request was too long"));
    }
    Ok((info.bytes_read() > 0).then_some((info.bytes_read(), fds)))
}

async fn send(socket: &UnixSeqpacket, reply: &Reply, fds: &[OwnedFd]) -> std::io::Result<()> {
    let text = serde_json::to_vec(reply)?;
    let mut ancillary = [0; 64];
    debug_assert!(fds.len() <= SENDER_FDS);
    let mut writer = AncillaryMessageWriter::new(&mut ancillary);
    if !fds.is_empty() {
        writer
            .add_fds(fds)
            .map_err(|_| std::io::Error::other("too many descriptors for a reply"))?;
    }
    socket.send_vectored_with_ancillary(&[IoSlice::new(&text)], &mut writer).await?;
    Ok(())
}
