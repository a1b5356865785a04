//! The receiver: gives credits, and reports the received data.

use super::{
    AeolusBody, AeolusReport, AeolusSettings, CONTROL_BYTES,
    credits::{Law, credit_bytes},
    packet,
};
use crate::{
    net::CREDIT_DSCP,
    scheme::{
        Body, Context, Endpoint, Packet, Route,
        stream::{Incoming, Segment},
    },
};

/// The receiver of a flow.
#[derive(Debug)]
pub struct AeolusReceiver {
    /// The route back to the sender.
    route: Route,
    settings: AeolusSettings,
    stream: Incoming,
    /// The largest transmission received.
    transmission: u64,
    /// The transmission of the latest request or stop.
    requested: u64,
    /// The state of giving credits, while the sender wants some.
    giving: Option<Giving>,
    /// The next credit's number.
    number: u32,
    /// The first credit that may still be used or lost.
    unknown: u32,
    /// Mean time from a credit to the data that answers it.
    round_trip_ps: u64,
}

/// The state of a receiver that gives credits.
#[derive(Clone, Copy, Debug)]
struct Giving {
    law: Law,
    next_ps: u64,
    /// The first credit sent at the present rate. Earlier credits don't count, because they would
    /// reduce the rate twice for one loss.
    first: u32,
    /// Number of credits from `first` on that are known to be used or lost.
    known: u32,
    /// Number of lost credits among the known ones.
    lost: u32,
    /// The time when the first of the known credits became known.
    since_ps: u64,
}

impl AeolusReceiver {
    /// Makes a receiver without data. `route` is the flow's.
    pub fn new(route: Route, settings: AeolusSettings) -> Self {
        Self {
            route: route.back(),
            settings,
            stream: Incoming::default(),
            transmission: 0,
            requested: 0,
            giving: None,
            number: 0,
            unknown: 0,
            round_trip_ps: settings.round_trip_ps,
        }
    }

    fn report(&self) -> AeolusReport {
        AeolusReport {
            cumulative: self.stream.cumulative(),
            hole_end: self.stream.hole_end(),
            transmission: self.transmission,
        }
    }

    fn acknowledge(&self, context: &mut Context<'_>, transmission: u64, sequence: Option<u64>) {
        let ack = AeolusBody::Ack { sequence, transmission, report: self.report() };
        let path = self.route.path(transmission as u32);
        context.out.push(packet(self.route, path, 0, CONTROL_BYTES, ack));
    }

    /// Takes a request for credits, which may be a repetition.
    fn take_request(&mut self, now_ps: u64, transmission: u64) {
        // A later request or stop has overtaken this one.
        if transmission < self.requested {
            return;
        }
        self.requested = transmission;
        if self.giving.is_none() {
            let AeolusSettings { bits_per_s, round_trip_ps, .. } = self.settings;
            let law = Law::new(bits_per_s, round_trip_ps);
            let first = self.number;
            self.giving =
                Some(Giving { law, next_ps: now_ps, first, known: 0, lost: 0, since_ps: now_ps });
        }
    }

    fn take_stop(&mut self, transmission: u64) {
        if transmission >= self.requested {
            self.requested = transmission;
            self.giving = None;
        }
    }

    /// Records that credit `number` was used. Unused earlier credits were dropped, or found no
    /// data.
    fn note_used(&mut self, now_ps: u64, number: u32, sent_ps: u64) {
        let sample_ps = now_ps - sent_ps;
        self.round_trip_ps = (4 * self.round_trip_ps + sample_ps) / 5;
        let unknown = self.unknown;
        self.unknown = unknown.max(number + 1);
        let Some(giving) = &mut self.giving else { return };
        let Some(skipped) = number.checked_sub(unknown.max(giving.first)) else { return };
        if giving.known == 0 {
            giving.since_ps = now_ps;
        }
        giving.known += skipped + 1;
        giving.lost += skipped;
    }
}

impl Endpoint for AeolusReceiver {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        let Body::Aeolus(body) = packet.body else { return };
        let now_ps = context.now_ps;
        match body {
            AeolusBody::Segment { sequence, bytes, messages, transmission, credit } => {
                self.transmission = self.transmission.max(transmission);
                *context.delivered += self.stream.take(Segment { sequence, bytes, messages });
                match credit {
                    Some((number, sent_ps)) => self.note_used(now_ps, number, sent_ps),
                    None => self.acknowledge(context, transmission, Some(sequence)),
                }
            }
            AeolusBody::Request { transmission }
            | AeolusBody::Probe { transmission }
            | AeolusBody::Stop { transmission } => {
                self.transmission = self.transmission.max(transmission);
                match body {
                    AeolusBody::Request { .. } => self.take_request(now_ps, transmission),
                    AeolusBody::Stop { .. } => self.take_stop(transmission),
                    _ => {}
                }
                self.acknowledge(context, transmission, None);
            }
            AeolusBody::Credit { .. } | AeolusBody::Ack { .. } => {}
        }
    }

    /// Sends a credit.
    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ps = context.now_ps;
        let report = self.report();
        // At least the fabric's round trip: a flow that evaluates more often gets more than others.
        let period_ps = self.round_trip_ps.max(self.settings.round_trip_ps);
        let Some(giving) = &mut self.giving else { return };
        if now_ps < giving.next_ps {
            return;
        }
        if giving.known > 0 && now_ps - giving.since_ps >= period_ps {
            giving.law.update(giving.known, giving.lost);
            (giving.first, giving.known, giving.lost) = (self.number, 0, 0);
        }
        let (flow, number) = (self.route.flow, self.number);
        giving.next_ps = now_ps + giving.law.gap_ps(self.settings.bits_per_s, flow, number).max(1);
        self.number += 1;
        let credit = AeolusBody::Credit { number, sent_ps: now_ps, report };
        let path = self.route.path(number);
        let bytes = credit_bytes(flow, number);
        context.out.push(packet(self.route, path, CREDIT_DSCP, bytes, credit));
    }

    fn wake_ps(&self) -> Option<u64> {
        Some(self.giving?.next_ps)
    }
}
