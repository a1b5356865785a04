package org.netapprox.atp.flink.source;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Notices that no sender comes to an address, or too few: it warns, and fails in the end.
 *
 * <p>A bounded source also fails if nothing more comes before its streams have ended. A sender may
 * have failed, or have said that it ended to an attempt whose checkpoint doesn't know of it.
 */
final class Missing {
    private static final Logger LOG = LoggerFactory.getLogger(Missing.class);

    private static final long WARN_NANOS = TimeUnit.SECONDS.toNanos(10);

    private final SourceOptions options;
    private final String address;
    private final boolean fails;
    private long sinceNanos;
    private long silentNanos;
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
        restart(nowNanos);
    }

    /** The time counts from now on. */
    void restart(long nowNanos) {
        sinceNanos = nowNanos;
        silentNanos = nowNanos;
    }

    /** For this time the reader has waited for the task, not for senders. */
    void leaveOut(long nanos) {
        silentNanos += nanos;
    }

    /** A window waits for the task: its stream's next one can't come. */
    void onUnconfirmed(long nowNanos) {
        silentNanos = nowNanos;
    }

    void onEnded(long nowNanos) {
        silentNanos = nowNanos;
    }

    void onWindow(long nowNanos) {
        silentNanos = nowNanos;
        if (!hasWindow) {
            hasWindow = true;
            hasWarned = false;
            sinceNanos = nowNanos;
        }
    }

    /**
     * Looks at a time at which no event is there.
     *
     * @throws IOException if no window has come in time, or no more of streams that have to end
     */
    void check(StreamWatermarks streams, long nowNanos) throws IOException {
        boolean awaits = fails && (options.isBounded() || !hasWindow);
        if (awaits && nowNanos - silentNanos >= options.senderNanos()) {
            throw new IOException(
                    options.isBounded() && streams.seen() > 0 ? unended(streams) : noWindow());
        }
        long waitedNanos = nowNanos - sinceNanos;
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

    private String noWindow() {
        return "no window has come to " + address + " in " + seconds(options.senderNanos())
                + ": check that a sender sends to this address, that the source admits it, and"
                + " that UDP reaches it, or set a longer senderTimeout";
    }

    private String unended(StreamWatermarks streams) {
        String silence =
                ", and nothing has come to " + address + " in " + seconds(options.senderNanos());
        return streams.open()
                .map(
                        stream ->
                                "the stream " + stream + " hasn't ended" + silence
                                        + ": start its sender again if it has failed, start the"
                                        + " source and its senders anew if it ended after the"
                                        + " source's checkpoint, or set a longer senderTimeout")
                .orElseGet(
                        () ->
                                "only " + streams.seen() + " of " + options.streams()
                                        + " streams have come" + silence
                                        + ": start the senders of the others, expect fewer"
                                        + " streams, or set a longer senderTimeout");
    }

    private static String seconds(long nanos) {
        return nanos / 1_000_000 / 1_000.0 + " s";
    }
}
