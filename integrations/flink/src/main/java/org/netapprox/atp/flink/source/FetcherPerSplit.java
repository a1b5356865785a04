package org.netapprox.atp.flink.source;

import java.util.List;
import java.util.function.Supplier;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.source.reader.fetcher.SplitFetcher;
import org.apache.flink.connector.base.source.reader.fetcher.SplitFetcherManager;
import org.apache.flink.connector.base.source.reader.splitreader.SplitReader;

/** Starts a thread for each split, since each has a receiver of its own to wait for. */
final class FetcherPerSplit extends SplitFetcherManager<Received, ListenSplit> {
    FetcherPerSplit(
            Supplier<SplitReader<Received, ListenSplit>> readers, Configuration configuration) {
        super(readers, configuration);
    }

    @Override
    public void addSplits(List<ListenSplit> splits) {
        for (ListenSplit split : splits) {
            SplitFetcher<Received, ListenSplit> fetcher = createSplitFetcher();
            fetcher.addSplits(List.of(split));
            startFetcher(fetcher);
        }
    }

    @Override
    public void removeSplits(List<ListenSplit> splits) {
        throw new UnsupportedOperationException("a split ends with its streams");
    }

    /** Makes the task's thread call {@code pollNext}. */
    void wakeTask() {
        getQueue().notifyAvailable();
    }
}
