package org.netapprox.atp.flink.source;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Predicate;
import org.apache.flink.annotation.Internal;
import org.netapprox.atp.WindowStream;

/**
 * The watermark of the streams that come to one address: the least of them. It waits until as many
 * streams as expected have sent a window. Streams that have ended or are idle don't hold it back;
 * if all are, it is the greatest of them.
 *
 * <p>It has no clock: times are arguments, nanoseconds of any origin.
 */
@Internal
public final class StreamWatermarks {
    private final int expected;
    private final long idleNanos;
    private final Map<WindowStream, Place> places = new HashMap<>();

    private static final class Place {
        private long watermarkMs = StreamMark.NONE;
        private long lastNanos;
        private boolean hasEnded;
        private boolean isIdle;

        private boolean holdsBack() {
            return !hasEnded && !isIdle;
        }
    }

    /**
     * The streams of an address.
     *
     * @param expected the streams to wait for, 1 or more
     * @param idleNanos a stream without a window for this long is idle; 0: never
     * @param streams the streams of a checkpoint
     * @param nowNanos the time at which they were restored
     */
    public StreamWatermarks(
            int expected, long idleNanos, List<StreamMark> streams, long nowNanos) {
        this.expected = expected;
        this.idleNanos = idleNanos;
        for (StreamMark mark : streams) {
            Place place = seen(mark.stream(), nowNanos);
            place.watermarkMs = mark.watermarkMs();
            place.hasEnded = mark.hasEnded();
        }
    }

    /**
     * A stream has sent a window, all of whose records may have been counted before.
     *
     * @param stream the stream
     * @param nowNanos the time
     */
    public void onSeen(WindowStream stream, long nowNanos) {
        Place place = seen(stream, nowNanos);
        place.hasEnded = false;
        place.isIdle = false;
    }

    /**
     * The records of a window have been emitted.
     *
     * @param stream the stream
     * @param endMs the window's end in event time, which it excludes; empty for windows by number
     * @param isLastPart whether no part of the window follows
     * @param nowNanos the time behind the emission
     */
    public void onWindow(
            WindowStream stream, OptionalLong endMs, boolean isLastPart, long nowNanos) {
        onSeen(stream, nowNanos);
        if (endMs.isPresent() && isLastPart) {
            Place place = places.get(stream);
            place.watermarkMs = Math.max(place.watermarkMs, StreamMark.lastMs(endMs.getAsLong()));
        }
    }

    /**
     * Whether a stream has come as far as the end of a window.
     *
     * @param stream the stream
     * @param endMs the window's end, which it excludes
     * @return whether the last part of this window, or of a later one, was there
     */
    public boolean hasReached(WindowStream stream, long endMs) {
        Place place = places.get(stream);
        return place != null
                && place.watermarkMs != StreamMark.NONE
                && place.watermarkMs >= StreamMark.lastMs(endMs);
    }

    /**
     * The sender of a stream has ended its job.
     *
     * @param stream the stream
     * @param nowNanos the time
     */
    public void onEnded(WindowStream stream, long nowNanos) {
        seen(stream, nowNanos).hasEnded = true;
    }

    /**
     * No window was there at this time: streams may have become idle.
     *
     * @param nowNanos the time
     */
    public void onQuiet(long nowNanos) {
        if (idleNanos > 0) {
            for (Place place : places.values()) {
                place.isIdle |= nowNanos - place.lastNanos >= idleNanos;
            }
        }
    }

    /**
     * The watermark: no record at or before it follows, unless a stream comes back that was idle
     * or had ended.
     *
     * @return milliseconds since 1970; empty while a stream is missing, or one without a watermark
     *     holds it back
     */
    public OptionalLong watermarkMs() {
        if (isWaiting()) {
            return OptionalLong.empty();
        }
        long watermarkMs =
                isIdle()
                        ? places.values().stream().mapToLong(p -> p.watermarkMs).max().getAsLong()
                        : places.values().stream()
                                .filter(Place::holdsBack)
                                .mapToLong(p -> p.watermarkMs)
                                .min()
                                .getAsLong();
        return watermarkMs == StreamMark.NONE
                ? OptionalLong.empty()
                : OptionalLong.of(watermarkMs);
    }

    /**
     * Whether no stream holds back the watermark, and none is missing.
     *
     * @return whether none does
     */
    public boolean isIdle() {
        return !isWaiting() && none(Place::holdsBack);
    }

    /**
     * Whether fewer streams than expected have sent a window. Those that have ended count, also
     * after a restore: none comes in their place, so the watermark would stop for ever.
     *
     * @return whether some are missing
     */
    public boolean isWaiting() {
        return places.size() < expected;
    }

    /**
     * Whether all streams that were seen have ended, and none is missing.
     *
     * @return whether they have
     */
    public boolean haveEnded() {
        return !isWaiting() && none(place -> !place.hasEnded);
    }

    /**
     * One of the streams that haven't ended.
     *
     * @return the first by its name; empty if all that were seen have ended
     */
    public Optional<WindowStream> open() {
        return places.entrySet().stream()
                .filter(entry -> !entry.getValue().hasEnded)
                .map(Map.Entry::getKey)
                .min(Comparator.comparing(WindowStream::toString));
    }

    /**
     * Whether a stream has sent a window.
     *
     * @param stream the stream
     * @return whether it has
     */
    public boolean has(WindowStream stream) {
        return places.containsKey(stream);
    }

    /**
     * The number of streams that have sent a window.
     *
     * @return the number
     */
    public int seen() {
        return places.size();
    }

    /**
     * The streams, for a checkpoint.
     *
     * @return a mark for each stream that has sent a window
     */
    public List<StreamMark> marks() {
        List<StreamMark> marks = new ArrayList<>();
        places.forEach(
                (stream, place) ->
                        marks.add(new StreamMark(stream, place.watermarkMs, place.hasEnded)));
        return marks;
    }

    private boolean none(Predicate<Place> is) {
        return places.values().stream().noneMatch(is);
    }

    private Place seen(WindowStream stream, long nowNanos) {
        Place place = places.computeIfAbsent(stream, any -> new Place());
        place.lastNanos = nowNanos;
        return place;
    }
}
