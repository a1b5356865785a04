package org.netapprox.atp.flink.sink;

import java.util.List;
import org.apache.flink.annotation.Internal;

/**
 * A stream in a checkpoint: a sender that begins at the position, and takes the steps, cuts the
 * windows that weren't confirmed.
 */
@Internal
public final class StreamState {
    private final StreamId id;
    private final String position;
    private final long firstOffset;
    private final List<Step> steps;

    StreamState(StreamId id, String position, long firstOffset, List<Step> steps) {
        this.id = id;
        this.position = position;
        this.firstOffset = firstOffset;
        this.steps = List.copyOf(steps);
    }

    StreamId id() {
        return id;
    }

    /** The position of the sender so far. */
    String position() {
        return position;
    }

    /** The offset of the first record, also if that isn't there yet. */
    long firstOffset() {
        return firstOffset;
    }

    /** The calls of the sender from that record on. */
    List<Step> steps() {
        return steps;
    }

    /** Whether the sender was given something. */
    boolean hasBegun() {
        return !position.equals(OutStream.BEGIN) || !steps.isEmpty();
    }

    boolean hasRecords() {
        return steps.stream().anyMatch(Step.Push.class::isInstance);
    }

    @Override
    public String toString() {
        return id + ", from offset " + firstOffset;
    }
}
