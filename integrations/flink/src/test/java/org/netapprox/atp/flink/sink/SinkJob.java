package org.netapprox.atp.flink.sink;

import java.nio.ByteBuffer;
import java.time.Duration;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.netapprox.atp.flink.AtpSink;
import org.netapprox.atp.flink.AtpSinkBuilder;

/** Jobs of a source of numbers and the sink. */
final class SinkJob {
    static final String EXACT = "tens";
    static final String OTHERS = "records";
    static final double MSR = 0.5;

    private SinkJob() {}

    /** A sink of numbers: every tenth arrives, and half of the others. */
    static AtpSinkBuilder<Long> sink(String... peers) {
        return AtpSink.<Long>builder("numbers", SinkJob::bytes)
                .peers(peers)
                .msr(MSR)
                .group(EXACT, 1)
                .groupBy(number -> number % 10 == 0 ? EXACT : null)
                .noDaemon();
    }

    static byte[] bytes(long number) {
        return ByteBuffer.allocate(Long.BYTES).putLong(0, number).array();
    }

    /** Numbers from 0, which are their event time, too, in ms. Each is its watermark. */
    static DataGeneratorSource<Long> numbers(long count, Gate gate) {
        GeneratorFunction<Long, Long> same = number -> number;
        return new DataGeneratorSource<>(same, count, gate.strategy(), Types.LONG);
    }

    static WatermarkStrategy<Long> eachIsItsWatermark() {
        return WatermarkStrategy.<Long>forGenerator(context -> new EachRecord())
                .withTimestampAssigner((number, time) -> number);
    }

    /** A job that begins anew, and restarts after a failure. */
    static JobGraph restarting(int parallelism, long count, Gate gate, AtpSink<Long> sink) {
        return job(environment(parallelism, true), count, gate, sink, null);
    }

    /** A job that begins anew, or from a savepoint. */
    static JobGraph job(
            int parallelism, long count, Gate gate, AtpSink<Long> sink, String savepoint) {
        return job(environment(parallelism), count, gate, sink, savepoint);
    }

    private static JobGraph job(
            StreamExecutionEnvironment env,
            long count,
            Gate gate,
            AtpSink<Long> sink,
            String savepoint) {
        env.fromSource(numbers(count, gate), eachIsItsWatermark(), "numbers")
                .uid("numbers")
                .sinkTo(sink)
                .uid("sink");
        return graph(env, savepoint);
    }

    /** An environment whose jobs end with their first failure. */
    static StreamExecutionEnvironment environment(int parallelism) {
        return environment(parallelism, false);
    }

    static StreamExecutionEnvironment environment(int parallelism, boolean restarts) {
        Configuration configuration = new Configuration();
        configuration.set(
                RestartStrategyOptions.RESTART_STRATEGY, restarts ? "fixed-delay" : "disable");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 100);
        configuration.set(
                RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(100));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(parallelism);
        // Tests trigger their checkpoints. A job ends with one of these, should Flink decline the
        // one that it triggers at the end.
        env.enableCheckpointing(Duration.ofSeconds(5).toMillis());
        return env;
    }

    static JobGraph graph(StreamExecutionEnvironment env, String savepoint) {
        JobGraph job = env.getStreamGraph().getJobGraph();
        if (savepoint != null) {
            job.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(savepoint));
        }
        return job;
    }

    private static final class EachRecord implements WatermarkGenerator<Long> {
        @Override
        public void onEvent(Long number, long time, WatermarkOutput output) {
            output.emitWatermark(new Watermark(time - 1));
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }
}
