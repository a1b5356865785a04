package org.netapprox.atp.flink.sink;

import java.io.IOException;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A writer that sends records once a checkpoint has them. All that it ever sent is in the last
 * checkpoint then, in that order, whatever order Flink gives later records in after a restore.
 *
 * @param <T> the type of the records
 */
final class HoldingWriter<T> extends AtpWriter<T> {
    private static final Logger LOG = LoggerFactory.getLogger(HoldingWriter.class);

    /** The writers of this class loader. A committer is chained to its writer: both are here. */
    private static final Map<String, HoldingWriter<?>> WRITERS = new ConcurrentHashMap<>();

    /** Shorter pauses aren't worth a sleep: they are added up. */
    private static final long PAUSE_MIN_NANOS = 2_000_000;

    /** The longest wait for a checkpoint that is on its way: it may have been given up. */
    private static final long AWAIT_NANOS = 60_000_000_000L;

    private final String id = UUID.randomUUID().toString();
    private final MailboxExecutor mailbox;
    private final String topic;
    private final HoldPace pace;
    private final ReleaseWatch watch = new ReleaseWatch();
    private long checkpoints;

    /** The releases so far. */
    private long releases;

    /** The log behind the record before. */
    private long logBytesBefore;

    /** The pause that is due for records that were taken. */
    private long pauseNanos;

    HoldingWriter(
            SinkOptions<T> options,
            WriterInitContext context,
            Collection<StreamState> restored,
            long checkpointIntervalMs)
            throws IOException {
        super(options, context, restored, true);
        pace = new HoldPace(options.logBytesMax(), checkpointIntervalMs);
        mailbox = context.getMailboxExecutor();
        topic = options.topic();
        WRITERS.put(id, this);
    }

    @Override
    public Collection<CheckpointMark> prepareCommit() {
        checkpoints++;
        streams().forEach(stream -> stream.log().mark(checkpoints));
        return List.of(new CheckpointMark(id, checkpoints));
    }

    /** Sends what a complete checkpoint has. Marks of writers before a restore do nothing. */
    static void release(CheckpointMark mark) {
        HoldingWriter<?> writer = WRITERS.get(mark.writer());
        if (writer == null) {
            return;
        }
        try {
            writer.mailbox.execute(() -> writer.releaseUpTo(mark.number()), "send a checkpoint");
        } catch (RejectedExecutionException e) {
            // The task ends, and the checkpoint has the records.
        }
    }

    private void releaseUpTo(long checkpoint) throws IOException, InterruptedException {
        watch.onRelease();
        releases++;
        streams().forEach(stream -> stream.log().release(checkpoint));
        sendAll();
    }

    /** Pauses, also for the barrier of the next checkpoint, which comes behind these records. */
    @Override
    void onWritten() throws InterruptedException {
        long grown = Math.max(logBytes() - logBytesBefore, 0);
        logBytesBefore = logBytes();
        if (!pace.isSlow(logBytesBefore)) {
            pauseNanos = 0;
            return;
        }
        pauseNanos += pace.pauseNanos(grown);
        if (pauseNanos < PAUSE_MIN_NANOS) {
            return;
        }
        long deadline = System.nanoTime() + pauseNanos;
        while (pace.isSlow(logBytes()) && System.nanoTime() < deadline) {
            // Completed checkpoints come here as mails. Those that begin one don't: the record that
            // is being taken isn't in the state of the operators before this one.
            if (!mailbox.tryYield()) {
                Thread.sleep(1);
            }
        }
        pauseNanos = 0;
    }

    @Override
    boolean awaitRelease() throws InterruptedException {
        long before = releases;
        long deadline = System.nanoTime() + AWAIT_NANOS;
        while (releases == before
                && streams().anyMatch(stream -> stream.log().isMarked())
                && System.nanoTime() < deadline) {
            // Ticks of this writer are mails, too: this returns soon.
            mailbox.yield();
        }
        return releases > before;
    }

    @Override
    void onTick(long nowMs) {
        if (watch.isOverdue(nowMs, streams().anyMatch(stream -> stream.log().isHolding()))) {
            LOG.warn(
                    "The sink \"{}\" has held records for {} s, and none of {} checkpoints has"
                            + " released any. They leave with the first complete checkpoint, whose"
                            + " interval may be longer. holdUntilCheckpoint(false) sends at once",
                    topic,
                    ReleaseWatch.WARN_AFTER_MS / 1_000,
                    checkpoints);
        }
    }

    @Override
    public void close() {
        WRITERS.remove(id);
        super.close();
    }
}
