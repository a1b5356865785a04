package org.netapprox.atp.flink;

import java.io.Serializable;
import org.apache.flink.annotation.PublicEvolving;
import org.netapprox.atp.WindowRecord;

/** Makes the row of a record, of the table that {@link AtpSourceBuilder#answer} is about. */
@PublicEvolving
@FunctionalInterface
public interface RowFunction extends Serializable {
    /**
     * Makes the row.
     *
     * @param record the record
     * @return a value for each column; a null among them is a missing value, and a null instead of
     *     the array a row of missing values. Each record is a row, since those that didn't arrive
     *     count as rows
     * @throws Exception if the record can't be read: the job fails
     */
    Object[] row(WindowRecord record) throws Exception;
}
