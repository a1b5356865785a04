package org.netapprox.atp;

import java.io.IOException;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/**
 * A window that has ended, with the records that arrived. Its sender keeps it until {@link
 * #confirm}.
 */
public final class Window {
    private final WindowReceiver receiver;
    private final long number;
    private final WindowId id;
    private final boolean isLastPart;
    private final OptionalLong startMs;
    private final OptionalLong endMs;
    private final long nextOffset;
    private final long records;
    private final long late;
    private final long skipped;
    private final long repeated;
    private final List<OffsetRange> lost;
    private final List<OffsetRange> refused;
    private final List<Sample> samples;

    /**
     * The records of a group that arrived, and weren't counted before.
     *
     * @param group the group
     * @param records its records, in no particular order
     */
    public record Sample(WindowGroup group, List<WindowRecord> records) {}

    Window(WindowReceiver receiver, Fields f) {
        this.receiver = receiver;
        number = f.u64();
        id = WindowId.read(f);
        isLastPart = f.flag();
        boolean hasTimes = f.flag();
        startMs = hasTimes ? OptionalLong.of(f.u64()) : OptionalLong.empty();
        endMs = hasTimes ? OptionalLong.of(f.u64()) : OptionalLong.empty();
        nextOffset = f.u64();
        records = f.u64();
        late = f.u64();
        skipped = f.u64();
        repeated = f.u64();
        lost = f.list(OffsetRange::read);
        refused = f.list(OffsetRange::read);
        List<Sample> all = new ArrayList<>();
        for (WindowGroup group : f.list(WindowGroup::read)) {
            all.add(new Sample(group, f.list(WindowRecord::read)));
        }
        samples = List.copyOf(all);
    }

    /**
     * The stream, the number and the part.
     *
     * @return the window's identity
     */
    public WindowId id() {
        return id;
    }

    /**
     * The stream.
     *
     * @return the stream
     */
    public WindowStream stream() {
        return id.stream();
    }

    /**
     * Whether no part follows.
     *
     * @return whether it is the last part
     */
    public boolean isLastPart() {
        return isLastPart;
    }

    /**
     * The beginning in event time.
     *
     * @return milliseconds since 1970; empty for windows by number
     */
    public OptionalLong startMs() {
        return startMs;
    }

    /**
     * The end in event time, which the window excludes.
     *
     * @return milliseconds since 1970; empty for windows by number
     */
    public OptionalLong endMs() {
        return endMs;
    }

    /**
     * This window and earlier ones have all records below this offset.
     *
     * @return the offset
     */
    public long nextOffset() {
        return nextOffset;
    }

    /**
     * N, the number of the window's records.
     *
     * @return the number
     */
    public long records() {
        return records;
    }

    /**
     * The number of records that arrived and weren't counted before.
     *
     * @return the number
     */
    public long received() {
        return samples.stream().mapToLong(sample -> sample.records().size()).sum();
    }

    /**
     * The offsets that didn't arrive and weren't counted before.
     *
     * @return ascending ranges
     */
    public List<OffsetRange> lost() {
        return lost;
    }

    /**
     * The offsets of records that are longer than their sender's limit, and weren't counted before.
     *
     * @return ascending ranges
     */
    public List<OffsetRange> refused() {
        return refused;
    }

    /**
     * The number of records that were counted before: 0, unless a restarted sender has cut its
     * windows differently. They aren't among the records here.
     *
     * @return the number
     */
    public long repeated() {
        return repeated;
    }

    /**
     * The number of records whose own window had ended before they came.
     *
     * @return the number
     */
    public long late() {
        return late;
    }

    /**
     * Offsets before the window that no window has brought to this receiver: they were confirmed to
     * an earlier one whose state is lost, have expired, or somebody has moved the sender's offset.
     *
     * @return the number of offsets
     */
    public long skipped() {
        return skipped;
    }

    /**
     * The records by group. Those of a group are a simple random sample of its N, unless its rate
     * is 0.
     *
     * @return one entry per group, in order of their ids
     */
    public List<Sample> samples() {
        return samples;
    }

    /**
     * Counts the window, and confirms it to its sender, which forgets it then. Until then no other
     * window of the stream is handed over.
     *
     * @return the offsets that the receiver has counted now: see {@link
     *     WindowReceiverBuilder#counted}
     * @throws IllegalStateException if it was confirmed or rejected before
     * @throws ClosedException if the receiver is closed
     * @throws IOException if the receiver has failed
     */
    public byte[] confirm() throws IOException {
        byte[] counted = Native.windowsConfirm(receiver.number(), number);
        Reference.reachabilityFence(receiver);
        return counted;
    }

    /**
     * Gives the window back without counting it. Its sender sends it again.
     *
     * @throws IllegalStateException if it was confirmed or rejected before
     * @throws ClosedException if the receiver is closed
     * @throws IOException if the receiver has failed
     */
    public void reject() throws IOException {
        Native.windowsReject(receiver.number(), number);
        Reference.reachabilityFence(receiver);
    }

    @Override
    public String toString() {
        return id + ": " + received() + " of " + records + " records";
    }
}
