package org.netapprox.atp.flink.sink;

import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;

/** A cluster in this JVM, of one task manager. */
final class SinkCluster implements AutoCloseable {
    /** Only a hang takes as long. */
    private static final long HANG_S = 100;

    private final MiniCluster mini;
    private int killed;

    SinkCluster(int slots) throws Exception {
        mini =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setNumTaskManagers(1)
                                .setNumSlotsPerTaskManager(slots)
                                .withRandomPorts()
                                .build());
        mini.start();
    }

    void start(JobGraph job) throws Exception {
        mini.submitJob(job).get();
    }

    /** Runs a job to its end, which is no failure. */
    void run(JobGraph job) throws Exception {
        start(job);
        await(job);
    }

    /** Waits for the end of a job, which is no failure. */
    void await(JobGraph job) throws Exception {
        result(job.getJobID()).toJobExecutionResult(SinkCluster.class.getClassLoader());
    }

    /** Waits for the end of a job whose checkpoints the test makes, its last one included. */
    void awaitByCheckpoints(JobGraph job) throws Exception {
        var result = mini.requestJobResult(job.getJobID());
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(HANG_S);
        while (!result.isDone() && System.nanoTime() < end) {
            try {
                var checkpoint = mini.triggerCheckpoint(job.getJobID(), CheckpointType.FULL);
                // Flink never answers a trigger that comes just as the job ends.
                CompletableFuture.anyOf(result, checkpoint).get(HANG_S, TimeUnit.SECONDS);
            } catch (ExecutionException e) {
                // Flink declines checkpoints while tasks end.
            }
            Thread.sleep(20);
        }
        await(job);
    }

    /** Runs a job that fails, and returns its failure. */
    String fail(JobGraph job) throws Exception {
        start(job);
        var failure = result(job.getJobID()).getSerializedThrowable();
        return failure.orElseThrow().getFullStringifiedStackTrace();
    }

    private JobResult result(JobID job) throws Exception {
        return mini.requestJobResult(job).get(HANG_S, TimeUnit.SECONDS);
    }

    /** Makes a checkpoint, once the job runs. */
    void checkpoint(JobGraph job) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(HANG_S);
        while (true) {
            try {
                mini.triggerCheckpoint(job.getJobID(), CheckpointType.FULL).get();
                return;
            } catch (ExecutionException e) {
                if (System.nanoTime() > end) {
                    throw e;
                }
                Thread.sleep(20);
            }
        }
    }

    /** Stops a job with a savepoint, whose path it returns. */
    String stop(JobGraph job, Path folder) throws Exception {
        // Its tasks run.
        checkpoint(job);
        String savepoint =
                mini.stopWithSavepoint(
                                job.getJobID(),
                                folder.toString(),
                                false,
                                SavepointFormatType.CANONICAL)
                        .get(HANG_S, TimeUnit.SECONDS);
        result(job.getJobID());
        return savepoint;
    }

    /** Ends the task manager, whose tasks fail. */
    void kill() throws Exception {
        mini.terminateTaskManager(killed++).get();
    }

    /** Starts another task manager. */
    void revive() throws Exception {
        mini.startTaskManager();
    }

    @Override
    public void close() throws Exception {
        mini.close();
    }
}
