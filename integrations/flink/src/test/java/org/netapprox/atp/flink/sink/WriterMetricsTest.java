package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.SimpleCounter;
import org.apache.flink.metrics.groups.SinkWriterMetricGroup;
import org.junit.jupiter.api.Test;

class WriterMetricsTest {
    /** A group and its subgroups, whose metrics are kept by name. */
    private static SinkWriterMetricGroup group(Map<String, Object> metrics) {
        return (SinkWriterMetricGroup)
                Proxy.newProxyInstance(
                        SinkWriterMetricGroup.class.getClassLoader(),
                        new Class<?>[] {SinkWriterMetricGroup.class},
                        (proxy, method, arguments) ->
                                switch (method.getName()) {
                                    case "addGroup" -> proxy;
                                    case "gauge" -> {
                                        metrics.put((String) arguments[0], arguments[1]);
                                        yield arguments[1];
                                    }
                                    case "counter" ->
                                            metrics.computeIfAbsent(
                                                    (String) arguments[0],
                                                    name -> new SimpleCounter());
                                    default ->
                                            metrics.computeIfAbsent(
                                                    method.getName(), name -> new SimpleCounter());
                                });
    }

    @Test
    void set__isWhatReportersRead() {
        Map<String, Object> all = new HashMap<>();
        WriterMetrics metrics = new WriterMetrics(group(all));
        metrics.onRecord(10);
        metrics.onRecord(5);
        metrics.onFailure();
        metrics.set(1, 2, 3);
        assertEquals(2, ((Counter) all.get("records")).getCount());
        assertEquals(2, ((Counter) all.get("getNumRecordsSendCounter")).getCount());
        assertEquals(15, ((Counter) all.get("getNumBytesSendCounter")).getCount());
        assertEquals(1, ((Counter) all.get("failures")).getCount());
        assertEquals(1L, ((Gauge<?>) all.get("windowsConfirmed")).getValue());
        assertEquals(2L, ((Gauge<?>) all.get("windowsUnconfirmed")).getValue());
        assertEquals(3L, ((Gauge<?>) all.get("logBytes")).getValue());
    }
}
