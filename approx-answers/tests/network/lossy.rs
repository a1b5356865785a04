//! A line that loses packets at random, in front of an endpoint.

use atp_sim::scheme::{Context, Endpoint, Packet, Probe};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// An endpoint that random packets don't reach. A line with bit errors loses packets like this,
/// whatever their queue.
pub struct Lossy<E> {
    pub endpoint: E,
    /// The share of packets that are lost.
    pub share: f64,
    pub draws: ChaCha8Rng,
}

impl<E: Endpoint> Endpoint for Lossy<E> {
    fn arrive(&mut self, context: &mut Context<'_>, packet: &Packet) {
        if self.share == 0.0 || !self.draws.random_bool(self.share) {
            self.endpoint.arrive(context, packet);
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        self.endpoint.wake(context);
    }

    fn wake_ps(&self) -> Option<u64> {
        self.endpoint.wake_ps()
    }

    fn ready_ps(&self) -> Option<u64> {
        self.endpoint.ready_ps()
    }

    fn next_packet(&mut self, now_ps: u64) -> Option<Packet> {
        self.endpoint.next_packet(now_ps)
    }

    fn queue(&mut self, context: &mut Context<'_>, bytes: u32) {
        self.endpoint.queue(context, bytes);
    }

    fn finish(&mut self, context: &mut Context<'_>) {
        self.endpoint.finish(context);
    }

    fn has_ended(&self) -> bool {
        self.endpoint.has_ended()
    }

    fn probe(&self) -> Option<Probe> {
        self.endpoint.probe()
    }
}
