package org.netapprox.atp.flink.source;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashSet;
import java.util.Optional;
import java.util.Set;
import org.netapprox.atp.Answers;
import org.netapprox.atp.DataException;
import org.netapprox.atp.Delivery;
import org.netapprox.atp.NoAnswerException;
import org.netapprox.atp.Order;
import org.netapprox.atp.Query;
import org.netapprox.atp.Rows;
import org.netapprox.atp.Window;
import org.netapprox.atp.WindowGroup;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.flink.WindowSummary;

/** Answers a query about all records of a window, as the Rust library does for its own windows. */
final class WindowAnswers {
    private static final ByteBuffer NO_ROW = ByteBuffer.allocate(0);

    private final AnswerOptions options;

    WindowAnswers(AnswerOptions options) {
        this.options = options;
    }

    /**
     * Adds the answers to a window's summary. Each group is a stratum, and each record a message of
     * one row.
     *
     * @return the rows that couldn't be read or counted
     * @throws Exception if the function of the rows fails, or the query
     */
    long answer(Window window, WindowSummary summary) throws Exception {
        Set<String> warnings = new LinkedHashSet<>();
        long leftOut = 0;
        try (Query query = options.open()) {
            for (Window.Sample sample : window.samples()) {
                WindowGroup group = sample.group();
                if (group.records() == 0) {
                    continue;
                }
                query.setMessagesSent(group.id(), group.records());
                query.setDelivery(group.id(), delivery(group));
                if (window.repeated() == 0) {
                    // Otherwise nothing says in which groups the lost ones of them are.
                    query.setRows(group.id(), group.records());
                }
                for (WindowRecord record : sample.records()) {
                    try {
                        query.add(group.id(), row(record));
                    } catch (DataException e) {
                        leftOut++;
                        warnings.add("a row is left out: " + e.getMessage());
                    }
                }
                // The others were counted before: they arrived, and aren't part of this answer.
                for (long i = sample.records().size(); i < group.arrived(); i++) {
                    query.add(group.id(), NO_ROW);
                }
            }
            read(query.answers(), summary, warnings);
        } catch (NoAnswerException e) {
            warnings.add(e.getMessage());
        }
        summary.warnings.addAll(warnings);
        return leftOut;
    }

    private static Delivery delivery(WindowGroup group) {
        // Where some of those that were sent got lost, long ones got lost more often.
        boolean shortestFirst = group.hasLong() && group.arrived() < group.sent();
        return new Delivery(Order.SHUFFLED, shortestFirst, Optional.empty());
    }

    private ByteBuffer row(WindowRecord record) throws Exception {
        int columns = options.columns().size();
        Object[] values = options.row().row(record);
        if (values == null) {
            values = new Object[columns];
        }
        if (values.length != columns) {
            throw new IllegalArgumentException(
                    "a row must have " + columns + " values, one for each column of the answer,"
                            + " not " + values.length);
        }
        return ByteBuffer.wrap(Rows.line(values).getBytes(StandardCharsets.UTF_8));
    }

    private static void read(Answers answers, WindowSummary summary, Set<String> warnings) {
        for (Answers.Row row : answers.rows()) {
            WindowSummary.Answer answer = new WindowSummary.Answer();
            answer.label = row.function() + (row.key().isEmpty() ? "" : " for " + row.keyText());
            answer.value = row.estimate().value();
            answer.low = row.estimate().low();
            answer.high = row.estimate().high();
            summary.answers.add(answer);
            warnings.addAll(row.estimate().warnings());
        }
        warnings.addAll(answers.warnings());
    }
}
