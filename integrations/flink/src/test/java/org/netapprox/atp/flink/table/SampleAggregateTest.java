package org.netapprox.atp.flink.table;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Random;
import org.apache.flink.types.Row;
import org.apache.flink.util.FlinkRuntimeException;
import org.junit.jupiter.api.Test;

/** Estimates of a sample are about all records, and say how wrong they may be. */
class SampleAggregateTest {
    private static double at(Row estimate, int field) {
        return (Double) estimate.getField(field);
    }

    @Test
    void withoutLossesItIsExact() throws Exception {
        var mean = new AtpAvg();
        var accumulator = mean.createAccumulator();
        for (int value = 0; value < 100; value++) {
            mean.accumulate(accumulator, (double) value, "a", 100L, 100L);
        }
        assertEquals(Row.of(49.5, 49.5, 49.5), mean.getValue(accumulator));
        var sum = new AtpSum();
        assertEquals(Row.of(4_950.0, 4_950.0, 4_950.0), sum.getValue(accumulator));
    }

    @Test
    void withoutRecordsThereIsNone() {
        assertNull(new AtpAvg().getValue(new AtpAvg().createAccumulator()));
    }

    /** Two strata of other sizes and other rates weigh as their records do. */
    @Test
    void strataWeighByTheirRecords() throws Exception {
        var sum = new AtpSum();
        var one = sum.createAccumulator();
        var other = sum.createAccumulator();
        for (int record = 0; record < 50; record++) {
            sum.accumulate(one, 1.0 + record % 2, "small", 100L, 50L);
        }
        for (int record = 0; record < 400; record++) {
            sum.accumulate(other, 10.0 + record % 2, "large", 4_000L, 400L);
        }
        sum.merge(one, List.of(other));
        Row estimate = sum.getValue(one);
        assertEquals(100 * 1.5 + 4_000 * 10.5, at(estimate, 0), 1e-6);
        assertTrue(at(estimate, 1) < at(estimate, 0) && at(estimate, 0) < at(estimate, 2));
    }

    /** A part of the records: those of the others are in the sample, too. */
    @Test
    void aPartKnowsTheWholeSample() throws Exception {
        var count = new AtpCount();
        var accumulator = count.createAccumulator();
        for (int record = 0; record < 30; record++) {
            count.accumulate(accumulator, "a", 1_000L, 500L);
        }
        Row estimate = count.getValue(accumulator);
        assertEquals(60, at(estimate, 0), 1e-9);
        assertTrue(at(estimate, 1) < 60 && 60 < at(estimate, 2), estimate.toString());
    }

    /** A value that is missing lowers the count of values, and leaves the mean alone. */
    @Test
    void missingValuesAreLeftOut() throws Exception {
        var mean = new AtpAvg();
        var accumulator = mean.createAccumulator();
        for (int record = 0; record < 40; record++) {
            mean.accumulate(accumulator, record % 2 == 0 ? null : 3.0 + record % 3, "a", 60L, 40L);
        }
        double value = at(mean.getValue(accumulator), 0);
        assertTrue(value > 3 && value < 5, "" + value);
    }

    /** Several rows of a record, as an UNNEST makes them, would be counted as several records. */
    @Test
    void moreRowsThanRecordsAreRefused() throws Exception {
        var sum = new AtpSum();
        var accumulator = sum.createAccumulator();
        for (int row = 0; row < 11; row++) {
            sum.accumulate(accumulator, 1.0, "a", 10L, 5L);
        }
        var e = assertThrows(FlinkRuntimeException.class, () -> sum.getValue(accumulator));
        assertTrue(e.getMessage().contains("more rows than its 10 records"), e.getMessage());
    }

    @Test
    void columnsThatAreNullAreRefused() {
        var mean = new AtpAvg();
        var accumulator = mean.createAccumulator();
        var e = assertThrows(IllegalArgumentException.class,
                () -> mean.accumulate(accumulator, 1.0, null, 5L, 5L));
        assertTrue(e.getMessage().contains("atp_stratum"), e.getMessage());
    }

    /** The seed is fixed: this passes always or never. 95 % of 200, with a deviation of 3.1. */
    @Test
    void intervalsHoldTheMean() throws Exception {
        var random = new Random(7);
        int held = 0;
        for (int trial = 0; trial < 200; trial++) {
            var mean = new AtpAvg();
            var accumulator = mean.createAccumulator();
            double sum = 0;
            for (int record = 0; record < 400; record++) {
                double value = random.nextGaussian() * 5 + 20;
                sum += value;
                // The first 200 of records that are independent are a simple random sample.
                if (record < 200) {
                    mean.accumulate(accumulator, value, "a", 400L, 200L);
                }
            }
            Row estimate = mean.getValue(accumulator);
            if (at(estimate, 1) <= sum / 400 && sum / 400 <= at(estimate, 2)) {
                held++;
            }
        }
        assertTrue(held >= 178 && held <= 199, held + " of 200");
    }
}
