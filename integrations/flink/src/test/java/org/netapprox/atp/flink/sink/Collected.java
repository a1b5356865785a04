package org.netapprox.atp.flink.sink;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;

/** Collects the elements of a stream for a test in this JVM. */
public final class Collected<T> implements Sink<T> {
    private static final long serialVersionUID = 1;

    /** Writers run in this JVM, with copies of their job's objects. */
    private static final Map<String, List<Object>> ALL = new ConcurrentHashMap<>();

    private final String id = UUID.randomUUID().toString();

    public Collected() {
        ALL.put(id, new ArrayList<>());
    }

    @SuppressWarnings("unchecked")
    public List<T> elements() {
        List<Object> elements = ALL.get(id);
        synchronized (elements) {
            return (List<T>) List.copyOf(elements);
        }
    }

    @Override
    public SinkWriter<T> createWriter(WriterInitContext context) {
        List<Object> elements = ALL.get(id);
        return new SinkWriter<>() {
            @Override
            public void write(T element, Context written) {
                synchronized (elements) {
                    elements.add(element);
                }
            }

            @Override
            public void flush(boolean endOfInput) {}

            @Override
            public void close() {}
        };
    }
}
