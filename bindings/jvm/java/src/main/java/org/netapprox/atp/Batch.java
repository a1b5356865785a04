package org.netapprox.atp;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * Memory for events, which {@link Receiver#recvBatch(Batch, java.time.Duration)} fills again and
 * again. Messages are views of one direct buffer: they are valid until the batch is filled again.
 *
 * <p>One thread at a time may use a batch.
 */
public final class Batch {
    private static final int MESSAGE = 1;
    private static final int STARTED = 2;
    private static final int TERMS_CHANGED = 3;
    private static final int WINDOW_ENDED = 4;
    private static final int FINISHED = 5;

    /** The length and the kind of an event. */
    private static final int HEAD_BYTES = 8;

    private final List<Event> events = new ArrayList<>();
    private final List<Event> view = Collections.unmodifiableList(events);
    private ByteBuffer memory;

    /** The last message's sender, with its run and its receiver. */
    private InetSocketAddress lastSource;

    private long lastRun;
    private long lastReceiver;

    private Batch(int bytes) {
        memory = allocate(bytes);
    }

    /**
     * An empty batch.
     *
     * @param bytes the memory for the events of one call, 4,096 bytes or more; it grows if a
     *     message is longer
     * @return the batch
     * @throws IllegalArgumentException if {@code bytes} is below 4,096
     */
    public static Batch ofBytes(int bytes) {
        if (bytes < 4096) {
            throw new IllegalArgumentException(
                    "a batch must have 4096 bytes at least, not " + bytes);
        }
        return new Batch(bytes);
    }

    /**
     * The events of the last call that filled the batch.
     *
     * @return the events in the order of their arrival; the list changes with the next call
     */
    public List<Event> events() {
        return view;
    }

    private static ByteBuffer allocate(int bytes) {
        return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
    }

    void clear() {
        events.clear();
    }

    ByteBuffer memory() {
        return memory;
    }

    void grow(int bytes) {
        memory = allocate(bytes);
    }

    /** Reads the events of a receiver that lie in the first bytes of the memory. */
    void read(int bytes, long receiver) {
        if (receiver != lastReceiver) {
            lastSource = null;
            lastReceiver = receiver;
        }
        int at = 0;
        while (at < bytes) {
            int length = memory.getInt(at);
            int kind = memory.getInt(at + 4);
            ByteBuffer event =
                    memory.slice(at + HEAD_BYTES, length - HEAD_BYTES)
                            .order(ByteOrder.nativeOrder());
            Event read = kind == MESSAGE ? message(event) : other(kind, new Fields(event));
            if (read != null) {
                events.add(read);
            }
            at += length;
        }
    }

    /** A message's fields have fixed places: see the native library's {@code events.rs}. */
    private Event.Message message(ByteBuffer event) {
        long run = event.getLong(28);
        // A run of a receiver has one sender.
        if (lastSource == null || lastRun != run) {
            lastSource = new Fields(event.duplicate()).address();
            lastRun = run;
        }
        return new Event.Message(
                lastSource,
                Integer.toUnsignedLong(event.getInt(24)),
                run,
                Integer.toUnsignedLong(event.getInt(36)),
                event.getInt(40),
                event.getInt(44),
                event.slice(52, event.getInt(48)));
    }

    private static Event other(int kind, Fields f) {
        InetSocketAddress source = f.address();
        long job = f.u32();
        long run = f.u64();
        return switch (kind) {
            case STARTED -> new Event.Started(source, job, run, Terms.read(f));
            case TERMS_CHANGED -> new Event.TermsChanged(source, job, run, Terms.read(f));
            case WINDOW_ENDED -> new Event.WindowEnded(source, job, run, Summary.read(f));
            case FINISHED -> new Event.Finished(source, job, run, Summary.read(f));
            default -> null;
        };
    }
}
