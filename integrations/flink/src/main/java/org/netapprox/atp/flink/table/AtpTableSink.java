package org.netapprox.atp.flink.table;

import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.format.EncodingFormat;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.DataType;
import org.netapprox.atp.flink.AtpSink;
import org.netapprox.atp.flink.AtpSinkBuilder;
import org.netapprox.atp.flink.RecordSerializer;

/** A table whose rows are sent as windows. Their event time is the table's rowtime. */
final class AtpTableSink implements DynamicTableSink {
    private final EncodingFormat<SerializationSchema<RowData>> format;
    private final ReadableConfig options;
    private final DataType physical;
    private final String table;

    AtpTableSink(
            EncodingFormat<SerializationSchema<RowData>> format,
            ReadableConfig options,
            DataType physical,
            String table) {
        this.format = format;
        this.options = options;
        this.physical = physical;
        this.table = table;
    }

    /** Rows that change can't be sampled. */
    @Override
    public ChangelogMode getChangelogMode(ChangelogMode requested) {
        return ChangelogMode.insertOnly();
    }

    @Override
    public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
        SerializationSchema<RowData> encoder = format.createRuntimeEncoder(context, physical);
        return SinkV2Provider.of(sink(encoder));
    }

    private AtpSink<RowData> sink(SerializationSchema<RowData> encoder) {
        try {
            String topic = options.getOptional(AtpConnectorOptions.TOPIC).orElse(table);
            AtpSinkBuilder<RowData> builder =
                    AtpSink.builder(topic, RecordSerializer.of(encoder));
            builder.peers(options.get(AtpConnectorOptions.PEERS).toArray(new String[0]));
            options.getOptional(AtpConnectorOptions.MSR).ifPresent(builder::msr);
            options.getOptional(AtpConnectorOptions.MSR_MAX).ifPresent(builder::msrMax);
            options.getOptional(AtpConnectorOptions.WINDOW).ifPresent(builder::length);
            options.getOptional(AtpConnectorOptions.WINDOW_RECORDS).ifPresent(builder::records);
            options.getOptional(AtpConnectorOptions.RETRY).ifPresent(builder::retry);
            options.getOptional(AtpConnectorOptions.HOLD_UNTIL_CHECKPOINT)
                    .ifPresent(builder::holdUntilCheckpoint);
            options.getOptional(AtpConnectorOptions.DAEMON)
                    .ifPresent(d -> Daemon.apply(d, builder::noDaemon, builder::daemon));
            return builder.build();
        } catch (IllegalArgumentException e) {
            throw new ValidationException("the table " + table + ": " + e.getMessage(), e);
        }
    }

    @Override
    public DynamicTableSink copy() {
        return new AtpTableSink(format, options, physical, table);
    }

    @Override
    public String asSummaryString() {
        return "ATP " + table;
    }
}
