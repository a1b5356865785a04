package org.netapprox.atp.flink.table;

import java.util.List;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.utils.JoinedRowData;
import org.apache.flink.util.Collector;
import org.apache.flink.util.FlinkRuntimeException;
import org.netapprox.atp.WindowGroup;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.flink.RecordDeserializer;
import org.netapprox.atp.flink.WindowSummary;

/** Makes a row of a record: the columns of its value's format, then metadata columns. */
final class SampledRowDeserializer implements RecordDeserializer<RowData> {
    private static final long serialVersionUID = 1;

    private final DeserializationSchema<RowData> format;
    private final List<SampleMetadata> metadata;
    private final TypeInformation<RowData> type;
    private final double msrMin;

    /** {@code msrMin}: windows with a group of a lower rate fail the job. */
    SampledRowDeserializer(
            DeserializationSchema<RowData> format,
            List<SampleMetadata> metadata,
            TypeInformation<RowData> type,
            double msrMin) {
        this.format = format;
        this.metadata = List.copyOf(metadata);
        this.type = type;
        this.msrMin = msrMin;
    }

    @Override
    public void open(DeserializationSchema.InitializationContext context) throws Exception {
        format.open(context);
    }

    @Override
    public void deserialize(
            WindowRecord record, WindowGroup group, WindowSummary window, Collector<RowData> out)
            throws Exception {
        if (group.msr() < msrMin) {
            throw new FlinkRuntimeException(
                    String.format(
                            "%s [%d], window %d has the rate %s in group %s, and the table's option"
                                    + " 'msr' demands %s: raise that of the sender, or lower the"
                                    + " table's",
                            window.topic, window.partition, window.number, group.msr(),
                            group.name(), msrMin));
        }
        if (record.value() == null) {
            return;
        }
        if (metadata.isEmpty()) {
            format.deserialize(record.value(), out);
            return;
        }
        GenericRowData columns = new GenericRowData(metadata.size());
        for (int at = 0; at < metadata.size(); at++) {
            columns.setField(at, metadata.get(at).reader.read(record, group, window));
        }
        format.deserialize(record.value(), new Joining(columns, out));
    }

    @Override
    public TypeInformation<RowData> getProducedType() {
        return type;
    }

    private record Joining(RowData columns, Collector<RowData> out) implements Collector<RowData> {
        @Override
        public void collect(RowData physical) {
            out.collect(new JoinedRowData(physical.getRowKind(), physical, columns));
        }

        @Override
        public void close() {}
    }
}
