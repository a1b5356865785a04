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

    private final String id = UUID.randomUUID().toString();
    private final MailboxExecutor mailbox;
    private final String topic;
    private final ReleaseWatch watch = new ReleaseWatch();
    private long checkpoints;

    HoldingWriter(
            SinkOptions<T> options, WriterInitContext context, Collection<StreamState> restored)
            throws IOException {
        super(options, context, restored, true);
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
        for (OutStream stream : streams().toList()) {
            stream.log().release(checkpoint);
            send(stream);
        }
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
