package org.netapprox.atp.flink.sink;

import java.util.stream.Stream;
import org.apache.flink.annotation.Internal;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.CheckpointConfig;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.transformations.SinkTransformation;
import org.apache.flink.streaming.api.transformations.WithBoundedness;
import org.apache.flink.util.FlinkRuntimeException;

/** Decides whether a sink holds records until a checkpoint has them. */
@Internal
public final class HoldRule {
    private HoldRule() {}

    /**
     * Decides for a job, while Flink makes its graph.
     *
     * @param asked the choice of the sink's builder; null: where the job makes checkpoints
     * @param topic the name of the sink
     * @param sink the sink
     * @param records the sink's input
     * @return whether the sink holds records
     * @throws FlinkRuntimeException if the choice and the job contradict each other
     */
    public static boolean decide(
            Boolean asked, String topic, Sink<?> sink, DataStream<?> records) {
        StreamExecutionEnvironment env = records.getExecutionEnvironment();
        CheckpointConfig config = env.getCheckpointConfig();
        // A checkpoint that is at least once may have records that come again.
        boolean makesCheckpoints =
                config.isCheckpointingEnabled()
                        && config.getCheckpointingConsistencyMode()
                                == CheckpointingMode.EXACTLY_ONCE
                        && !isBatch(env);
        if (asked == null ? !makesCheckpoints : !asked) {
            return false;
        }
        if (!makesCheckpoints) {
            throw new FlinkRuntimeException(
                    "the sink \"" + topic + "\" is told to hold records until a checkpoint has"
                            + " them, and the job, like every batch job, makes none that have"
                            + " each record exactly once: enable such checkpoints, or leave out"
                            + " holdUntilCheckpoint");
        }
        if (!isChained(sink, env)) {
            // The committer could run in another task manager than its writer.
            throw new FlinkRuntimeException(
                    "the sink \"" + topic + "\" holds records until a checkpoint has them, for"
                            + " which its committer must be chained to its writer, and operator"
                            + " chaining is off: turn it on, or choose holdUntilCheckpoint(false),"
                            + " which sends records at once");
        }
        return true;
    }

    /** Decides as Flink does, which tells sinks nothing of it. Batch jobs make no checkpoints. */
    private static boolean isBatch(StreamExecutionEnvironment env) {
        RuntimeExecutionMode mode = env.getConfiguration().get(ExecutionOptions.RUNTIME_MODE);
        if (mode != RuntimeExecutionMode.AUTOMATIC) {
            return mode == RuntimeExecutionMode.BATCH;
        }
        return env.getTransformations().stream()
                .flatMap(one -> Stream.concat(
                        Stream.of(one), one.getTransitivePredecessors().stream()))
                .filter(WithBoundedness.class::isInstance)
                .allMatch(
                        one -> ((WithBoundedness) one).getBoundedness() == Boundedness.BOUNDED);
    }

    private static boolean isChained(Sink<?> sink, StreamExecutionEnvironment env) {
        return env.isChainingEnabled()
                && env.getTransformations().stream()
                        .filter(SinkTransformation.class::isInstance)
                        .map(one -> (SinkTransformation<?, ?>) one)
                        .filter(one -> one.getSink() == sink)
                        .noneMatch(one -> one.getChainingStrategy() == ChainingStrategy.NEVER);
    }
}
