//! Sends the endpoint's replies.

use crate::udp::{Outgoing, SendBatch, UdpSocket};
use atp_proto::endpoint::{Ends, Replies};
use std::io::ErrorKind::WouldBlock;

/// Sends all packets, and clears the list.
pub fn send_replies(replies: &mut Replies, socket: &UdpSocket, batch: &mut SendBatch) {
    let outgoing =
        replies.packets().map(|(head, to)| Outgoing { to: Some(to), ..Outgoing::control(head) });
    let mut outgoing: Vec<_> = outgoing.collect();
    let mut left = &mut outgoing[..];
    while let Some(first) = left.first().and_then(|first| first.to) {
        let sent = match batch.send(socket, left) {
            // The sender's address for this host is no source, such as a broadcast, or has gone
            // since: the kernel chooses another one.
            Err(error) if first.local.is_some() && error.kind() != WouldBlock => {
                left[0].to = Some(Ends { local: None, ..first });
                continue;
            }
            // A packet that can't leave is lost: senders repeat packets that get no answer.
            // Skip only the one that fails, perhaps because its source can't be reached.
            sent => sent.unwrap_or(1).clamp(1, left.len()),
        };
        left = &mut left[sent..];
    }
    drop(outgoing);
    replies.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_replies__from_another_address_if_the_asked_one_is_gone() {
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        peer.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let source = peer.local_addr().unwrap();
        let mut replies = Replies::default();
        for (byte, local) in [(1, "127.0.0.1"), (2, "192.0.2.1"), (3, "127.0.0.1")] {
            let ends = Ends { source, local: Some(local.parse().unwrap()) };
            replies.control(ends, |out| {
                out[0] = byte;
                1
            });
        }
        send_replies(&mut replies, &socket, &mut SendBatch::new());
        let mut arrived = [0; 3];
        for byte in &mut arrived {
            peer.recv(std::slice::from_mut(byte)).unwrap();
        }
        assert_eq!(arrived, [1, 2, 3]);
    }
}
