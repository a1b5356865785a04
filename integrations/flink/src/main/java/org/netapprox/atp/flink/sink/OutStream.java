package org.netapprox.atp.flink.sink;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.WindowSender;

/** A stream of a writer to one receiver: its log, and the sender that takes it. */
final class OutStream implements AutoCloseable {
    /** The interval of looks at the confirmations that make room. */
    private static final Duration LOOK = Duration.ofMillis(20);

    /** The closed windows on their way, beyond which a watermark waits, as records do. */
    private static final int UNCONFIRMED_MAX = 2;

    /** The number of the first window that wasn't sent, in the text of a position. */
    private static final Pattern SENT_BELOW = Pattern.compile(" sent=(-?\\d{1,18}) ");

    /** The position of a stream of which nothing was sent: its first offset. */
    static final String BEGIN = "0";

    private final SinkOptions<?> options;
    private final StreamId id;
    private final StreamLog log;

    /** Where another sender goes on. */
    private String position;

    private boolean hasBegun;

    /** Null before the first step. */
    private WindowSender sender;

    private long unconfirmed;
    private long confirmed;

    private OutStream(
            SinkOptions<?> options,
            StreamId id,
            StreamLog log,
            String position,
            boolean hasBegun) {
        this.options = options;
        this.id = id;
        this.log = log;
        this.position = position;
        this.hasBegun = hasBegun || options.beginsAll();
    }

    /**
     * A new stream of a writer.
     *
     * @param holds whether its steps wait for a checkpoint
     * @param origin the {@link StreamId#origin} of the writer
     */
    static OutStream create(
            SinkOptions<?> options, boolean holds, String origin, int subtask, int peer) {
        StreamLog log = new StreamLog(options.lengthMs(), holds);
        StreamId id = StreamId.create(options, origin, subtask, peer);
        return new OutStream(options, id, log, BEGIN, false);
    }

    /** The stream of a checkpoint. Nothing is sent before {@link #send}. */
    static OutStream restore(SinkOptions<?> options, boolean holds, StreamState state) {
        StreamLog log = StreamLog.restore(options.lengthMs(), holds, state);
        return new OutStream(options, state.id(), log, state.position(), state.hasBegun());
    }

    /** Whether the stream takes watermarks: it has had a record, or needs none. */
    boolean hasBegun() {
        return hasBegun;
    }

    /** Begins the stream with its first record. */
    void begin() {
        hasBegun = true;
    }

    StreamLog log() {
        return log;
    }

    /** Adds a record, and sends it unless it waits for a checkpoint. */
    void write(
            OptionalLong timestampMs,
            byte[] key,
            byte[] value,
            List<WindowRecord.Header> headers,
            String group)
            throws IOException, InterruptedException {
        log.push(timestampMs, key, value, headers, group);
        send();
    }

    /** Gives the sender all steps that are ready. Waits while it has too many windows. */
    void send() throws IOException, InterruptedException {
        while (sendWindow()) {}
    }

    /**
     * Gives the sender the steps that are ready, up to a watermark.
     *
     * @return whether there was one, behind which others may be
     */
    boolean sendWindow() throws IOException, InterruptedException {
        for (Step step = log.next(); step != null; step = log.next()) {
            try {
                give(step);
            } catch (IOException e) {
                throw failed(e);
            } catch (IllegalArgumentException e) {
                // Such as a group of the state that the options lack.
                throw new IOException("the sink's stream " + id + ": " + e.getMessage(), e);
            }
            if (step instanceof Step.Advance) {
                return true;
            }
        }
        return false;
    }

    private void give(Step step) throws IOException, InterruptedException {
        if (sender == null) {
            sender = options.open(id, position);
        }
        if (step instanceof Step.Push push) {
            sender.send(push.record(), push.group());
        } else if (step instanceof Step.Advance advance) {
            sender.advance(advance.timeMs());
            while (sender.state().unconfirmed() > UNCONFIRMED_MAX) {
                sender.awaitConfirmed(LOOK);
            }
        } else {
            sender.flush();
        }
    }

