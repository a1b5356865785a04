package org.netapprox.atp.flink.sink;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.operators.ProcessingTimeService;
import org.apache.flink.api.connector.sink2.CommittingSinkWriter;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;

/**
 * Sends the records of one subtask: a stream for each receiver.
 *
 * @param <T> the type of the records
 */
sealed class AtpWriter<T>
        implements StatefulSinkWriter<T, StreamState>, CommittingSinkWriter<T, CheckpointMark>
        permits HoldingWriter {
    /** The interval of looks at failures and confirmations while no record comes. */
    private static final long TICK_MS = 200;

    /** The records between two looks at the confirmations. */
    private static final int LOOK_RECORDS = 256;

    private final SinkOptions<T> options;
    private final boolean holds;
    private final int subtask;
    private final WriterMetrics metrics;
    private final ProcessingTimeService clock;

    /** By peer; null for those that other writers send to. */
    private final OutStream[] streams;

    private final List<Finisher> finishing = new ArrayList<>();

    /**
     * Streams without records that this writer doesn't need. Each tells its receiver of one more
     * watermark, and then of its end, so that the receiver's watermark doesn't wait for it.
     */
    private final List<OutStream> leaving = new ArrayList<>();

    private long confirmedBefore;
    private long watermarkMs = Long.MIN_VALUE;
    private long written;
    private boolean isClosed;

    /**
     * A writer that goes on with the streams of a checkpoint.
     *
     * @param options the options of the sink
     * @param context the context of the subtask
     * @param restored the streams; none for a new job
     * @param holds whether records wait for a checkpoint
     * @throws IOException if a stream's receiver isn't among the peers
     */
    AtpWriter(
            SinkOptions<T> options,
            WriterInitContext context,
            Collection<StreamState> restored,
            boolean holds)
            throws IOException {
        this.options = options;
        this.holds = holds;
        subtask = context.getTaskInfo().getIndexOfThisSubtask();
        streams = new OutStream[options.peers().size()];
        metrics = new WriterMetrics(context.metricGroup());
        clock = context.getProcessingTimeService();
        try {
            options.serializer().open(context.asSerializationSchemaInitializationContext());
        } catch (Exception e) {
            throw new IOException("the serializer of the sink \"" + options.topic()
                    + "\" can't be opened: " + e, e);
        }
        for (StreamState state : restored) {
            check(state);
        }
        // Of one peer's streams one that has begun goes on.
        List<StreamState> begunFirst = new ArrayList<>(restored);
        begunFirst.sort(Comparator.comparing(state -> !state.hasBegun()));
        for (StreamState state : begunFirst) {
            restore(state);
        }
        // Each checkpoint has all streams: one that begins after it has the same id when its
        // records come again.
        String origin = StreamId.origin(context);
        for (int peer = 0; peer < streams.length; peer++) {
            if (streams[peer] == null && options.sendsTo(peer, subtask)) {
                streams[peer] = OutStream.create(options, holds, origin, subtask, peer);
            }
        }
        // The records of a checkpoint are sent by the first tick: the restore doesn't wait.
        clock.registerTimer(clock.getCurrentProcessingTime(), this::tick);
    }

    private void check(StreamState state) throws IOException {
        if (state.hasRecords() && !options.peers().contains(state.id().peer())) {
            throw new IOException(
                    "the checkpoint has records of the sink \"" + options.topic() + "\" for "
                            + state.id().peer() + ", which isn't among its peers "
                            + options.peers() + ": add that peer again, or drain the job before"
                            + " you remove it");
        }
    }

    /** Goes on with one stream of each peer that this writer sends to, and finishes the others. */
    private void restore(StreamState state) throws IOException {
        int peer = options.peers().indexOf(state.id().peer());
        if (peer >= 0 && streams[peer] == null && options.sendsTo(peer, subtask)) {
            streams[peer] = OutStream.restore(options, holds, state);
        } else if (state.hasRecords()) {
            finishing.add(Finisher.start(OutStream.restore(options, holds, state)));
        } else if (peer >= 0 && state.hasBegun() && options.lengthMs() > 0) {
            // A stream of windows by number can't tell of its end: it makes no empty window.
            leaving.add(OutStream.restore(options, holds, state));
        }
    }

    @Override
    public void write(T element, Context context) throws IOException, InterruptedException {
        RecordBytes bytes = RecordBytes.of(element, options);
        Long timestamp = context.timestamp();
        if (timestamp == null && options.lengthMs() > 0) {
            throw new IOException(
                    "a record of the sink \"" + options.topic() + "\" has no event time, by which"
                            + " its windows are cut: assign timestamps and watermarks before the"
                            + " sink, or give records in place of length");
        }
        OptionalLong timestampMs =
                timestamp == null ? OptionalLong.empty() : OptionalLong.of(timestamp);
        OutStream stream = stream(options.peer(element, subtask));
        try {
            stream.write(timestampMs, bytes.key(), bytes.value(), bytes.headers(), bytes.group());
            metrics.onRecord(bytes.length());
            if (++written % LOOK_RECORDS == 0) {
                refresh();
            }
            onWritten();
            while (logBytes() > options.logBytesMax()) {
                if (!awaitRelease()) {
                    makeRoom();
                }
            }
        } catch (IOException e) {
            metrics.onFailure();
            throw e;
        }
    }

    private OutStream stream(int peer) {
        OutStream stream = streams[peer];
        if (!stream.hasBegun()) {
            stream.begin();
            if (watermarkMs > Long.MIN_VALUE && watermarkMs < Long.MAX_VALUE) {
                // Records behind it are late here as in the other streams.
                stream.log().advance(watermarkMs + 1);
            }
        }
        return stream;
    }

    private void makeRoom() throws IOException, InterruptedException {
        var byBytes = Comparator.comparingLong((OutStream stream) -> stream.log().bytes());
        streams().max(byBytes).orElseThrow().makeRoom();
    }

    @Override
    public void writeWatermark(Watermark watermark) throws IOException, InterruptedException {
        watermarkMs = watermark.getTimestamp();
        for (OutStream stream : streams().toList()) {
            if (watermarkMs == Long.MAX_VALUE) {
                // A later job goes on from a savepoint behind the last window, not behind all time.
                stream.advanceToEnd();
            } else {
                // A watermark says that no record of its own time follows either.
                stream.log().advance(watermarkMs + 1);
            }
        }
        sendAll();
        if (watermarkMs < Long.MAX_VALUE) {
            leave();
        }
    }

    private void leave() throws IOException, InterruptedException {
        for (Iterator<OutStream> all = leaving.iterator(); all.hasNext(); ) {
            OutStream stream = all.next();
            stream.log().advance(watermarkMs + 1);
            stream.log().releaseAll();
            while (send(stream)) {}
            // The watermark may be behind windows that were confirmed.
            if (stream.hasSentWindow()) {
                all.remove();
                finishing.add(Finisher.start(stream));
            }
        }
    }

    /** Waits for confirmations only at the end: checkpoints hold what isn't confirmed. */
    @Override
    public void flush(boolean endOfInput) throws IOException, InterruptedException {
        if (!endOfInput) {
            return;
        }
        List<Finisher> ending = new ArrayList<>(finishing);
        for (OutStream stream : Stream.concat(streams(), leaving.stream()).toList()) {
            // At once: a receiver may wait for all streams before it confirms one.
            ending.add(Finisher.start(stream));
        }
        try {
            for (Finisher finisher : ending) {
                finisher.await();
            }
        } catch (IOException | InterruptedException e) {
            if (e instanceof IOException) {
                metrics.onFailure();
            }
            ending.forEach(Finisher::close);
            throw e;
        }
        refresh();
    }

    /** Nothing waits for a checkpoint here. */
    @Override
    public Collection<CheckpointMark> prepareCommit() {
        return List.of();
    }

    @Override
    public List<StreamState> snapshotState(long checkpointId) throws IOException {
        refresh();
        List<StreamState> states = new ArrayList<>();
        for (OutStream stream : streams) {
            if (stream != null) {
                states.add(stream.state());
            }
        }
        for (OutStream stream : leaving) {
            states.add(stream.state());
        }
        finishing.forEach(finisher -> states.add(finisher.state()));
        return states;
    }

    /** Sends what is ready, drops what is confirmed, and fails the job if a receiver is gone. */
    private void tick(long time) throws IOException, InterruptedException {
        if (isClosed) {
            return;
        }
        sendAll();
        refresh();
        long nowMs = clock.getCurrentProcessingTime();
        onTick(nowMs);
        clock.registerTimer(nowMs + TICK_MS, this::tick);
    }

    /** Runs every {@link #TICK_MS}, for a subclass. */
    void onTick(long nowMs) {}

    /** Takes note of a record in the log, for a subclass. */
    void onWritten() throws InterruptedException {}

    /** Waits for a checkpoint that releases records, if one is on its way: whether it did. */
    boolean awaitRelease() throws InterruptedException {
        return false;
    }

    /** Sends what is ready of all streams, up to a watermark of each in turn: none is far ahead. */
    final void sendAll() throws IOException, InterruptedException {
        List<OutStream> left = streams().toList();
        while (!left.isEmpty()) {
            List<OutStream> more = new ArrayList<>();
            for (OutStream stream : left) {
                if (send(stream)) {
                    more.add(stream);
                }
            }
            left = more;
        }
    }

    /** Sends what is ready of a stream up to the next watermark: whether there was one. */
    private boolean send(OutStream stream) throws IOException, InterruptedException {
        try {
            boolean hasMore = stream.sendWindow();
            stream.check();
            return hasMore;
        } catch (IOException e) {
            metrics.onFailure();
            throw e;
        }
    }

    /** The streams that have begun. */
    final Stream<OutStream> streams() {
        return Arrays.stream(streams).filter(stream -> stream != null && stream.hasBegun());
    }

    private void refresh() throws IOException {
        long confirmed = 0;
        long unconfirmed = 0;
        for (OutStream stream : streams().toList()) {
            stream.refresh();
            confirmed += stream.confirmed();
            unconfirmed += stream.unconfirmed();
        }
        for (Iterator<Finisher> all = finishing.iterator(); all.hasNext(); ) {
            Finisher finisher = all.next();
            if (finisher.isDone()) {
                confirmedBefore += finisher.stream().confirmed();
                finisher.close();
                all.remove();
            }
        }
        metrics.set(confirmedBefore + confirmed, unconfirmed, logBytes());
    }

    /** The bytes of the logs of all streams that this writer goes on with. */
    final long logBytes() {
        long bytes = 0;
        for (OutStream stream : streams) {
            bytes += stream == null ? 0 : stream.log().bytes();
        }
        return bytes;
    }

    @Override
    public void close() {
        isClosed = true;
        finishing.forEach(Finisher::close);
        Stream.concat(streams(), leaving.stream()).forEach(OutStream::close);
    }
}
