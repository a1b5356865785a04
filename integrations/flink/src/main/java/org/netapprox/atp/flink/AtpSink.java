package org.netapprox.atp.flink;

import java.io.IOException;
import java.util.Collection;
import java.util.List;
import org.apache.flink.annotation.Internal;
import org.apache.flink.annotation.PublicEvolving;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.SupportsWriterState;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.netapprox.atp.flink.sink.SinkOptions;
import org.netapprox.atp.flink.sink.StreamState;
import org.netapprox.atp.flink.sink.StreamStateSerializer;

/**
 * Sends the records of a stream as windows over ATP. Of each window at least the stated share of
 * records arrives at a {@link org.netapprox.atp.WindowReceiver}, such as that of an
 * {@code AtpSource}.
 *
 * <pre>{@code
 * readings.sinkTo(
 *         AtpSink.<String>builder("readings", RecordSerializer.of(new SimpleStringSchema()))
 *                 .peers("10.0.0.2:4747")
 *                 .msr(0.9)
 *                 .length(Duration.ofSeconds(10))
 *                 .build());
 * }</pre>
 *
 * <p>Each record counts once at its receiver, also after a failure, on one condition: Flink gives
 * the records behind the last checkpoint again in the same order. A source that reads one split per
 * reader and is chained to the sink does so. Before the first checkpoint its first record must be
 * the same one, too. Without the condition, such as behind a {@code keyBy} or {@code rebalance},
 * use {@link AtpSinkBuilder#holdUntilCheckpoint}. Checkpoints hold the records that aren't
 * confirmed.
 *
 * @param <T> the type of the records
 */
@PublicEvolving
public class AtpSink<T> implements Sink<T>, SupportsWriterState<T, StreamState> {
    private static final long serialVersionUID = 1;

    /** The options, whose values are in their ranges. */
    private final SinkOptions<T> options;

    /**
     * For {@link AtpSinkBuilder#build}.
     *
     * @param options the options, whose values are in their ranges
     */
    @Internal
    protected AtpSink(SinkOptions<T> options) {
        this.options = options;
    }

    /**
     * The options of a sink, at their defaults.
     *
     * @param topic a name for its streams
     * @param serializer makes the bytes of the records
     * @param <T> the type of the records
     * @return the options
     */
    public static <T> AtpSinkBuilder<T> builder(String topic, RecordSerializer<T> serializer) {
        return new AtpSinkBuilder<>(topic, serializer);
    }

    @Override
    public StatefulSinkWriter<T, StreamState> createWriter(WriterInitContext context)
            throws IOException {
        return restoreWriter(context, List.of());
    }

    @Override
    public StatefulSinkWriter<T, StreamState> restoreWriter(
            WriterInitContext context, Collection<StreamState> recoveredState) throws IOException {
        return options.writer(context, recoveredState);
    }

    @Override
    public SimpleVersionedSerializer<StreamState> getWriterStateSerializer() {
        return new StreamStateSerializer();
    }

    /**
     * The options.
     *
     * @return the options
     */
    @Internal
    public final SinkOptions<T> options() {
        return options;
    }
}
