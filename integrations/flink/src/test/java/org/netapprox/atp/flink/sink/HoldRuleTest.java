package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.OptionalLong;
import java.util.function.Consumer;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.FlinkRuntimeException;
import org.apache.flink.util.InstantiationUtil;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.flink.AtpSink;
import org.netapprox.atp.flink.AtpSource;
import org.netapprox.atp.flink.RecordDeserializer;

/** The graphs of jobs decide whether their sinks hold records. */
class HoldRuleTest {
    private static final Boolean BY_DEFAULT = null;
    private static final Consumer<DataStreamSink<Long>> CHAINED = sink -> {};

    /** A job of a bounded source, whose checkpoints can be on. */
    private static StreamExecutionEnvironment environment(boolean makesCheckpoints) {
        var env = SinkJob.environment(1);
        if (!makesCheckpoints) {
            env.getCheckpointConfig().disableCheckpointing();
        }
        return env;
    }

    private static StreamExecutionEnvironment environment(RuntimeExecutionMode mode) {
        return environment(true).setRuntimeMode(mode);
    }

    private static StreamExecutionEnvironment withoutChaining() {
        Configuration configuration = new Configuration();
        configuration.set(PipelineOptions.OPERATOR_CHAINING, false);
        var env = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.enableCheckpointing(1_000);
        return env;
    }

    /** Whether the sink holds records, as the tasks of a job get it. */
    private static boolean holds(
            Boolean asked,
            StreamExecutionEnvironment env,
            Consumer<DataStreamSink<Long>> change)
            throws Exception {
        var builder = SinkJob.sink("127.0.0.1:4747").records(1);
        if (asked != null) {
            builder.holdUntilCheckpoint(asked);
        }
        AtpSink<Long> sink = builder.build();
        DataGeneratorSource<Long> numbers = SinkJob.numbers(1, new Gate(0));
        change.accept(
                env.fromSource(numbers, SinkJob.eachIsItsWatermark(), "numbers").sinkTo(sink));
        env.getStreamGraph();
        var writer =
                InstantiationUtil.clone(sink)
                        .createWriter(WriterContext.of(OptionalLong.empty()));
        writer.close();
        return writer instanceof HoldingWriter;
    }

    private static void refuses(
            Boolean asked,
            StreamExecutionEnvironment env,
            Consumer<DataStreamSink<Long>> change,
            String remedy) {
        var refused =
                assertThrows(FlinkRuntimeException.class, () -> holds(asked, env, change));
        assertTrue(refused.getMessage().contains(remedy), refused.getMessage());
    }

    @Test
    void decide__byDefaultHoldsInJobsThatMakeCheckpoints() throws Exception {
        assertTrue(holds(BY_DEFAULT, environment(true), CHAINED));
        assertFalse(holds(BY_DEFAULT, environment(false), CHAINED));
    }

    /** Such a checkpoint may have records that come again. */
    @Test
    void decide__holdsNothingWithCheckpointsThatAreAtLeastOnce() throws Exception {
        var env = environment(true);
        env.getCheckpointConfig().setCheckpointingConsistencyMode(CheckpointingMode.AT_LEAST_ONCE);
        assertFalse(holds(BY_DEFAULT, env, CHAINED));
        refuses(true, env, CHAINED, "exactly once");
    }

    @Test
    void decide__holdsNothingInBatchMode() throws Exception {
        for (var mode : new RuntimeExecutionMode[] {
            RuntimeExecutionMode.BATCH, RuntimeExecutionMode.AUTOMATIC
        }) {
            assertFalse(holds(BY_DEFAULT, environment(mode), CHAINED));
        }
        // A source without end makes it a streaming job.
        var env = environment(RuntimeExecutionMode.AUTOMATIC);
        AtpSource.builder(RecordDeserializer.values(new SimpleStringSchema()))
                .listen("127.0.0.1:4747")
                .build()
                .stream(env, "endless")
                .records()
                .print();
        assertTrue(holds(BY_DEFAULT, env, CHAINED));
    }

    @Test
    void decide__followsTheChoice() throws Exception {
        assertTrue(holds(true, environment(true), CHAINED));
        assertFalse(holds(false, environment(true), CHAINED));
        assertFalse(holds(false, environment(false), CHAINED));
        refuses(true, environment(false), CHAINED, "enable such checkpoints");
        refuses(true, environment(RuntimeExecutionMode.BATCH), CHAINED, "enable such checkpoints");
    }

    @Test
    void decide__refusesToHoldWithoutChaining() throws Exception {
        Consumer<DataStreamSink<Long>> unchained = DataStreamSink::disableChaining;
        String remedy = "turn it on, or choose holdUntilCheckpoint(false)";
        refuses(BY_DEFAULT, withoutChaining(), CHAINED, remedy);
        refuses(BY_DEFAULT, environment(true), unchained, remedy);
        refuses(true, environment(true), unchained, remedy);
        assertFalse(holds(false, withoutChaining(), CHAINED));
        assertFalse(holds(BY_DEFAULT, environment(false), unchained));
    }

    /** One sink may be part of two jobs, one after the other. */
    @Test
    void decide__isOfTheLastGraph() throws Exception {
        AtpSink<Long> sink = SinkJob.sink("127.0.0.1:4747").records(1).build();
        for (boolean makesCheckpoints : new boolean[] {true, false, true}) {
            var env = environment(makesCheckpoints);
            env.fromSource(
                            SinkJob.numbers(1, new Gate(0)),
                            SinkJob.eachIsItsWatermark(),
                            "numbers")
                    .sinkTo(sink);
            env.getStreamGraph();
            var writer = sink.createWriter(WriterContext.of(OptionalLong.empty()));
            writer.close();
            assertEquals(makesCheckpoints, writer instanceof HoldingWriter);
        }
    }
}
