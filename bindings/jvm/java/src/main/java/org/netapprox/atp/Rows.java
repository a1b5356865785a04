package org.netapprox.atp;

import java.nio.charset.StandardCharsets;
import java.util.Objects;

/**
 * Rows of a table, for {@link Table#of}.
 *
 * <pre>{@code
 * var rows = new Rows("carrier", "delay").add("AA", 12.5).add("UA", null);
 * }</pre>
 *
 * <p>One thread at a time may use it.
 */
public final class Rows {
    private final StringBuilder csv = new StringBuilder();
    private final int columns;

    /**
     * A table without rows.
     *
     * @param columns the names of the columns, one at least
     * @throws IllegalArgumentException if there is no column
     */
    public Rows(String... columns) {
        if (columns.length == 0) {
            throw new IllegalArgumentException("a table must have a column: name one at least");
        }
        this.columns = columns.length;
        csv.append(line((Object[]) columns));
    }

    /**
     * Adds a row. A null and NaN are missing values; of a query, an empty text is one, too. Other
     * objects are written as their {@code toString}.
     *
     * @param values a value for each column
     * @return these rows
     * @throws IllegalArgumentException if there are more or fewer values than columns, or a number
     *     is infinite
     */
    public Rows add(Object... values) {
        if (values == null) {
            // Java takes the null of a table with one column for the array.
            return add(new Object[1]);
        }
        if (values.length != columns) {
            throw new IllegalArgumentException(
                    "a row must have " + columns + " values, one for each column, not "
                            + values.length);
        }
        csv.append(line(values));
        return this;
    }

    /**
     * A row as a line of CSV, with its end: for {@link Query#add}, and of names of columns for
     * {@link QueryBuilder#open(String)}. A null and NaN are missing values.
     *
     * @param values the values
     * @return the line
     * @throws IllegalArgumentException if a number is infinite
     */
    public static String line(Object... values) {
        StringBuilder line = new StringBuilder();
        for (int i = 0; i < values.length; i++) {
            if (values[i] instanceof Number number && Double.isInfinite(number.doubleValue())) {
                throw new IllegalArgumentException(
                        "an infinite number can't be counted: leave it out, or give null");
            }
            line.append(i == 0 ? "" : ",").append(field(values[i]));
        }
        return line.append('\n').toString();
    }

    /** A value of CSV (RFC 4180). */
    private static String field(Object value) {
        boolean isMissing = value == null || value instanceof Number n && isNaN(n);
        String text = isMissing ? "" : Objects.toString(value);
        boolean isPlain =
                text.chars().noneMatch(c -> c == ',' || c == '"' || c == '\n' || c == '\r');
        return isPlain ? text : '"' + text.replace("\"", "\"\"") + '"';
    }

    private static boolean isNaN(Number number) {
        return Double.isNaN(number.doubleValue());
    }

    /** The rows behind the line with the columns' names. */
    byte[] csv() {
        return csv.toString().getBytes(StandardCharsets.UTF_8);
    }
}
