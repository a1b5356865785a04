package org.netapprox.atp;

import java.util.OptionalLong;

/**
 * The end of a plan for an accepted error.
 *
 * @param reason why the error wasn't met, or {@link Reason#MET}
 * @param messagesMissing with {@link Reason#SENDERS_ENDED}: the messages that are missing, if every
 *     sender has told its own
 * @param reached the largest error of the rows, in the form of the accepted one: a share, or in the
 *     unit of the answer
 * @param level the confidence of the last look, which pays for all looks: above that of the query
 * @param looks how often the plan looked at the answers
 * @param text the report in a sentence
 */
public record PlanReport(
        Reason reason,
        OptionalLong messagesMissing,
        double reached,
        double level,
        long looks,
        String text) {
    /** Why an accepted error wasn't met. */
    public enum Reason {
        /** It was met. */
        MET,
        /** The senders ended and messages are missing: begin with a higher sampling rate. */
        SENDERS_ENDED,
        /** The answer may be 0, of which no share is an error: accept one in its unit. */
        NEAR_ZERO,
        /** Too few messages carry an answer: begin with a rate of 1, or send smaller messages. */
        FEW_MESSAGES,
        /** The intervals are narrow enough, but a warning puts an answer in doubt. */
        IN_DOUBT,
        /** A ratio's denominator may be 0: begin with a higher rate, or ask for the two sums. */
        DENOMINATOR_NEAR_ZERO,
        /** A reason that this version of the jar doesn't know: see the text. */
        OTHER
    }

    static PlanReport read(Fields f) {
        return new PlanReport(
                Reason.valueOf(f.text()), f.optionalU64(), f.f64(), f.f64(), f.u32(), f.text());
    }

    /**
     * Whether each answer has an interval that reaches no farther than accepted, and no warning
     * puts one in doubt.
     *
     * @return whether the error was met
     */
    public boolean isMet() {
        return reason == Reason.MET;
    }

    /** The report in a sentence: {@link #text}. */
    @Override
    public String toString() {
        return text;
    }
}
