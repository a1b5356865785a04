package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.netapprox.atp.flink.source.SourceCluster.await;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessAllWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.netapprox.atp.flink.AtpSource;
import org.netapprox.atp.flink.AtpSourceBuilder;
import org.netapprox.atp.flink.RecordDeserializer;
import org.netapprox.atp.flink.SampledStream;
import org.netapprox.atp.flink.WindowSummary;

@Tag("engine")
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class SourceEngineTest {
    private static SourceCluster cluster;

    @BeforeAll
    static void start() throws Exception {
        cluster = new SourceCluster(2, 2);
    }

    @AfterAll
    static void close() throws Exception {
        cluster.close();
    }

    /** Records as their place in their stream. */
    static AtpSourceBuilder<String> source(String... addresses) {
        return AtpSource.builder(
                        RecordDeserializer.of(
                                Types.STRING,
                                (record, group, window) ->
                                        window.partition + "/" + record.offset()))
                .listen(addresses)
                .noDaemon();
    }

    /** The number of records in each window of Flink, as {@code start:records}. */
    private static DataStream<String> counts(DataStream<String> records) {
        return records.windowAll(
                        TumblingEventTimeWindows.of(Duration.ofMillis(Sending.WINDOW_MS)))
                .process(
                        new ProcessAllWindowFunction<String, String, TimeWindow>() {
                            private static final long serialVersionUID = 1;

                            @Override
                            public void process(
                                    Context context,
                                    Iterable<String> elements,
                                    Collector<String> out) {
                                long records = 0;
                                for (String any : elements) {
                                    records++;
                                }
                                out.collect(context.window().getStart() + ":" + records);
                            }
                        });
    }

    @Test
    void windows__arriveWithTheirFloorAndWatermarks() throws Exception {
        String address = SourceCluster.address();
        // The second reader has no address, and holds back no watermark.
        StreamExecutionEnvironment env = SourceCluster.env(2, false);
        SampledStream<String> stream = source(address).build().stream(env, "readings");
        Kept<String> counts = Kept.of(counts(stream.records()), "counts");
        Kept<String> records = Kept.of(stream.records(), "records");
        Kept<WindowSummary> windows = Kept.of(stream.windows(), "windows");
        JobID job = cluster.submit(env);
        try (Sending sending = Sending.to(address, Sending.byTime(0).msr(0.5))) {
            sending.windows(10);
            await("windows", () -> windows.size() == 10 && counts.size() == 10);
            long received = windows.elements().stream().mapToLong(window -> window.received).sum();
            await("records", () -> records.size() == received);
            records.once();
            for (WindowSummary window : windows.elements()) {
                assertEquals(Sending.WINDOW, window.records);
                assertEquals(window.records, window.received + window.lost);
                assertEquals(0, window.skipped);
                assertEquals("readings", window.topic);
                assertEquals(window.number * Sending.WINDOW_MS, window.startMs);
                assertEquals(window.startMs + Sending.WINDOW_MS, window.endMs);
                for (WindowSummary.Group group : window.groups) {
                    assertTrue(group.arrived >= Math.ceil(group.msr * group.records), "" + window);
                }
            }
            List<String> expected =
                    windows.elements().stream().map(w -> w.startMs + ":" + w.received).toList();
            assertEquals(expected, counts.once());
        } finally {
            cluster.cancel(job);
        }
    }

    @Test
    void answer__isInTheSummary() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        AtpSource<String> source =
                source(address)
                        .answer(
                                "SELECT avg(v), sum(v), count(*)",
                                List.of("v"),
                                record ->
                                        new Object[] {
                                            new String(record.value(), StandardCharsets.UTF_8)
                                        })
                        .build();
        Kept<WindowSummary> windows = Kept.of(source.stream(env, "readings").windows(), "windows");
        JobID job = cluster.submit(env);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            sending.windows(1);
            await("window", () -> windows.size() == 1);
            WindowSummary window = windows.elements().get(0);
            // All records arrive: the offsets' last digits.
            Map<String, Double> answers =
                    window.answers.stream().collect(Collectors.toMap(a -> a.label, a -> a.value));
            assertEquals(Map.of("avg(v)", 4.5, "sum(v)", 225.0, "count(*)", 50.0), answers);
            for (WindowSummary.Answer answer : window.answers) {
                assertEquals(answer.value, answer.low, answer.toString());
                assertEquals(answer.value, answer.high, answer.toString());
            }
            assertEquals(List.of(), window.warnings);
        } finally {
            cluster.cancel(job);
        }
    }

    /** A sample's answers have intervals, and N is known. */
    @Test
    void answer__ofASampleKnowsTheNumberOfRecords() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        AtpSource<String> source =
                source(address)
                        .answer(
                                "SELECT count(*), sum(v)",
                                List.of("v"),
                                record -> new Object[] {record.offset() % 10})
                        .build();
        Kept<WindowSummary> windows = Kept.of(source.stream(env, "readings").windows(), "windows");
        JobID job = cluster.submit(env);
        try (Sending sending = Sending.to(address, Sending.byNumber(0).records(500).msr(0.5))) {
            sending.send(1_000);
            await("windows", () -> windows.size() == 2);
            for (WindowSummary window : windows.elements()) {
                WindowSummary.Answer count = window.answers.get(0);
                assertEquals("count(*)", count.label);
                assertEquals(500, count.low, 1e-6);
                assertEquals(500, count.high, 1e-6);
                WindowSummary.Answer sum = window.answers.get(1);
                boolean isComplete = window.lost == 0;
                assertEquals(isComplete, sum.low == sum.high, sum.toString());
                assertTrue(sum.low <= sum.value && sum.value <= sum.high, sum.toString());
                assertEquals(List.of(), window.warnings);
            }
        } finally {
            cluster.cancel(job);
        }
    }

    @Test
    void bounded__endsWithItsStreams() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(2, false);
        SampledStream<String> stream =
                source(address).streams(2).bounded().build().stream(env, "readings");
        Kept<String> records = Kept.of(stream.records(), "records");
        JobID job = cluster.submit(env);
        try (Sending first = Sending.to(address, Sending.byNumber(0));
                Sending second = Sending.to(address, Sending.byNumber(1))) {
            first.windows(2);
            first.sender.finish();
            second.windows(1);
            await("records", () -> records.size() == 3 * Sending.WINDOW);
            // The end of the first stream has come: the source still takes windows of the second.
            cluster.awaitCheckpoint(job);
            second.windows(1);
            await("records", () -> records.size() == 4 * Sending.WINDOW);
            assertEquals(JobStatus.RUNNING, cluster.status(job));
            second.sender.finish();
            await("end", () -> cluster.status(job) == JobStatus.FINISHED);
            assertEquals(4 * Sending.WINDOW, records.once().size());
        }
    }

    @Test
    void idleStream__doesNotHoldBackTheWatermark() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        AtpSource<String> source =
                source(address).streams(2).idleTimeout(Duration.ofMillis(300)).build();
        Kept<String> counts = Kept.of(counts(source.stream(env, "s").records()), "counts");
        JobID job = cluster.submit(env);
        try (Sending lively = Sending.to(address, Sending.byTime(0));
                Sending silent = Sending.to(address, Sending.byTime(1))) {
            lively.windows(3);
            // All watermarks until now are before the checkpoint. The second stream is missing: no
            // window of Flink has ended.
            cluster.awaitCheckpoint(job);
            assertEquals(0, counts.size());
            silent.windows(1);
            await("windows", () -> counts.size() == 3);
            int window = Sending.WINDOW;
            long ms = Sending.WINDOW_MS;
            assertEquals(
                    List.of("0:" + 2 * window, ms + ":" + window, 2 * ms + ":" + window),
                    counts.elements());
        } finally {
            cluster.cancel(job);
        }
    }

    /** Windows of the other stream come more often than the source looks for idle streams. */
    @Test
    void idleStream__besideALivelyOneDoesNotHoldBackTheWatermark() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        AtpSource<String> source =
                source(address).streams(2).idleTimeout(Duration.ofSeconds(1)).build();
        Kept<String> counts = Kept.of(counts(source.stream(env, "s").records()), "counts");
        JobID job = cluster.submit(env);
        try (Sending lively = Sending.to(address, Sending.byTime(0));
                Sending dead = Sending.to(address, Sending.byTime(1))) {
            dead.windows(1);
            await(
                    "windows",
                    () -> {
                        lively.windows(1);
                        Thread.sleep(100);
                        return counts.size() >= 5;
                    });
        } finally {
            cluster.cancel(job);
        }
    }

    /** Only the third sender fails. The job goes on with the others, also after a restore. */
    @Test
    void streamsMax__refusesOneMoreStream(@TempDir Path folder) throws Exception {
        String address = SourceCluster.address();
        AtpSource<String> source = source(address).streamsMax(2).build();
        try (Sending first = Sending.to(address, Sending.byNumber(0));
                Sending second = Sending.to(address, Sending.byNumber(1))) {
            String savepoint = null;
            for (int run = 0; run < 2; run++) {
                StreamExecutionEnvironment env = SourceCluster.env(1, false);
                SampledStream<String> stream = source.stream(env, "readings").uid("readings");
                Kept<String> records = Kept.of(stream.records(), "records");
                JobID job = cluster.submit(env, savepoint);
                first.windows(1);
                second.windows(1);
                // The savepoint has those of the first run.
                int before = run * 3 * Sending.WINDOW;
                await("windows", () -> records.size() == before + 2 * Sending.WINDOW);
                var options = Sending.byNumber(2).retry(Duration.ofMillis(500));
                try (Sending third = Sending.to(address, options)) {
                    assertThrows(IOException.class, () -> {
                        third.windows(1);
                        third.sender.finish();
                    });
                }
                first.windows(1);
                await("window", () -> records.size() == before + 3 * Sending.WINDOW);
                assertTrue(records.once().stream().noneMatch(record -> record.startsWith("2/")));
                savepoint = cluster.stop(job, folder.toString());
            }
        }
    }

    @Test
    void slowOperator__holdsBackTheSender() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        AtpSource<String> source = source(address).memoryBytesMax(1 << 20).build();
        Kept<String> records = Kept.slowly(source.stream(env, "readings").records(), "records");
        JobID job = cluster.submit(env);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            Thread thread = new Thread(() -> sendQuietly(sending));
            thread.start();
            await("windows", () -> sending.sender.state().unconfirmed() >= 3);
            // The operator is chained to the source, so the first window isn't emitted yet.
            assertEquals(0, sending.sender.state().confirmed());
            assertTrue(thread.isAlive());
            records.open();
            await("windows", () -> records.size() == 30 * Sending.WINDOW);
            records.once();
            thread.join();
        } finally {
            cluster.cancel(job);
        }
    }

    private static void sendQuietly(Sending sending) {
        try {
            sending.windows(30);
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }
}
