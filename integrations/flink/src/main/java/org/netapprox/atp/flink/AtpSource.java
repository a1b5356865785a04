package org.netapprox.atp.flink;

import org.apache.flink.annotation.PublicEvolving;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SupportsSplitReassignmentOnRecovery;
import org.apache.flink.api.java.typeutils.EitherTypeInfo;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Either;
import org.apache.flink.util.UserCodeClassLoader;
import org.netapprox.atp.flink.source.ListenEnumerator;
import org.netapprox.atp.flink.source.ListenSplit;
import org.netapprox.atp.flink.source.ListenSplitSerializer;
import org.netapprox.atp.flink.source.PendingSplits;
import org.netapprox.atp.flink.source.PendingSplitsSerializer;
import org.netapprox.atp.flink.source.SourceOptions;
import org.netapprox.atp.flink.source.WindowSourceReader;

/**
 * Receives windows of streams: those that the program {@code atp-kafka} sends, a {@code
 * WindowSender} of Java or Python, or an {@code AtpSink}. Of each window that is emitted, at least
 * the share of records has arrived that its sender states.
 *
 * <pre>{@code
 * var source =
 *         AtpSource.builder(RecordDeserializer.values(new SimpleStringSchema()))
 *                 .listen("0.0.0.0:4747")
 *                 .build();
 * SampledStream<String> readings = source.stream(env, "readings");
 * readings.records().print();
 * readings.windows().print();
 * }</pre>
 *
 * <p>A window is emitted whole or not at all, at most once. It is confirmed to its sender once it
 * is emitted. After a restore no record of a checkpoint is emitted again; windows that were
 * confirmed behind the checkpoint are lost, and {@link WindowSummary#skipped} of the next window
 * counts their offsets. A checkpoint knows only streams that it has seen: of one that began after
 * it, and of all before the first checkpoint, lost windows aren't counted.
 *
 * <p>Windows by event time have watermarks: the end of the oldest stream's last window. Windows by
 * number have none: give their records some with {@code assignTimestampsAndWatermarks}.
 *
 * <p>While operators are slow, the next windows wait at their sender. A reader holds at most {@link
 * AtpSourceBuilder#memoryBytesMax} bytes for each address, and a few windows that it emits next.
 *
 * @param <T> the type of the records' elements
 * @serial exclude
 */
@PublicEvolving
public final class AtpSource<T>
        implements Source<Either<T, WindowSummary>, ListenSplit, PendingSplits>,
                SupportsSplitReassignmentOnRecovery,
                ResultTypeQueryable<Either<T, WindowSummary>> {
    private static final long serialVersionUID = 1;

    private final RecordDeserializer<T> deserializer;
    private final SourceOptions options;

    AtpSource(RecordDeserializer<T> deserializer, SourceOptions options) {
        this.deserializer = deserializer;
        this.options = options;
    }

    /**
     * The options of a source, at their defaults.
     *
     * @param deserializer makes elements of the records
     * @param <T> the type of the elements
     * @return the options
     */
    public static <T> AtpSourceBuilder<T> builder(RecordDeserializer<T> deserializer) {
        return new AtpSourceBuilder<>(deserializer);
    }

    /**
     * Adds the source to a job.
     *
     * @param env the job's environment
     * @param name the name of the source in the job
     * @return its records and windows
     */
    public SampledStream<T> stream(StreamExecutionEnvironment env, String name) {
        // The readers emit the watermarks themselves.
        return new SampledStream<>(
                env.fromSource(this, WatermarkStrategy.noWatermarks(), name),
                deserializer.getProducedType(),
                name);
    }

    @Override
    public Boundedness getBoundedness() {
        return options.isBounded() ? Boundedness.BOUNDED : Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<Either<T, WindowSummary>, ListenSplit> createReader(
            SourceReaderContext context) throws Exception {
        deserializer.open(
                new DeserializationSchema.InitializationContext() {
                    @Override
                    public MetricGroup getMetricGroup() {
                        return context.metricGroup();
                    }

                    @Override
                    public UserCodeClassLoader getUserCodeClassLoader() {
                        return context.getUserCodeClassLoader();
                    }
                });
        return new WindowSourceReader<>(options, deserializer, context);
    }

    @Override
    public SplitEnumerator<ListenSplit, PendingSplits> createEnumerator(
            SplitEnumeratorContext<ListenSplit> context) {
        return new ListenEnumerator(context, options, null);
    }

    @Override
    public SplitEnumerator<ListenSplit, PendingSplits> restoreEnumerator(
            SplitEnumeratorContext<ListenSplit> context, PendingSplits state) {
        return new ListenEnumerator(context, options, state);
    }

    @Override
    public SimpleVersionedSerializer<ListenSplit> getSplitSerializer() {
        return new ListenSplitSerializer();
    }

    @Override
    public SimpleVersionedSerializer<PendingSplits> getEnumeratorCheckpointSerializer() {
        return new PendingSplitsSerializer();
    }

    @Override
    public TypeInformation<Either<T, WindowSummary>> getProducedType() {
        return new EitherTypeInfo<>(
                deserializer.getProducedType(), TypeInformation.of(WindowSummary.class));
    }
}
