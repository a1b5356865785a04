package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.flink.LossyStage;
import org.netapprox.atp.flink.SampledStream;
import org.netapprox.atp.flink.WindowSummary;

/** Words are counted by two jobs of a cluster. */
@Tag("engine")
class LossyStageTest {
    private static final long COUNT = 6_000;
    private static final long WINDOW_MS = 500;
    private static final int WORDS = 13;

    private static SinkCluster cluster;

    @BeforeAll
    static void startCluster() throws Exception {
        cluster = new SinkCluster(8);
    }

    @AfterAll
    static void endCluster() throws Exception {
        cluster.close();
    }

    /** Counts of words by window and word, and the windows that arrived. */
    private record Counted(Map<Tuple2<Long, String>, Double> words, List<WindowSummary> windows) {}

    private static String word(long number) {
        return "word " + number % WORDS;
    }

    @Test
    void connect__withARateOfOneCountsExactly() throws Exception {
        Counted counted = count(1, 2);
        Map<Tuple2<Long, String>, Double> expected = new HashMap<>();
        for (long number = 0; number < COUNT; number++) {
            long window = number / WINDOW_MS * WINDOW_MS;
            expected.merge(Tuple2.of(window, word(number)), 1.0, Double::sum);
        }
        assertEquals(expected, counted.words());
    }

    @Test
    void connect__withALowerRateKeepsTheShareAndWeighsEachRecord() throws Exception {
        double msr = 0.8;
        Counted counted = count(msr, 2);
        long records = 0;
        for (WindowSummary window : counted.windows()) {
            for (WindowSummary.Group group : window.groups) {
                records += group.records;
                assertTrue(group.arrived >= msr * group.records, group::toString);
            }
        }
        assertEquals(COUNT, records);
        // The weights of a group's records add up to its number, so each window's do.
        Map<Long, Double> windows = new HashMap<>();
        counted.words().forEach((of, count) -> windows.merge(of.f0, count, Double::sum));
        assertEquals(COUNT / WINDOW_MS, windows.size());
        windows.forEach((window, count) -> assertEquals(WINDOW_MS, count, 1e-6, "from " + window));
    }

    /** Fewer keys than addresses, and a reader of the first job without a record. */
    @Test
    void connect__endsWithoutRecordsForAnAddress() throws Exception {
        var address = addresses(3);
        StreamExecutionEnvironment first = SinkJob.environment(2);
        StreamExecutionEnvironment second = SinkJob.environment(3);
        // Two splits of one and of no number.
        DataStream<Long> numbers =
                first.fromSource(
                        SinkJob.numbers(1, new Gate(Long.MAX_VALUE)),
                        SinkJob.eachIsItsWatermark(),
                        "numbers");
        Collected<Tuple2<Long, Double>> records = new Collected<>();
        LossyStage.of(numbers, number -> number)
                .addresses(address)
                .length(Duration.ofMillis(WINDOW_MS))
                .noDaemon()
                .bounded()
                .connect(second)
                .records()
                .sinkTo(records);
        run(first, second);
        assertEquals(List.of(Tuple2.of(0L, 1.0)), records.elements());
    }

    @Test
    void senderTimeout__isOfTheSecondJob() throws Exception {
        StreamExecutionEnvironment first = SinkJob.environment(1);
        StreamExecutionEnvironment second = SinkJob.environment(1);
        DataStream<Long> numbers =
                first.fromSource(
                        SinkJob.numbers(1, new Gate(0)), SinkJob.eachIsItsWatermark(), "numbers");
        LossyStage.of(numbers, number -> number)
                .addresses(addresses(1))
                .length(Duration.ofMillis(WINDOW_MS))
                .noDaemon()
                .bounded()
                .senderTimeout(Duration.ofMillis(300))
                .connect(second)
                .records()
                .sinkTo(new Collected<>());
        // The first job never starts.
        String failure = cluster.fail(SinkJob.graph(second, null));
        assertTrue(failure.contains("in 0.3 s: check that a sender sends"), failure);
    }

