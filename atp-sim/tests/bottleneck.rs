//! The job that `cargo xtask bench reality` also runs on the kernel testbed.

use atp_sim::experiment::Bottleneck;

/// NetApprox §4: the line carries the needed messages and little else. The loss is close to the
/// allowed loss.
#[test]
fn bottleneck__carries_little_more_than_needed() {
    let cases = [(2_500_000, 700, 0), (25_000_000, 4_500, 0), (25_000_000, 4_500, 2_000_000)];
    for (rate_bytes_per_s, messages, advice_ns) in cases {
        for msr in [0.5, 0.8, 0.95, 1.0] {
            let job = Bottleneck {
                senders: 4,
                rate_bytes_per_s,
                latency_ns: 5_000,
                messages,
                message_bytes: 1_400,
                msr,
                marks: true,
                epoch_ns_min: 2_000_000,
                receipt_delay_ns: 2_000_000,
                sample_us: 10_000,
                advice_ns,
                window_packets: 0,
                paper_queues: true,
            };
            let outcome = job.run();
            // With 74 bytes of headers, as Linux counts them.
            let needed_bytes = f64::from(4 * messages) * msr * 1_474.0;
            let of_ideal = outcome.completion_s / (needed_bytes / rate_bytes_per_s as f64);
            assert!((1.0..1.2).contains(&of_ideal), "{of_ideal} of ideal: {job:?}, {outcome:?}");
            assert!(advice_ns == 0 || outcome.dropped_share < 0.05, "{job:?}: {outcome:?}");
            assert!(outcome.tlr <= 1.0 - msr + 1e-3, "{job:?}: {outcome:?}");
            let sent = 4.0 * outcome.rate_bytes_per_s * outcome.completion_s / 1_474.0;
            let ratio = outcome.packets_sent as f64 / sent;
            assert!(ratio < 1.05, "{ratio} of what the rates allow: {job:?}, {outcome:?}");
        }
    }
}
