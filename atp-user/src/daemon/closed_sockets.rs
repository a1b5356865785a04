//! Ends registrations whose sockets are closed. A connection to the daemon can outlive them, and
//! their ports may be others' by now.

use super::host::Host;
use atp_datapath::{UdpSocketId, UdpSockets};
use std::{cell::RefCell, convert::Infallible, io, time::Duration};
use tokio::time::{MissedTickBehavior, interval};

/// The time between two rounds, each of which looks at every registered socket.
const INTERVAL: Duration = Duration::from_secs(1);

/// The most lists of UDP sockets that a round asks for. A user can have many sockets for which the
/// kernel makes one, and each takes a pass through a table. The next round goes on with the others.
const LISTS_MAX: usize = 64;

/// Looks at the registered sockets once a second.
pub async fn watch(host: &RefCell<Host>) -> Infallible {
    let mut rounds = interval(INTERVAL);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut first_port = 0;
    let mut last_error = None;
    loop {
        rounds.tick().await;
        let mut sockets = host.borrow().registered_sockets();
        sockets.sort_unstable_by_key(|socket| socket.local.port().wrapping_sub(first_port));
        let round = match sockets.is_empty() {
            true => Ok(Round::default()),
            false => look_at(sockets).await,
        };
        match round {
            Ok(round) => {
                first_port = round.next_port;
                let ended = host.borrow_mut().end_registrations(&round.closed);
                if ended > 0 {
                    let port = round.closed[0].local.port();
                    tracing::info!(ended, port, "ended the registrations of closed sockets");
                }
                last_error = None;
            }
            Err(error) => {
                // A repeated error is logged once, and again after a success.
                let error = error.to_string();
                if last_error.as_ref() != Some(&error) {
                    tracing::warn!(
                        %error,
                        "can't ask the kernel which UDP sockets are open (CONFIG_INET_UDP_DIAG): \
                         registrations last as long as the connections of their clients"
                    );
                }
                last_error = Some(error);
            }
        }
    }
}

/// Frees the port of a newcomer, if it is registered for a socket that is closed. The newcomer's
/// own socket proves that the port is free, or shared.
pub async fn free_port_for(newcomer: &UdpSocketId, host: &RefCell<Host>) {
    let registered = host.borrow().registered_socket(newcomer.local.port());
    let Some(registered) = registered.filter(|socket| socket.cookie != newcomer.cookie) else {
        return;
    };
    // After an error the next round tries again, and logs it.
    if let Ok(round) = look_at(vec![registered]).await {
        host.borrow_mut().end_registrations(&round.closed);
    }
}

#[derive(Default)]
struct Round {
    closed: Vec<UdpSocketId>,
    /// The port at which the next round begins.
    next_port: u16,
}

/// Finds the closed ones among these sockets, on a thread that may block.
async fn look_at(sockets: Vec<UdpSocketId>) -> io::Result<Round> {
    let looked = tokio::task::spawn_blocking(move || closed_among(&sockets));
    looked.await.map_err(io::Error::other)?
}

fn closed_among(sockets: &[UdpSocketId]) -> io::Result<Round> {
    let kernel = UdpSockets::open()?;
    let mut round = Round::default();
    let mut lists = 0;
    for socket in sockets {
        if kernel.gets_packets(socket)? {
            continue;
        }
        if lists == LISTS_MAX {
            round.next_port = socket.local.port();
            break;
        }
        lists += 1;
        if !kernel.are_on_port(socket)? {
            round.closed.push(*socket);
        }
    }
    Ok(round)
}