    @Test
    void uid__isThatOfBothEnds() {
        StreamExecutionEnvironment first = SinkJob.environment(1);
        StreamExecutionEnvironment second = SinkJob.environment(1);
        DataStream<Long> numbers =
                first.fromSource(
                        SinkJob.numbers(1, new Gate(0)), SinkJob.eachIsItsWatermark(), "numbers");
        LossyStage.of(numbers, number -> number)
                .addresses("127.0.0.1:4747")
                .length(Duration.ofMillis(WINDOW_MS))
                .uid("words")
                .connect(second);
        assertTrue(uids(first).contains("words-sink"), () -> uids(first).toString());
        assertTrue(uids(second).contains("words"), () -> uids(second).toString());
        assertTrue(uids(second).contains("words-records"), () -> uids(second).toString());
    }

    private static List<String> uids(StreamExecutionEnvironment env) {
        return env.getStreamGraph(false).getStreamNodes().stream()
                .map(StreamNode::getTransformationUID)
                .toList();
    }

    private static String[] addresses(int number) {
        var random = ThreadLocalRandom.current();
        // Of this test alone.
        String net = "127.84." + random.nextInt(1, 255) + ".";
        String[] addresses = new String[number];
        for (int at = 0; at < number; at++) {
            addresses[at] = net + (at + 1) + ":4747";
        }
        return addresses;
    }

    private static void run(StreamExecutionEnvironment first, StreamExecutionEnvironment second)
            throws Exception {
        JobGraph receives = SinkJob.graph(second, null);
        JobGraph sends = SinkJob.graph(first, null);
        cluster.start(receives);
        cluster.start(sends);
        cluster.await(sends);
        cluster.await(receives);
    }

    private static Counted count(double msr, int addresses) throws Exception {
        StreamExecutionEnvironment first = SinkJob.environment(2);
        StreamExecutionEnvironment second = SinkJob.environment(2);
        DataStream<String> words =
                first.fromSource(
                                SinkJob.numbers(COUNT, new Gate(Long.MAX_VALUE)),
                                SinkJob.eachIsItsWatermark(),
                                "numbers")
                        .map(LossyStageTest::word)
                        .returns(String.class);
        SampledStream<Tuple2<String, Double>> received =
                LossyStage.of(words, word -> word)
                        .addresses(addresses(addresses))
                        .length(Duration.ofMillis(WINDOW_MS))
                        .msr(msr)
                        .noDaemon()
                        .bounded()
                        .connect(second);
        Collected<Tuple3<Long, String, Double>> counts = new Collected<>();
        Collected<WindowSummary> windows = new Collected<>();
        received.records()
                .keyBy(word -> word.f0)
                .window(TumblingEventTimeWindows.of(Duration.ofMillis(WINDOW_MS)))
                .process(new Count())
                .returns(Types.TUPLE(Types.LONG, Types.STRING, Types.DOUBLE))
                .sinkTo(counts);
        received.windows().sinkTo(windows);
        run(first, second);
        Map<Tuple2<Long, String>, Double> all = new HashMap<>();
        for (Tuple3<Long, String, Double> count : counts.elements()) {
            Double before = all.put(Tuple2.of(count.f0, count.f1), count.f2);
            assertEquals(null, before, "a window was counted twice, or partly");
        }
        assertFalse(all.isEmpty());
        return new Counted(all, windows.elements());
    }

    private static final class Count
            extends ProcessWindowFunction<
                    Tuple2<String, Double>, Tuple3<Long, String, Double>, String, TimeWindow> {
        private static final long serialVersionUID = 1;

        @Override
        public void process(
                String word,
                Context context,
                Iterable<Tuple2<String, Double>> records,
                Collector<Tuple3<Long, String, Double>> out) {
            double count = 0;
            for (Tuple2<String, Double> record : records) {
                count += record.f1;
            }
            out.collect(Tuple3.of(context.window().getStart(), word, count));
        }
    }
}
