package org.netapprox.atp.flink.source;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.function.BiConsumer;
import org.apache.flink.api.connector.source.ReaderInfo;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;
import org.apache.flink.metrics.groups.SplitEnumeratorMetricGroup;

/** The readers of an enumerator, and what it tells them. Flink's own is in none of its jars. */
final class EnumeratorContext implements SplitEnumeratorContext<ListenSplit> {
    /** The splits that each registered reader has. */
    final Map<Integer, List<ListenSplit>> given = new TreeMap<>();

    final Set<Integer> withoutMore = new HashSet<>();
    final Set<Integer> withoutSplits = new HashSet<>();
    private final Map<Integer, ReaderInfo> readers = new HashMap<>();
    private final int parallelism;

    EnumeratorContext(int parallelism) {
        this.parallelism = parallelism;
    }

    /** A reader starts, with the splits of a checkpoint. */
    void register(ListenEnumerator enumerator, int subtask, List<ListenSplit> restored, String ip) {
        readers.put(subtask, ReaderInfo.createReaderInfo(subtask, "host", restored));
        given.put(subtask, new ArrayList<>());
        enumerator.addReader(subtask);
        enumerator.handleSourceEvent(subtask, new HostAddresses(List.of(ip)));
    }

    /** A reader fails: the enumerator gets back what it was given since the checkpoint. */
    void fail(ListenEnumerator enumerator, int subtask, List<ListenSplit> back) {
        readers.remove(subtask);
        given.remove(subtask);
        withoutMore.remove(subtask);
        withoutSplits.remove(subtask);
        enumerator.addSplitsBack(back, subtask);
    }

    /** The addresses of a reader. */
    List<String> addresses(int subtask) {
        return given.get(subtask).stream().map(ListenSplit::address).sorted().toList();
    }

    /** The addresses of all readers, in order. */
    List<String> addresses() {
        return given.values().stream()
                .flatMap(List::stream)
                .map(ListenSplit::address)
                .sorted()
                .toList();
    }

    @Override
    public int currentParallelism() {
        return parallelism;
    }

    @Override
    public Map<Integer, ReaderInfo> registeredReaders() {
        return Map.copyOf(readers);
    }

    @Override
    public void assignSplits(SplitsAssignment<ListenSplit> assignment) {
        assignment
                .assignment()
                .forEach(
                        (subtask, splits) -> {
                            if (withoutMore.contains(subtask)) {
                                throw new AssertionError(subtask + " may have finished");
                            }
                            given.get(subtask).addAll(splits);
                        });
    }

    @Override
    public void signalNoMoreSplits(int subtask) {
        withoutMore.add(subtask);
    }

    @Override
    public void sendEventToSourceReader(int subtask, SourceEvent event) {
        if (event instanceof NoSplits) {
            withoutSplits.add(subtask);
        }
    }

    @Override
    public SplitEnumeratorMetricGroup metricGroup() {
        throw new UnsupportedOperationException();
    }

    @Override
    public <T> void callAsync(Callable<T> callable, BiConsumer<T, Throwable> handler) {
        throw new UnsupportedOperationException();
    }

    @Override
    public <T> void callAsync(
            Callable<T> callable, BiConsumer<T, Throwable> handler, long first, long period) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void runInCoordinatorThread(Runnable runnable) {
        runnable.run();
    }
}
