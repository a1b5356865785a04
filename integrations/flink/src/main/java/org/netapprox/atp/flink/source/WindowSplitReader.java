package org.netapprox.atp.flink.source;

import java.io.IOException;
import java.net.BindException;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.connector.base.source.reader.RecordsBySplits;
import org.apache.flink.connector.base.source.reader.RecordsWithSplitIds;
import org.apache.flink.connector.base.source.reader.splitreader.SplitReader;
import org.apache.flink.connector.base.source.reader.splitreader.SplitsChange;
import org.netapprox.atp.Window;
import org.netapprox.atp.WindowEvent;
import org.netapprox.atp.WindowReceiver;
import org.netapprox.atp.WindowStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Receives the windows that come to one address. Each is an element of its own, which the task's
 * thread emits and confirms. Until then its stream's next window isn't handed over.
 */
final class WindowSplitReader implements SplitReader<Received, ListenSplit> {
    private static final Logger LOG = LoggerFactory.getLogger(WindowSplitReader.class);

    /** The longest wait that doesn't notice a wake-up. */
    private static final Duration STEP = Duration.ofMillis(50);

    /** The time after which the task's thread looks for idle streams again. */
    private static final long QUIET_NANOS = TimeUnit.SECONDS.toNanos(1);

    /** An attempt that was cancelled may hold its port while it tells its senders so. */
    static final long BIND_NANOS = TimeUnit.SECONDS.toNanos(10);

    private final SourceOptions options;
    private final long bindNanos;
    private final long quietNanos;
    private final AtomicInteger unconfirmed = new AtomicInteger();
    private ListenSplit split;
    private Missing missing;
    private StreamWatermarks streams;
    private WindowReceiver receiver;
    private long beganNanos;
    private long lastQuietNanos;
    private long leftNanos;
    private boolean isPaused;
    private volatile boolean isWoken;

    /** {@code bindNanos}: how long to try again while the port is taken. */
    WindowSplitReader(SourceOptions options, long bindNanos) {
        this.options = options;
        this.bindNanos = bindNanos;
        long idleNanos = options.idleNanos();
        quietNanos = idleNanos == 0 ? QUIET_NANOS : Math.min(QUIET_NANOS, idleNanos / 4 + 1);
    }

    /**
     * Waits for the next event.
     *
     * @throws IOException if the address can't be listened at, no window has come in time, or the
     *     receiver has failed
     */
    @Override
    public RecordsWithSplitIds<Received> fetch() throws IOException {
        if (options.isBounded() && streams.haveEnded()) {
            // They had ended before the checkpoint.
            return new RecordsBySplits<>(Map.of(), Set.of(split.splitId()));
        }
        try {
            if (receiver == null && !bind()) {
                return nothing();
            }
            // Until now the task may have had no room for the last event.
            missing.leaveOut(System.nanoTime() - leftNanos);
            WindowEvent event = isPaused ? pause() : next();
            leftNanos = System.nanoTime();
            if (event == null && (isPaused || isWoken)) {
                isWoken = false;
                return nothing();
            }
            return element(event);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("receiving at " + split.address() + " was interrupted", e);
        }
    }

    @Override
    public void handleSplitsChanges(SplitsChange<ListenSplit> change) {
        split = change.splits().get(0);
        beganNanos = System.nanoTime();
        lastQuietNanos = beganNanos;
        missing = new Missing(options, split, beganNanos);
        streams = new StreamWatermarks(options.streams(), 0, split.streams(), beganNanos);
    }

    @Override
    public void pauseOrResumeSplits(
            Collection<ListenSplit> toPause, Collection<ListenSplit> toResume) {
        isPaused = !toPause.isEmpty();
    }

    @Override
    public void wakeUp() {
        isWoken = true;
    }

    @Override
    public void close() {
        if (receiver != null) {
            receiver.close();
        }
    }

    /** Starts to receive; false if the port is still taken. */
    private boolean bind() throws IOException, InterruptedException {
        try {
            receiver = options.bind(split);
            LOG.info("Listening for windows at {}", split.address());
            leftNanos = System.nanoTime();
            missing.restart(leftNanos);
            return true;
        } catch (BindException e) {
            if (System.nanoTime() - beganNanos < bindNanos) {
                Thread.sleep(STEP.toMillis());
                isWoken = false;
                return false;
            }
            throw cannotListen(e);
        } catch (IOException | IllegalArgumentException e) {
            throw cannotListen(e);
        }
    }

    private IOException cannotListen(Exception e) {
        return new IOException(
                "the source can't listen at " + split.address() + ": " + e.getMessage(), e);
    }

    /**
     * The next event. Null after a wake-up, and now and then when none is there: only then a silent
     * stream is idle, since none of its windows waits here for Flink. Events of other streams don't
     * put this off.
     */
    private WindowEvent next() throws IOException, InterruptedException {
        while (!isWoken) {
            WindowEvent event = receiver.receive(STEP);
            if (event != null) {
                return event;
            }
            long now = System.nanoTime();
            if (unconfirmed.get() > 0) {
                missing.onUnconfirmed(now);
            }
            missing.check(streams, now);
            if (now - lastQuietNanos >= quietNanos) {
                lastQuietNanos = now;
                return null;
            }
        }
        return null;
    }

    /** Streams that wait because of this pause aren't idle, and no sender is missing. */
    private WindowEvent pause() throws InterruptedException {
        Thread.sleep(STEP.toMillis());
        missing.restart(System.nanoTime());
        return null;
    }

    private RecordsWithSplitIds<Received> element(WindowEvent event) {
        long now = System.nanoTime();
        if (event instanceof WindowEvent.Ended ended) {
            unconfirmed.incrementAndGet();
            Window window = ended.window();
            // The task's thread rejects it otherwise.
            if (Admission.refusal(window, streams, options).isEmpty()) {
                onWindow(window.stream(), now);
            }
        } else if (event instanceof WindowEvent.Repeated repeated
                && admits(repeated.id().stream())) {
            onWindow(repeated.id().stream(), now);
        } else if (event instanceof WindowEvent.StreamEnded ended && admits(ended.stream())) {
            streams.onEnded(ended.stream(), now);
            missing.onEnded(now);
        }
        boolean isDone = options.isBounded() && streams.haveEnded();
        Received element = new Received(receiver, event, now, unconfirmed);
        return new RecordsBySplits<>(
                Map.of(split.splitId(), List.of(element)),
                isDone ? Set.of(split.splitId()) : Set.of());
    }

    private void onWindow(WindowStream stream, long now) {
        streams.onSeen(stream, now);
        missing.onWindow(now);
    }

    private boolean admits(WindowStream stream) {
        return Admission.refusal(stream, streams, options).isEmpty();
    }

    private static RecordsWithSplitIds<Received> nothing() {
        return new RecordsBySplits<>(Map.of(), Set.of());
    }
}
