package org.netapprox.atp;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A receiver of messages of any number of jobs, at one UDP port.
 *
 * <p>Several threads may use it. Calls that wait notice an interrupt of their thread, and the
 * receiver's end, within 50 ms.
 */
public final class Receiver implements AutoCloseable {
    /** The memory of batches of the calls without a batch. */
    private static final int BATCH_BYTES = 256 << 10;

    private final long number;
    private final InetSocketAddress address;
    private final String datapath;
    private final Cleaner.Cleanable cleanable;

    /** Held by the thread that waits for events. */
    private final ReentrantLock receiving = new ReentrantLock();

    /** Guarded by the lock. Null before the first call without a batch. */
    private Batch ownBatch;

    /** The first event of the batch that no call has returned. Guarded by the lock. */
    private int next;

    Receiver(long number) throws IOException {
        this.number = number;
        cleanable = Closing.register(this, () -> Native.receiverClose(number));
        Fields facts = new Fields(Native.receiverFacts(number));
        address = facts.address();
        datapath = facts.text();
    }

    /**
     * The options of a receiver, at their defaults.
     *
     * @return the options
     */
    public static ReceiverBuilder builder() {
        return new ReceiverBuilder();
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
     * The datapath with which the receiver started.
     *
     * @return {@code ebpf}, or {@code userspace} without a daemon
     */
    public String datapath() {
        return datapath;
    }

    /**
     * Waits for the next event. A message's bytes are the caller's.
     *
     * @return the event
     * @throws ClosedException if the receiver is closed
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if the receiver has failed
     */
    public Event recv() throws IOException, InterruptedException {
        return recv(1, Waits.NEVER).get(0);
    }

    /**
     * Waits for the next event. A message's bytes are the caller's.
     *
     * @param timeout how long, 0 or longer
     * @return the event, or null if none came
     * @throws ClosedException if the receiver is closed
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if the receiver has failed
     */
    public Event recv(Duration timeout) throws IOException, InterruptedException {
        List<Event> events = recv(1, Waits.deadline(timeout));
        return events.isEmpty() ? null : events.get(0);
    }

    /**
     * Waits for an event, and takes those that are there. Messages' bytes are the caller's.
     *
     * @param eventsMax the most events, 1 or more
     * @param timeout how long to wait for the first one, 0 or longer
     * @return the events; none if none came
     * @throws ClosedException if the receiver is closed
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if the receiver has failed
     */
    public List<Event> recvBatch(int eventsMax, Duration timeout)
            throws IOException, InterruptedException {
        if (eventsMax < 1) {
            throw new IllegalArgumentException("eventsMax must be at least 1, not " + eventsMax);
        }
        return recv(eventsMax, Waits.deadline(timeout));
    }

    /**
     * Waits for an event, and takes those that are there and fit the batch. It makes less garbage
     * than {@link #recvBatch(int, Duration)}: messages are views of the batch's direct buffer,
     * valid until the batch is filled again.
     *
     * @param batch the memory
     * @param timeout how long to wait for the first event, 0 or longer
     * @return whether there was an event; {@link Batch#events} has them
     * @throws ClosedException if the receiver is closed
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if the receiver has failed
     */
    public boolean recvBatch(Batch batch, Duration timeout)
            throws IOException, InterruptedException {
        long deadline = Waits.deadline(timeout);
        batch.clear();
        if (!lock(deadline)) {
            return false;
        }
        try {
            return fill(batch, Integer.MAX_VALUE, deadline);
        } finally {
            receiving.unlock();
        }
    }

    /** Events whose messages have memory of their own. */
    private List<Event> recv(int eventsMax, long deadline)
            throws IOException, InterruptedException {
        if (!lock(deadline)) {
            return List.of();
        }
        try {
            if (ownBatch == null) {
                ownBatch = Batch.ofBytes(BATCH_BYTES);
            }
            if (next >= ownBatch.events().size()) {
                ownBatch.clear();
                next = 0;
                fill(ownBatch, eventsMax, deadline);
            }
            return takeCopies(eventsMax);
        } finally {
            receiving.unlock();
        }
    }

    /** The next events of the batch. Those that the heap has no room for stay for the next call. */
    private List<Event> takeCopies(int eventsMax) {
        List<Event> all = ownBatch.events();
        List<Event> copies = new ArrayList<>(Math.min(eventsMax, all.size() - next));
        try {
            while (next < all.size() && copies.size() < eventsMax) {
                Event event = all.get(next);
                copies.add(event instanceof Event.Message message ? copy(message) : event);
                next++;
            }
        } catch (OutOfMemoryError e) {
            if (copies.isEmpty()) {
                throw e;
            }
        }
        return copies;
    }

    private static Event.Message copy(Event.Message m) {
        byte[] data = new byte[m.data().remaining()];
        m.data().get(data);
        return new Event.Message(
                m.source(), m.job(), m.run(), m.window(), m.group(), m.message(),
                ByteBuffer.wrap(data));
    }

    private boolean lock(long deadline) throws InterruptedException {
        if (deadline == Waits.NEVER) {
            receiving.lockInterruptibly();
            return true;
        }
        long left = deadline - System.nanoTime();
        return receiving.tryLock(Math.max(0, left), TimeUnit.NANOSECONDS);
    }

    private boolean fill(Batch batch, int eventsMax, long deadline)
            throws IOException, InterruptedException {
        while (true) {
            Waits.checkInterrupt();
            int part = Waits.partMs(deadline);
            int bytes = Native.receiverRecv(number, batch.memory(), 0, eventsMax, part);
            Reference.reachabilityFence(this);
            if (bytes < 0) {
                batch.grow(-bytes);
            } else if (bytes > 0) {
                batch.read(bytes, number);
                return true;
            } else if (part == 0) {
                return false;
            } else {
                // Virtual threads get a turn.
                Thread.yield();
            }
        }
    }

    /**
     * Asks the sender of a run to set the minimal sampling rate of a group. The library repeats the
     * request until the sender answers: {@link Event.TermsChanged} says what holds then. A run that
     * is unknown or has ended is no error. The sender's {@link RequestPolicy} decides.
     *
     * @param run the run: see {@link Event#run}
     * @param group the group's id, 0 to 255
     * @param msr the asked rate, 0 to 1
     * @throws IllegalArgumentException if the rate or the group is out of its range
     * @throws ClosedException if the receiver is closed
     * @throws IOException if the receiver has failed
     */
    public void requestMsr(long run, int group, double msr) throws IOException {
        Native.receiverRequestMsr(number, run, group, msr);
    }

    /**
     * Asks the sender of a run to end its job now, with the messages delivered so far. Wait for
     * {@link Event.Finished} before you close the receiver.
     *
     * @param run the run: see {@link Event#run}
     * @throws ClosedException if the receiver is closed
     * @throws IOException if the receiver has failed
     */
    public void requestEnd(long run) throws IOException {
        Native.receiverRequestEnd(number, run);
    }

    /**
     * The progress of all running jobs of which a message has arrived. Waits for the receiver's
     * thread: milliseconds, and a second at most.
     *
     * @return the jobs, in no particular order
     * @throws ClosedException if the receiver is closed
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if the receiver's thread has not answered
     */
    public List<SourceProgress> progress() throws IOException, InterruptedException {
        long asked = Native.receiverAskProgress(number);
        long deadline = Waits.deadline(Duration.ofSeconds(1));
        while (true) {
            byte[] sources = Native.receiverTryProgress(number, asked);
            if (sources != null) {
                return new Fields(sources).list(SourceProgress::read);
            }
            if (Waits.partMs(deadline) == 0) {
                throw new AtpException(
                        "the receiver's thread has not answered within a second: call again");
            }
            Thread.sleep(1);
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Counters since the start.
     *
     * @return the counters
     * @throws ClosedException if the receiver is closed
     * @throws IOException if the receiver has failed
     */
    public ReceiverStats stats() throws IOException {
        return ReceiverStats.read(new Fields(Native.receiverStats(number)));
    }

    /**
     * Closes the receiver. Calls of other threads end with a {@link ClosedException}. It may take
     * the time of {@link ReceiverBuilder#linger}. Further calls do nothing.
     */
    @Override
    public void close() {
        cleanable.clean();
    }

    @Override
    public String toString() {
        return "Receiver at " + address;
    }
}
