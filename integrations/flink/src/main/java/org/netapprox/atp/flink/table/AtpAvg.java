package org.netapprox.atp.flink.table;

/**
 * {@code ATP_AVG(value, atp_stratum, atp_n, atp_delivered)}: the mean of the values of all records,
 * lost ones included, with an interval of 95 %: {@code ROW<estimate DOUBLE, low DOUBLE, high
 * DOUBLE>}.
 */
public class AtpAvg extends SampleAggregate {
    private static final long serialVersionUID = 1;

    /** The function. */
    public AtpAvg() {
        super("avg(v)");
    }

    /**
     * Adds a record.
     *
     * @param accumulator takes it
     * @param value the value; null is missing
     * @param stratum the column {@code atp_stratum}
     * @param records the column {@code atp_n}
     * @param arrived the column {@code atp_delivered}
     * @throws Exception if state fails
     */
    public void accumulate(
            SampleAccumulator accumulator, Double value, String stratum, Long records, Long arrived)
            throws Exception {
        add(accumulator, value, stratum, records, arrived);
    }
}
