package org.netapprox.atp;

import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * How the messages of a stratum were sent, and which of them are missing: facts that decide whether
 * those that arrived are a fair sample.
 *
 * @param order the order of the messages, as the sender's terms state it
 * @param shortestFirst whether short messages came first and messages differ in length
 * @param lost the ids that didn't arrive, in ascending order; empty before the end of the job
 */
public record Delivery(Order order, boolean shortestFirst, Optional<List<IdRange>> lost) {
    /**
     * Checks that nothing is null.
     *
     * @param order the order of the messages
     * @param shortestFirst whether short messages came first
     * @param lost the ids that didn't arrive
     * @throws NullPointerException if something is null
     */
    public Delivery {
        Objects.requireNonNull(order, "order");
        Objects.requireNonNull(lost, "lost");
    }

    /**
     * The facts at the start of a job: of {@link Event.Started}.
     *
     * @param terms the terms of the group
     */
    public Delivery(GroupTerms terms) {
        this(terms.order(), terms.shortestFirst(), Optional.empty());
    }

    /**
     * The facts at the end of a job: of {@link Event.Finished}.
     *
     * @param terms the terms of the group
     * @param summary the outcome of the group
     */
    public Delivery(GroupTerms terms, GroupSummary summary) {
        this(terms.order(), terms.shortestFirst(), Optional.of(summary.lost()));
    }

    /** The first id and the id behind the last of each range, for the native library; or null. */
    int[] ends() {
        if (lost.isEmpty()) {
            return null;
        }
        IntStream ends = lost.get().stream().flatMapToInt(r -> IntStream.of(r.start(), r.end()));
        return ends.toArray();
    }
}
