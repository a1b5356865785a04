package org.netapprox.atp.flink.sink;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.OptionalLong;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobInfoImpl;
import org.apache.flink.api.common.TaskInfoImpl;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.common.operators.ProcessingTimeService;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;

/** The contexts of a writer, without a cluster. No timer ever fires. */
final class WriterContext {
    static final JobID JOB = new JobID(1, 2);

    private WriterContext() {}

    /** An attempt of one writer, from a checkpoint. */
    static WriterInitContext of(OptionalLong checkpoint) {
        return of(JOB, 0, 1, checkpoint);
    }

    static WriterInitContext of(JobID job, int subtask, int subtasks, OptionalLong checkpoint) {
        return of(job, subtask, subtasks, checkpoint, null);
    }

    /** The first attempt of one writer, whose mails come here. */
    static WriterInitContext of(MailboxExecutor mailbox) {
        return of(JOB, 0, 1, OptionalLong.empty(), mailbox);
    }

    private static WriterInitContext of(
            JobID job,
            int subtask,
            int subtasks,
            OptionalLong checkpoint,
            MailboxExecutor mailbox) {
        var clock = proxy(ProcessingTimeService.class, (proxy, method, arguments) ->
                method.getName().equals("getCurrentProcessingTime") ? 0L : null);
        var metrics = UnregisteredMetricsGroup.createSinkWriterMetricGroup();
        return proxy(WriterInitContext.class, (proxy, method, arguments) ->
                switch (method.getName()) {
                    case "getJobInfo" -> new JobInfoImpl(job, "test");
                    case "getTaskInfo" -> new TaskInfoImpl("sink", 128, subtask, subtasks, 0);
                    case "getRestoredCheckpointId" -> checkpoint;
                    case "getProcessingTimeService" -> clock;
                    case "metricGroup" -> metrics;
                    case "getMailboxExecutor" -> mailbox;
                    default -> null;
                });
    }

    /** The context of a record with this event time. */
    static SinkWriter.Context record(long timeMs) {
        return proxy(SinkWriter.Context.class, (proxy, method, arguments) -> timeMs);
    }

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(
                Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
