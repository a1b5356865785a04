package org.netapprox.atp.flink.table;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.ValidationException;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.format.DecodingFormat;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsReadingMetadata;
import org.apache.flink.table.connector.source.abilities.SupportsSourceWatermark;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.DataType;
import org.netapprox.atp.flink.AtpSource;
import org.netapprox.atp.flink.AtpSourceBuilder;
import org.netapprox.atp.flink.SampledStream;

/**
 * A table of the records that arrive, with their windows in metadata columns. {@code
 * SOURCE_WATERMARK()} is that of the windows.
 */
final class AtpTableSource
        implements ScanTableSource, SupportsReadingMetadata, SupportsSourceWatermark {
    private final DecodingFormat<DeserializationSchema<RowData>> format;
    private final ReadableConfig options;
    private final DataType physical;
    private final String table;

    private List<SampleMetadata> metadata = List.of();
    private DataType produced;

    AtpTableSource(
            DecodingFormat<DeserializationSchema<RowData>> format,
            ReadableConfig options,
            DataType physical,
            String table) {
        this.format = format;
        this.options = options;
        this.physical = physical;
        this.table = table;
        produced = physical;
    }

    @Override
    public Map<String, DataType> listReadableMetadata() {
        return SampleMetadata.all();
    }

    @Override
    public void applyReadableMetadata(List<String> keys, DataType producedDataType) {
        metadata = keys.stream().map(SampleMetadata::of).collect(Collectors.toList());
        produced = producedDataType;
    }

    /** The source's watermarks are always those of the windows. */
    @Override
    public void applySourceWatermark() {}

    @Override
    public ChangelogMode getChangelogMode() {
        return ChangelogMode.insertOnly();
    }

    @Override
    public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
        TypeInformation<RowData> type = context.createTypeInformation(produced);
        double msrMin = Objects.requireNonNullElse(options.get(AtpConnectorOptions.MSR), 0.0);
        AtpSource<RowData> source =
                source(
                        new SampledRowDeserializer(
                                format.createRuntimeDecoder(context, physical),
                                metadata,
                                type,
                                msrMin));
        return new DataStreamScanProvider() {
            @Override
            public DataStream<RowData> produceDataStream(
                    ProviderContext provider, StreamExecutionEnvironment env) {
                SampledStream<RowData> stream = source.stream(env, table);
                provider.generateUid("atp").ifPresent(stream::uid);
                return stream.records();
            }

            @Override
            public boolean isBounded() {
                return false;
            }
        };
    }

    private AtpSource<RowData> source(SampledRowDeserializer deserializer) {
        try {
            AtpSourceBuilder<RowData> builder = AtpSource.builder(deserializer);
            builder.listen(texts(options.get(AtpConnectorOptions.LISTEN)));
            builder.senders(texts(options.get(AtpConnectorOptions.SENDERS)));
            builder.streams(options.get(AtpConnectorOptions.STREAMS));
            options.getOptional(AtpConnectorOptions.STREAMS_MAX).ifPresent(builder::streamsMax);
            options.getOptional(AtpConnectorOptions.IDLE_TIMEOUT).ifPresent(builder::idleTimeout);
            options.getOptional(AtpConnectorOptions.SENDER_TIMEOUT)
                    .ifPresent(builder::senderTimeout);
            options.getOptional(AtpConnectorOptions.MEMORY_MAX)
                    .ifPresent(size -> builder.memoryBytesMax(size.getBytes()));
            options.getOptional(AtpConnectorOptions.DAEMON)
                    .ifPresent(d -> Daemon.apply(d, builder::noDaemon, builder::daemon));
            return builder.build();
        } catch (IllegalArgumentException e) {
            throw new ValidationException("the table " + table + ": " + e.getMessage(), e);
        }
    }

    private static String[] texts(List<String> texts) {
        return texts == null ? new String[0] : texts.toArray(new String[0]);
    }

    @Override
    public DynamicTableSource copy() {
        AtpTableSource copy = new AtpTableSource(format, options, physical, table);
        copy.metadata = metadata;
        copy.produced = produced;
        return copy;
    }

    @Override
    public String asSummaryString() {
        return "ATP " + table;
    }
}
