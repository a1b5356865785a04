package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.netapprox.atp.flink.source.SourceCluster.await;
import static org.netapprox.atp.flink.source.SourceEngineTest.source;

import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.netapprox.atp.WindowSender;
import org.netapprox.atp.flink.AtpSource;
import org.netapprox.atp.flink.AtpSourceBuilder;
import org.netapprox.atp.flink.RecordDeserializer;
import org.netapprox.atp.flink.SampledStream;
import org.netapprox.atp.flink.WindowSummary;

@Tag("engine")
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class SourceRecoveryTest {
    private static SourceCluster cluster;

    @TempDir private Path folder;

    @BeforeAll
    static void start() throws Exception {
        cluster = new SourceCluster(2, 2);
    }

    @AfterAll
    static void close() throws Exception {
        cluster.close();
    }

    /** A job that keeps the records and the windows of a source. */
    private static final class Keeping {
        private final StreamExecutionEnvironment env;
        private final Kept<String> records;
        private final Kept<WindowSummary> windows;

        private Keeping(int parallelism, String... addresses) {
            this(parallelism, source(addresses));
        }

        private Keeping(int parallelism, AtpSourceBuilder<String> source) {
            env = SourceCluster.env(parallelism, true);
            SampledStream<String> stream = source.build().stream(env, "readings").uid("s");
            records = Kept.of(stream.records(), "records");
            windows = Kept.of(stream.windows(), "windows");
        }

        private long skipped() {
            return windows.elements().stream().mapToLong(window -> window.skipped).sum();
        }

        /** Waits until all of {@code records} were emitted, or named as skipped. */
        private void awaitAll(int records) throws Exception {
            await(
                    "records",
                    () -> {
                        long all = this.records.once().size() + skipped();
                        assertTrue(all <= records, all + " of " + records);
                        return all == records;
                    });
        }
    }

    @Test
    void killedTaskManager__losesWhatTheNextWindowNames() throws Exception {
        String[] addresses = {SourceCluster.address(), SourceCluster.address()};
        // One slot each: the job needs both.
        try (SourceCluster own = new SourceCluster(2, 1);
                Sending first = Sending.to(addresses[0], Sending.byNumber(0));
                Sending second = Sending.to(addresses[1], Sending.byNumber(1))) {
            Keeping keeping = new Keeping(2, addresses);
            JobID job = own.submit(keeping.env);
            first.windows(3);
            second.windows(3);
            keeping.awaitAll(6 * Sending.WINDOW);
            own.awaitCheckpoint(job);
            first.windows(1);
            second.windows(1);
            own.mini.terminateTaskManager(0).get(2, TimeUnit.MINUTES);
            own.mini.startTaskManager();
            await(
                    "restart",
                    () -> keeping.records.attempts() >= 2 && keeping.windows.attempts() >= 2);
            first.windows(3);
            second.windows(3);
            keeping.awaitAll(14 * Sending.WINDOW);
            assertTrue(keeping.records.size() >= 12 * Sending.WINDOW);
            own.cancel(job);
        }
    }

    @Test
    void cancelledJob__freesItsPort() throws Exception {
        String address = SourceCluster.address();
        Keeping keeping = new Keeping(1, address);
        JobID job = cluster.submit(keeping.env);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            sending.windows(2);
            cluster.cancel(job);
        }
        assertEquals(JobStatus.CANCELED, cluster.status(job));
        ListenAddress local = ListenAddress.parse(address);
        try (DatagramSocket socket = new DatagramSocket(null)) {
            socket.bind(new InetSocketAddress(local.ip(), local.port()));
        }
    }

    @Test
    void savepoint__isRestoredWithoutRepeats() throws Exception {
        String address = SourceCluster.address();
        Keeping before = new Keeping(1, address);
        JobID job = cluster.submit(before.env);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            sending.windows(5);
            String savepoint = cluster.savepoint(job, folder.toString());
            sending.windows(3);
            cluster.cancel(job);
            Keeping after = new Keeping(1, address);
            job = cluster.submit(after.env, savepoint);
            sending.windows(4);
            after.awaitAll(12 * Sending.WINDOW);
            // The windows that the first job had confirmed behind the savepoint.
            assertEquals(3 * Sending.WINDOW, after.skipped());
        } finally {
            cluster.cancel(job);
        }
    }

    @Test
    void replacedSender__goesOnInMidWindow() throws Exception {
        String address = SourceCluster.address();
        Keeping keeping = new Keeping(1, address);
        JobID job = cluster.submit(keeping.env);
        try {
            WindowSender.State state;
            try (Sending dying = Sending.to(address, Sending.byNumber(0))) {
                dying.windows(3);
                dying.send(Sending.WINDOW / 2);
                state = dying.sender.state();
            }
            assertEquals(3 * Sending.WINDOW, state.resumeOffset().getAsLong());
            try (Sending next = Sending.from(state, address, Sending.byNumber(0))) {
                next.windows(3);
            }
            keeping.awaitAll(6 * Sending.WINDOW);
            assertEquals(0, keeping.skipped());
        } finally {
            cluster.cancel(job);
        }
    }

    @Test
    void replacedSender__repeatsNoWindowWithoutRecords() throws Exception {
        String address = SourceCluster.address();
        Keeping keeping = new Keeping(1, address);
        JobID job = cluster.submit(keeping.env);
        try {
            WindowSender.State state;
            try (Sending dying = Sending.to(address, Sending.byTime(0))) {
                dying.windows(2);
                state = dying.sender.state();
                dying.sender.advance(5 * Sending.WINDOW_MS);
                dying.sender.flush();
            }
            try (Sending next = Sending.from(state, address, Sending.byTime(0))) {
                // The same window again, and then another one.
                next.sender.advance(5 * Sending.WINDOW_MS);
                next.sender.flush();
                next.sender.advance(7 * Sending.WINDOW_MS);
                next.sender.flush();
            }
            await("windows", () -> numbers(keeping).contains(6L));
            assertEquals(List.of(0L, 1L, 4L, 6L), numbers(keeping));
        } finally {
            cluster.cancel(job);
        }
    }

    private static List<Long> numbers(Keeping keeping) {
        return keeping.windows.elements().stream().map(window -> window.number).toList();
    }

    /** Whether a record has failed: the attempt behind a restart reads it. */
    private static final AtomicBoolean HAS_FAILED = new AtomicBoolean();

    @Test
    void failedEmission__isSentAgain() throws Exception {
        String address = SourceCluster.address();
        HAS_FAILED.set(false);
        RecordDeserializer<String> records =
                RecordDeserializer.of(
                        Types.STRING,
                        (record, group, window) -> {
                            boolean isBad = record.offset() == 3 * Sending.WINDOW / 2;
                            if (isBad && HAS_FAILED.compareAndSet(false, true)) {
                                throw new IOException("no reading");
                            }
                            return Long.toString(record.offset());
                        });
        Keeping keeping =
                new Keeping(1, AtpSource.builder(records).listen(address).noDaemon());
        JobID job = cluster.submit(keeping.env);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            sending.windows(1);
            // Without a checkpoint, the next attempt would know of no window.
            cluster.awaitCheckpoint(job);
            sending.windows(3);
            keeping.awaitAll(4 * Sending.WINDOW);
            assertTrue(HAS_FAILED.get());
            assertEquals(0, keeping.skipped());
        } finally {
            cluster.cancel(job);
        }
    }

    @Test
    void rescaling__keepsEachAddressAtOneReader() throws Exception {
        String[] addresses = new String[4];
        List<Sending> senders = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            addresses[i] = SourceCluster.address();
            senders.add(Sending.to(addresses[i], Sending.byNumber(i)));
        }
        JobID job = null;
        try {
            String savepoint = null;
            int windows = 0;
            for (int parallelism : new int[] {2, 4, 2}) {
                Keeping keeping = new Keeping(parallelism, addresses);
                job = cluster.submit(keeping.env, savepoint);
                for (Sending sending : senders) {
                    sending.windows(2);
                    windows += 2;
                }
                keeping.awaitAll(windows * Sending.WINDOW);
                assertEquals(0, keeping.skipped());
                savepoint = cluster.stop(job, folder.toString());
            }
        } finally {
            senders.forEach(Sending::close);
            if (job != null && !cluster.status(job).isGloballyTerminalState()) {
                cluster.cancel(job);
            }
        }
    }

    @Test
    void checkpointThatTimesOut__repeatsNoWindow() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        env.getCheckpointConfig().setCheckpointTimeout(200);
        env.getCheckpointConfig().setTolerableCheckpointFailureNumber(Integer.MAX_VALUE);
        Kept<String> records =
                Kept.slowly(
                        source(address).build().stream(env, "r").records(),
                        "records");
        JobID job = cluster.submit(env);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            sending.send(2 * Sending.WINDOW);
            await(
                    "checkpoint that times out",
                    () -> cluster.checkpoints(job).getNumberOfFailedCheckpoints() >= 1);
            records.open();
            sending.windows(3);
            await("records", () -> records.size() == 5 * Sending.WINDOW);
            records.once();
            cluster.awaitCheckpoint(job);
            assertEquals(1, records.attempts());
        } finally {
            cluster.cancel(job);
        }
    }
}
