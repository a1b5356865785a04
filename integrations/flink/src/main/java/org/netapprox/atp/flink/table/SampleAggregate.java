package org.netapprox.atp.flink.table;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.annotation.FunctionHint;
import org.apache.flink.table.functions.AggregateFunction;
import org.apache.flink.types.Row;
import org.apache.flink.util.FlinkRuntimeException;
import org.netapprox.atp.Answers;
import org.netapprox.atp.Delivery;
import org.netapprox.atp.Estimate;
import org.netapprox.atp.Order;
import org.netapprox.atp.Query;
import org.netapprox.atp.flink.table.SampleAccumulator.Stratum;
import org.netapprox.atp.flink.table.SampleAccumulator.Value;

/**
 * An aggregate over all records of windows, from those that arrived, with an interval of 95 %. The
 * records of a stratum, which the metadata column {@code atp_stratum} names, are a simple random
 * sample of its N. Each record is one row at most. Use it with windows: without one, each row
 * computes the aggregate of all before.
 *
 * <p>The answer comes from the query of the Java library: each record is a message of one row, or
 * of none where it isn't among the aggregate's rows.
 */
@FunctionHint(output = @DataTypeHint("ROW<estimate DOUBLE, low DOUBLE, high DOUBLE>"))
public abstract class SampleAggregate extends AggregateFunction<Row, SampleAccumulator> {
    private static final long serialVersionUID = 1;

    private static final Delivery DRAWN = new Delivery(Order.SHUFFLED, false, Optional.empty());

    /** The query, over the column {@code v}. */
    private final String query;

    /** {@code query}: over the column {@code v}. */
    SampleAggregate(String query) {
        this.query = query;
    }

    @Override
    public SampleAccumulator createAccumulator() {
        return new SampleAccumulator();
    }

    /** Adds a record. A value that is null is missing: the record was drawn all the same. */
    void add(
            SampleAccumulator accumulator, Double value, String stratum, Long records, Long arrived)
            throws Exception {
        if (stratum == null || records == null || arrived == null) {
            throw new IllegalArgumentException(
                    getClass().getSimpleName()
                            + " has a null where it needs the columns atp_stratum, atp_n and"
                            + " atp_delivered of the table; a group of the rate 0 has no stratum,"
                            + " since its records are no random sample");
        }
        accumulator.strata.put(stratum, new Stratum(records, arrived));
        if (value != null) {
            accumulator.values.add(new Value(stratum, value));
        }
    }

    /**
     * Adds other accumulators.
     *
     * @param accumulator takes them
     * @param others the others
     * @throws Exception if state fails
     */
    public void merge(SampleAccumulator accumulator, Iterable<SampleAccumulator> others)
            throws Exception {
        for (SampleAccumulator other : others) {
            for (Map.Entry<String, Stratum> entry : other.strata.entries()) {
                accumulator.strata.put(entry.getKey(), entry.getValue());
            }
            accumulator.values.addAll(other.values.getList());
        }
    }

    @Override
    public Row getValue(SampleAccumulator accumulator) {
        try (Query asked = Query.builder(query).open("v")) {
            if (!fill(asked, accumulator)) {
                return null;
            }
            Answers answers = asked.answers();
            if (answers.rows().isEmpty()) {
                return null;
            }
            Estimate estimate = answers.rows().get(0).estimate();
            return Row.of(estimate.value(), estimate.low(), estimate.high());
        } catch (IOException e) {
            throw new IllegalStateException("the estimate of " + query + " failed: " + e, e);
        }
    }

    /** Returns whether there is a record. */
    private static boolean fill(Query asked, SampleAccumulator accumulator) throws IOException {
        Map<String, Integer> numbers = new HashMap<>();
        Map<String, Stratum> strata = new HashMap<>();
        Map<String, Long> without = new HashMap<>();
        try {
            for (Map.Entry<String, Stratum> entry : accumulator.strata.entries()) {
                int number = numbers.size();
                numbers.put(entry.getKey(), number);
                strata.put(entry.getKey(), entry.getValue());
                without.put(entry.getKey(), entry.getValue().arrived);
                asked.setMessagesSent(number, entry.getValue().records);
                asked.setDelivery(number, DRAWN);
            }
            for (Value value : accumulator.values.get()) {
                byte[] row = (value.value + "\n").getBytes(StandardCharsets.UTF_8);
                long left = without.merge(value.stratum, -1L, Long::sum);
                Stratum stratum = strata.get(value.stratum);
                if (left < stratum.arrived - stratum.records) {
                    throw new FlinkRuntimeException(
                            "the sample "
                                    + value.stratum
                                    + " has more rows than its "
                                    + stratum.records
                                    + " records: estimates take one row of each record");
                }
                asked.add(numbers.get(value.stratum), ByteBuffer.wrap(row));
            }
        } catch (IOException | FlinkRuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IOException("Flink's state failed: " + e.getMessage(), e);
        }
        for (Map.Entry<String, Long> entry : without.entrySet()) {
            for (long record = 0; record < entry.getValue(); record++) {
                asked.add(numbers.get(entry.getKey()), ByteBuffer.allocate(0));
            }
        }
        return asked.messages() > 0;
    }
}
