package org.netapprox.atp;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A job: messages to one receiver, of which a stated share must arrive.
 *
 * <pre>{@code
 * try (Job job = Job.builder().msr(0.9).connect("db7:4747")) {
 *     for (byte[] message : messages) {
 *         job.send(message);
 *     }
 *     Report report = job.finish();
 * }
 * }</pre>
 *
 * <p>A job may end windows before its own end: see {@link #endWindow}. Several threads may use it.
 * Calls that wait notice an interrupt of their thread within 50 ms, and throw {@link
 * InterruptedException}.
 *
 * <p>Methods throw {@link ClosedException} once the job has ended. Of a job that has failed, those
 * that send or wait throw {@link ShortfallException}.
 */
public final class Job implements AutoCloseable {
    private final long number;
    private final long id;
    private final InetSocketAddress peer;
    private final String datapath;
    private final String pacing;
    private final Cleaner.Cleanable cleanable;

    /** Held by the thread that sends, so that the messages of a batch have ids in a row. */
    private final ReentrantLock sending = new ReentrantLock();

    /** How many messages of a batch the job has taken. Guarded by the lock. */
    private int taken;

    /** The messages of the calls that have them in the heap. Guarded by the lock. */
    private Scratch scratch;

    /** Held by the thread that waits for the end of a window. */
    private final ReentrantLock ending = new ReentrantLock();

    /** {@link #endWindow} has ended the input of a window, and no message was sent since. */
    private volatile boolean hasEndedInput;

    /** A call has returned its outcome, or thrown it. */
    private volatile boolean hasEnded;

    Job(long number) throws IOException {
        this.number = number;
        cleanable = Closing.register(this, () -> Native.jobClose(number));
        Fields facts = new Fields(Native.jobFacts(number));
        id = facts.u32();
        peer = facts.address();
        datapath = facts.text();
        pacing = facts.text();
    }

    /**
     * The options of a job, at their defaults.
     *
     * @return the options
     */
    public static JobBuilder builder() {
        return new JobBuilder();
    }

    /**
     * The job's id.
     *
     * @return the id, 0 to 2^32 - 1
     */
    public long id() {
        return id;
    }

    /**
     * The receiver's address.
     *
     * @return the address
     */
    public InetSocketAddress peer() {
        return peer;
    }

    /**
     * The datapath with which the job started.
     *
     * @return {@code ebpf}, or {@code userspace} without a daemon
     */
    public String datapath() {
        return datapath;
    }

    /**
     * The pacing with which the job started.
     *
     * @return {@code fq}, {@code htb} or {@code userspace}
     */
    public String pacing() {
        return pacing;
    }

    /**
     * Sends a message of group 0: see {@link #send(int, ByteBuffer)}.
     *
     * @param message the message
     * @return its id
     * @throws IOException as {@link #send(int, ByteBuffer)}
     * @throws InterruptedException if the thread was interrupted: the message isn't sent
     */
    public int send(byte[] message) throws IOException, InterruptedException {
        return send(0, ByteBuffer.wrap(message));
    }

    /**
     * Sends a message of group 0: see {@link #send(int, ByteBuffer)}.
     *
     * @param message the message, from the position to the limit
     * @return its id
     * @throws IOException as {@link #send(int, ByteBuffer)}
     * @throws InterruptedException if the thread was interrupted: the message isn't sent
     */
    public int send(ByteBuffer message) throws IOException, InterruptedException {
        return send(0, message);
    }

    /**
     * Queues a copy of a message. Waits while the buffer is full. The first message after {@link
     * #endWindow} begins the next window. Once the receiver has what it needs, further messages are
     * taken and dropped.
     *
     * @param group the group's id, 0 to 255
     * @param message the message, from the position to the limit: the position moves there
     * @return its id, counted from 0 in each group and window
     * @throws IllegalArgumentException if the message is longer than the option {@code
     *     messageBytesMax}, or the job has no such group
     * @throws IllegalStateException if the group has its announced number of messages already, or
     *     the window is ending
     * @throws IOException if the job has failed
     * @throws InterruptedException if the thread was interrupted: the message isn't sent
     */
    public int send(int group, ByteBuffer message) throws IOException, InterruptedException {
        return sendMany(group, List.of(message));
    }

    /**
     * As {@link #send(int, ByteBuffer)}, but doesn't wait.
     *
     * @param group the group's id, 0 to 255
     * @param message the message, from the position to the limit
     * @return its id; empty if there is no room, or another thread sends: the position stays
     * @throws IOException as {@link #send(int, ByteBuffer)}
     */
    public OptionalInt trySend(int group, ByteBuffer message) throws IOException {
        if (!sending.tryLock()) {
            return OptionalInt.empty();
        }
        try {
            ByteBuffer direct = message.isDirect() ? message : scratch().of(message);
            touch(direct);
            hasEndedInput = false;
            int length = direct.remaining();
            long taken = trySend(group, direct, direct.position(), null, length, 0, 1);
            if (count(taken) == 0) {
                Native.jobForgetWaits(number);
                return OptionalInt.empty();
            }
            message.position(message.limit());
            return OptionalInt.of(first(taken));
        } finally {
            sending.unlock();
        }
    }

    /**
     * Queues copies of several messages, which costs less for each. Waits while the buffer is full.
     *
     * @param group the group's id, 0 to 255
     * @param messages the messages, each from its position to its limit: the positions of those
     *     that the job has taken move there, also if this method throws
     * @return the first one's id; the others follow
     * @throws IOException as {@link #send(int, ByteBuffer)}; after an {@link
     *     IllegalArgumentException} the job has taken no message, after others perhaps the first
     *     ones
     * @throws InterruptedException if the thread was interrupted: the job may have taken the first
     *     ones
     */
    public int sendMany(int group, List<ByteBuffer> messages)
            throws IOException, InterruptedException {
        // Copies, since a buffer may be there twice.
        List<ByteBuffer> all = messages.stream().map(ByteBuffer::duplicate).toList();
        sending.lockInterruptibly();
        int sent = 0;
        try {
            int longest = all.stream().mapToInt(ByteBuffer::remaining).max().orElse(0);
            Native.jobCheckLength(number, longest);
            if (all.size() == 1 && all.get(0).isDirect()) {
                return sendAll(group, all.get(0), null, longest, 1);
            }
            OptionalInt first = OptionalInt.empty();
            while (sent < all.size() || first.isEmpty()) {
                int[] lengths = scratch().pack(all.subList(sent, all.size()));
                taken = 0;
                int id = sendAll(group, scratch.packed(), lengths, 0, lengths.length);
                sent += taken;
                taken = 0;
                first = first.isPresent() ? first : OptionalInt.of(id);
            }
            return first.getAsInt();
        } finally {
            for (ByteBuffer message : messages.subList(0, sent + taken)) {
                message.position(message.limit());
            }
            taken = 0;
            sending.unlock();
        }
    }

    /**
     * Queues copies of messages of one length that lie one behind the other in a direct buffer.
     * This is the fastest way for short messages.
     *
     * @param group the group's id, 0 to 255
     * @param messages a direct buffer with the messages, from the position to the limit: the
     *     position moves behind those that the job has taken, also if this method throws. No thread
     *     may change or free them during the call.
     * @param messageBytes each message's length, 1 or more
     * @return the first one's id; the others follow
     * @throws IllegalArgumentException if the buffer isn't direct, or doesn't hold a whole number
     *     of messages
     * @throws IOException as {@link #sendMany(int, List)}
     * @throws InterruptedException if the thread was interrupted: the first ones may be sent
     */
    public int sendMany(int group, ByteBuffer messages, int messageBytes)
            throws IOException, InterruptedException {
        if (messageBytes < 1 || messages.remaining() % messageBytes != 0) {
            throw new IllegalArgumentException(
                    messages.remaining() + " bytes are no whole number of messages of "
                            + messageBytes);
        }
        return sendPacked(group, messages, null, messageBytes, messages.remaining() / messageBytes);
    }

    /**
     * Queues copies of messages that lie one behind the other in a direct buffer.
     *
     * @param group the group's id, 0 to 255
     * @param messages a direct buffer with the messages, from the position to the limit: the
     *     position moves behind those that the job has taken, also if this method throws. No thread
     *     may change or free them during the call.
     * @param lengths the length of each message, bytes
     * @return the first one's id; the others follow
     * @throws IllegalArgumentException if the buffer isn't direct, or the lengths don't fill it
     * @throws IOException as {@link #sendMany(int, List)}
     * @throws InterruptedException if the thread was interrupted: the first ones may be sent
     */
    public int sendMany(int group, ByteBuffer messages, int[] lengths)
            throws IOException, InterruptedException {
        int[] own = lengths.clone();
        long sum = 0;
        int longest = 0;
        for (int length : own) {
            if (length < 0) {
                throw new IllegalArgumentException("a message can't have " + length + " bytes");
            }
            sum += length;
            longest = Math.max(longest, length);
        }
        if (sum != messages.remaining()) {
            throw new IllegalArgumentException(
                    "messages of " + sum + " bytes don't fill the " + messages.remaining()
                            + " bytes of the buffer");
        }
        Native.jobCheckLength(number, longest);
        return sendPacked(group, messages, own, 0, own.length);
    }

    private int sendPacked(
            int group, ByteBuffer messages, int[] lengths, int messageBytes, int count)
            throws IOException, InterruptedException {
        requireDirect(messages);
        sending.lockInterruptibly();
        int at = messages.position();
        try {
            return sendAll(group, messages, lengths, messageBytes, count);
        } finally {
            for (int i = 0; i < taken; i++) {
                at += lengths == null ? messageBytes : lengths[i];
            }
            messages.position(at);
            taken = 0;
            sending.unlock();
        }
    }

    /**
     * Queues a message without a copy. The bytes must stay as they are until {@code released} runs:
     * an arena must not be closed, nor a mapped file be cut, which would end the JVM.
     *
     * @param group the group's id, 0 to 255
     * @param message a direct buffer with the message, from the position to the limit; both stay
     * @param released runs once the job needs the bytes no more: in a thread of the library, which
     *     runs one callback after the other. It doesn't run if this method throws.
     * @return the message's id
     * @throws IllegalArgumentException if the buffer isn't direct
     * @throws IOException as {@link #send(int, ByteBuffer)}
     * @throws InterruptedException if the thread was interrupted: the message isn't sent
     */
    public int sendOwned(int group, ByteBuffer message, Runnable released)
            throws IOException, InterruptedException {
        requireDirect(message);
        Objects.requireNonNull(released, "released");
        touch(message);
        int at = message.position();
        int length = message.remaining();
        sending.lockInterruptibly();
        hasEndedInput = false;
        long lent = Releases.add(released);
        boolean isSent = false;
        try {
            long sent = until(() -> {
                long id = Native.jobTrySendOwned(number, group, message, at, length, lent);
                return id < 0 ? null : id;
            });
            isSent = true;
            return (int) sent;
        } finally {
            if (!isSent) {
                Releases.remove(lent);
            }
            sending.unlock();
        }
    }

    private static void requireDirect(ByteBuffer buffer) {
        if (!buffer.isDirect()) {
            throw new IllegalArgumentException(
                    "a heap buffer can't be sent like this: use ByteBuffer.allocateDirect, or"
                            + " send(group, buffer), which copies");
        }
    }

    /** Memory that was freed is an exception of Java here, and the JVM's end in native code. */
    private static void touch(ByteBuffer buffer) {
        if (buffer.hasRemaining()) {
            buffer.get(buffer.position());
            buffer.get(buffer.limit() - 1);
        }
    }

    private Scratch scratch() {
        if (scratch == null) {
            scratch = new Scratch();
        }
        return scratch;
    }

    /**
     * Sends messages that lie one behind the other from the buffer's position on. {@code taken}
     * counts them, also if it throws.
     */
    private int sendAll(
            int group, ByteBuffer messages, int[] lengths, int messageBytes, int count)
            throws IOException, InterruptedException {
        touch(messages);
        hasEndedInput = false;
        int first = -1;
        taken = 0;
        int at = messages.position();
        do {
            int from = taken;
            int offset = at;
            int left = count - from;
            long some = until(() -> {
                long tried = trySend(group, messages, offset, lengths, messageBytes, from, left);
                // No message at all is a call, too: it tells whether the job has ended.
                return count(tried) == 0 && left > 0 ? null : tried;
            });
            first = first < 0 ? first(some) : first;
            for (int i = 0; i < count(some); i++) {
                at += lengths == null ? messageBytes : lengths[from + i];
            }
            taken += count(some);
        } while (taken < count);
        return first;
    }

    private long trySend(
            int group,
            ByteBuffer messages,
            int offset,
            int[] lengths,
            int messageBytes,
            int from,
            int count)
            throws IOException {
        try {
            return Native.jobTrySend(
                    number, group, messages, offset, lengths, messageBytes, from, count);
        } catch (ShortfallException e) {
            hasEnded = true;
            throw e;
        }
    }

    private static int first(long taken) {
        return (int) (taken >>> 32);
    }

    private static int count(long taken) {
        return (int) taken;
    }

    /**
     * Changes the minimal sampling rate of a group, from the current window on; after {@link
     * #endWindow}, from the next one on. An exact group stays exact. Once the end is being
     * confirmed, the rate can only fall.
     *
     * @param group the group's id, 0 to 255
     * @param msr the rate, 0 to 1
     * @throws IllegalArgumentException if the rate or the group is out of its range
     * @throws IllegalStateException if the rate can't be changed at present; the message says why
     * @throws IOException if the job has failed
     */
    public void setMsr(int group, double msr) throws IOException {
        Native.jobSetMsr(number, group, msr);
    }

    /**
     * Announces the number of messages of a group for the windows that begin after this call.
     *
     * @param group the group's id, 0 to 255
     * @param messages N, 0 or more
     * @throws IllegalArgumentException if an argument is out of its range
     * @throws IOException if the job has failed
     */
    public void setMessages(int group, int messages) throws IOException {
        Native.jobSetMessages(number, group, messages);
    }

    /**
     * The job's progress, at most 50 ms old, also after its end.
     *
     * @return the progress
     * @throws ClosedException if the job was closed
     * @throws IOException never otherwise
     */
    public Progress progress() throws IOException {
        return Progress.read(new Fields(Native.jobProgress(number)));
    }

    /**
     * Ends the current window, and waits for its end: every group has its messages, or the deadline
     * has passed ({@link WindowReport#complete} is false then). The next message begins the next
     * window.
     *
     * @return the window's report
     * @throws IllegalArgumentException if N was announced without the option {@code windows}
     * @throws IllegalStateException if the receiver has ended the job: {@link #finish} has the
     *     report
     * @throws IOException if the job has failed
     * @throws InterruptedException if the thread was interrupted: the window goes on ending, and
     *     another call waits for it
     */
    public WindowReport endWindow() throws IOException, InterruptedException {
        ending.lockInterruptibly();
        try {
            // After an interrupt, the window that has begun to end is awaited.
            if (!hasEndedInput || !Native.jobAwaitsWindow(number)) {
                beginEndWindow();
                hasEndedInput = true;
            }
            WindowReport report = window(true);
            hasEndedInput = false;
            return report;
        } finally {
            ending.unlock();
        }
    }

    /**
     * Ends the input of the current window without waiting for its end: {@link #nextWindow} is the
     * second step. With the option {@code overlapWindows}, messages of the next window may follow
     * at once; it waits then while two windows have not ended.
     *
     * @throws IllegalArgumentException as {@link #endWindow}
     * @throws IOException if the job has failed
     * @throws InterruptedException if the thread was interrupted
     */
    public void beginEndWindow() throws IOException, InterruptedException {
        // A batch that another thread sends isn't divided between two windows.
        sending.lockInterruptibly();
        try {
            until(() -> Native.jobTryBeginEndWindow(number) ? true : null);
        } finally {
            sending.unlock();
        }
    }

    /**
     * Waits for the end of the oldest window that {@link #beginEndWindow} has ended and whose
     * report was not returned.
     *
     * @return the window's report; null if there is no such window
     * @throws IllegalStateException as {@link #endWindow}
     * @throws IOException if the job has failed
     * @throws InterruptedException if the thread was interrupted
     */
    public WindowReport nextWindow() throws IOException, InterruptedException {
        ending.lockInterruptibly();
        try {
            return Native.jobAwaitsWindow(number) ? window(false) : null;
        } finally {
            ending.unlock();
        }
    }

    private WindowReport window(boolean last) throws IOException, InterruptedException {
        byte[] report = until(() -> Native.jobTryWindow(number, last));
        return WindowReport.read(new Fields(report));
    }

    /**
     * Ends the input, and waits until the receiver confirms ceil(MSR * N) messages of every group.
     * The report has fewer messages if the deadline of the last window has passed ({@link
     * Report#canceled}), or the receiver has ended the job ({@link Report#endedByReceiver}).
     *
     * @return the report
     * @throws ShortfallException if the job ends below its minimal sampling rate
     * @throws IOException if the job has failed
     * @throws InterruptedException if the thread was interrupted: the job goes on ending, and
     *     another call waits for it
     */
    public Report finish() throws IOException, InterruptedException {
        Native.jobBeginFinish(number);
        return outcome();
    }

    /**
     * Ends the job now, and waits for the receiver's confirmation. A call of another thread that
     * waits for room ends with an {@link IllegalStateException}.
     *
     * @return the report of what was delivered
     * @throws ShortfallException if the receiver doesn't confirm the end
     * @throws IOException if the job has failed
     * @throws InterruptedException if the thread was interrupted: the job goes on ending, and
     *     another call waits for it
     */
    public Report cancel() throws IOException, InterruptedException {
        Native.jobBeginCancel(number);
        return outcome();
    }

    /** Sends the messages of a table, which the native library has. */
    void sendTable(long table) throws IOException, InterruptedException {
        int sent = 0;
        while (sent >= 0) {
            int from = sent;
            sent = until(() -> {
                int taken = Native.tableTrySend(table, number, from);
                return taken == 0 ? null : taken < 0 ? -1 : from + taken;
            });
        }
    }

    /** Ends a job of which the caller gets an exception. */
    void abandon() {
        hasEnded = true;
        cleanable.clean();
    }

    private Report outcome() throws IOException, InterruptedException {
        try {
            Report report = Report.read(new Fields(until(() -> Native.jobTryOutcome(number))));
            hasEnded = true;
            return report;
        } catch (ShortfallException e) {
            hasEnded = true;
            throw e;
        }
    }

    private <T> T until(Waits.Attempt<T> attempt) throws IOException, InterruptedException {
        boolean isDone = false;
        try {
            T result = Waits.until(attempt, timeoutMs -> Native.jobWait(number, timeoutMs));
            isDone = true;
            return result;
        } catch (ShortfallException e) {
            hasEnded = true;
            throw e;
        } finally {
            if (!isDone) {
                forgetWaits();
            }
            Reference.reachabilityFence(this);
        }
    }

    /** A call that is given up waits for no change any more. A job that has ended has none. */
    private void forgetWaits() {
        try {
            Native.jobForgetWaits(number);
        } catch (IOException e) {
            // The call's own exception says more.
        }
    }

    /**
     * Closes the job. Further calls do nothing.
     *
     * <p>Call {@link #finish} before, or {@link #cancel} to give the job up. Otherwise the job is
     * abandoned: messages that have not arrived are lost, and this method throws. Calls of other
     * threads that wait end with a {@link ClosedException}.
     *
     * @throws AtpException if the job's end was not awaited
     */
    @Override
    public void close() throws AtpException {
        boolean wasOpen = !hasEnded;
        hasEnded = true;
        cleanable.clean();
        if (wasOpen) {
            throw new AtpException(
                    "the job was closed before its end: call finish(), which waits for the"
                            + " messages that must arrive, or cancel() to give them up");
        }
    }

    @Override
    public String toString() {
        return "Job " + id + " to " + peer;
    }
}
