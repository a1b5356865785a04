package org.netapprox.atp.flink.source;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Notices that no sender comes to an address, or too few: it warns, and fails in the end. */
final class Missing {
    private static final Logger LOG = LoggerFactory.getLogger(Missing.class);

    private static final long WARN_NANOS = TimeUnit.SECONDS.toNanos(10);

    private final SourceOptions options;
    private final String address;
    private final boolean fails;
    private long sinceNanos;
    private boolean hasWindow;
    private boolean hasWarned;

    /**
     * An unbounded source that has received windows before a restore may wait for the next one: its
     * senders may have none. A bounded one would wait for ever if its senders had ended since.
     */
    Missing(SourceOptions options, ListenSplit split, long nowNanos) {
        this.options = options;
        address = split.address();
        fails = options.senderNanos() > 0 && (options.isBounded() || split.streams().isEmpty());
        sinceNanos = nowNanos;
    }

    /** The time counts from now on. */
    void restart(long nowNanos) {
        sinceNanos = nowNanos;
    }

    void onWindow(long nowNanos) {
        if (!hasWindow) {
            hasWindow = true;
            hasWarned = false;
            sinceNanos = nowNanos;
        }
    }

    /**
     * Looks at a time at which no event is there.
     *
     * @throws IOException if no window has come in time
     */
    void check(StreamWatermarks streams, long nowNanos) throws IOException {
        long waitedNanos = nowNanos - sinceNanos;
        if (!hasWindow && fails && waitedNanos >= options.senderNanos()) {
            throw new IOException(
                    "no window has come to " + address + " in " + seconds(options.senderNanos())
                            + ": check that a sender sends to this address, that the source"
                            + " admits it, and that UDP reaches it, or set a longer"
                            + " senderTimeout");
        }
        if (hasWarned || waitedNanos < WARN_NANOS) {
            return;
        }
        if (!hasWindow) {
            hasWarned = true;
            LOG.warn("No window has come to {} for {}", address, seconds(waitedNanos));
        } else if (streams.isWaiting()) {
            hasWarned = true;
            LOG.warn(
                    "{} of {} streams have sent a window to {}: the watermark waits for the others",
                    streams.seen(),
                    options.streams(),
                    address);
        }
    }

    private static String seconds(long nanos) {
        return nanos / 1_000_000 / 1_000.0 + " s";
    }
}
