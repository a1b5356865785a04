package org.netapprox.atp.flink.source;

import java.io.IOException;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.connector.base.source.reader.RecordEmitter;
import org.apache.flink.types.Either;
import org.apache.flink.util.Collector;
import org.netapprox.atp.Window;
import org.netapprox.atp.WindowEvent;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.WindowStream;
import org.netapprox.atp.flink.RecordDeserializer;
import org.netapprox.atp.flink.WindowSummary;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Emits a whole window in one call, so that no checkpoint falls into it: its records, its summary,
 * the watermark. Only then it confirms the window: one whose emission fails is sent again.
 *
 * @param <T> the type of the records' elements
 */
final class WindowEmitter<T>
        implements RecordEmitter<Received, Either<T, WindowSummary>, SplitState> {
    private static final Logger LOG = LoggerFactory.getLogger(WindowEmitter.class);

    /** The least time between two logs of refused windows. */
    private static final long REFUSED_LOG_NANOS = TimeUnit.SECONDS.toNanos(10);

    private final RecordDeserializer<T> deserializer;
    private final SourceMetrics metrics;
    private final WindowAnswers answers;
    private final SourceOptions options;

    /** The last log of a refused window: its sender tries again and again. */
    private OptionalLong refusedNanos = OptionalLong.empty();

    WindowEmitter(
            SourceOptions options, RecordDeserializer<T> deserializer, SourceMetrics metrics) {
        this.options = options;
        this.deserializer = deserializer;
        this.metrics = metrics;
        answers = options.answer() == null ? null : new WindowAnswers(options.answer());
    }

    @Override
    public void emitRecord(
            Received element, SourceOutput<Either<T, WindowSummary>> output, SplitState state)
            throws Exception {
        WindowEvent event = element.event();
        if (event instanceof WindowEvent.Ended ended) {
            Window window = ended.window();
            Optional<String> refusal = Admission.refusal(window, state.watermarks, options);
            metrics.onElement(refusal.isPresent() ? 0 : window.received());
            if (refusal.isPresent()) {
                refuse(window, state, refusal.get());
            } else {
                emit(window, output, state);
            }
            element.unconfirmed().decrementAndGet();
            return;
        }
        metrics.onElement(0);
        if (event == null) {
            state.watermarks.onQuiet(element.atNanos());
        } else if (event instanceof WindowEvent.StreamEnded ended) {
            if (refusal(ended.stream(), state).isEmpty()) {
                state.watermarks.onEnded(ended.stream(), System.nanoTime());
            }
        } else if (event instanceof WindowEvent.Repeated repeated) {
            metrics.windowsRepeated.inc();
            if (refusal(repeated.id().stream(), state).isEmpty()) {
                state.watermarks.onSeen(repeated.id().stream(), System.nanoTime());
            }
            state.setCounted(element.receiver().counted());
        } else {
            note(event);
        }
        state.advance(output);
    }

    private Optional<String> refusal(WindowStream stream, SplitState state) {
        return Admission.refusal(stream, state.watermarks, options);
    }

    /** Rejects a window: the job of the sender fails, and this one goes on. */
    private void refuse(Window window, SplitState state, String reason) throws IOException {
        window.reject();
        metrics.windowsRefused.inc();
        long now = System.nanoTime();
        if (refusedNanos.isEmpty() || now - refusedNanos.getAsLong() >= REFUSED_LOG_NANOS) {
            refusedNanos = OptionalLong.of(now);
            LOG.warn(
                    "The stream {} is refused at {}: {}",
                    Admission.shown(window.stream()),
                    state.address(),
                    reason);
        }
    }

    private void emit(
            Window window, SourceOutput<Either<T, WindowSummary>> output, SplitState state)
            throws Exception {
        // A stream that was idle holds back the watermark before its records come.
        state.watermarks.onSeen(window.stream(), System.nanoTime());
        state.advance(output);
        if (isRepeated(window, state.watermarks)) {
            state.setCounted(window.confirm());
            metrics.windowsRepeated.inc();
            return;
        }
        WindowSummary summary = WindowSummary.of(window);
        if (answers != null) {
            metrics.answerRowsLeftOut.inc(answers.answer(window, summary));
        }
        Elements elements = new Elements(output, window.startMs());
        for (Window.Sample sample : window.samples()) {
            for (WindowRecord record : sample.records()) {
                elements.begin(record);
                try {
                    deserializer.deserialize(record, sample.group(), summary, elements);
                } catch (IOException e) {
                    throw new IOException(
                            "record " + record.offset() + " of " + window.id()
                                    + " can't be deserialized: " + e.getMessage(),
                            e);
                }
                metrics.recordsLeftOut.inc(elements.isEmpty ? 1 : 0);
            }
        }
        Either<T, WindowSummary> right = Either.Right(summary);
        if (window.endMs().isPresent()) {
            output.collect(right, StreamMark.lastMs(window.endMs().getAsLong()));
        } else {
            output.collect(right);
        }
        state.watermarks.onWindow(
                window.stream(), window.endMs(), window.isLastPart(), System.nanoTime());
        state.advance(output);
        state.setCounted(window.confirm());
        metrics.onWindow(summary);
        if (window.skipped() > 0) {
            LOG.warn(
                    "{}: no window has brought {} offsets before it. An attempt before a restore"
                            + " has confirmed their windows, or they have expired",
                    window.id(),
                    window.skipped());
        }
    }

    /**
     * Whether the window says no more than that its stream has come to its end, and that is known:
     * a sender that was restored sends it again. It has no offsets by which the receiver could
     * notice that.
     */
    private static boolean isRepeated(Window window, StreamWatermarks watermarks) {
        return window.records() == 0
                && window.skipped() == 0
                && window.isLastPart()
                && window.endMs().isPresent()
                && watermarks.hasReached(window.stream(), window.endMs().getAsLong());
    }

    private void note(WindowEvent event) {
        if (event instanceof WindowEvent.Unfinished unfinished) {
            metrics.windowsUnfinished.inc();
            LOG.info("{} wasn't finished: it is sent again", unfinished.id());
        } else if (event instanceof WindowEvent.Malformed malformed) {
            metrics.sendersMalformed.inc();
            LOG.warn("The sender {} is refused: {}", malformed.source(), malformed.reason());
        } else if (event instanceof WindowEvent.NoMemory noMemory) {
            metrics.sendersNoMemory.inc();
            LOG.warn(
                    "Open windows need more than {} bytes: the sender {} has to send again; raise"
                            + " memoryBytesMax, or make windows shorter",
                    noMemory.memoryBytesMax(),
                    noMemory.source());
        }
    }

    /** Emits the elements of a record with its timestamp. */
    private final class Elements implements Collector<T> {
        private final SourceOutput<Either<T, WindowSummary>> output;
        private final OptionalLong startMs;
        private OptionalLong timestampMs;
        private boolean isEmpty;

        private Elements(SourceOutput<Either<T, WindowSummary>> output, OptionalLong startMs) {
            this.output = output;
            this.startMs = startMs;
        }

        /** A record without an event time has that of its window's beginning, if it has one. */
        private void begin(WindowRecord record) {
            timestampMs = record.timestampMs().isPresent() ? record.timestampMs() : startMs;
            isEmpty = true;
        }

        @Override
        public void collect(T element) {
            isEmpty = false;
            Either<T, WindowSummary> left = Either.Left(element);
            if (timestampMs.isPresent()) {
                output.collect(left, timestampMs.getAsLong());
            } else {
                output.collect(left);
            }
        }

        @Override
        public void close() {}
    }
}
