package org.netapprox.atp.flink.sink;

import java.io.IOException;
import java.util.Collection;
import org.apache.flink.annotation.Internal;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.connector.sink2.Committer;
import org.apache.flink.api.connector.sink2.CommitterInitContext;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.SupportsCommitter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.connector.sink2.SupportsPreWriteTopology;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.util.FlinkRuntimeException;
import org.netapprox.atp.flink.AtpSink;

/**
 * A sink that sends records once a checkpoint has them. Its committer learns of the checkpoints.
 *
 * @param <T> the type of the records
 */
@Internal
public final class HoldingSink<T> extends AtpSink<T>
        implements SupportsCommitter<CheckpointMark>, SupportsPreWriteTopology<T> {
    private static final long serialVersionUID = 1;

    /**
     * A sink with these options.
     *
     * @param options the options
     */
    public HoldingSink(SinkOptions<T> options) {
        super(options);
    }

    @Override
    public DataStream<T> addPreWriteTopology(DataStream<T> records) {
        // It adds nothing. A job without checkpoints would hold all records to its end.
        var env = records.getExecutionEnvironment();
        boolean isStreaming =
                env.getConfiguration().get(ExecutionOptions.RUNTIME_MODE)
                        == RuntimeExecutionMode.STREAMING;
        if (isStreaming && !env.getCheckpointConfig().isCheckpointingEnabled()) {
            throw new FlinkRuntimeException(
                    "the sink \"" + options().topic() + "\" holds records until a checkpoint has"
                            + " them, and the job makes none: enable checkpoints, or leave out"
                            + " holdUntilCheckpoint");
        }
        return records;
    }

    @Override
    public StatefulSinkWriter<T, StreamState> restoreWriter(
            WriterInitContext context, Collection<StreamState> recoveredState) throws IOException {
        return new HoldingWriter<>(options(), context, recoveredState);
    }

    @Override
    public Committer<CheckpointMark> createCommitter(CommitterInitContext context) {
        return new MarkCommitter();
    }

    @Override
    public SimpleVersionedSerializer<CheckpointMark> getCommittableSerializer() {
        return new CheckpointMark.Serializer();
    }

    private static final class MarkCommitter implements Committer<CheckpointMark> {
        @Override
        public void commit(Collection<CommitRequest<CheckpointMark>> requests) {
            requests.forEach(request -> HoldingWriter.release(request.getCommittable()));
        }

        @Override
        public void close() {}
    }
}
