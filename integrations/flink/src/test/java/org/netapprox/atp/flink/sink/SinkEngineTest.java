package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.netapprox.atp.Window;
import org.netapprox.atp.flink.AtpSink;
import org.netapprox.atp.flink.AtpSinkBuilder;

/**
 * The sink in a cluster, with receivers of the library. Most jobs send records at once, which is
 * harder: windows behind a checkpoint are confirmed, and come again.
 */
@Tag("engine")
class SinkEngineTest {
    private static final long COUNT = 8_000;
    private static final long WINDOW = 500;

    private static SinkCluster cluster;

    @BeforeAll
    static void startCluster() throws Exception {
        cluster = new SinkCluster(8);
    }

    @AfterAll
    static void endCluster() throws Exception {
        cluster.close();
    }

    @TempDir Path folder;

    private static AtpSinkBuilder<Long> atOnce(String... peers) {
        return SinkJob.sink(peers).holdUntilCheckpoint(false);
    }

    @Test
    void write__sendsEachWindowOfABoundedJobWithItsShare() throws Exception {
        try (TestReceiver first = TestReceiver.bind();
                TestReceiver second = TestReceiver.bind()) {
            AtpSink<Long> sink =
                    SinkJob.sink(first.address(), second.address())
                            .length(Duration.ofMillis(WINDOW))
                            .partitionBy(number -> number % 7)
                            .build();
            Gate gate = new Gate(Long.MAX_VALUE);
            cluster.run(SinkJob.job(2, COUNT, gate, sink, null));
            List<Window> windows = new ArrayList<>(first.windows());
            windows.addAll(second.windows());
            checkOnce(windows, COUNT);
            assertTrue(windows.stream().allMatch(Window::isLastPart));
            assertTrue(windows.stream().allMatch(window -> window.late() == 0));
            // A key's numbers are all at one receiver.
            Set<Long> keys = new HashSet<>();
            TestReceiver.ids(first.windows(), SinkJob.EXACT)
                    .keySet()
                    .forEach(id -> keys.add(id % 7));
            TestReceiver.ids(second.windows(), SinkJob.EXACT)
                    .keySet()
                    .forEach(id -> assertFalse(keys.contains(id % 7)));
            assertTrue(first.ended() > 0 && second.ended() > 0);
        }
    }

