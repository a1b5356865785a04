package org.netapprox.atp.flink;

import java.io.Serializable;
import org.apache.flink.annotation.PublicEvolving;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.util.Collector;
import org.netapprox.atp.WindowGroup;
import org.netapprox.atp.WindowRecord;

/**
 * Makes elements of a stream from the records that arrive. It sees the window as well, so that an
 * element may carry {@link WindowGroup#weight}, the number of records that it stands for.
 *
 * @param <T> the type of the elements
 */
@PublicEvolving
public interface RecordDeserializer<T> extends Serializable, ResultTypeQueryable<T> {
    /**
     * Prepares a reader, before its first record. Default: does nothing.
     *
     * @param context the reader's metrics and class loader
     * @throws Exception if it fails: the job fails
     */
    default void open(DeserializationSchema.InitializationContext context) throws Exception {}

    /**
     * Makes the elements of a record. A record of which none is made is counted as left out.
     *
     * @param record the record
     * @param group the record's group
     * @param window the record's window
     * @param out takes the elements, during the call only
     * @throws Exception if the record can't be read: the job fails, and the window isn't confirmed
     */
    void deserialize(
            WindowRecord record, WindowGroup group, WindowSummary window, Collector<T> out)
            throws Exception;

    /**
     * Reads the value of each record by a schema of Flink. Records without a value (tombstones) are
     * left out. The end of a stream that a schema may name is ignored.
     *
     * @param schema the schema
     * @param <T> the type of the elements
     * @return the deserializer
     */
    static <T> RecordDeserializer<T> values(DeserializationSchema<T> schema) {
        return new RecordDeserializers.OfValues<>(schema);
    }

    /**
     * Makes an element of each record by a function.
     *
     * @param type the type of the elements
     * @param function the function
     * @param <T> the type of the elements
     * @return the deserializer
     */
    static <T> RecordDeserializer<T> of(TypeInformation<T> type, RecordFunction<T> function) {
        return new RecordDeserializers.OfFunction<>(type, function);
    }

    /**
     * Makes an element of a record.
     *
     * @param <T> the type of the elements
     */
    @FunctionalInterface
    interface RecordFunction<T> extends Serializable {
        /**
         * Makes the element.
         *
         * @param record the record
         * @param group the record's group
         * @param window the record's window
         * @return the element; null leaves the record out
         * @throws Exception if the record can't be read: the job fails
         */
        T apply(WindowRecord record, WindowGroup group, WindowSummary window) throws Exception;
    }
}
