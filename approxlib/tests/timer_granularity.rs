//! Tests of `JobBuilder::timer_granularity` with the userspace datapath.

use approxlib::{Error, Job, JobBuilder};
use atp_common::wire::{Header, Kind};
use atp_proto::ConfigError;
use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

/// First timeouts are twenty to forty times the timer granularity.
const TIMEOUT_FACTOR_MIN: u32 = 20;

fn job() -> JobBuilder {
    Job::builder().control_socket(None).messages(1)
}

#[test]
fn connect__takes_a_timer_granularity_of_1_us_to_25_ms() {
    let peer: SocketAddr = "127.0.0.1:9".parse().unwrap();
    for timer_granularity in [Duration::from_micros(1), Duration::from_millis(25)] {
        drop(job().timer_granularity(timer_granularity).connect(peer).unwrap());
    }
    let refused = [0, 999, 25_000_001].map(|ns| (Duration::from_nanos(ns), ns));
    for (timer_granularity, configured_ns) in refused.into_iter().chain([(Duration::MAX, u64::MAX)])
    {
        let error = job().timer_granularity(timer_granularity).connect(peer).unwrap_err();
        assert!(
            matches!(error, Error::Options(ConfigError::TimerGranularity(ns)) if ns == configured_ns)
        );
        let text = error.to_string();
        assert!(text.starts_with("the job's options are invalid: "), "{text}");
        for number in [configured_ns, 1_000, 25_000_000] {
            assert!(text.contains(&number.to_string()), "{text} does not name {number}");
        }
    }
}

/// A silent receiver sees when copies of a message come, which shows the transport's first
/// timeouts.
#[test]
fn timer_granularity__decides_the_first_timeout() {
    // Never shorter than the timeout, however slow the machine is.
    let timer_granularity = Duration::from_millis(25);
    let (began, copies) = first_copies(timer_granularity, 2);
    let long = copies[1] - began;
    assert!(long >= TIMEOUT_FACTOR_MIN * timer_granularity, "{long:?}");
    // A delay of this thread may hide a short timeout: so there are many attempts.
    let default = Duration::from_millis(1);
    let limit = Instant::now() + Duration::from_secs(60);
    let is_short = |pair: &[Instant]| pair[1] - pair[0] < TIMEOUT_FACTOR_MIN * default;
    while !first_copies(Duration::from_micros(1), 7).1.windows(2).any(is_short) {
        assert!(Instant::now() < limit, "no timeout was short");
    }
}

/// When a message was sent, and when the first copies of it came.
fn first_copies(timer_granularity: Duration, count: usize) -> (Instant, Vec<Instant>) {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut job =
        job().timer_granularity(timer_granularity).connect(silent.local_addr().unwrap()).unwrap();
    let began = Instant::now();
    job.send(b"anybody there?").unwrap();
    (began, (0..count).map(|_| next_data(&silent)).collect())
}

fn next_data(socket: &UdpSocket) -> Instant {
    let mut packet = [0; 2_048];
    loop {
        let len = socket.recv(&mut packet).unwrap();
        if let Ok((_, Kind::Data)) = Header::parse(&packet[..len]) {
            return Instant::now();
        }
    }
}
