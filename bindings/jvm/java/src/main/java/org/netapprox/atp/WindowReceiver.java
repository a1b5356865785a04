package org.netapprox.atp;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Optional;

/**
 * Receives windows of streams: those that the program {@code atp-kafka} sends, a {@link
 * WindowSender}, or one of Python.
 *
 * <pre>{@code
 * try (WindowReceiver receiver = WindowReceiver.builder().bind("0.0.0.0:4747")) {
 *     while (true) {
 *         if (receiver.receive() instanceof WindowEvent.Ended ended) {
 *             System.out.println(ended.window());
 *             ended.window().confirm();
 *         }
 *     }
 * }
 * }</pre>
 *
 * <p>One thread receives; others may confirm windows. Calls that wait notice an interrupt of their
 * thread, and the receiver's end, within 50 ms.
 */
public final class WindowReceiver implements AutoCloseable {
    private static final int WINDOW = 1;
    private static final int REPEATED = 2;
    private static final int UNFINISHED = 3;
    private static final int STREAM_ENDED = 4;
    private static final int MALFORMED = 5;
    private static final int NO_MEMORY = 6;

    private final long number;
    private final InetSocketAddress address;
    private final Cleaner.Cleanable cleanable;

    WindowReceiver(long number) throws IOException {
        this.number = number;
        cleanable = Closing.register(this, () -> Native.windowsClose(number));
        address = new Fields(Native.windowsAddress(number)).address();
    }

    /**
     * The options of a receiver of windows, at their defaults.
     *
     * @return the options
     */
    public static WindowReceiverBuilder builder() {
        return new WindowReceiverBuilder();
    }

    /**
     * The address that the receiver is bound to, with the port that the kernel chose.
     *
     * @return the address
     */
    public InetSocketAddress address() {
        return address;
    }

    /**
     * Waits for the next event. While a window of a stream isn't confirmed, no other one of that
     * stream comes.
     *
     * @return the event
     * @throws ClosedException if the receiver is closed
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if the receiver has failed
     */
    public WindowEvent receive() throws IOException, InterruptedException {
        return receive(Waits.NEVER);
    }

    /**
     * Waits for the next event.
     *
     * @param timeout how long, 0 or longer
     * @return the event, or null if none came
     * @throws ClosedException if the receiver is closed
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if the receiver has failed
     */
    public WindowEvent receive(Duration timeout) throws IOException, InterruptedException {
        return receive(Waits.deadline(timeout));
    }

    private WindowEvent receive(long deadline) throws IOException, InterruptedException {
        while (true) {
            Waits.checkInterrupt();
            int part = Waits.partMs(deadline);
            byte[] event = Native.windowsNext(number, part);
            Reference.reachabilityFence(this);
            if (event != null) {
                return read(new Fields(event));
            }
            if (part == 0) {
                return null;
            }
        }
    }

    private WindowEvent read(Fields f) {
        int kind = f.u8();
        return switch (kind) {
            case WINDOW -> new WindowEvent.Ended(new Window(this, f));
            case REPEATED -> new WindowEvent.Repeated(WindowId.read(f));
            case UNFINISHED -> new WindowEvent.Unfinished(WindowId.read(f));
            case STREAM_ENDED -> new WindowEvent.StreamEnded(WindowStream.read(f));
            case MALFORMED -> new WindowEvent.Malformed(f.address(), f.text());
            case NO_MEMORY -> {
                InetSocketAddress source = f.address();
                Optional<WindowId> id = f.optional(WindowId::read);
                yield new WindowEvent.NoMemory(source, id, f.u64());
            }
            default -> throw new AssertionError("the library has no event of kind " + kind);
        };
    }

    /**
     * The offsets that are counted: those of {@link WindowReceiverBuilder#counted}, and of the
     * windows that were confirmed.
     *
     * @return the offsets, for another receiver
     * @throws ClosedException if the receiver is closed
     * @throws IOException if the receiver has failed
     */
    public byte[] counted() throws IOException {
        byte[] counted = Native.windowsCounted(number);
        Reference.reachabilityFence(this);
        return counted;
    }

    /**
     * Counters since the start.
     *
     * @return the counters
     * @throws ClosedException if the receiver is closed
     * @throws IOException if the receiver has failed
     */
    public WindowReceiverStats stats() throws IOException {
        byte[] stats = Native.windowsStats(number);
        Reference.reachabilityFence(this);
        return WindowReceiverStats.read(new Fields(stats));
    }

    long number() {
        return number;
    }

    /**
     * Closes the receiver. Windows that aren't confirmed are sent again to another one. It may take
     * the time of {@link ReceiverBuilder#linger}. Further calls do nothing.
     */
    @Override
    public void close() {
        cleanable.clean();
    }

    @Override
    public String toString() {
        return "WindowReceiver at " + address;
    }
}
