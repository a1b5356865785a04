//! The exact traffic of a testbed: a client in each sending host, a server in the receiving host.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::clock;
use super::exact::{Load, Requests};
use super::fleet::Fleet;
use super::protocol::{Order, Reply, Role};
use testbed::{Host, Testbed};

/// The time for connections to open and caches to warm up.
const WARM_UP_NS: u64 = 1_000_000_000;
const START_LEAD_NS: u64 = 50_000_000;
/// The time limit for the clients' results; longer than their wait for responses.
const RESULTS_MAX: Duration = Duration::from_secs(30);

/// Running exact traffic.
pub struct Traffic {
    fleet: Fleet,
    clients: Vec<usize>,
}

impl Traffic {
    /// Starts `requests_per_s` requests, summed over all hosts, and returns after the warm-up.
    pub fn start(testbed: &Testbed, requests_per_s: f64, seed: u64) -> Result<Traffic> {
        let load = Load { requests_per_s, at_once: 1 };
        let traffic = Traffic::between(testbed.senders(), testbed.receiver(), load, seed)?;
        clock::sleep_until(clock::now_ns() + WARM_UP_NS)?;
        Ok(traffic)
    }

    /// Starts a client in each of `hosts`, which share the load.
    pub fn between(hosts: &[Host], server: &Host, load: Load, seed: u64) -> Result<Traffic> {
        let mut fleet = Fleet::new();
        let bind = server.ipv4.into();
        let number = fleet.start(server, &Role::ExactServer { bind })?;
        let server = SocketAddr::new(bind, fleet.ready(number)?);
        let load = Load { requests_per_s: load.requests_per_s / hosts.len() as f64, ..load };
        let mut clients = Vec::new();
        for (number, host) in (0..).zip(hosts) {
            let seed = seed.wrapping_mul(1_000).wrapping_add(number);
            clients.push(fleet.start(host, &Role::ExactClient { server, load, seed })?);
        }
        fleet.all_ready(&clients)?;
        let at_ns = clock::now_ns() + START_LEAD_NS;
        for &client in &clients {
            fleet.order(client, Order::Start { at_ns })?;
        }
        clock::sleep_until(at_ns)?;
        Ok(Traffic { fleet, clients })
    }

    /// Ends the traffic and returns all requests, including those of the warm-up.
    pub fn finish(mut self) -> Result<Requests> {
        for &client in &self.clients {
            self.fleet.order(client, Order::Stop)?;
        }
        let deadline = Instant::now() + RESULTS_MAX;
        let mut all = Requests::default();
        for _ in &self.clients {
            match self.fleet.next(deadline)? {
                (_, Reply::Requests(requests)) => {
                    all.times_ns.extend(requests.times_ns);
                    all.unanswered += requests.unanswered;
                }
                (worker, reply) => return Err(self.fleet.unexpected(worker, &reply)),
            }
        }
        Ok(all)
    }
}
