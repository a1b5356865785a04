package org.netapprox.atp.flink;

import java.io.IOException;
import java.util.Collection;
import java.util.List;
import org.apache.flink.annotation.Internal;
import org.apache.flink.annotation.PublicEvolving;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.SupportsWriterState;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.connector.sink2.SupportsPreWriteTopology;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.netapprox.atp.flink.sink.CheckpointMark;
import org.netapprox.atp.flink.sink.HoldRule;
import org.netapprox.atp.flink.sink.MarkCommitter;
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
 * <p>With checkpoints that are exactly-once, each record counts once at its receiver, also after a
 * failure. Checkpoints hold the records that aren't confirmed. A record leaves once a checkpoint
 * has it, so its latency is up to the checkpoints' interval. {@link
 * AtpSinkBuilder#holdUntilCheckpoint} says when records may leave at once instead, and where the
 * promise ends. In a job without such checkpoints, and in batch mode, records leave at once.
 *
 * @param <T> the type of the records
 */
@PublicEvolving
public final class AtpSink<T>
        implements Sink<T>,
                SupportsWriterState<T, StreamState>,
                SupportsCommitter<CheckpointMark>,
                SupportsPreWriteTopology<T> {
    private static final long serialVersionUID = 1;

    /** The options, whose values are in their ranges. */
    private final SinkOptions<T> options;

    /** The choice of the builder; null: the checkpoints of the job decide. */
    private final Boolean asked;

    /** Decided while Flink makes the graph of the job, before it serializes the sink. */
    private boolean holds;

    /** The interval of the job's checkpoints, milliseconds; 0 if the sink doesn't hold records. */
    private long checkpointIntervalMs;

    AtpSink(SinkOptions<T> options, Boolean asked) {
        this.options = options;
        this.asked = asked;
        holds = Boolean.TRUE.equals(asked);
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

    /** Adds nothing. Only here Flink says how the job makes checkpoints. */
    @Override
    public DataStream<T> addPreWriteTopology(DataStream<T> records) {
        holds = HoldRule.decide(asked, options.topic(), this, records);
        checkpointIntervalMs =
                holds
                        ? records.getExecutionEnvironment()
                                .getCheckpointConfig()
                                .getCheckpointInterval()
                        : 0;
        return records;
    }

    @Override
    public StatefulSinkWriter<T, StreamState> createWriter(WriterInitContext context)
            throws IOException {
        return restoreWriter(context, List.of());
    }

    @Override
    public StatefulSinkWriter<T, StreamState> restoreWriter(
            WriterInitContext context, Collection<StreamState> recoveredState) throws IOException {
        return options.writer(context, recoveredState, holds, checkpointIntervalMs);
    }

    @Override
    public SimpleVersionedSerializer<StreamState> getWriterStateSerializer() {
        return new StreamStateSerializer();
    }

    @Override
    public Committer<CheckpointMark> createCommitter(CommitterInitContext context) {
        return new MarkCommitter();
    }

    @Override
    public SimpleVersionedSerializer<CheckpointMark> getCommittableSerializer() {
        return new CheckpointMark.Serializer();
    }

    /**
     * The options.
     *
     * @return the options
     */
    @Internal
    public SinkOptions<T> options() {
        return options;
    }
}
