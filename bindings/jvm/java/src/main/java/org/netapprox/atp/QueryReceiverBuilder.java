package org.netapprox.atp;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Objects;

/** Options of a {@link QueryReceiver}. An option that isn't set has its default. */
public final class QueryReceiverBuilder {
    private final String query;
    private final Options options = new Options();
    private ReceiverBuilder receiver = Receiver.builder();

    QueryReceiverBuilder(String query) {
        this.query = Objects.requireNonNull(query, "query");
    }

    /**
     * The number of senders to await. Others that began before the last awaited one ended may
     * finish. Default: 1.
     *
     * @param senders 1 or more
     * @return this builder
     */
    public QueryReceiverBuilder senders(int senders) {
        options.set("senders", senders);
        return this;
    }

    /**
     * The longest time without a packet of any sender. After it, the answers have what has arrived,
     * with a warning. Default: 60 s.
     *
     * @param timeout above 0
     * @return this builder
     */
    public QueryReceiverBuilder timeout(Duration timeout) {
        options.set("timeout", timeout);
        return this;
    }

    /**
     * The share of intervals that contain the answer of all rows. Default: 0.95.
     *
     * @param confidence above 0 and below 1
     * @return this builder
     */
    public QueryReceiverBuilder confidence(double confidence) {
        options.set("confidence", confidence);
        return this;
    }

    /**
     * The accepted error as a share of the answer: how far the interval reaches to the farther
     * side.
     * Each function of each key has to meet it, but for {@code min}, {@code max} and {@code
     * count(distinct)}, which are bounds. The receiver then asks the senders for as much as that
     * needs, or for the end. Default: none.
     *
     * @param share above 0 and below 1, such as 0.05
     * @return this builder
     */
    public QueryReceiverBuilder emax(double share) {
        options.set("emax", share);
        return this;
    }

    /**
     * The accepted error in the unit of the answer, in place of {@link #emax}.
     *
     * @param error above 0
     * @return this builder
     */
    public QueryReceiverBuilder emaxAbsolute(double error) {
        options.set("emax_absolute", error);
        return this;
    }

    /**
     * With an accepted error: whether the senders end also while a warning puts an answer in doubt,
     * such as rows in order or a heavy tail. Otherwise they then go on up to their own sampling
     * rates. Default: off.
     *
     * @param on whether they end
     * @return this builder
     */
    public QueryReceiverBuilder endInDoubt(boolean on) {
        options.set("end_in_doubt", on);
        return this;
    }

    /**
     * The options of the receiver itself. With jobs and peers, no stranger can take the place of a
     * sender. Default: those of {@link Receiver#builder}.
     *
     * @param receiver the options
     * @return this builder
     */
    public QueryReceiverBuilder receiver(ReceiverBuilder receiver) {
        this.receiver = Objects.requireNonNull(receiver, "receiver");
        return this;
    }

    /**
     * Starts to receive.
     *
     * @param local the address with a port, as for {@link ReceiverBuilder#bind(String)}
     * @return the receiver
     * @throws IllegalArgumentException if the text is no query, an option is out of its range, or
     *     an error is accepted of functions without an interval
     * @throws IOException as {@link ReceiverBuilder#bind(String)}
     */
    public QueryReceiver bind(String local) throws IOException {
        Objects.requireNonNull(local, "local");
        Library.load();
        return new QueryReceiver(
                query,
                Native.queryReceiverBind(query, options.texts(), local, receiver.texts()));
    }

    /**
     * Starts to receive, as {@link #bind(String)} does.
     *
     * @param local the address
     * @return the receiver
     * @throws IOException as {@link #bind(String)}
     */
    public QueryReceiver bind(InetSocketAddress local) throws IOException {
        return bind(Addresses.text(local));
    }
}
