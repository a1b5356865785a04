package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.operators.MailboxExecutor;
import org.apache.flink.util.FlinkRuntimeException;
import org.apache.flink.util.function.ThrowingRunnable;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.flink.AtpSink;
import org.netapprox.atp.flink.AtpSinkBuilder;

/** A writer that holds records, without a cluster. */
class HoldingWriterTest {
    private static final int WINDOW_MS = 100;
    private static final int LOG_BYTES_MAX = 64 << 10;

    private final Mails mails = new Mails();

    /** Mails that wait until the writer looks at them. */
    private static final class Mails implements MailboxExecutor {
        private final Queue<ThrowingRunnable<? extends Exception>> waiting = new ArrayDeque<>();

        @Override
        public void execute(
                MailOptions options,
                ThrowingRunnable<? extends Exception> mail,
                String description,
                Object... arguments) {
            waiting.add(mail);
        }

        @Override
        public void yield() throws InterruptedException {
            if (!tryYield()) {
                Thread.sleep(1);
            }
        }

        @Override
        public boolean tryYield() {
            ThrowingRunnable<? extends Exception> mail = waiting.poll();
            if (mail == null) {
                return false;
            }
            try {
                mail.run();
            } catch (Exception e) {
                throw new FlinkRuntimeException(e);
            }
            return true;
        }

        @Override
        public boolean shouldInterrupt() {
            return false;
        }
    }

    private HoldingWriter<Long> writer(long logBytesMax, TestReceiver... receivers)
            throws IOException {
        return writer(logBytesMax, 0, receivers);
    }

    private HoldingWriter<Long> writer(
            long logBytesMax, long intervalMs, TestReceiver... receivers) throws IOException {
        String[] peers = new String[receivers.length];
        for (int at = 0; at < peers.length; at++) {
            peers[at] = receivers[at].address();
        }
        AtpSinkBuilder<Long> builder =
                AtpSink.<Long>builder("numbers", SinkJob::bytes)
                        .peers(peers)
                        .partitioner(number -> (int) (number % receivers.length))
                        .length(Duration.ofMillis(WINDOW_MS))
                        .logBytesMax(logBytesMax)
                        .noDaemon();
        SinkOptions<Long> options = builder.build().options();
        return new HoldingWriter<>(options, WriterContext.of(mails), List.of(), intervalMs);
    }

    private static void write(HoldingWriter<Long> writer, long number) throws Exception {
        writer.write(number, WriterContext.record(number));
        writer.writeWatermark(new Watermark(number - 1));
    }

    /** A checkpoint has the first records, and its completion is a mail that waits. */
    @Test
    void write__waitsForACheckpointThatIsOnItsWay() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            HoldingWriter<Long> writer = writer(LOG_BYTES_MAX, receiver);
            long number = 0;
            while (writer.logBytes() < LOG_BYTES_MAX / 2) {
                write(writer, number++);
            }
            writer.prepareCommit().forEach(HoldingWriter::release);
            assertEquals(1, mails.waiting.size());
            long more = number;
            for (long end = number + more / 2; number < end || !mails.waiting.isEmpty(); number++) {
                write(writer, number);
            }
            receiver.await(all -> all.records() > 0);
            // Nothing is on its way now.
            long next = number;
            var refused = assertThrows(IOException.class, () -> {
                for (long later = next; later < next + 4 * more; later++) {
                    write(writer, later);
                }
            });
            assertTrue(refused.getMessage().contains("make checkpoints more often"));
            writer.close();
        }
    }

    /** Records are far shorter than their part of the log. */
    @Test
    void write__leavesTimeForACheckpoint() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            HoldingWriter<Long> writer = writer(LOG_BYTES_MAX, 200, receiver);
            long number = 0;
            while (writer.logBytes() <= LOG_BYTES_MAX / 2) {
                write(writer, number++);
            }
            long begun = System.nanoTime();
            while (writer.logBytes() < LOG_BYTES_MAX - 1_000) {
                write(writer, number++);
            }
            // Two intervals for all of the half; a machine that is slow takes longer.
            long tookMs = (System.nanoTime() - begun) / 1_000_000;
            assertTrue(tookMs >= 350, tookMs + " ms");
            writer.close();
        }
    }

    /** The first receiver confirms nothing for a while: windows for the second one leave. */
    @Test
    void release__sendsWindowsOfAllStreamsInTurn() throws Exception {
        try (TestReceiver even = TestReceiver.bind();
                TestReceiver odd = TestReceiver.bind()) {
            HoldingWriter<Long> writer = writer(4 * LOG_BYTES_MAX, even, odd);
            for (long number = 0; number <= 8 * WINDOW_MS; number++) {
                write(writer, number);
            }
            even.pause(true);
            writer.prepareCommit().forEach(HoldingWriter::release);
            var sending = CompletableFuture.runAsync(mails::tryYield);
            odd.await(all -> all.windows().size() >= 2);
            // The receiver may have been about to take one.
            assertTrue(even.windows().size() <= 1);
            even.pause(false);
            sending.get();
            odd.await(all -> all.records() == 4 * WINDOW_MS);
            even.await(all -> all.records() == 4 * WINDOW_MS);
            writer.close();
        }
    }
}
