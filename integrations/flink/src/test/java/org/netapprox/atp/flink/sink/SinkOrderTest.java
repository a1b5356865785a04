package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.util.Collector;
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

    /** Each pair of numbers changes its order with each attempt. */
    @Test
    void restore__ofHeldRecordsCountsEachOnceInAnyOrder() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            AtpSink<Long> sink =
                    SinkJob.sink(receiver.address())
                            .records(WINDOW)
                            .holdUntilCheckpoint(true)
                            .build();
            Gate gate = new Gate(WINDOW + 100);
            var env = SinkJob.environment(1, true);
            env.fromSource(
                            SinkJob.numbers(COUNT / 2, gate),
                            SinkJob.eachIsItsWatermark(),
                            "numbers")
                    .flatMap(new Pairs())
                    .returns(Long.class)
                    .sinkTo(sink);
            JobGraph job = SinkJob.graph(env, null);
            cluster.start(job);
            // The source waits at its gate, so what came before it is in one of these checkpoints.
            while (receiver.records() < 2 * WINDOW) {
                cluster.checkpoint(job);
            }
            gate.allow(4 * WINDOW);
            while (receiver.records() < 4 * WINDOW) {
                cluster.checkpoint(job);
            }
            cluster.kill();
            gate.open();
            cluster.revive();
            cluster.await(job);
            SinkEngineTest.checkOnce(receiver.windows(), COUNT);
        }
    }

    private static final class Pairs extends RichFlatMapFunction<Long, Long> {
        private static final long serialVersionUID = 1;

        @Override
        public void flatMap(Long number, Collector<Long> out) {
            long swapped = getRuntimeContext().getTaskInfo().getAttemptNumber() % 2;
            out.collect(2 * number + swapped);
            out.collect(2 * number + 1 - swapped);
        }
    }
}
