package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.SimpleCounter;
import org.apache.flink.metrics.groups.OperatorIOMetricGroup;
import org.apache.flink.metrics.groups.SourceReaderMetricGroup;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.flink.WindowSummary;

class SourceMetricsTest {
    private final Map<String, Counter> counters = new HashMap<>();
    private final Map<String, Gauge<?>> gauges = new HashMap<>();
    private final Counter recordsIn = new SimpleCounter();
    private final SourceMetrics metrics = new SourceMetrics(group(SourceReaderMetricGroup.class));

    /** A group that remembers its metrics by name. */
    private <G extends MetricGroup> G group(Class<G> kind) {
        Object group =
                Proxy.newProxyInstance(
                        kind.getClassLoader(),
                        new Class<?>[] {kind},
                        (proxy, method, arguments) ->
                                switch (method.getName()) {
                                    case "getIOMetricGroup" -> group(OperatorIOMetricGroup.class);
                                    case "getNumRecordsInCounter" -> recordsIn;
                                    case "addGroup" -> group(MetricGroup.class);
                                    case "counter" ->
                                            counters.computeIfAbsent(
                                                    (String) arguments[0],
                                                    any -> new SimpleCounter());
                                    case "gauge" -> {
                                        gauges.put(
                                                (String) arguments[0], (Gauge<?>) arguments[1]);
                                        yield arguments[1];
                                    }
                                    default -> throw new AssertionError(method);
                                });
        return kind.cast(group);
    }

    private long count(String name) {
        return counters.get(name).getCount();
    }

    @Test
    void onWindow__countsWhatArrivedAndWhatDidNot() {
        WindowSummary window = new WindowSummary();
        window.records = 100;
        window.received = 70;
        window.lost = 20;
        window.refused = 4;
        window.repeated = 6;
        window.late = 2;
        window.skipped = 9;
        WindowSummary.Group group = new WindowSummary.Group();
        group.arrived = 75;
        window.groups.add(group);
        WindowSummary.Answer answer = new WindowSummary.Answer();
        answer.value = -4;
        answer.low = -6;
        answer.high = -2;
        window.answers.add(answer);
        metrics.onWindow(window);
        metrics.onWindow(window);
        assertEquals(2, count("windows"));
        assertEquals(140, count("recordsReceived"));
        assertEquals(40, count("recordsLost"));
        assertEquals(8, count("recordsRefused"));
        assertEquals(12, count("recordsRepeated"));
        assertEquals(4, count("recordsLate"));
        assertEquals(18, count("offsetsSkipped"));
        assertEquals(100L, gauges.get("lastWindowRecords").getValue());
        assertEquals(0.75, gauges.get("lastWindowDelivered").getValue());
        assertEquals(0.5, gauges.get("lastAnswerHalfWidth").getValue());
    }

    @Test
    void onElement__countsRecordsInPlaceOfElements() {
        recordsIn.inc();
        metrics.onElement(50);
        recordsIn.inc();
        metrics.onElement(0);
        assertEquals(50, recordsIn.getCount());
    }
}
