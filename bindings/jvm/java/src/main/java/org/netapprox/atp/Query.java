package org.netapprox.atp;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.Optional;

/**
 * A query whose messages a program adds: for engines that receive themselves. {@link QueryReceiver}
 * does all of it for others.
 *
 * <p>The rows arrive as CSV: whole lines in each message, without a header. A <em>stratum</em> is
 * the part of a job that one sender sends in one group (and window), under a number of the
 * program's choice, 0 or more.
 *
 * <p>With an accepted error, the query has a plan. Tell it the sources as they start and end, take
 * {@link #nextAction} after each message until it is empty, and pass the requests to the senders.
 *
 * <p>Several threads may use it. Every method but {@link #close} throws {@link ClosedException}
 * once it is closed.
 */
public final class Query implements AutoCloseable {
    private final long number;
    private final String query;
    private final Cleaner.Cleanable cleanable;

    Query(String query, long number) {
        this.number = number;
        this.query = query;
        cleanable = Closing.register(this, () -> Native.queryClose(number));
    }

    /**
     * The options of a query, at their defaults.
     *
     * @param query the query: see {@link QueryReceiver#builder}
     * @return the options
     */
    public static QueryBuilder builder(String query) {
        return new QueryBuilder(query);
    }

    /**
     * Adds the rows of one message. Missing values are empty, {@code NA}, {@code N/A}, {@code
     * null} or {@code \N}.
     *
     * @param stratum the stratum, 0 or more
     * @param message whole lines of CSV in UTF-8, from the position to the limit, which stay
     * @throws DataException if a row can't be read or counted: the message is left out
     * @throws IOException if the query has failed
     */
    public void add(int stratum, ByteBuffer message) throws IOException {
        add(stratum, message, false);
    }

    /**
     * Takes the totals of a stratum's table: message 1 of the group 255 of a job of {@link
     * Table#send}. A count of all rows is then exact, and other counts and sums vary less. Answers
     * but {@code count(*)} fail until a message of the stratum has arrived.
     *
     * @param stratum the stratum, 0 or more
     * @param message the totals, from the position to the limit, which stay
     * @throws DataException if the message isn't totals, or contradicts others: the query goes on
     *     without them
     * @throws IOException if the query has failed
     */
    public void addTotals(int stratum, ByteBuffer message) throws IOException {
        add(stratum, message, true);
    }

    private void add(int stratum, ByteBuffer message, boolean isTotals) throws IOException {
        if (message.isDirect()) {
            Native.queryAdd(
                    number,
                    stratum,
                    message,
                    message.position(),
                    message.remaining(),
                    null,
                    isTotals);
        } else {
            byte[] heap = new byte[message.remaining()];
            message.duplicate().get(heap);
            Native.queryAdd(number, stratum, null, 0, 0, heap, isTotals);
        }
        Reference.reachabilityFence(this);
    }

    /**
     * Sets N, the number of messages that a stratum sends: when its source starts, and at its end.
     * Sums and counts need it. A smaller N replaces an announced one.
     *
     * @param stratum the stratum, 0 or more
     * @param messages N, 0 to 2^32 - 1
     * @throws DataException if more have arrived, or a smaller N was set
     * @throws IOException if the query has failed
     */
    public void setMessagesSent(int stratum, long messages) throws IOException {
        Native.querySetMessagesSent(number, stratum, messages);
        Reference.reachabilityFence(this);
    }

    /**
     * Sets the number of rows in all messages of a stratum, arrived or not, with or without a
     * value. A count of all rows is then exact, and other counts and sums vary less.
     *
     * @param stratum the stratum, 0 or more
     * @param rows the rows, 0 or more
     * @throws DataException if another number was set
     * @throws IOException if the query has failed
     */
    public void setRows(int stratum, long rows) throws IOException {
        Native.querySetRows(number, stratum, rows);
        Reference.reachabilityFence(this);
    }

    /**
     * Sets how the messages of a stratum were sent, and which are missing: when its source starts,
     * and again at its end. An incomplete stratum whose messages aren't known to be shuffled has a
     * warning.
     *
     * @param stratum the stratum, 0 or more
     * @param delivery the facts
     * @throws IllegalArgumentException if the lost ids aren't in ascending order
     * @throws IOException if the query has failed
     */
    public void setDelivery(int stratum, Delivery delivery) throws IOException {
        Native.querySetDelivery(
                number,
                stratum,
                delivery.order().option(),
                delivery.shortestFirst(),
                delivery.ends());
        Reference.reachabilityFence(this);
    }

