package org.netapprox.atp.flink.source;

import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.groups.SourceReaderMetricGroup;
import org.netapprox.atp.flink.WindowSummary;

/** The metrics of a reader, in the group {@code atp} of its own ones. */
final class SourceMetrics {
    final Counter windowsRepeated;
    final Counter windowsUnfinished;
    final Counter windowsRefused;
    final Counter sendersMalformed;
    final Counter sendersNoMemory;
    final Counter recordsLeftOut;
    final Counter answerRowsLeftOut;
    private final Counter recordsIn;
    private final Counter windows;
    private final Counter recordsReceived;
    private final Counter recordsLost;
    private final Counter recordsRefused;
    private final Counter recordsRepeated;
    private final Counter recordsLate;
    private final Counter offsetsSkipped;

    // Reporters read these from threads of theirs.
    private volatile long lastWindowRecords;
    private volatile double lastWindowDelivered = Double.NaN;
    private volatile double lastAnswerHalfWidth = Double.NaN;

    SourceMetrics(SourceReaderMetricGroup reader) {
        recordsIn = reader.getIOMetricGroup().getNumRecordsInCounter();
        MetricGroup group = reader.addGroup("atp");
        windows = group.counter("windows");
        windowsRepeated = group.counter("windowsRepeated");
        windowsUnfinished = group.counter("windowsUnfinished");
        windowsRefused = group.counter("windowsRefused");
        sendersMalformed = group.counter("sendersMalformed");
        sendersNoMemory = group.counter("sendersNoMemory");
        recordsReceived = group.counter("recordsReceived");
        recordsLost = group.counter("recordsLost");
        recordsRefused = group.counter("recordsRefused");
        recordsRepeated = group.counter("recordsRepeated");
        recordsLate = group.counter("recordsLate");
        recordsLeftOut = group.counter("recordsLeftOut");
        offsetsSkipped = group.counter("offsetsSkipped");
        answerRowsLeftOut = group.counter("answerRowsLeftOut");
        group.gauge("lastWindowRecords", () -> lastWindowRecords);
        group.gauge("lastWindowDelivered", () -> lastWindowDelivered);
        group.gauge("lastAnswerHalfWidth", () -> lastAnswerHalfWidth);
    }

    /** Counts a window that was emitted. */
    void onWindow(WindowSummary window) {
        windows.inc();
        recordsReceived.inc(window.received);
        recordsLost.inc(window.lost);
        recordsRefused.inc(window.refused);
        recordsRepeated.inc(window.repeated);
        recordsLate.inc(window.late);
        offsetsSkipped.inc(window.skipped);
        lastWindowRecords = window.records;
        long arrived = window.groups.stream().mapToLong(group -> group.arrived).sum();
        lastWindowDelivered = window.records == 0 ? 1 : (double) arrived / window.records;
        lastAnswerHalfWidth =
                window.answers.stream()
                        .mapToDouble(answer -> halfWidth(answer))
                        .max()
                        .orElse(Double.NaN);
    }

    /** Flink has counted an element, which stands for this many records. */
    void onElement(long records) {
        recordsIn.inc(records - 1);
    }

    /** Half of the interval as a share of the answer. */
    private static double halfWidth(WindowSummary.Answer answer) {
        return (answer.high - answer.low) / 2 / Math.abs(answer.value);
    }
}
