package org.netapprox.atp.flink.table;

import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.connector.format.DecodingFormat;
import org.apache.flink.table.connector.format.EncodingFormat;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DeserializationFormatFactory;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.factories.SerializationFormatFactory;

/** Makes the tables {@code WITH ('connector' = 'atp', ...)} of Flink SQL. */
public final class AtpTableFactory implements DynamicTableSourceFactory, DynamicTableSinkFactory {
    /** The name of the connector. */
    public static final String IDENTIFIER = "atp";

    private static final Set<ConfigOption<?>> TO_READ =
            Set.of(
                    AtpConnectorOptions.LISTEN,
                    AtpConnectorOptions.SENDERS,
                    AtpConnectorOptions.STREAMS,
                    AtpConnectorOptions.STREAMS_MAX,
                    AtpConnectorOptions.IDLE_TIMEOUT,
                    AtpConnectorOptions.SENDER_TIMEOUT,
                    AtpConnectorOptions.MEMORY_MAX);

    private static final Set<ConfigOption<?>> TO_WRITE =
            Set.of(
                    AtpConnectorOptions.PEERS,
                    AtpConnectorOptions.TOPIC,
                    AtpConnectorOptions.MSR_MAX,
                    AtpConnectorOptions.WINDOW,
                    AtpConnectorOptions.WINDOW_RECORDS,
                    AtpConnectorOptions.RETRY,
                    AtpConnectorOptions.HOLD_UNTIL_CHECKPOINT);

    private static final Set<ConfigOption<?>> OF_BOTH =
            Set.of(AtpConnectorOptions.MSR, AtpConnectorOptions.DAEMON);

    /** Made by Flink, which finds the class by its service. */
    public AtpTableFactory() {}

    @Override
    public String factoryIdentifier() {
        return IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(FactoryUtil.FORMAT);
    }

    /** All of them: a table may be read and written. */
    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        Set<ConfigOption<?>> all = new LinkedHashSet<>(TO_READ);
        all.addAll(TO_WRITE);
        all.addAll(OF_BOTH);
        return all;
    }

    @Override
    public Set<ConfigOption<?>> forwardOptions() {
        return new HashSet<>();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        var helper = FactoryUtil.createTableFactoryHelper(this, context);
        DecodingFormat<DeserializationSchema<RowData>> format =
                helper.discoverDecodingFormat(
                        DeserializationFormatFactory.class, FactoryUtil.FORMAT);
        helper.validate();
        String table = context.getObjectIdentifier().asSummaryString();
        ReadableConfig options = helper.getOptions();
        List<String> listen = options.get(AtpConnectorOptions.LISTEN);
        if (listen == null || listen.isEmpty()) {
            throw new ValidationException(
                    "the table "
                            + table
                            + " can't be read: give the option 'listen', an address where windows"
                            + " arrive, such as '0.0.0.0:4747'");
        }
        checkMsr(options, table);
        return new AtpTableSource(format, options, context.getPhysicalRowDataType(), table);
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        var helper = FactoryUtil.createTableFactoryHelper(this, context);
        EncodingFormat<SerializationSchema<RowData>> format =
                helper.discoverEncodingFormat(
                        SerializationFormatFactory.class, FactoryUtil.FORMAT);
        helper.validate();
        String table = context.getObjectIdentifier().asSummaryString();
        ReadableConfig options = helper.getOptions();
        List<String> peers = options.get(AtpConnectorOptions.PEERS);
        if (peers == null || peers.isEmpty()) {
            throw new ValidationException(
                    "the table "
                            + table
                            + " can't be written: give the option 'peers', the hosts and ports of"
                            + " receivers of windows, such as '10.0.0.2:4747'");
        }
        checkMsr(options, table);
        return new AtpTableSink(
                format,
                options,
                context.getPhysicalRowDataType(),
                context.getObjectIdentifier().getObjectName());
    }

    private static void checkMsr(ReadableConfig options, String table) {
        for (var option : List.of(AtpConnectorOptions.MSR, AtpConnectorOptions.MSR_MAX)) {
            Double msr = options.get(option);
            // NaN is in no range.
            if (msr != null && !(msr >= 0 && msr <= 1)) {
                throw new ValidationException(
                        "the option '"
                                + option.key()
                                + "' of the table "
                                + table
                                + ", a sampling rate, must lie between 0 and 1, not "
                                + msr);
            }
        }
    }
}
