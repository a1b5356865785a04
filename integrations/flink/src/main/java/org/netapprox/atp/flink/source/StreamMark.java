package org.netapprox.atp.flink.source;

import org.apache.flink.annotation.Internal;
import org.netapprox.atp.WindowStream;

/**
 * The place of a stream in event time.
 *
 * @param stream the stream
 * @param watermarkMs the end of its last whole window minus 1, milliseconds since 1970; {@link
 *     #NONE} before there is one, and for windows by number
 * @param hasEnded whether its sender has ended its job
 */
@Internal
public record StreamMark(WindowStream stream, long watermarkMs, boolean hasEnded) {
    /** No watermark. */
    public static final long NONE = Long.MIN_VALUE;

    /**
     * The last millisecond of a window.
     *
     * @param endMs its end, which it excludes
     * @return the millisecond; the least one for an end that a hostile sender states
     */
    static long lastMs(long endMs) {
        return Math.max(endMs, NONE + 1) - 1;
    }
}
