package org.netapprox.atp.flink.sink;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiter;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;

/**
 * Limits the number of records that each reader of a source emits, until the test raises the limit.
 * A reader that finds no split has used up a record, so it may emit a few less.
 */
final class Gate {
    /** Readers run in this JVM, with copies of their job's objects. */
    private static final Map<String, Gate> GATES = new ConcurrentHashMap<>();

    private final String id = UUID.randomUUID().toString();
    private final List<Waiting> waiting = new ArrayList<>();
    private long allowed;

    private record Waiting(long record, CompletableFuture<Void> passed) {}

    Gate(long allowed) {
        this.allowed = allowed;
        GATES.put(id, this);
    }

    /** Lets each reader emit this many records, those of earlier attempts not counted. */
    synchronized void allow(long records) {
        allowed = records;
        waiting.removeIf(one -> one.record() < allowed && one.passed().complete(null));
    }

    /** Waits until a reader has emitted all that it may. */
    synchronized void awaitBlocked() throws InterruptedException {
        while (waiting.isEmpty()) {
            wait();
        }
    }

    /** Lets all records pass. */
    void open() {
        allow(Long.MAX_VALUE);
    }

    private synchronized CompletableFuture<Void> pass(long record) {
        if (record < allowed) {
            return CompletableFuture.completedFuture(null);
        }
        Waiting one = new Waiting(record, new CompletableFuture<>());
        waiting.add(one);
        notifyAll();
        return one.passed();
    }

    <S extends SourceSplit> RateLimiterStrategy<S> strategy() {
        String gate = id;
        return parallelism -> new Limiter<>(GATES.get(gate));
    }

    private static final class Limiter<S extends SourceSplit> implements RateLimiter<S> {
        private final Gate gate;
        private long records;

        Limiter(Gate gate) {
            this.gate = gate;
        }

        @Override
        public CompletionStage<Void> acquire(int number) {
            return gate.pass(records++);
        }
    }
}
