package org.netapprox.atp.flink.sink;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.netapprox.atp.flink.AtpSink;
import org.netapprox.atp.flink.AtpSinkBuilder;

/** Jobs of a source of numbers and the sink, on clusters in this JVM. */
final class SinkJob {
    static final String EXACT = "tens";
    static final String OTHERS = "records";
    static final double MSR = 0.5;

    /** Only a hang takes as long. */
    static final long HANG_S = 100;

    private SinkJob() {}

    static MiniCluster cluster(int slots) throws Exception {
        Configuration configuration = new Configuration();
        MiniCluster cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(configuration)
                                .setNumTaskManagers(1)
                                .setNumSlotsPerTaskManager(slots)
                                .withRandomPorts()
                                .build());
        cluster.start();
        return cluster;
    }

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

    /** A job that begins anew, or from a savepoint. */
    static JobGraph job(
            int parallelism, long count, Gate gate, AtpSink<Long> sink, String savepoint) {
        StreamExecutionEnvironment env = environment(parallelism);
        env.fromSource(numbers(count, gate), eachIsItsWatermark(), "numbers")
                .uid("numbers")
                .sinkTo(sink)
                .uid("sink");
        return graph(env, savepoint);
    }

    static StreamExecutionEnvironment environment(int parallelism) {
        Configuration configuration = new Configuration();
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 3);
        configuration.set(
                RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(100));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(parallelism);
        // Tests trigger their checkpoints: these never come.
        env.enableCheckpointing(Duration.ofHours(1).toMillis());
        return env;
    }

    /** Makes a checkpoint, once the job runs. */
    static void checkpoint(MiniCluster cluster, JobID job) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(HANG_S);
        while (true) {
            try {
                cluster.triggerCheckpoint(job, CheckpointType.FULL).get();
                return;
            } catch (ExecutionException e) {
                if (System.nanoTime() > end) {
                    throw e;
                }
                Thread.sleep(20);
            }
        }
    }

    /** The result of a job that has ended. */
    static JobResult await(MiniCluster cluster, JobID job) throws Exception {
        return cluster.requestJobResult(job).get(HANG_S, TimeUnit.SECONDS);
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
