package org.netapprox.atp.flink.table;

/**
 * {@code ATP_COUNT(atp_stratum, atp_n, atp_delivered)}: the number of all records like those of the
 * rows, lost ones included, with an interval of 95 %: {@code ROW<estimate DOUBLE, low DOUBLE, high
 * DOUBLE>}. With {@code WHERE} or {@code GROUP BY} it is the number that meets the condition.
 */
public class AtpCount extends SampleAggregate {
    private static final long serialVersionUID = 1;

    /** The function. */
    public AtpCount() {
        super("count(v)");
    }

    /**
     * Adds a record.
     *
     * @param accumulator takes it
     * @param stratum the column {@code atp_stratum}
     * @param records the column {@code atp_n}
     * @param arrived the column {@code atp_delivered}
     * @throws Exception if state fails
     */
    public void accumulate(
            SampleAccumulator accumulator, String stratum, Long records, Long arrived)
            throws Exception {
        add(accumulator, 1.0, stratum, records, arrived);
    }
}
