package org.netapprox.atp;

import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The answers of a query, each with its interval.
 *
 * @param query the query
 * @param by the columns of the keys; none without {@code by} or {@code GROUP BY}
 * @param functions the query's functions, such as {@code avg(delay)}
 * @param rows the answers, in the order of the keys and, for each key, of the functions; the
 *     largest first for {@code top}. A function without an answer for a key, such as a mean of no
 *     values, has no row there
 * @param separates of a {@code top} query, whether the sample shows that these keys are the largest
 * @param keysSeenFrom keys in at least this many messages have a row with a probability of at
 *     least 95 %; 0 if all messages arrived. Empty without keys, with keys beyond the limits, if
 *     the number of messages sent isn't known, or if those that arrived may be no fair sample
 * @param missing rows that arrived and meet the condition, but lack one of the query's numbers
 * @param warnings warnings about all rows together: sentences that name the remedy
 * @param messagesLeftOut messages that are not in the answers, although they should be
 * @param verdict whether the answers are as good as was asked for. Any doubt counts here, also of
 *     warnings; {@code atp-user recv} counts them with an accepted error only
 * @param plan the end of the plan, if an error was accepted
 * @param text the answers as lines, then the warnings, as {@code atp-user recv --query} prints them
 * @param json the answers as a JSON object, as {@code atp-user recv --query --json} prints it
 */
public record Answers(
        String query,
        List<String> by,
        List<String> functions,
        List<Row> rows,
        Optional<Boolean> separates,
        OptionalLong keysSeenFrom,
        long missing,
        List<String> warnings,
        long messagesLeftOut,
        Verdict verdict,
        Optional<PlanReport> plan,
        String text,
        String json) {
    /**
     * The answer of one function for one key.
     *
     * @param key the values of the key's columns; none without {@code by}
     * @param function the function, such as {@code avg(delay)}
     * @param estimate the answer and its interval
     */
    public record Row(List<String> key, String function, Estimate estimate) {
        /**
         * The key as one text.
         *
         * @return its values with commas between them; empty without {@code by}
         */
        public String keyText() {
            return String.join(", ", key);
        }
    }

    static Answers read(Fields f) {
        String query = f.text();
        List<String> by = f.list(Fields::text);
        List<String> functions = f.list(Fields::text);
        return new Answers(
                query,
                by,
                functions,
                f.list(
                        row ->
                                new Row(
                                        row.list(Fields::text),
                                        functions.get(row.i32()),
                                        Estimate.read(row))),
                f.optional(Fields::flag),
                f.optionalU64(),
                f.u64(),
                f.list(Fields::text),
                f.u64(),
                Verdict.valueOf(f.text()),
                f.optional(PlanReport::read),
                f.text(),
                f.text());
    }

    /**
     * The answer of the first function for a key.
     *
     * @param key the values of the key's columns; none for a query without keys
     * @return the answer; empty if the key has none
     */
    public Optional<Estimate> find(String... key) {
        List<String> wanted = Arrays.asList(key);
        return rows.stream()
                .filter(row -> row.key.equals(wanted) && row.function.equals(functions.get(0)))
                .map(Row::estimate)
                .findFirst();
    }

    /** The answers as lines for people: {@link #text}. */
    @Override
    public String toString() {
        return text;
    }
}
