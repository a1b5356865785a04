//! Ends registrations whose sockets are closed. A connection to the daemon can outlive them, and
//! their ports may be others' by now.

use super::{
    host::{Host, OwnedSocket},
    tenant::Tenant,
};
use atp_datapath::{UdpSocketId, UdpSockets};
use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    convert::Infallible,
    io,
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};

/// The time between two rounds, each of which looks at every registered socket.
const INTERVAL: Duration = Duration::from_secs(1);

/// The most lists of UDP sockets that a round asks for, or one for each owner if those are more. A
/// user can have many sockets for which the kernel makes one, and each takes a pass through a
/// table. The next round goes on with the owner's others.
const LISTS_MAX: usize = 64;

/// Looks at the registered sockets once a second.
pub async fn watch(host: &RefCell<Host>) -> Infallible {
    let mut rounds = interval(INTERVAL);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut first_ports = HashMap::new();
    let mut last_error = None;
    loop {
        rounds.tick().await;
        let sockets = host.borrow().registered_sockets();
        if sockets.is_empty() {
            continue;
        }
        let round = look_at(sockets, std::mem::take(&mut first_ports)).await;
        let Round { closed, next_ports, error } = round;
        first_ports = next_ports;
        let ended = host.borrow_mut().end_registrations(&closed);
        if ended > 0 {
            let port = closed[0].local.port();
            tracing::info!(ended, port, "ended the registrations of closed sockets");
        }
        // A repeated error is logged once, and again after a success.
        let error = error.map(|error| error.to_string());
        if let Some(error) = error.as_ref().filter(|_| error != last_error) {
            tracing::warn!(
                %error,
                "can't ask the kernel which UDP sockets are open (CONFIG_INET_UDP_DIAG): \
                 registrations last as long as the connections of their clients"
            );
        }
        last_error = error;
    }
}

/// Frees the port of a newcomer, if it is registered for a socket that is closed. The newcomer's
/// own socket proves that the port is free, or shared.
pub async fn free_port_for(newcomer: &UdpSocketId, host: &RefCell<Host>) {
    let registered = host.borrow().registered_socket(newcomer.local.port());
    let Some(registered) = registered.filter(|(_, socket)| socket.cookie != newcomer.cookie) else {
        return;
    };
    // After an error the next round tries again, and logs it.
    let round = look_at(vec![registered], HashMap::new()).await;
    host.borrow_mut().end_registrations(&round.closed);
}

#[derive(Default)]
struct Round {
    closed: Vec<UdpSocketId>,
    /// The ports at which the next round begins, for owners that have more sockets in doubt.
    next_ports: HashMap<Tenant, u16>,
    /// The last error. The sockets that had none were looked at.
    error: Option<io::Error>,
}

/// Finds the closed ones among these sockets, on a thread that may block.
async fn look_at(sockets: Vec<OwnedSocket>, first_ports: HashMap<Tenant, u16>) -> Round {
    let looked = tokio::task::spawn_blocking(move || closed_among(sockets, &first_ports)).await;
    let failed = |error| Round { error: Some(error), ..Round::default() };
    looked.map_err(io::Error::other).flatten().unwrap_or_else(failed)
}

fn closed_among(
    mut sockets: Vec<OwnedSocket>,
    first_ports: &HashMap<Tenant, u16>,
) -> io::Result<Round> {
    let kernel = UdpSockets::open()?;
    let mut round = Round::default();
    sockets.sort_unstable_by_key(|(owner, socket)| {
        let first_port = first_ports.get(owner).copied().unwrap_or(0);
        socket.local.port().wrapping_sub(first_port)
    });
    let mut in_doubt: HashMap<Tenant, VecDeque<UdpSocketId>> = HashMap::new();
    for (owner, socket) in sockets {
        match kernel.gets_packets(&socket) {
            Ok(true) => {}
            Ok(false) => in_doubt.entry(owner).or_default().push_back(socket),
            Err(error) => round.error = Some(error),
        }
    }
    // Owners in turn: many sockets of one don't delay another's.
    let mut lists = 0;
    while lists < LISTS_MAX {
        in_doubt.retain(|_, sockets| !sockets.is_empty());
        if in_doubt.is_empty() {
            break;
        }
        for socket in in_doubt.values_mut().filter_map(VecDeque::pop_front) {
            lists += 1;
            match kernel.are_on_port(&socket) {
                Ok(true) => {}
                Ok(false) => round.closed.push(socket),
                Err(error) => round.error = Some(error),
            }
        }
    }
    let next = |(owner, sockets): (_, VecDeque<UdpSocketId>)| {
        sockets.front().map(|socket| (owner, socket.local.port()))
    };
    round.next_ports = in_doubt.into_iter().filter_map(next).collect();
    Ok(round)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// A socket that is closed, whatever is at its port.
    fn closed(local: SocketAddr) -> UdpSocketId {
        UdpSocketId { cookie: u64::MAX, local, remote: None, interface: 0 }
    }

    /// One owner has more sockets in doubt than a round has lists for.
    #[test]
    fn closed_among__sockets_of_one_owner_delay_no_other() {
        let own = |port| (Tenant::User(1000), closed(([127, 0, 0, 1], port).into()));
        let mut sockets: Vec<_> = (1..=2 * LISTS_MAX as u16).map(own).collect();
        let other = (Tenant::User(1001), closed(([127, 0, 0, 1], u16::MAX).into()));
        sockets.push(other);
        let first = closed_among(sockets.clone(), &HashMap::new()).unwrap();
        assert!(first.closed.contains(&other.1), "the other owner has to wait");
        assert!(first.closed.len() <= LISTS_MAX + 1, "{}", first.closed.len());
        // The next rounds go on where this one ended.
        let second = closed_among(sockets.clone(), &first.next_ports).unwrap();
        let third = closed_among(sockets.clone(), &second.next_ports).unwrap();
        let mut found = [first.closed, second.closed, third.closed].concat();
        found.sort_unstable_by_key(|socket| socket.local.port());
        found.dedup();
        assert_eq!(found.len(), sockets.len());
    }
}
