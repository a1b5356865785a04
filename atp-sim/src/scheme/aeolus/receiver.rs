//! The receiving end: gives out credits, and says what is here.

use super::{
    AeolusSettings, CONTROL_BYTES,
    credits::{Law, credit_bytes},
    packet,
};
use crate::{
    net::{Aeolus, AeolusReport, Body, CREDIT_DSCP, Packet},
    scheme::{
        Context, Endpoint, Route,
        stream::{Incoming, Segment},
    },
};

/// The receiving end of a flow.
#[derive(Debug)]
pub struct AeolusReceiver {
    /// Back to the sender.
    route: Route,
    settings: AeolusSettings,
    stream: Incoming,
    /// The latest turn of the sender.
    turn: u64,
    /// The latest request or stop.
    asked_turn: u64,
    /// While the sender wants credits.
    giving: Option<Giving>,
    /// The next credit's number.
    number: u32,
    /// The first credit of which it isn't known whether it was used.
    unknown: u32,
    /// From a credit to the data that answers it, on the average.
    round_trip_ps: u64,
}

/// How credits are given.
#[derive(Clone, Copy, Debug)]
struct Giving {
    law: Law,
    next_ps: u64,
    /// The first credit that was sent at the present rate. Those before say nothing of it: evaluated by
    /// them, a rate would be lowered twice for one loss.
    first: u32,
    /// Of credits from that on, of how many it is known whether they were used.
    known: u32,
    /// And how many weren't.
    lost: u32,
    /// When the first of them was known of.
    since_ps: u64,
}

impl AeolusReceiver {
    /// A receiver that has nothing. `route`: the flow's.
    pub fn new(route: Route, settings: AeolusSettings) -> Self {
        Self {
            route: route.back(),
            settings,
            stream: Incoming::default(),
            turn: 0,
            asked_turn: 0,
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
            turn: self.turn,
        }
    }

    fn acknowledge(&self, context: &mut Context<'_>, turn: u64, sequence: Option<u64>) {
        let ack = Aeolus::Ack { sequence, turn, report: self.report() };
        let path = self.route.path(turn as u32);
        context.out.push(packet(self.route, path, 0, CONTROL_BYTES, ack));
    }

    /// The sender asks for credits, or repeats it.
    fn take_request(&mut self, now_ps: u64, turn: u64) {
        // One that was overtaken by a later word.
        if turn < self.asked_turn {
            return;
        }
        self.asked_turn = turn;
        if self.giving.is_none() {
            let AeolusSettings { bits_per_s, round_trip_ps, .. } = self.settings;
            let law = Law::new(bits_per_s, round_trip_ps);
            let first = self.number;
            self.giving =
                Some(Giving { law, next_ps: now_ps, first, known: 0, lost: 0, since_ps: now_ps });
        }
    }

    fn take_stop(&mut self, turn: u64) {
        if turn >= self.asked_turn {
            self.asked_turn = turn;
            self.giving = None;
        }
    }

    /// Credit `number` was used: those before it that weren't were dropped, or found nothing to send.
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
            Aeolus::Segment { sequence, bytes, messages, turn, credit } => {
                self.turn = self.turn.max(turn);
                *context.delivered += self.stream.take(Segment { sequence, bytes, messages });
                match credit {
                    Some((number, sent_ps)) => self.note_used(now_ps, number, sent_ps),
                    None => self.acknowledge(context, turn, Some(sequence)),
                }
            }
            Aeolus::Request { turn } | Aeolus::Probe { turn } | Aeolus::Stop { turn } => {
                self.turn = self.turn.max(turn);
                match body {
                    Aeolus::Request { .. } => self.take_request(now_ps, turn),
                    Aeolus::Stop { .. } => self.take_stop(turn),
                    _ => {}
                }
                self.acknowledge(context, turn, None);
            }
            Aeolus::Credit { .. } | Aeolus::Ack { .. } => {}
        }
    }

    /// A credit is due.
    fn wake(&mut self, context: &mut Context<'_>) {
        let now_ps = context.now_ps;
        let report = self.report();
        // The fabric's at least: who evaluated more often than others would get more.
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
        let credit = Aeolus::Credit { number, sent_ps: now_ps, report };
        let path = self.route.path(number);
        let bytes = credit_bytes(flow, number);
        context.out.push(packet(self.route, path, CREDIT_DSCP, bytes, credit));
    }

    fn wake_ps(&self) -> Option<u64> {
        Some(self.giving?.next_ps)
    }
}
