package org.netapprox.atp;

import java.nio.charset.StandardCharsets;
import java.util.Objects;

/** Options of a {@link Query}. An option that isn't set has its default. */
public final class QueryBuilder {
    private final String query;
    private final Options options = new Options();

    QueryBuilder(String query) {
        this.query = Objects.requireNonNull(query, "query");
    }

    /**
     * The share of intervals that contain the answer of all rows. Default: 0.95.
     *
     * @param confidence above 0 and below 1
     * @return this builder
     */
    public QueryBuilder confidence(double confidence) {
        options.set("confidence", confidence);
        return this;
    }

    /**
     * The accepted error as a share of the answer: see {@link QueryReceiverBuilder#emax}. The query
     * then has a plan: see {@link Query#nextAction}. Default: none.
     *
     * @param share above 0 and below 1, such as 0.05
     * @return this builder
     */
    public QueryBuilder emax(double share) {
        options.set("emax", share);
        return this;
    }

    /**
     * The accepted error in the unit of the answer, in place of {@link #emax}.
     *
     * @param error above 0
     * @return this builder
     */
    public QueryBuilder emaxAbsolute(double error) {
        options.set("emax_absolute", error);
        return this;
    }

    /**
     * With an accepted error: whether the plan ends also while a warning puts an answer in doubt.
     * Default: off.
     *
     * @param on whether it ends
     * @return this builder
     */
    public QueryBuilder endInDoubt(boolean on) {
        options.set("end_in_doubt", on);
        return this;
    }

    /**
     * With an accepted error: the number of sources to await before the plan looks at the answers.
     * Default: none, so the first source's messages may suffice for the end.
     *
     * @param senders 1 or more
     * @return this builder
     */
    public QueryBuilder senders(int senders) {
        options.set("senders", senders);
        return this;
    }

    /**
     * Opens the query of a table.
     *
     * @param header the names of the table's columns: one line of CSV in UTF-8
     * @return the query
     * @throws IllegalArgumentException if the text is no query, the table lacks one of its columns,
     *     an option is out of its range, or an error is accepted of functions without an interval
     */
    public Query open(byte[] header) {
        Objects.requireNonNull(header, "header");
        Library.load();
        return new Query(query, Native.queryOpen(query, header, options.texts()));
    }

    /**
     * Opens the query of a table, as {@link #open(byte[])} does.
     *
     * @param header the names of the table's columns: one line of CSV
     * @return the query
     * @throws IllegalArgumentException as {@link #open(byte[])}
     */
    public Query open(String header) {
        return open(header.getBytes(StandardCharsets.UTF_8));
    }
}
