package org.netapprox.atp.flink.source;

import java.io.Serializable;
import java.util.List;
import org.apache.flink.annotation.Internal;
import org.netapprox.atp.Query;
import org.netapprox.atp.Rows;
import org.netapprox.atp.flink.RowFunction;

/**
 * The answer that a source gives for each window.
 *
 * @param query the query
 * @param columns the names of the table's columns
 * @param row makes the row of a record
 * @serial exclude
 */
@Internal
public record AnswerOptions(String query, List<String> columns, RowFunction row)
        implements Serializable {
    private static final long serialVersionUID = 1;

    /**
     * Opens the query.
     *
     * @return the query without rows
     * @throws IllegalArgumentException if the text is no query, or the table lacks one of its
     *     columns
     */
    public Query open() {
        return Query.builder(query).open(Rows.line(columns.toArray()));
    }
}
