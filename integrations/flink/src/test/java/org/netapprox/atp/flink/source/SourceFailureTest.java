package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.netapprox.atp.flink.source.SourceCluster.await;
import static org.netapprox.atp.flink.source.SourceEngineTest.source;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.netapprox.atp.Job;
import org.netapprox.atp.flink.AtpSource;
import org.netapprox.atp.flink.RecordDeserializer;

@Tag("engine")
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class SourceFailureTest {
    private static SourceCluster cluster;

    @BeforeAll
    static void start() throws Exception {
        cluster = new SourceCluster(1, 2);
    }

    @AfterAll
    static void close() throws Exception {
        cluster.close();
    }

    @Test
    void stranger__isRefusedAndTheJobGoesOn() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        Kept<String> records =
                Kept.of(source(address).build().stream(env, "readings").records(), "records");
        JobID job = cluster.submit(env);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            sending.windows(1);
            try (Job stranger = Job.builder().noDaemon().connect(address)) {
                stranger.send("no window".getBytes(StandardCharsets.UTF_8));
                stranger.finish();
            } catch (IOException e) {
                // The receiver refuses it.
            }
            sending.windows(1);
            await("records", () -> records.size() == 2 * Sending.WINDOW);
            records.once();
            assertEquals(JobStatus.RUNNING, cluster.status(job));
        } finally {
            cluster.cancel(job);
        }
    }

    @Test
    void noSender__failsTheJob() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        source(address).senderTimeout(Duration.ofMillis(200)).build().stream(env, "readings");
        String failure = cluster.failure(cluster.submit(env));
        String sentence =
                "no window has come to " + address + " in 0.2 s: check that a sender sends to this"
                        + " address, that the source admits it, and that UDP reaches it, or set a"
                        + " longer senderTimeout";
        assertTrue(failure.contains(sentence), failure);
    }

    @Test
    void senderThatIsNotAdmitted__failsTheJob() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        source(address)
                .senders("127.0.0.9")
                .senderTimeout(Duration.ofMillis(500))
                .build()
                .stream(env, "readings");
        JobID job = cluster.submit(env);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            sending.send(Sending.WINDOW);
            String failure = cluster.failure(job);
            assertTrue(failure.contains("no window has come to " + address), failure);
            assertEquals(0, sending.sender.state().confirmed());
        }
    }

    @Test
    void addressOfAnotherHost__failsTheJob() throws Exception {
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        source("203.0.113.7:4747").build().stream(env, "readings");
        String failure = cluster.failure(cluster.submit(env));
        String sentence =
                "no task manager with a reader of the source has the address 203.0.113.7:4747:"
                        + " listen at one of theirs, which are ";
        assertTrue(failure.contains(sentence), failure);
    }

    @Test
    void damagedRecord__isNotConfirmed() throws Exception {
        String address = SourceCluster.address();
        StreamExecutionEnvironment env = SourceCluster.env(1, false);
        AtpSource.builder(
                        RecordDeserializer.of(
                                Types.STRING,
                                (record, group, window) -> {
                                    throw new IOException("no reading");
                                }))
                .listen(address)
                .noDaemon()
                .build()
                .stream(env, "readings");
        JobID job = cluster.submit(env);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            sending.send(Sending.WINDOW);
            String failure = cluster.failure(job);
            String sentence = " of readings [0], window 0 can't be deserialized: no reading";
            assertTrue(failure.contains(sentence), failure);
            assertEquals(0, sending.sender.state().confirmed());
        }
    }
}
