package org.netapprox.atp.flink;

import java.io.IOException;
import java.io.Serializable;
import java.util.List;
import org.apache.flink.annotation.PublicEvolving;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.flink.sink.SchemaSerializer;

/**
 * Makes the bytes that {@link AtpSink} sends of a record.
 *
 * @param <T> the type of the records
 */
@PublicEvolving
@FunctionalInterface
public interface RecordSerializer<T> extends Serializable {
    /**
     * The value.
     *
     * @param record a record of the stream
     * @return its bytes, which the sink keeps; null for a tombstone
     * @throws IOException if the record has no bytes; the job fails
     */
    byte[] value(T record) throws IOException;

    /**
     * The key. Default: none.
     *
     * @param record a record of the stream
     * @return its bytes, which the sink keeps; null without one
     * @throws IOException if the record has no bytes; the job fails
     */
    default byte[] key(T record) throws IOException {
        return null;
    }

    /**
     * The headers. Default: none.
     *
     * @param record a record of the stream
     * @return names and values in their order
     * @throws IOException if the record has no bytes; the job fails
     */
    default List<WindowRecord.Header> headers(T record) throws IOException {
        return List.of();
    }

    /**
     * Prepares the serializer in a task, before its first record.
     *
     * @param context metrics and the class loader of the job
     * @throws Exception if it can't be prepared; the job fails
     */
    default void open(SerializationSchema.InitializationContext context) throws Exception {}

    /**
     * Records with the values of a schema, without keys and headers.
     *
     * @param schema the schema
     * @param <T> the type of the records
     * @return the serializer
     */
    static <T> RecordSerializer<T> of(SerializationSchema<T> schema) {
        return new SchemaSerializer<>(schema);
    }
}
