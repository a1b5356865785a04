//! Serves one client of the control socket, from its hello to its end.

use super::{
    clock::monotonic_ns,
    closed_sockets,
    connection::{Answer, Connection, Peer},
    host::{Host, SenderOpen},
    internal, refuse,
    socket_addresses::refuse_missing_socket,
};
use approxlib::control::{PROTOCOL, REQUEST_BYTES_MAX, Refusal, RefusalKind, Reply, Request};
use atp_datapath::{Route, RouteQuery};
use std::{cell::RefCell, io, os::fd::OwnedFd, rc::Rc, time::Duration};
use tokio::sync::Notify;

/// The time that a client over the limit has to send a request and read the refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

const NO_FDS: &[OwnedFd] = &[];

/// Serves a client until it disconnects, then frees its resources. `stop` ends the daemon; without
/// it systemd does.
pub async fn serve(
    connection: Rc<Connection>,
    peer: Peer,
    host: Rc<RefCell<Host>>,
    stop: Option<Rc<Notify>>,
) {
    if let Some(refusal) = connection.refusal() {
        let refused = refuse_connection(&connection, refusal.clone());
        tokio::time::timeout(REFUSAL_TIMEOUT, refused).await.ok();
        return;
    }
    host.borrow_mut().open_session(peer, connection.clone());
    if let Err(error) = exchange(&connection, peer, &host, stop.as_deref()).await {
        tracing::debug!(session = peer.session, %error, "control connection failed");
    }
    host.borrow_mut().close_session(peer.session);
}

/// Answers the first request with a refusal: the owner is over its limit of connections.
async fn refuse_connection(connection: &Connection, refusal: Refusal) -> io::Result<()> {
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    if let Some((_, fds, permit)) = connection.receive(&mut buffer).await? {
        connection.user().inspect(fds, permit).await.ok();
    }
    connection.send(&Reply::Refused(refusal), NO_FDS).await
}

async fn exchange(
    connection: &Connection,
    peer: Peer,
    host: &RefCell<Host>,
    stop: Option<&Notify>,
) -> io::Result<()> {
    let mut buffer = vec![0; REQUEST_BYTES_MAX];
    let mut version = None;
    while let Some((len, fds, permit)) = connection.receive(&mut buffer).await? {
        // A request with descriptors can block, but only its own owner.
        let endpoints = if fds.is_empty() {
            drop(permit);
            refuse_missing_socket()
        } else {
            connection.user().inspect(fds, permit).await
        };
        let request = Request::parse(&buffer[..len], &mut version);
        let registers =
            matches!(request, Ok(Request::SenderOpen { .. } | Request::ReceiverOpen { .. }));
        if registers && let Ok(endpoints) = &endpoints {
            // The kernel lists a port's sockets, of which a user may have many: one at a time.
            let turn = connection.user().request_permit().await?;
            closed_sockets::free_port_for(&endpoints.id(), host).await;
            drop(turn);
        }
        let (reply, fds) = match request {
            Ok(Request::Hello { .. }) => {
                let protocol = version.unwrap_or(PROTOCOL);
                Ok((host.borrow().welcome(protocol), Vec::new()))
            }
            Ok(Request::Stop {}) => match stop {
                Some(stop) => host.borrow().may_stop(peer).map(|()| {
                    stop.notify_one();
                    (Reply::Done, Vec::new())
                }),
                None => refuse(
                    RefusalKind::BadRequest,
                    "systemd holds this daemon's socket: run `systemctl stop atp.socket atp.service`",
                ),
            },
            Ok(Request::NotCovered { packets, after_us }) => {
                not_covered(peer, host, packets, after_us).await
            }
            Ok(Request::Snapshot {}) => {
                // The page says when it was current. Without lanes the next tick may be far off.
                if !host.borrow().has_lanes() {
                    host.borrow_mut().tick(monotonic_ns());
                }
                // Borrowed: a daemon without a free descriptor serves this as well.
                let (pages, may_identify) = host.borrow().pages(peer);
                connection.send(&Reply::Snapshot, &pages.descriptors(may_identify)).await?;
                continue;
            }
            Ok(Request::SenderOpen { id, cookie, groups }) => {
                let open = |endpoints| SenderOpen::new(id, cookie, &groups, endpoints, peer.uid);
                open_sender(endpoints.and_then(open), peer, host).await
            }
            Ok(request) => host.borrow_mut().handle(request, endpoints, peer),
            Err(refusal) => Err(refusal),
        }
        .unwrap_or_else(|refusal| (Reply::Refused(refusal), Vec::new()));
        connection.send(&reply, &fds).await?;
    }
    Ok(())
}

/// Opens a flow, if its route leads past the programs. The lookup and the flow's ACK ring are made
/// on threads that may block.
async fn open_sender(
    open: Result<SenderOpen, Refusal>,
    peer: Peer,
    host: &RefCell<Host>,
) -> Result<Answer, Refusal> {
    let open = open?;
    let route = look_up(open.route).await?;
    host.borrow_mut().check_coverage(&route, open.returns())?;
    let (flow, rings) = host.borrow_mut().reserve_flow(peer)?;
    let created = rings.result(flow as u32).await;
    let ring = created.ok_or_else(|| internal("can't create an ACK ring"));
    let ring = ring.and_then(|ring| ring.map_err(internal));
    let granted = host.borrow_mut().sender_open(&open, flow, ring, peer)?;
    // The library sends nothing before the reply, so no packet leaves unpaced.
    let settled = host.borrow().settled();
    match settled.await {
        Ok(()) => Ok(granted),
        Err(error) => {
            host.borrow_mut().withdraw_flow(flow, peer);
            // An interface or its qdisc is gone at the moment. The library tries again.
            let message = format!("its packets can't be paced at present: {error}");
            refuse(RefusalKind::NotCovered, message)
        }
    }
}

/// Ends flows whose packets passed no program.
async fn not_covered(
    peer: Peer,
    host: &RefCell<Host>,
    packets: u64,
    after_us: u64,
) -> Result<Answer, Refusal> {
    let routes = host.borrow().routes_of_session(peer);
    let route = match routes.first() {
        Some(route) => look_up(*route).await?,
        None => Err(io::ErrorKind::NotFound.into()),
    };
    host.borrow_mut().not_covered(peer, &route, packets, after_us)
}

async fn look_up(route: RouteQuery) -> Result<io::Result<Route>, Refusal> {
    tokio::task::spawn_blocking(move || route.look_up()).await.map_err(internal)
}
