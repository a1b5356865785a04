package org.netapprox.atp;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Answers a query of the tables that senders send: {@link Table} in Java, {@code atp-user send
 * --csv}, and data frames of Python.
 *
 * <pre>{@code
 * var query = QueryReceiver.builder("avg(delay) by carrier").emax(0.05);
 * try (QueryReceiver receiver = query.bind("0.0.0.0:4747")) {
 *     System.out.print(receiver.await());
 * }
 * }</pre>
 *
 * <p>It receives while a thread is in {@link #await()}. Several threads may use it. Calls that wait
 * notice an interrupt of their thread, and the receiver's end, within 50 ms.
 */
public final class QueryReceiver implements AutoCloseable {
    private final long number;
    private final String query;
    private final InetSocketAddress address;
    private final Cleaner.Cleanable cleanable;

    /** Gives each thread its turn, also while messages arrive without a pause. */
    private final ReentrantLock turn = new ReentrantLock(true);

    QueryReceiver(String query, long number) throws IOException {
        this.number = number;
        this.query = query;
        cleanable = Closing.register(this, () -> Native.queryReceiverClose(number));
        address = new Fields(Native.queryReceiverAddress(number)).address();
    }

    /**
     * The options of a receiver that answers a query, at their defaults.
     *
     * @param query the query: one function such as {@code avg(delay) by carrier}, or SQL such as
     *     {@code SELECT avg(delay), count(*) WHERE distance > 1000 GROUP BY carrier, origin}
     * @return the options; {@link QueryReceiverBuilder#bind(String)} checks the query
     */
    public static QueryReceiverBuilder builder(String query) {
        return new QueryReceiverBuilder(query);
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
     * Receives until the senders have ended or the accepted error is met. After the timeout without
     * a packet, the answers have what has arrived, with a warning. Every later call has the same
     * outcome.
     *
     * @return the answers
     * @throws NoAnswerException if what arrived has no answer, as without one of the query's
     *     columns
     * @throws ClosedException if the receiver is closed
     * @throws InterruptedException if the thread was interrupted: another call goes on, and {@link
     *     #finishNow} answers with what has arrived
     * @throws IOException if the receiver has failed
     */
    public Answers await() throws IOException, InterruptedException {
        return run(Waits.NEVER);
    }

    /**
     * Receives as {@link #await()} does, for a time.
     *
     * @param time how long, 0 or longer
     * @return the answers, or null if the senders haven't ended: call again
     * @throws NoAnswerException if what arrived has no answer
     * @throws ClosedException if the receiver is closed
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if the receiver has failed
     */
    public Answers await(Duration time) throws IOException, InterruptedException {
        return run(Waits.deadline(time));
    }

    /**
     * Awaits no sender any longer, and answers with what has arrived. A call of another thread ends
     * with the same answers. Their verdict is that they are in doubt.
     *
     * @return the answers
     * @throws NoAnswerException if nothing has arrived that has an answer
     * @throws ClosedException if the receiver is closed
     * @throws InterruptedException if the thread was interrupted
     * @throws IOException if the receiver has failed
     */
    public Answers finishNow() throws IOException, InterruptedException {
        turn.lockInterruptibly();
        try {
            Native.queryReceiverCutShort(number);
        } finally {
            turn.unlock();
        }
        return await();
    }

    private Answers run(long deadline) throws IOException, InterruptedException {
        try {
            while (true) {
                Waits.checkInterrupt();
                byte[] taken = runOnce();
                if (taken != null && taken.length > 0) {
                    return Answers.read(new Fields(taken));
                }
                int part = Waits.partMs(deadline);
                if (part == 0) {
                    return null;
                }
                if (taken == null) {
                    Native.queryReceiverWait(number, part);
                }
            }
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private byte[] runOnce() throws IOException, InterruptedException {
        turn.lockInterruptibly();
        try {
            return Native.queryReceiverRun(number);
        } finally {
            turn.unlock();
        }
    }

    /**
     * The state of the answers. A line of many keys takes time, so an older one comes instead if
     * lines would take more than a tenth of it.
     *
     * @return the state
     * @throws ClosedException if the receiver is closed
     * @throws IOException if the receiver has failed
     */
    public QueryProgress progress() throws IOException {
        turn.lock();
        try {
            return QueryProgress.read(new Fields(Native.queryReceiverProgress(number)));
        } finally {
            turn.unlock();
        }
    }

    /**
     * Closes the receiver. Calls of other threads end with a {@link ClosedException}. It may take
     * the time of {@link ReceiverBuilder#linger}: the senders learn that their jobs have ended.
     * Further calls do nothing.
     */
    @Override
    public void close() {
        cleanable.clean();
    }

    @Override
    public String toString() {
        return "QueryReceiver of " + query + " at " + address;
    }
}
