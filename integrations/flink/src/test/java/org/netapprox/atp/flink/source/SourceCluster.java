package org.netapprox.atp.flink.source;

import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointStatsCounts;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A cluster of Flink in this JVM. */
final class SourceCluster implements AutoCloseable {
    /** The limit on an event that has to come. */
    private static final Duration LIMIT = Duration.ofMinutes(2);

    private static final AtomicInteger ADDRESSES = new AtomicInteger();

    final MiniCluster mini;

    SourceCluster(int taskManagers, int slots) throws Exception {
        mini =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(new Configuration())
                                .setNumTaskManagers(taskManagers)
                                .setNumSlotsPerTaskManager(slots)
                                .withRandomPorts()
                                .build());
        mini.start();
    }

    /** An address of the loopback interface that no other test and no other process has. */
    static String address() {
        long pid = ProcessHandle.current().pid();
        int port = 20_000 + ADDRESSES.getAndIncrement();
        return "127.%d.%d.%d:%d"
                .formatted(64 + (pid >> 16) % 64, (pid >> 8) % 256, pid % 256, port);
    }

    /** The environment of a job that takes checkpoints, and restarts after failures or doesn't. */
    static StreamExecutionEnvironment env(int parallelism, boolean restarts) {
        Configuration configuration = new Configuration();
        configuration.set(
                RestartStrategyOptions.RESTART_STRATEGY, restarts ? "fixed-delay" : "disable");
        configuration.set(
                RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, Integer.MAX_VALUE);
        configuration.set(
                RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(100));
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        env.setParallelism(parallelism);
        env.setMaxParallelism(128);
        env.enableCheckpointing(100);
        return env;
    }

    static void await(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + LIMIT.toNanos();
        while (!condition.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("no " + what + " in " + LIMIT);
            }
            Thread.sleep(20);
        }
    }

    JobID submit(StreamExecutionEnvironment env) throws Exception {
        return submit(env, null);
    }

    /** Starts a job, from a savepoint unless it is null. */
    JobID submit(StreamExecutionEnvironment env, String savepoint) throws Exception {
        JobGraph graph = env.getStreamGraph().getJobGraph();
        if (savepoint != null) {
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(savepoint));
        }
        return mini.submitJob(graph).get(2, TimeUnit.MINUTES).getJobID();
    }

    JobStatus status(JobID job) throws Exception {
        return mini.getJobStatus(job).get(2, TimeUnit.MINUTES);
    }

    /** Waits for the end of a job, and returns the stack trace of its failure. */
    String failure(JobID job) throws Exception {
        JobResult result = mini.requestJobResult(job).get(2, TimeUnit.MINUTES);
        return result.getSerializedThrowable().orElseThrow().getFullStringifiedStackTrace();
    }

    CheckpointStatsCounts checkpoints(JobID job) throws Exception {
        return mini.getExecutionGraph(job)
                .get(2, TimeUnit.MINUTES)
                .getCheckpointStatsSnapshot()
                .getCounts();
    }

    /** Waits for a checkpoint that begins now or later. */
    void awaitCheckpoint(JobID job) throws Exception {
        // One may be under way.
        long enough = checkpoints(job).getNumberOfCompletedCheckpoints() + 2;
        await(
                "checkpoint",
                () -> checkpoints(job).getNumberOfCompletedCheckpoints() >= enough);
    }

    /** Takes a savepoint into a folder, while it may be too early for one. */
    String savepoint(JobID job, String folder) throws Exception {
        return mini.triggerSavepoint(job, folder, false, SavepointFormatType.CANONICAL)
                .get(2, TimeUnit.MINUTES);
    }

    /** Stops a job, and returns its savepoint. */
    String stop(JobID job, String folder) throws Exception {
        String savepoint =
                mini.stopWithSavepoint(job, folder, false, SavepointFormatType.CANONICAL)
                        .get(2, TimeUnit.MINUTES);
        await("end", () -> status(job).isGloballyTerminalState());
        return savepoint;
    }

    /** Cancels a job, and waits for its end. */
    void cancel(JobID job) throws Exception {
        mini.cancelJob(job).get(2, TimeUnit.MINUTES);
        await("end", () -> status(job).isGloballyTerminalState());
    }

    @Override
    public void close() throws Exception {
        mini.close();
    }
}
