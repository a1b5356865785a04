package org.netapprox.atp.flink.source;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The elements of a stream, as the state of an operator: an attempt begins with those of its
 * checkpoint, so that each element counts as often as it does for Flink.
 *
 * @param <T> the type of the elements
 */
final class Kept<T> {
    private static final Map<String, Kept<?>> ALL = new ConcurrentHashMap<>();

    private final String id = UUID.randomUUID().toString();
    private final CountDownLatch gate;
    private final AtomicInteger attempts = new AtomicInteger();
    private volatile List<T> elements = List.of();

    private Kept(int gates) {
        gate = new CountDownLatch(gates);
    }

    /** Keeps the elements of a stream. */
    static <T> Kept<T> of(DataStream<T> stream, String uid) {
        return of(stream, uid, 0);
    }

    /** Keeps the elements of a stream, and takes none before {@link #open}. */
    static <T> Kept<T> slowly(DataStream<T> stream, String uid) {
        return of(stream, uid, 1);
    }

    private static <T> Kept<T> of(DataStream<T> stream, String uid, int gates) {
        Kept<T> kept = new Kept<>(gates);
        ALL.put(kept.id, kept);
        stream.process(new Keeper<>(kept.id, stream.getType()), stream.getType())
                .setParallelism(1)
                .uid(uid);
        return kept;
    }

    void open() {
        gate.countDown();
    }

    int attempts() {
        return attempts.get();
    }

    int size() {
        return elements.size();
    }

    /** The elements of the latest attempt. */
    List<T> elements() {
        List<T> current = elements;
        synchronized (current) {
            return new ArrayList<>(current);
        }
    }

    /** The elements of the latest attempt, none of which is there twice. */
    List<T> once() {
        List<T> all = elements();
        if (new HashSet<>(all).size() < all.size()) {
            throw new AssertionError("some are there twice: " + all);
        }
        return all;
    }

    private static final class Keeper<T> extends ProcessFunction<T, T>
            implements CheckpointedFunction {
        private static final long serialVersionUID = 1;

        private final String id;
        private final TypeInformation<T> type;
        private transient Kept<T> kept;
        private transient List<T> elements;
        private transient ListState<T> state;

        private Keeper(String id, TypeInformation<T> type) {
            this.id = id;
            this.type = type;
        }

        @Override
        @SuppressWarnings("unchecked") // The map has the type of the stream.
        public void initializeState(FunctionInitializationContext context) throws Exception {
            kept = (Kept<T>) ALL.get(id);
            state =
                    context.getOperatorStateStore()
                            .getListState(new ListStateDescriptor<>("kept", type));
            elements = Collections.synchronizedList(new ArrayList<>());
            state.get().forEach(elements::add);
            kept.elements = elements;
            kept.attempts.incrementAndGet();
        }

        @Override
        public void processElement(T element, Context context, Collector<T> out)
                throws InterruptedException {
            kept.gate.await();
            elements.add(element);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            state.update(new ArrayList<>(elements));
        }
    }
}
