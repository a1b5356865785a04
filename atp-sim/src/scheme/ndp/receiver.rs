//! The receiving end: answers at once, and asks for more when it is its turn.

use super::{HEADER_WIRE_BYTES, PACKET_BYTES};
use crate::{
    net::{Body, Ndp, Packet},
    scheme::{Context, Endpoint, Route, cuts::Assembly},
};

/// The receiving end of a flow.
#[derive(Debug)]
pub struct NdpReceiver {
    /// Back to the sender.
    route: Route,
    assembly: Assembly,
    /// All that was heard of is below.
    seen: u32,
    /// The sender had nothing after this one.
    last: Option<u32>,
    /// Packets to ask for.
    pulls: u32,
    /// Packets that were asked for.
    pulled: u32,
    /// Nothing more comes.
    ended: bool,
    packets_sent: u32,
}

impl NdpReceiver {
    /// A receiver that has nothing. `route`: the flow's.
    pub fn new(route: Route) -> Self {
        Self {
            route: Route { sprayed: true, ..route.back() },
            assembly: Assembly::default(),
            seen: 0,
            last: None,
            pulls: 0,
            pulled: 0,
            ended: false,
            packets_sent: 0,
        }
    }

    /// Nothing that was heard of is missing, and the sender had nothing more.
    fn has_all(&self) -> bool {
        self.assembly.floor() == self.seen && self.last.is_some_and(|last| last + 1 == self.seen)
    }

    fn packet(&mut self, body: Ndp) -> Packet {
        self.packets_sent = self.packets_sent.wrapping_add(1);
        self.route.packet(HEADER_WIRE_BYTES, self.route.path(self.packets_sent), Body::Ndp(body))
    }
}

impl Endpoint for NdpReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let data = match packet.body {
            Body::Ndp(Ndp::Data(data)) if !self.ended => data,
            Body::Ndp(Ndp::End) => {
                (self.ended, self.pulls) = (true, 0);
                return;
            }
            _ => return,
        };
        let number = data.cut.number;
        self.seen = self.seen.max(number + 1);
        if data.last {
            self.last = self.last.max(Some(number));
        }
        self.pulls += 1;
        let answer = if data.trimmed {
            Ndp::Nack { number, pulled: self.pulled }
        } else {
            *context.delivered += self.assembly.take(&data.cut);
            if self.has_all() {
                self.pulled += self.pulls;
                self.pulls = 0;
            }
            Ndp::Ack { number, pulled: self.pulled }
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
        // What leaves anyway takes it along.
        if let Some(Body::Ndp(Ndp::Ack { pulled, .. } | Ndp::Nack { pulled, .. })) =
            context.out.last_mut().map(|answer| &mut answer.body)
        {
            *pulled = self.pulled;
        } else {
            let pull = self.packet(Ndp::Pull { pulled: self.pulled });
            context.out.push(pull);
        }
        PACKET_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Cut, NdpData};

    fn receiver() -> NdpReceiver {
        NdpReceiver::new(Route { flow: 0, source: 0, destination: 1, sprayed: true })
    }

    fn data(number: u32, last: bool, trimmed: bool) -> Ndp {
        let cut = Cut { number, whole: 1, ..Cut::default() };
        Ndp::Data(NdpData { cut, last, trimmed })
    }

    /// What it answers, before the host lets it pull and after that.
    fn call(receiver: &mut NdpReceiver, body: Ndp, pulls: bool) -> (Vec<Ndp>, u32) {
        let packet = receiver.packet(body);
        let (mut out, mut delivered) = (Vec::new(), 0);
        let mut context = Context { now_ps: 0, out: &mut out, delivered: &mut delivered };
        receiver.arrive(&mut context, &packet);
        if pulls && receiver.wants_pull() {
            receiver.pull(&mut context);
        }
        let bodies = out.into_iter().map(|packet| match packet.body {
            Body::Ndp(body) => body,
            body => panic!("{body:?}"),
        });
        (bodies.collect(), delivered)
    }

    /// NDP §3.2: data is acknowledged, a header negatively; either is one more to pull, and where nothing
    /// holds the pull up it goes along (footnote 4).
    #[test]
    fn receiver__answers_and_pulls() {
        let mut receiver = receiver();
        let ack = vec![Ndp::Ack { number: 0, pulled: 1 }];
        assert_eq!(call(&mut receiver, data(0, false, false), true), (ack, 1));
        let nack = vec![Ndp::Nack { number: 1, pulled: 1 }];
        assert_eq!(call(&mut receiver, data(1, false, true), false), (nack, 0));
        let (mut out, mut delivered) = (Vec::new(), 0);
        receiver.pull(&mut Context { now_ps: 0, out: &mut out, delivered: &mut delivered });
        assert!(matches!(out[0].body, Body::Ndp(Ndp::Pull { pulled: 2 })));
        assert!(!receiver.wants_pull());
    }

    /// NDP §3.2: with the last packet, and nothing missing, pulls that wait are taken back.
    #[test]
    fn receiver__asks_for_nothing_when_it_has_all() {
        let mut receiver = receiver();
        call(&mut receiver, data(2, true, false), false);
        call(&mut receiver, data(0, false, false), false);
        // A header is no packet.
        call(&mut receiver, data(1, false, true), false);
        assert_eq!(receiver.pulls, 3);
        let ack = vec![Ndp::Ack { number: 1, pulled: 4 }];
        assert_eq!(call(&mut receiver, data(1, false, false), true), (ack, 1));
        assert!(!receiver.wants_pull());
        // More comes: again it asks.
        call(&mut receiver, data(3, false, false), false);
        assert!(receiver.wants_pull());
        call(&mut receiver, Ndp::End, false);
        assert!(!receiver.wants_pull());
    }
}