    /** Adds the watermark of the input's end. */
    void advanceToEnd() {
        log.advanceToEnd(options.beginsAll());
    }

    /** Closes all windows, and ends once they are confirmed. */
    void finish() throws IOException, InterruptedException {
        advanceToEnd();
        log.releaseAll();
        send();
        if (options.lengthMs() > 0 && !hasSentWindow()) {
            // All windows were confirmed before a restore. The receiver learns of the end only
            // from a sender of a window: the next one, without records.
            OptionalLong nextMs = nextWindowMs();
            if (nextMs.isPresent()) {
                log.advance(nextMs.getAsLong() + options.lengthMs());
                log.releaseAll();
                send();
            }
        }
        if (sender != null) {
            try {
                sender.finish();
            } catch (IOException e) {
                throw failed(e);
            }
        }
        refresh();
    }

    /** The time at which windows begin that weren't sent; empty if none was. */
    private OptionalLong nextWindowMs() {
        Matcher sent = SENT_BELOW.matcher(position);
        return sent.find()
                ? OptionalLong.of(Long.parseLong(sent.group(1)) * options.lengthMs())
                : OptionalLong.empty();
    }

    /** Waits until a part of the log is confirmed. */
    void makeRoom() throws IOException, InterruptedException {
        long before = log.bytes();
        send();
        refresh();
        while (log.bytes() >= before) {
            if (unconfirmed == 0 && log.isHolding()) {
                throw new IOException(
                        "the sink's stream " + id + " holds more than " + options.logBytesMax()
                                + " bytes of open windows and of records without a checkpoint:"
                                + " make checkpoints more often, raise logBytesMax, or choose"
                                + " holdUntilCheckpoint(false)");
            }
            if (unconfirmed == 0) {
                // Records of open windows alone fill the log, and their watermark may be behind
                // the record that waits.
                log.closeAll();
                send();
                refresh();
                return;
            }
            awaitConfirmed(LOOK);
            refresh();
        }
    }

    /** Whether the receiver learns of the stream from this sender. */
    boolean hasSentWindow() throws IOException {
        refresh();
        return unconfirmed + confirmed > 0;
    }

    /** Throws the failure of the sender, if there is one. */
    void check() throws IOException, InterruptedException {
        if (sender != null) {
            awaitConfirmed(Duration.ZERO);
        }
    }

    private void awaitConfirmed(Duration timeout) throws IOException, InterruptedException {
        try {
            sender.awaitConfirmed(timeout);
        } catch (IOException e) {
            throw failed(e);
        }
    }

    /** Drops what is confirmed from the log. */
    void refresh() throws IOException {
        if (sender == null) {
            return;
        }
        WindowSender.State state = sender.state();
        unconfirmed = state.unconfirmed();
        confirmed = state.confirmed();
        if (state.position().isPresent()) {
            position = state.position().get();
            log.trim(state.resumeOffset().orElseThrow());
        }
    }

    /** The stream for a checkpoint. */
    StreamState state() throws IOException {
        refresh();
        return new StreamState(id, position, log.firstOffset(), log.steps());
    }

    /** Closed windows that aren't confirmed. */
    long unconfirmed() {
        return unconfirmed;
    }

    /** Windows that were confirmed to this sender. */
    long confirmed() {
        return confirmed;
    }

    private IOException failed(IOException cause) {
        return new IOException(
                "the sink gave up after it had tried for " + options.retry().toMillis() / 1e3
                        + " s: " + cause.getMessage(),
                cause);
    }

    /** Ends the sender at once. The log stays in the last checkpoint. */
    @Override
    public void close() {
        if (sender != null) {
            sender.close();
        }
    }

    @Override
    public String toString() {
        return id.toString();
    }
}