    @Test
    void restore__countsEachRecordOnceAfterATaskManagerIsKilled() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            AtpSink<Long> sink =
                    atOnce(receiver.address()).length(Duration.ofMillis(WINDOW)).build();
            Gate gate = new Gate(1_200);
            JobGraph job = SinkJob.restarting(2, COUNT, gate, sink);
            cluster.start(job);
            receiver.await(all -> all.records() >= 4 * WINDOW);
            cluster.checkpoint(job);
            // Windows behind the checkpoint are confirmed, and sent again after it.
            gate.allow(2_700);
            receiver.await(all -> all.records() >= 10 * WINDOW);
            cluster.kill();
            gate.open();
            cluster.revive();
            cluster.await(job);
            checkOnce(receiver.windows(), COUNT);
        }
    }

    /** The source begins anew, and windows of its first records were confirmed. */
    @Test
    void restore__countsEachRecordOnceWithoutACheckpoint() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            AtpSink<Long> sink =
                    atOnce(receiver.address()).length(Duration.ofMillis(WINDOW)).build();
            Gate gate = new Gate(1_200);
            var env = SinkJob.environment(1, true);
            env.enableCheckpointing(Duration.ofHours(1).toMillis());
            env.fromSource(SinkJob.numbers(COUNT, gate), SinkJob.eachIsItsWatermark(), "numbers")
                    .sinkTo(sink);
            JobGraph job = SinkJob.graph(env, null);
            cluster.start(job);
            receiver.await(all -> all.records() >= 2 * WINDOW);
            cluster.kill();
            gate.open();
            cluster.revive();
            cluster.awaitByCheckpoints(job);
            checkOnce(receiver.windows(), COUNT);
        }
    }

    /** Streams of a job's sinks differ, also where all options are the same. */
    @Test
    void write__countsTheRecordsOfTwoSinksWithOneName() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            var env = SinkJob.environment(1);
            var gate = new Gate(Long.MAX_VALUE);
            var numbers =
                    env.fromSource(
                            SinkJob.numbers(COUNT, gate), SinkJob.eachIsItsWatermark(), "numbers");
            numbers.sinkTo(SinkJob.sink(receiver.address()).records(WINDOW).build());
            numbers.sinkTo(SinkJob.sink(receiver.address()).records(WINDOW).build());
            cluster.run(SinkJob.graph(env, null));
            assertEquals(2 * COUNT, receiver.records());
        }
    }

    @Test
    void restore__withoutAConfirmedWindowBeginsAtTheFirstRecord() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            AtpSink<Long> sink = SinkJob.sink(receiver.address()).records(WINDOW).build();
            Gate gate = new Gate(WINDOW / 2);
            JobGraph job = SinkJob.restarting(1, COUNT, gate, sink);
            cluster.start(job);
            cluster.checkpoint(job);
            cluster.kill();
            gate.open();
            cluster.revive();
            cluster.await(job);
            checkOnce(receiver.windows(), COUNT);
        }
    }

    @Test
    void restore__atMoreWriters() throws Exception {
        rescale(2, 4, false);
    }

    @Test
    void restore__atFewerWriters() throws Exception {
        rescale(4, 2, false);
    }

    /** Streams that end send records that only the savepoint has. */
    @Test
    void restore__ofHeldRecordsAtFewerWriters() throws Exception {
        rescale(4, 2, true);
    }

    private void rescale(int before, int after, boolean holds) throws Exception {
        try (TestReceiver first = TestReceiver.bind();
                TestReceiver second = TestReceiver.bind()) {
            AtpSink<Long> sink =
                    atOnce(first.address(), second.address())
                            .length(Duration.ofMillis(WINDOW))
                            .partitionBy(number -> number % 7)
                            .holdUntilCheckpoint(holds)
                            .build();
            Gate gate = new Gate(COUNT / before - 700);
            JobGraph job = SinkJob.job(before, COUNT, gate, sink, null);
            cluster.start(job);
            while (holds && (first.records() == 0 || second.records() == 0)) {
                cluster.checkpoint(job);
            }
            first.await(all -> all.records() > 0);
            second.await(all -> all.records() > 0);
            String savepoint = cluster.stop(job, folder);
            gate.open();
            cluster.run(SinkJob.job(after, COUNT, gate, sink, savepoint));
            List<Window> windows = new ArrayList<>(first.windows());
            windows.addAll(second.windows());
            checkOnce(windows, COUNT);
        }
    }

    /** One peer for each writer by turns: at one writer, streams of both peers end or go on. */
    @Test
    void restore__atOneWriterOfTwoPeers() throws Exception {
        try (TestReceiver first = TestReceiver.bind();
                TestReceiver second = TestReceiver.bind()) {
            AtpSink<Long> sink =
                    atOnce(first.address(), second.address()).records(WINDOW).build();
            Gate gate = new Gate(1_700);
            JobGraph job = SinkJob.job(2, COUNT, gate, sink, null);
            cluster.start(job);
            first.await(all -> all.records() >= 3 * WINDOW);
            second.await(all -> all.records() >= 3 * WINDOW);
            String savepoint = cluster.stop(job, folder);
            gate.open();
            cluster.run(SinkJob.job(1, COUNT, gate, sink, savepoint));
            List<Window> windows = new ArrayList<>(first.windows());
            windows.addAll(second.windows());
            checkOnce(windows, COUNT);
            assertTrue(second.records() < COUNT / 2);
        }
    }

    @Test
    void restore__refusesAPeerThatIsGone() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind();
                TestReceiver other = TestReceiver.bind()) {
            Gate gate = new Gate(WINDOW + 10);
            AtpSink<Long> sink = atOnce(receiver.address()).records(WINDOW).build();
            JobGraph job = SinkJob.job(1, COUNT, gate, sink, null);
            cluster.start(job);
            receiver.await(all -> all.records() == WINDOW);
            String savepoint = cluster.stop(job, folder);
            AtpSink<Long> moved = atOnce(other.address()).records(WINDOW).build();
            String failure = cluster.fail(SinkJob.job(1, COUNT, gate, moved, savepoint));
            assertTrue(failure.contains("isn't among its peers [" + other.address()), failure);
        }
    }

    @Test
    void write__waitsForAReceiverThatComesBack() throws Exception {
        TestReceiver first = TestReceiver.bind();
        AtpSink<Long> sink = atOnce(first.address()).records(WINDOW).build();
        Gate gate = new Gate(3 * WINDOW + 100);
        JobGraph job = SinkJob.job(1, COUNT, gate, sink, null);
        cluster.start(job);
        first.await(all -> all.records() == 3 * WINDOW);
        first.close();
        gate.open();
        try (TestReceiver second = TestReceiver.bind(first.address(), first.counted())) {
            cluster.await(job);
            List<Window> windows = new ArrayList<>(first.windows());
            windows.addAll(second.windows());
            checkOnce(windows, COUNT);
        }
    }

    @Test
    void write__failsTheJobIfNoReceiverAnswers() throws Exception {
        String address = TestReceiver.freeAddress();
        AtpSink<Long> sink =
                atOnce(address).records(WINDOW).retry(Duration.ofMillis(500)).build();
        JobGraph job = SinkJob.job(1, COUNT, new Gate(Long.MAX_VALUE), sink, null);
        String failure = cluster.fail(job);
        assertTrue(failure.contains("tried for 0.5 s"), failure);
        assertTrue(failure.contains(address), failure);
    }

    /** Also if no record comes any more. */
    @Test
    void tick__failsTheJobIfNoReceiverAnswers() throws Exception {
        AtpSink<Long> sink =
                atOnce(TestReceiver.freeAddress())
                        .records(WINDOW)
                        .retry(Duration.ofMillis(500))
                        .build();
        JobGraph job = SinkJob.job(1, COUNT, new Gate(WINDOW + 50), sink, null);
        String failure = cluster.fail(job);
        assertTrue(failure.contains("tried for 0.5 s"), failure);
    }

    /** All numbers of the exact group arrived once, and enough of the others, none twice. */
    static void checkOnce(List<Window> windows, long count) {
        TestReceiver.checkShares(windows);
        assertEquals(
                count,
                windows.stream().mapToLong(window -> window.records() - window.repeated()).sum());
        Map<Long, Integer> exact = TestReceiver.ids(windows, SinkJob.EXACT);
        Map<Long, Integer> others = TestReceiver.ids(windows, SinkJob.OTHERS);
        for (long id = 0; id < count; id += 10) {
            assertEquals(1, exact.get(id), "number " + id);
        }
        assertEquals(count / 10, exact.size());
        others.forEach((id, times) -> assertEquals(1, times, "number " + id));
        assertTrue(others.size() >= SinkJob.MSR * (count - count / 10), others.size() + " others");
    }
}
