//! The receiver: answers every packet at once, and pulls more when the host's pull queue selects
//! the flow.

use super::{HEADER_WIRE_BYTES, NdpBody, PACKET_BYTES};
use crate::{
    net::Content,
    scheme::{Body, Context, Endpoint, Packet, Route, segments::Reassembly},
};

/// The receiver of a flow.
#[derive(Debug)]
pub struct NdpReceiver {
    /// The route back to the sender.
    route: Route,
    reassembly: Reassembly,
    /// All packets known so far have numbers below this.
    seen: u32,
    /// The highest packet that the sender called its last.
    last: Option<u32>,
    /// Number of packets to request.
    pulls: u32,
    /// Number of packets requested so far.
    pulled: u32,
    /// Whether the sender has stopped.
    ended: bool,
    packets_sent: u32,
}

impl NdpReceiver {
    /// Makes a receiver without data. `route` is the flow's.
    pub fn new(route: Route) -> Self {
        Self {
            route: route.back(),
            reassembly: Reassembly::default(),
            seen: 0,
            last: None,
            pulls: 0,
            pulled: 0,
            ended: false,
            packets_sent: 0,
        }
    }

    /// Whether no known packet is missing, and the sender had nothing more.
    fn has_all(&self) -> bool {
        self.reassembly.floor() == self.seen && self.last.is_some_and(|last| last + 1 == self.seen)
    }

    fn packet(&mut self, body: NdpBody) -> Packet {
        self.packets_sent = self.packets_sent.wrapping_add(1);
        self.route.packet(HEADER_WIRE_BYTES, self.route.path(self.packets_sent), body)
    }
}

impl Endpoint for NdpReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let data = match packet.body {
            Body::Ndp(NdpBody::Data(data)) if !self.ended => data,
            Body::Ndp(NdpBody::End) => {
                (self.ended, self.pulls) = (true, 0);
                return;
            }
            _ => return,
        };
        let number = data.contents.number;
        self.seen = self.seen.max(number + 1);
        if data.last {
            self.last = self.last.max(Some(number));
        }
        self.pulls += 1;
        let answer = if packet.label.content == Content::Header {
            NdpBody::Nack { number, pulled: self.pulled }
        } else {
            *context.delivered += self.reassembly.take(&data.contents);
            if self.has_all() {
                self.pulled += self.pulls;
                self.pulls = 0;
            }
            NdpBody::Ack { number, pulled: self.pulled }
        };
        let answer = self.packet(answer);
        context.out.push(answer);
    }

    fn wants_pull(&self) -> bool {
        self.pulls > 0
    }

    fn pull(&mut self, context: &mut Context<'_>) -> u32 {
        self.pulls -= 1;
        self.pulled += 1;
        // An answer that is about to be sent carries the request.
        if let Some(Body::Ndp(NdpBody::Ack { pulled, .. } | NdpBody::Nack { pulled, .. })) =
            context.out.last_mut().map(|answer| &mut answer.body)
        {
            *pulled = self.pulled;
        } else {
            let pull = self.packet(NdpBody::Pull { pulled: self.pulled });
            context.out.push(pull);
        }
        PACKET_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{PacketBody, PacketContents, ndp::NdpData};

    fn receiver() -> NdpReceiver {
        NdpReceiver::new(Route { flow: 0, source: 0, destination: 1, sprayed: true, path: 0 })
    }

    fn data(number: u32, last: bool) -> NdpBody {
        let contents = PacketContents { number, complete: 1, ..PacketContents::default() };
        NdpBody::Data(NdpData { contents, last })
    }

    /// A packet as its sender sends it.
    fn packet(receiver: &mut NdpReceiver, body: NdpBody) -> Packet {
        let mut packet = receiver.packet(body);
        packet.label.content = body.content(&packet.label);
        packet
    }

    /// A packet after a switch has trimmed it.
    fn trimmed(receiver: &mut NdpReceiver, body: NdpBody) -> Packet {
        let mut packet = receiver.packet(body);
        packet.label.content = Content::Header;
        packet
    }

    /// The receiver's answers to a packet. `pulls` means that the host lets it pull at once.
    fn call(receiver: &mut NdpReceiver, packet: &Packet, pulls: bool) -> (Vec<NdpBody>, u32) {
        let (mut out, mut delivered) = (Vec::new(), 0);
        let mut context = Context {
            now_ps: 0,
            out: &mut out,
            delivered: &mut delivered,
            host: &mut crate::scheme::HostState::new(0),
        };
        receiver.arrive(&mut context, packet);
        if pulls && receiver.wants_pull() {
            receiver.pull(&mut context);
        }
        let bodies = out.into_iter().map(|packet| match packet.body {
            Body::Ndp(body) => body,
            body => panic!("{body:?}"),
        });
        (bodies.collect(), delivered)
    }

    /// NDP §3.2: a data packet gets an acknowledgment and a header a negative one. Either adds a
    /// pull, which is part of the answer if nothing delays it (footnote 4).
    #[test]
    fn receiver__answers_and_pulls() {
        let mut receiver = receiver();
        let ack = vec![NdpBody::Ack { number: 0, pulled: 1 }];
        let first = packet(&mut receiver, data(0, false));
        assert_eq!(call(&mut receiver, &first, true), (ack, 1));
        let nack = vec![NdpBody::Nack { number: 1, pulled: 1 }];
        let header = trimmed(&mut receiver, data(1, false));
        assert_eq!(call(&mut receiver, &header, false), (nack, 0));
        let (mut out, mut delivered) = (Vec::new(), 0);
        receiver.pull(&mut Context {
            now_ps: 0,
            out: &mut out,
            delivered: &mut delivered,
            host: &mut crate::scheme::HostState::new(0),
        });
        assert!(matches!(out[0].body, Body::Ndp(NdpBody::Pull { pulled: 2 })));
        assert!(!receiver.wants_pull());
    }

    /// NDP §3.2: when the last packet arrives and none is missing, waiting pulls are taken back.
    #[test]
    fn receiver__requests_nothing_when_it_has_all() {
        let mut receiver = receiver();
        for (number, last) in [(2, true), (0, false)] {
            let packet = packet(&mut receiver, data(number, last));
            call(&mut receiver, &packet, false);
        }
        // A header does not count as a packet.
        let header = trimmed(&mut receiver, data(1, false));
        call(&mut receiver, &header, false);
        assert_eq!(receiver.pulls, 3);
        let ack = vec![NdpBody::Ack { number: 1, pulled: 4 }];
        let second = packet(&mut receiver, data(1, false));
        assert_eq!(call(&mut receiver, &second, true), (ack, 1));
        assert!(!receiver.wants_pull());
        // More data: it requests again.
        let more = packet(&mut receiver, data(3, false));
        call(&mut receiver, &more, false);
        assert!(receiver.wants_pull());
        let end = packet(&mut receiver, NdpBody::End);
        call(&mut receiver, &end, false);
        assert!(!receiver.wants_pull());
    }
}
