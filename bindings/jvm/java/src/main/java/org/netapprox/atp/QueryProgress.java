package org.netapprox.atp;

import java.util.Optional;
import java.util.OptionalLong;

/**
 * The state of a query that is being answered.
 *
 * @param line the answers so far in a line, such as {@code avg(x): 12.63 ± 0.75 from 420 of 1000
 *     messages}; empty before there is one
 * @param messages messages of the tables that arrived
 * @param messagesSent N, the messages that the senders send, if all have said it
 */
public record QueryProgress(Optional<String> line, long messages, OptionalLong messagesSent) {
    static QueryProgress read(Fields f) {
        return new QueryProgress(f.optional(Fields::text), f.u64(), f.optionalU64());
    }

    /** The line, or the number of messages. */
    @Override
    public String toString() {
        return line.orElseGet(() -> messages + " messages");
    }
}
