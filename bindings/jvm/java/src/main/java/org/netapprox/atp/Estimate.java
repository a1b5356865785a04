package org.netapprox.atp;

import java.util.List;
import java.util.OptionalLong;

/**
 * An answer, and the interval that contains the answer of all rows with a stated confidence.
 *
 * @param value the answer, in the unit of the column
 * @param low the lower end; negative infinity if one message can't show how messages vary
 * @param high the upper end
 * @param confidence the share of intervals that contain the true answer, such as 0.95
 * @param degreesOfFreedom degrees of freedom of Student's t; infinite if every message arrived
 * @param messages messages that arrived
 * @param messagesSent N, the messages that were sent, if that is known
 * @param bound what an answer without an interval says of all rows
 * @param warnings reasons to doubt the interval: sentences that name the remedy
 * @param text the answer and its interval, such as {@code 12.30 (11.90 to 12.70, 95 %)}
 */
public record Estimate(
        double value,
        double low,
        double high,
        double confidence,
        double degreesOfFreedom,
        long messages,
        OptionalLong messagesSent,
        Bound bound,
        List<String> warnings,
        String text) {
    /**
     * The bound that a minimum, a maximum or a number of different values is for all rows, until
     * all of them have arrived.
     */
    public enum Bound {
        /** The answer has an interval, or all messages arrived. */
        NONE,
        /** The answer of all rows is as large, or larger. */
        AT_LEAST,
        /** The answer of all rows is as small, or smaller. */
        AT_MOST
    }

    static Estimate read(Fields f) {
        return new Estimate(
                f.f64(),
                f.f64(),
                f.f64(),
                f.f64(),
                f.f64(),
                f.u64(),
                f.optionalU64(),
                Bound.valueOf(f.text()),
                f.list(Fields::text),
                f.text());
    }

    /** The answer and its interval: {@link #text}. */
    @Override
    public String toString() {
        return text;
    }
}
