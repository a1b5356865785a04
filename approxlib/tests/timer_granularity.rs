//! What a job says of how late its hosts are (`JobBuilder::timer_granularity`), datapath in userspace.

use approxlib::{Error, Job, JobBuilder};
use atp_common::wire::{Header, Kind};
use atp_proto::ConfigError;
use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

/// First timeouts are twenty to forty times the timer_granularity.
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
    for (timer_granularity, told_ns) in refused.into_iter().chain([(Duration::MAX, u64::MAX)]) {
        let error = job().timer_granularity(timer_granularity).connect(peer).unwrap_err();
        assert!(
            matches!(error, Error::Options(ConfigError::TimerGranularity(ns)) if ns == told_ns)
        );
        assert_eq!(
            error.to_string(),
            format!(
                "the job's options make no sense: \
                 invalid timer granularity of {told_ns} ns: choose 1000 to 25000000"
            )
        );
    }
}

/// Copies of a message to a receiver that says nothing tell which first timeout the transport was
/// given.
#[test]
fn timer_granularity__decides_when_what_is_silent_is_sent_again() {
    let default = Duration::from_millis(1);
    // The shortest of some gaps: this thread may be held up in any of them.
    let short = gaps(Duration::from_micros(1), 6).into_iter().min().unwrap();
    assert!(short < TIMEOUT_FACTOR_MIN * default, "{short:?}");
    // Half of it: the first copy may have waited for this thread.
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
