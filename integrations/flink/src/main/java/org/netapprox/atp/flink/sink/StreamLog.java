package org.netapprox.atp.flink.sink;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.OptionalLong;
import org.netapprox.atp.WindowRecord;

/**
 * The steps of a stream's sender: those that it took and hasn't confirmed, and those to come.
 *
 * <p>Steps pass three queues: held for a checkpoint, ready to be sent, and sent.
 */
final class StreamLog {
    /** A time before those of all records, and far enough from the least number. */
    private static final long BEFORE_ALL_MS = -(1L << 53);

    private final long lengthMs;
    private final boolean holds;
    private final Deque<Step> sent = new ArrayDeque<>();
    private final Deque<Step> ready = new ArrayDeque<>();
    private final Deque<Step> held = new ArrayDeque<>();
    private final Deque<Mark> marks = new ArrayDeque<>();

    /** The offset of the first record here, or of the next one. */
    private long firstOffset;

    private long nextOffset;
    private long bytes;

    /** The greatest time that windows were closed up to, and of a record. */
    private long advancedMs = Long.MIN_VALUE;

    private long timeMaxMs = Long.MIN_VALUE;

    /** Steps that ever were held, and those that were released. */
    private long heldEver;

    private long releasedEver;

    private record Mark(long number, long heldEver) {}

    /**
     * An empty log.
     *
     * @param lengthMs the length of windows by event time; 0 for windows by number
     * @param holds whether steps wait for a checkpoint
     */
    StreamLog(long lengthMs, boolean holds) {
        this.lengthMs = lengthMs;
        this.holds = holds;
    }

    /** The log of a checkpoint, ready to be sent. */
    static StreamLog restore(long lengthMs, boolean holds, StreamState state) {
        StreamLog log = new StreamLog(lengthMs, holds);
        log.firstOffset = state.firstOffset();
        log.nextOffset = state.firstOffset();
        for (Step step : state.steps()) {
            log.note(step);
            log.ready.add(step);
        }
        return log;
    }

    /** Adds a record, which gets the next offset. */
    void push(
            OptionalLong timestampMs,
            byte[] key,
            byte[] value,
            List<WindowRecord.Header> headers,
            String group) {
        add(new Step.Push(new WindowRecord(nextOffset, timestampMs, key, value, headers), group));
    }

    /** Adds a watermark, if it may close a window: all records before this time are there. */
    void advance(long timeMs) {
        if (lengthMs == 0 || Math.floorDiv(timeMs, lengthMs) <= windowOf(advancedMs)) {
            return;
        }
        dropLastAdvance();
        add(new Step.Advance(timeMs));
    }

    /**
     * Closes the window of the latest record by a watermark: it is whole.
     *
     * @param alsoEmpty whether a stream that has nothing at all sends an empty window
     */
    void advanceToEnd(boolean alsoEmpty) {
        if (timeMaxMs > Long.MIN_VALUE && timeMaxMs < Long.MAX_VALUE - lengthMs) {
            // By number this does nothing.
            advance(lengthMs == 0 ? 0 : (Math.floorDiv(timeMaxMs, lengthMs) + 1) * lengthMs);
        } else if (alsoEmpty && advancedMs == Long.MIN_VALUE) {
            advance(BEFORE_ALL_MS);
        }
    }

    /** Closes all windows. */
    void closeAll() {
        add(new Step.CloseAll());
    }

    /** Notes that a checkpoint of this number has what is here. Numbers ascend. */
    void mark(long number) {
        marks.add(new Mark(number, heldEver));
    }

    /** Makes ready what checkpoints up to this number have. */
    void release(long number) {
        while (!marks.isEmpty() && marks.peek().number() <= number) {
            for (long to = marks.remove().heldEver(); releasedEver < to; releasedEver++) {
                ready.add(held.remove());
            }
        }
    }

    /** Makes all ready. */
    void releaseAll() {
        marks.clear();
        releasedEver += held.size();
        ready.addAll(held);
        held.clear();
    }

    /** The next step to be sent; null without one. It counts as sent. */
    Step next() {
        Step step = ready.poll();
        if (step != null) {
            sent.add(step);
        }
        return step;
    }

    /** Drops the records before an offset, which were sent, and what came before them. */
    void trim(long offset) {
        while (firstOffset < offset && !sent.isEmpty()) {
            Step step = sent.remove();
            bytes -= step.bytes();
            if (step instanceof Step.Push) {
                firstOffset++;
            }
        }
    }

    /** The memory of all steps. */
    long bytes() {
        return bytes;
    }

    boolean isHolding() {
        return !held.isEmpty();
    }

    /** Whether a checkpoint on its way has some of what is held. */
    boolean isMarked() {
        return !marks.isEmpty() && marks.peekLast().heldEver() > releasedEver;
    }

    long firstOffset() {
        return firstOffset;
    }

    long nextOffset() {
        return nextOffset;
    }

    /** All steps in their order. */
    List<Step> steps() {
        List<Step> steps = new ArrayList<>(sent.size() + ready.size() + held.size());
        steps.addAll(sent);
        steps.addAll(ready);
        steps.addAll(held);
        return steps;
    }

    private void add(Step step) {
        note(step);
        if (holds) {
            held.add(step);
            heldEver++;
        } else {
            ready.add(step);
        }
    }

    private void note(Step step) {
        bytes += step.bytes();
        if (step instanceof Step.Push push) {
            nextOffset++;
            timeMaxMs = Math.max(timeMaxMs, push.record().timestampMs().orElse(timeMaxMs));
        } else if (step instanceof Step.Advance advance) {
            advancedMs = Math.max(advancedMs, advance.timeMs());
        }
    }

    private long windowOf(long timeMs) {
        return timeMs == Long.MIN_VALUE ? Long.MIN_VALUE : Math.floorDiv(timeMs, lengthMs);
    }

    /**
     * Drops the last step if it is a watermark: without a record between, the next one alone cuts
     * the same windows. A log without new records doesn't grow so.
     */
    private void dropLastAdvance() {
        Deque<Step> queue = !held.isEmpty() ? held : !ready.isEmpty() ? ready : sent;
        boolean isMarked = !marks.isEmpty() && marks.peekLast().heldEver() == heldEver;
        if (queue.peekLast() instanceof Step.Advance last && !(queue == held && isMarked)) {
            queue.removeLast();
            bytes -= last.bytes();
            if (queue == held) {
                heldEver--;
            }
        }
    }
}
