package org.netapprox.atp.flink;

import java.util.Objects;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.util.Collector;
import org.netapprox.atp.WindowGroup;
import org.netapprox.atp.WindowRecord;

/** The deserializers that {@link RecordDeserializer} makes. */
final class RecordDeserializers {
    private RecordDeserializers() {}

    /** See {@link RecordDeserializer#values}. */
    static final class OfValues<T> implements RecordDeserializer<T> {
        private static final long serialVersionUID = 1;

        private final DeserializationSchema<T> schema;

        OfValues(DeserializationSchema<T> schema) {
            this.schema = Objects.requireNonNull(schema, "schema");
        }

        @Override
        public void open(DeserializationSchema.InitializationContext context) throws Exception {
            schema.open(context);
        }

        @Override
        public void deserialize(
                WindowRecord record, WindowGroup group, WindowSummary window, Collector<T> out)
                throws Exception {
            if (record.value() != null) {
                schema.deserialize(record.value(), out);
            }
        }

        @Override
        public TypeInformation<T> getProducedType() {
            return schema.getProducedType();
        }
    }

    /** See {@link RecordDeserializer#of}. */
    static final class OfFunction<T> implements RecordDeserializer<T> {
        private static final long serialVersionUID = 1;

        private final TypeInformation<T> type;
        private final RecordDeserializer.RecordFunction<T> function;

        OfFunction(
                TypeInformation<T> type, RecordDeserializer.RecordFunction<T> function) {
            this.type = Objects.requireNonNull(type, "type");
            this.function = Objects.requireNonNull(function, "function");
        }

        @Override
        public void deserialize(
                WindowRecord record, WindowGroup group, WindowSummary window, Collector<T> out)
                throws Exception {
            T element = function.apply(record, group, window);
            if (element != null) {
                out.collect(element);
            }
        }

        @Override
        public TypeInformation<T> getProducedType() {
            return type;
        }
    }
}
