package org.netapprox.atp.flink.sink;

import java.util.Objects;
import org.apache.flink.annotation.Internal;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.netapprox.atp.flink.RecordSerializer;

/**
 * Records with the values of one of Flink's schemas.
 *
 * @param <T> the type of the records
 */
@Internal
public final class SchemaSerializer<T> implements RecordSerializer<T> {
    private static final long serialVersionUID = 1;

    /** Makes the values. */
    private final SerializationSchema<T> schema;

    /**
     * Records with the values of this schema.
     *
     * @param schema the schema
     */
    public SchemaSerializer(SerializationSchema<T> schema) {
        this.schema = Objects.requireNonNull(schema, "schema");
    }

    @Override
    public void open(SerializationSchema.InitializationContext context) throws Exception {
        schema.open(context);
    }

    @Override
    public byte[] value(T record) {
        return schema.serialize(record);
    }
}