    /**
     * The messages that were added.
     *
     * @return their number
     * @throws IOException if the query has failed
     */
    public long messages() throws IOException {
        return fenced(Native.queryMessages(number));
    }

    /**
     * The answers from the messages so far.
     *
     * @return a snapshot, which later messages don't change
     * @throws NoAnswerException if no message has arrived, or a sum or count lacks an N
     * @throws IOException if the query has failed
     */
    public Answers answers() throws IOException {
        return Answers.read(new Fields(fenced(Native.queryAnswers(number))));
    }

    /**
     * The answer over all keys of the first function.
     *
     * @return the answer; empty unless the function is a sum, count, mean or ratio
     * @throws NoAnswerException as {@link #answers}
     * @throws IOException if the query has failed
     */
    public Optional<Estimate> overall() throws IOException {
        byte[] overall = fenced(Native.queryOverall(number));
        return Optional.ofNullable(overall).map(bytes -> Estimate.read(new Fields(bytes)));
    }

    /**
     * Tells the plan that a source starts. Leave out exact groups, which keep their rate: {@link
     * #sourceKnown} counts them.
     *
     * @param stratum the stratum, 0 or more
     * @param msr the sampling rate that its terms name, 0 to 1
     * @throws IllegalStateException if no error is accepted
     * @throws IOException if the query has failed
     */
    public void sourceStarted(int stratum, double msr) throws IOException {
        Native.querySourceStarted(number, stratum, msr);
        Reference.reachabilityFence(this);
    }

    /**
     * Counts a source among {@link QueryBuilder#senders}, without requests for it: one of an exact
     * group, or one whose first message came before its start.
     *
     * @param stratum the stratum, 0 or more
     * @throws IllegalStateException if no error is accepted
     * @throws IOException if the query has failed
     */
    public void sourceKnown(int stratum) throws IOException {
        Native.querySourceKnown(number, stratum);
        Reference.reachabilityFence(this);
    }

    /**
     * Tells the plan that a sender has handed over its last message: its sampling rate can only
     * fall from now on.
     *
     * @param stratum the stratum, 0 or more
     * @throws IllegalStateException if no error is accepted
     * @throws IOException if the query has failed
     */
    public void sourceEnding(int stratum) throws IOException {
        Native.querySourceEnding(number, stratum);
        Reference.reachabilityFence(this);
    }

    /**
     * Tells the plan that no message of a source will arrive any more. After the last source the
     * plan looks once more: call {@link #nextAction}.
     *
     * @param stratum the stratum, 0 or more
     * @throws IllegalStateException if no error is accepted
     * @throws IOException if the query has failed
     */
    public void sourceEnded(int stratum) throws IOException {
        Native.querySourceEnded(number, stratum);
        Reference.reachabilityFence(this);
    }

    /**
     * The plan's next step. Looks at the answers if that is due.
     *
     * @return the step; empty if there is none at present
     * @throws IllegalStateException if no error is accepted
     * @throws NoAnswerException if all sources ended and there is no answer
     * @throws IOException if the query has failed
     */
    public Optional<PlanAction> nextAction() throws IOException {
        return Optional.ofNullable(fenced(Native.queryNextAction(number)))
                .flatMap(Query::action);
    }

    /**
     * The end of the plan: the error was met, or all sources ended.
     *
     * @return the report; empty before the end
     * @throws IllegalStateException if no error is accepted
     * @throws IOException if the query has failed
     */
    public Optional<PlanReport> plan() throws IOException {
        byte[] report = fenced(Native.queryReport(number));
        return Optional.ofNullable(report).map(bytes -> PlanReport.read(new Fields(bytes)));
    }

    /** Empty for a kind that this version doesn't know. */
    private static Optional<PlanAction> action(byte[] bytes) {
        if (bytes.length == 0) {
            return Optional.empty();
        }
        Fields f = new Fields(bytes);
        return Optional.of(
                switch (f.text()) {
                    case "RAISE" -> new PlanAction.Raise(f.i32(), f.f64());
                    case "LOWER" -> new PlanAction.Lower(f.i32(), f.f64());
                    case "END" -> new PlanAction.End();
                    default -> new PlanAction.Wait(f.u64());
                });
    }

    /** Keeps the query open until the native call has returned. */
    private <T> T fenced(T result) {
        Reference.reachabilityFence(this);
        return result;
    }

    /** Frees the query. Further calls do nothing. */
    @Override
    public void close() {
        cleanable.clean();
    }

    @Override
    public String toString() {
        return "Query " + query;
    }
}
