package org.netapprox.atp;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Sends the records of a stream as windows to a {@link WindowReceiver}. Of each window at least the
 * stated share of records arrives.
 *
 * <pre>{@code
 * var options = WindowSender.builder("readings").records(1_000).msr(0.9);
 * try (WindowSender sender = options.open("10.0.0.2:4747")) {
 *     for (long offset = 0; offset < 10_000; offset++) {
 *         sender.send(offset, ("reading " + offset).getBytes(StandardCharsets.UTF_8));
 *     }
 *     sender.finish();
 * }
 * }</pre>
 *
 * <p>One thread uses it. Calls that wait notice an interrupt of their thread within 50 ms.
 */
public final class WindowSender implements AutoCloseable {
    private static final int HAS_ROOM = 0;
    private static final int IS_CONFIRMED = 1;
    private static final int HAS_FINISHED = 2;
    private static final String[] NO_NAMES = {};
    private static final byte[][] NO_VALUES = {};

    private final long number;
    private final Cleaner.Cleanable cleanable;

    WindowSender(long number) {
        this.number = number;
        cleanable = Closing.register(this, () -> Native.windowSenderClose(number));
    }

    /**
     * The options of a sender of windows, at their defaults.
     *
     * @param topic the topic, a name of the stream
     * @return the options
     */
    public static WindowSenderBuilder builder(String topic) {
        return new WindowSenderBuilder(topic);
    }

    /**
     * Sends a record without key, event time, headers and group.
     *
     * @param offset its place in the stream, above that of the record before
     * @param value the value
     * @throws IOException as {@link #send(WindowRecord, String)}
     * @throws InterruptedException if the thread was interrupted: the record was taken
     */
    public void send(long offset, byte[] value) throws IOException, InterruptedException {
        send(new WindowRecord(offset, OptionalLong.empty(), null, value, List.of()), null);
    }

    /**
     * Sends a record. Waits while more than two closed windows aren't confirmed.
     *
     * @param record the record, whose offset is above that of the record before
     * @param group the name of its group; null for the others, of {@link WindowSenderBuilder#msr}
     * @throws IllegalArgumentException if there is no such group, or the offset doesn't ascend
     * @throws ClosedException if the sender is closed, or has failed before
     * @throws InterruptedException if the thread was interrupted: the record was taken
     * @throws IOException if sending has failed
     */
    public void send(WindowRecord record, String group) throws IOException, InterruptedException {
        OptionalLong time = record.timestampMs();
        List<WindowRecord.Header> headers = record.headers();
        String[] names = NO_NAMES;
        byte[][] values = NO_VALUES;
        if (!headers.isEmpty()) {
            names = headers.stream().map(WindowRecord.Header::name).toArray(String[]::new);
            values = headers.stream().map(WindowRecord.Header::value).toArray(byte[][]::new);
        }
        Native.windowSenderPush(
                number,
                record.offset(),
                time.isPresent(),
                time.orElse(0),
                record.key(),
                record.value(),
                names,
                values,
                group);
        await(HAS_ROOM, Waits.NEVER);
    }

    /**
     * Closes the windows by event time that end at or before this time: no record of them follows.
     * The last of them is sent also without a record, so that its receiver knows how far the stream
     * has come, once the stream has had a record or {@link WindowSenderBuilder#position}.
     *
     * @param watermarkMs milliseconds since 1970
     * @throws ClosedException if the sender is closed, or has failed before
     * @throws IOException if sending has failed
     */
    public void advance(long watermarkMs) throws IOException {
        Native.windowSenderAdvance(number, watermarkMs);
        Reference.reachabilityFence(this);
    }

    /**
     * Closes all windows, and waits until they are confirmed. Later records of the last one by
     * event time make another part of it.
     *
     * @throws ClosedException if the sender is closed, or has failed before
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if sending has failed
     */
    public void flush() throws IOException, InterruptedException {
        Native.windowSenderCloseWindows(number);
        await(IS_CONFIRMED, Waits.NEVER);
    }

    /**
     * Closes all windows, and ends once they are confirmed. No record follows.
     *
     * @throws ClosedException if the sender is closed, or has failed before
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if sending has failed
     */
    public void finish() throws IOException, InterruptedException {
        Native.windowSenderFinish(number);
        await(HAS_FINISHED, Waits.NEVER);
    }

    /**
     * Waits until all closed windows are confirmed.
     *
     * @param timeout how long, 0 or longer
     * @return whether they are
     * @throws ClosedException if the sender is closed, or has failed before
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if sending has failed
     */
    public boolean awaitConfirmed(Duration timeout) throws IOException, InterruptedException {
        return await(IS_CONFIRMED, Waits.deadline(timeout));
    }

    private boolean await(int state, long deadline) throws IOException, InterruptedException {
        try {
            while (true) {
                Waits.checkInterrupt();
                int part = Waits.partMs(deadline);
                if (Native.windowSenderWait(number, state, part)) {
                    return true;
                }
                if (part == 0) {
                    return false;
                }
            }
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * The state of the sender.
     *
     * @return the state
     * @throws ClosedException if the sender is closed
     * @throws IOException if the sender has failed
     */
    public State state() throws IOException {
        byte[] state = Native.windowSenderState(number);
        Reference.reachabilityFence(this);
        return State.read(new Fields(state));
    }

    /**
     * The state of a sender.
     *
     * @param unconfirmed windows that are closed and not confirmed
     * @param confirmed windows that are confirmed
     * @param position where another sender goes on, for {@link WindowSenderBuilder#position}; empty
     *     while no window is confirmed
     * @param resumeOffset the first offset that the other sender needs
     */
    public record State(
            long unconfirmed, long confirmed, Optional<String> position, OptionalLong resumeOffset) {
        static State read(Fields f) {
            return new State(f.u64(), f.u64(), f.optional(Fields::text), f.optionalU64());
        }
    }

    /**
     * Ends the sender at once. Windows that aren't confirmed are forgotten: call {@link #finish}
     * before. Further calls do nothing.
     */
    @Override
    public void close() {
        cleanable.clean();
    }

    @Override
    public String toString() {
        return "WindowSender " + number;
    }
}
