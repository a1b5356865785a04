package org.netapprox.atp.flink.source;

import java.util.List;
import java.util.Map;
import org.apache.flink.annotation.Internal;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.connector.base.source.reader.SourceReaderBase;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.types.Either;
import org.netapprox.atp.flink.RecordDeserializer;
import org.netapprox.atp.flink.WindowSummary;

/**
 * Emits the windows that come to the addresses of a reader.
 *
 * @param <T> the type of the records' elements
 */
@Internal
public final class WindowSourceReader<T>
        extends SourceReaderBase<Received, Either<T, WindowSummary>, ListenSplit, SplitState> {
    private final SourceOptions sourceOptions;
    private final FetcherPerSplit fetchers;
    private boolean hasNoSplits;
    private boolean isMarkedIdle;

    /**
     * A reader.
     *
     * @param options the source's options
     * @param deserializer makes elements of records; it is open
     * @param context the reader's context
     */
    public WindowSourceReader(
            SourceOptions options,
            RecordDeserializer<T> deserializer,
            SourceReaderContext context) {
        this(
                options,
                new FetcherPerSplit(
                        () -> new WindowSplitReader(options, WindowSplitReader.BIND_NANOS),
                        context.getConfiguration()),
                new WindowEmitter<>(
                        options, deserializer, new SourceMetrics(context.metricGroup())),
                context);
    }

    private WindowSourceReader(
            SourceOptions options,
            FetcherPerSplit fetchers,
            WindowEmitter<T> emitter,
            SourceReaderContext context) {
        super(fetchers, emitter, context.getConfiguration(), context);
        sourceOptions = options;
        this.fetchers = fetchers;
    }

    @Override
    public void start() {
        context.sendSourceEventToCoordinator(HostAddresses.ofThisHost());
    }

    @Override
    public void handleSourceEvents(SourceEvent event) {
        if (event instanceof NoSplits) {
            hasNoSplits = true;
            fetchers.wakeTask();
        }
    }

    @Override
    public void addSplits(List<ListenSplit> splits) {
        hasNoSplits = false;
        isMarkedIdle = false;
        super.addSplits(splits);
    }

    @Override
    public InputStatus pollNext(ReaderOutput<Either<T, WindowSummary>> output) throws Exception {
        if (hasNoSplits && !isMarkedIdle) {
            isMarkedIdle = true;
            output.markIdle();
        }
        return super.pollNext(output);
    }

    @Override
    protected void onSplitFinished(Map<String, SplitState> finished) {}

    @Override
    protected SplitState initializedState(ListenSplit split) {
        return new SplitState(sourceOptions, split, System.nanoTime());
    }

    @Override
    protected ListenSplit toSplitType(String splitId, SplitState state) {
        return state.toSplit();
    }
}
