package org.netapprox.atp.flink.sink;

import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.groups.SinkWriterMetricGroup;

/** The metrics of a writer, in the group {@code atp} of its operator, and those of all sinks. */
final class WriterMetrics {
    private final Counter recordsSent;
    private final Counter bytesSent;
    private final Counter records;
    private final Counter failures;

    // Reporters read them from threads of their own.
    private volatile long confirmed;
    private volatile long unconfirmed;
    private volatile long logBytes;

    WriterMetrics(SinkWriterMetricGroup group) {
        recordsSent = group.getNumRecordsSendCounter();
        bytesSent = group.getNumBytesSendCounter();
        MetricGroup own = group.addGroup("atp");
        records = own.counter("records");
        failures = own.counter("failures");
        own.gauge("windowsConfirmed", () -> confirmed);
        own.gauge("windowsUnconfirmed", () -> unconfirmed);
        own.gauge("logBytes", () -> logBytes);
    }

    void onRecord(long bytes) {
        records.inc();
        recordsSent.inc();
        bytesSent.inc(bytes);
    }

    void onFailure() {
        failures.inc();
    }

    void set(long confirmed, long unconfirmed, long logBytes) {
        this.confirmed = confirmed;
        this.unconfirmed = unconfirmed;
        this.logBytes = logBytes;
    }
}
