package org.netapprox.atp.flink.sink;

/**
 * The pace at which a writer takes records once its log is half full of those that it holds. Else a
 * job that catches up would fill the log before a checkpoint can release any, and fail.
 */
final class HoldPace {
    /** The other half of the log takes this many intervals of checkpoints. */
    private static final double INTERVALS = 2;

    private final long logBytesMax;
    private final long intervalMs;

    /**
     * A pace.
     *
     * @param logBytesMax the most bytes of the log
     * @param intervalMs the interval of checkpoints; 0: not known, so that there is no pause
     */
    HoldPace(long logBytesMax, long intervalMs) {
        this.logBytesMax = logBytesMax;
        this.intervalMs = intervalMs;
    }

    /** Whether the log has so much that records are taken slowly. */
    boolean isSlow(long logBytes) {
        return intervalMs > 0 && logBytes > logBytesMax / 2;
    }

    /** The pause after this many bytes of records, nanoseconds. */
    long pauseNanos(long bytes) {
        double share = bytes / (logBytesMax / 2.0);
        return (long) (share * INTERVALS * intervalMs * 1e6);
    }
}
