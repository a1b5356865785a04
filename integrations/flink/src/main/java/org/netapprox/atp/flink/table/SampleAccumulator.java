package org.netapprox.atp.flink.table;

import java.util.Objects;
import org.apache.flink.table.api.dataview.ListView;
import org.apache.flink.table.api.dataview.MapView;

/**
 * The values of a sample, by stratum. Views keep them in Flink's state, one entry per record, so
 * that a record's costs don't grow with the number of those before it.
 */
public class SampleAccumulator {
    /** N and the number of records that arrived, of each stratum. */
    public MapView<String, Stratum> strata = new MapView<>();

    /** The values that aren't null, in no particular order. */
    public ListView<Value> values = new ListView<>();

    /** An accumulator without records. */
    public SampleAccumulator() {}

    /** The records of a stratum, whether their values belong here or not. */
    public static class Stratum {
        /** N. */
        public long records;

        /** Records that arrived. */
        public long arrived;

        /** A stratum without records. */
        public Stratum() {}

        Stratum(long records, long arrived) {
            this.records = records;
            this.arrived = arrived;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Stratum that
                    && records == that.records
                    && arrived == that.arrived;
        }

        @Override
        public int hashCode() {
            return Objects.hash(records, arrived);
        }
    }

    /** A value of a record. */
    public static class Value {
        /** The record's stratum. */
        public String stratum = "";

        /** The value. */
        public double value;

        /** A value of no stratum. */
        public Value() {}

        Value(String stratum, double value) {
            this.stratum = stratum;
            this.value = value;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Value that
                    && stratum.equals(that.stratum)
                    && value == that.value;
        }

        @Override
        public int hashCode() {
            return Objects.hash(stratum, value);
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof SampleAccumulator that
                && strata.equals(that.strata)
                && values.equals(that.values);
    }

    @Override
    public int hashCode() {
        return Objects.hash(strata, values);
    }
}
