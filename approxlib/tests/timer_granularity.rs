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

/// A silent receiver sees when copies of a message come. Their gaps show the transport's first
/// timeouts.
#[test]
fn timer_granularity__decides_the_first_timeout() {
    let default = Duration::from_millis(1);
    // The shortest of some gaps, because this thread may be delayed in any of them.
    let short = gaps(Duration::from_micros(1), 6).into_iter().min().unwrap();
    assert!(short < TIMEOUT_FACTOR_MIN * default, "{short:?}");
    // Half of the timeout, because the first copy may have waited for this thread.
    let timer_granularity = Duration::from_millis(25);
    let long = gaps(timer_granularity, 1)[0];
    assert!(long > TIMEOUT_FACTOR_MIN * timer_granularity / 2, "{long:?}");
}

/// The time from each of the first copies of a message to the next.
fn gaps(timer_granularity: Duration, count: usize) -> Vec<Duration> {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut job =
        job().timer_granularity(timer_granularity).connect(silent.local_addr().unwrap()).unwrap();
    job.send(b"anybody there?").unwrap();
    let copies: Vec<Instant> = (0..=count).map(|_| next_data(&silent)).collect();
    copies.windows(2).map(|pair| pair[1] - pair[0]).collect()
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
