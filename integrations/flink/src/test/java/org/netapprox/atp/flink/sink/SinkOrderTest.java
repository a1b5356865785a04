package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.Window;
import org.netapprox.atp.flink.AtpSink;

/** Records that come late, without a time, or in another order after a restore. */
@Tag("engine")
class SinkOrderTest {
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

    @Test
    void write__countsALateRecord() throws Exception {
        long[] times = {5, 15, 7, 25};
        try (TestReceiver receiver = TestReceiver.bind()) {
            AtpSink<Long> sink =
                    SinkJob.sink(receiver.address()).length(Duration.ofMillis(10)).build();
            var env = SinkJob.environment(1);
            var strategy =
                    SinkJob.eachIsItsWatermark()
                            .withTimestampAssigner((number, time) -> times[number.intValue()]);
            var numbers = SinkJob.numbers(times.length, new Gate(Long.MAX_VALUE));
            env.fromSource(numbers, strategy, "numbers").sinkTo(sink);
            cluster.run(SinkJob.graph(env, null));
            // The first watermark makes an empty window.
            List<Window> windows = new ArrayList<>(receiver.windows());
            windows.removeIf(window -> window.records() == 0);
            assertEquals(List.of(1L, 2L, 1L), windows.stream().map(Window::records).toList());
            assertEquals(List.of(0L, 1L, 0L), windows.stream().map(Window::late).toList());
            assertTrue(windows.stream().allMatch(Window::isLastPart));
        }
    }

    @Test
    void write__refusesARecordWithoutATime() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            AtpSink<Long> sink =
                    SinkJob.sink(receiver.address()).length(Duration.ofMillis(10)).build();
            var env = SinkJob.environment(1);
            var numbers = SinkJob.numbers(4, new Gate(Long.MAX_VALUE));
            env.fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers").sinkTo(sink);
            String failure = cluster.fail(SinkJob.graph(env, null));
            assertTrue(failure.contains("has no event time"), failure);
        }
    }

    /**
     * Two sources, of which after the restore the other one comes first. Without holding, its
     * records would have offsets that were counted before.
     */
    @Test
    void restore__ofHeldRecordsCountsEachOnceInAnyOrder() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            AtpSink<Long> sink = SinkJob.sink(receiver.address()).records(WINDOW).build();
            Gate low = new Gate(WINDOW + 100);
            Gate high = new Gate(0);
            var env = SinkJob.environment(1, true);
            // Only the test makes checkpoints, however slow the machine is.
            env.enableCheckpointing(Duration.ofHours(1).toMillis());
            var times = SinkJob.eachIsItsWatermark();
            long half = COUNT / 2;
            env.fromSource(SinkJob.numbers(half, low), times, "low")
                    .union(
                            env.fromSource(SinkJob.numbers(half, high), times, "high")
                                    .map(number -> half + number)
                                    .returns(Long.class))
                    .sinkTo(sink);
            JobGraph job = SinkJob.graph(env, null);
            cluster.start(job);
            checkpointUntil(receiver, job, WINDOW);
            // Later records wait for a checkpoint, which doesn't come before the failure.
            low.allow(4 * WINDOW);
            low.awaitBlocked();
            cluster.kill();
            low.allow(0);
            high.allow(3 * WINDOW);
            cluster.revive();
            checkpointUntil(receiver, job, 3 * WINDOW);
            low.open();
            high.open();
            cluster.awaitByCheckpoints(job);
            SinkEngineTest.checkOnce(receiver.windows(), COUNT);
        }
    }

    private static void checkpointUntil(TestReceiver receiver, JobGraph job, long records)
            throws Exception {
        while (receiver.records() < records) {
            cluster.checkpoint(job);
        }
    }
}
