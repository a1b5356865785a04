package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.BindException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Answers of tables that arrive. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
final class QueryReceiverTest {
    private static final String LOCAL = "127.0.0.1:0";
    private static final Duration SHORT = Duration.ofMillis(20);

    private static QueryReceiverBuilder query(String text) {
        return QueryReceiver.builder(text).receiver(Receiver.builder().noDaemon());
    }

    private static JobBuilder job() {
        return Job.builder().noDaemon();
    }

    /** Delays of 0 to 9 of two carriers, with a mean of 4 and 5. */
    private static Rows flights(int rows) {
        Rows flights = new Rows("carrier", "delay");
        for (int i = 0; i < rows; i++) {
            flights.add(i % 2 == 0 ? "AA" : "UA", i % 10);
        }
        return flights;
    }

    private static <T> FutureTask<T> start(Callable<T> call) {
        FutureTask<T> task = new FutureTask<>(call);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    private static <T> T get(FutureTask<T> task) throws Exception {
        return task.get(60, TimeUnit.SECONDS);
    }

    private static Throwable failure(FutureTask<?> task) {
        return assertThrows(ExecutionException.class, () -> get(task)).getCause();
    }

    private static FutureTask<Report> send(Table table, InetSocketAddress peer, JobBuilder job) {
        return start(() -> {
            try (Job sent = table.send(peer, job)) {
                return sent.finish();
            }
        });
    }

    @Test
    void await__isExactIfAllArrive() throws Exception {
        String sql = "SELECT avg(delay), max(delay), count(*) GROUP BY carrier";
        try (Table table = Table.of(flights(1_000));
                QueryReceiver receiver = query(sql).bind(LOCAL)) {
            FutureTask<Report> sender = send(table, receiver.address(), job().msr(1));
            Answers answers = receiver.await();
            get(sender);

            assertEquals(List.of("carrier"), answers.by());
            assertEquals(List.of("avg(delay)", "max(delay)", "count(*)"), answers.functions());
            assertEquals(6, answers.rows().size());
            double[] expected = {4, 8, 500, 5, 9, 500};
            for (int i = 0; i < 6; i++) {
                Answers.Row row = answers.rows().get(i);
                Estimate estimate = row.estimate();
                assertEquals(List.of(i < 3 ? "AA" : "UA"), row.key());
                assertEquals(answers.functions().get(i % 3), row.function());
                assertEquals(expected[i], estimate.value(), 1e-9);
                assertEquals(expected[i], estimate.low(), 1e-9);
                assertEquals(expected[i], estimate.high(), 1e-9);
                assertEquals(0.95, estimate.confidence());
                assertEquals(table.messages(), estimate.messages());
                assertEquals(table.messages(), estimate.messagesSent().getAsLong());
                assertEquals(Estimate.Bound.NONE, estimate.bound());
                assertEquals(List.of(), estimate.warnings());
            }
            assertEquals(Verdict.FINE, answers.verdict());
            assertEquals(0, answers.messagesLeftOut());
            assertEquals(5, answers.find("UA").orElseThrow().value(), 1e-9);
            assertEquals(Optional.empty(), answers.find("DL"));
            assertEquals(Optional.empty(), answers.plan());
            assertTrue(answers.json().contains("\"verdict\":\"fine\""), answers.json());
            // As `atp-user recv --query` prints them.
            assertEquals(
                    "SELECT avg(\"delay\"), max(\"delay\"), count(*) GROUP BY carrier\n"
                            + "  AA  avg(delay)         4.0000   4.0000 to 4.0000 (95 %)\n"
                            + "  AA  max(delay)         8.0000   8.0000 to 8.0000 (95 %)\n"
                            + "  AA  count(*)         500.0000   500.0000 to 500.0000 (95 %)\n"
                            + "  UA  avg(delay)         5.0000   5.0000 to 5.0000 (95 %)\n"
                            + "  UA  max(delay)         9.0000   9.0000 to 9.0000 (95 %)\n"
                            + "  UA  count(*)         500.0000   500.0000 to 500.0000 (95 %)\n"
                            + "from " + table.messages() + " of " + table.messages()
                            + " messages\n",
                    answers.toString());
            assertEquals(answers, receiver.await());
            assertEquals(table.messages(), receiver.progress().messages());
        }
    }

    @Test
    void await__awaitsAllSenders() throws Exception {
        try (Table table = Table.of(flights(1_000));
                QueryReceiver receiver = query("count(*)").senders(2).bind(LOCAL)) {
            FutureTask<Report> one = send(table, receiver.address(), job().id(1));
            FutureTask<Report> other = send(table, receiver.address(), job().id(2));
            Estimate count = receiver.await().find().orElseThrow();
            get(one);
            get(other);
            assertEquals(2_000, count.value(), 1e-9);
            assertEquals(count.low(), count.high());
        }
    }

    @Test
    void emax__endsTheJobOnceItIsMet() throws Exception {
        Random random = new Random(7);
        Rows rows = new Rows("x");
        for (int i = 0; i < 100_000; i++) {
            rows.add(random.nextGaussian() * 10 + 50);
        }
        try (Table table = Table.builder().seed(7).of(rows);
                QueryReceiver receiver = query("avg(x)").emax(0.02).bind(LOCAL)) {
            // The whole table takes ten seconds, and the answer a part of one.
            JobBuilder slow = job().rateMaxBytesPerSecond(200_000);
            FutureTask<Report> sender = send(table, receiver.address(), slow);
            Answers answers = receiver.await();
            Report report = get(sender);

            Estimate mean = answers.find().orElseThrow();
            assertTrue(answers.plan().orElseThrow().isMet(), answers.toString());
            assertEquals(Verdict.FINE, answers.verdict(), answers.toString());
            assertTrue(mean.high() - mean.value() <= 0.02 * mean.value(), answers.toString());
            assertTrue(mean.messages() < table.messages(), answers.toString());
            assertTrue(report.endedByReceiver());
        }
    }

    @Test
    void await__saysWhichColumnIsMissing() throws Exception {
        try (Table table = Table.of(flights(100));
                QueryReceiver receiver = query("avg(distance)").bind(LOCAL)) {
            FutureTask<Report> sender = send(table, receiver.address(), job());
            NoAnswerException first = assertThrows(NoAnswerException.class, receiver::await);
            assertTrue(first.getMessage().contains("no column \"distance\""), first.getMessage());
            NoAnswerException again = assertThrows(NoAnswerException.class, receiver::await);
            assertEquals(first.getMessage(), again.getMessage());
            receiver.close();
            sender.cancel(true);
        }
    }

    @Test
    void await__endsAfterTheTimeout() throws Exception {
        try (QueryReceiver receiver =
                query("avg(x)").timeout(Duration.ofMillis(100)).bind(LOCAL)) {
            NoAnswerException error = assertThrows(NoAnswerException.class, receiver::await);
            assertTrue(error.getMessage().contains("no packet arrived for 0.1 s"), error.toString());
        }
    }

    @Test
    void finishNow__answersWithWhatHasArrived() throws Exception {
        try (QueryReceiver receiver = query("avg(x)").bind(LOCAL);
                Job job = job().groups(
                                new Group(0).messages(50).msr(0.99).order(Order.SHUFFLED),
                                new Group(255).messages(1))
                        .connect(receiver.address())) {
            job.send(255, utf8("x\n"));
            for (int i = 0; i < 40; i++) {
                job.send(0, utf8(i % 7 + "\n"));
            }
            while (receiver.progress().messages() < 40) {
                assertNull(receiver.await(SHORT));
            }
            assertTrue(receiver.progress().line().orElseThrow().startsWith("avg(x): "));

            // A thread that waits gets the same answers.
            FutureTask<Answers> waiting = start(receiver::await);
            Answers answers = receiver.finishNow();
            assertEquals(answers, get(waiting));
            assertEquals(40, answers.find().orElseThrow().messages());
            assertEquals(50, answers.find().orElseThrow().messagesSent().getAsLong());
            assertEquals(Verdict.IN_DOUBT, answers.verdict());
            assertTrue(answers.warnings().get(0).startsWith("interrupted: "), answers.toString());
            job.cancel();
        }
    }

    @Test
    void finishNow__hasNoAnswerOfNothing() throws Exception {
        try (QueryReceiver receiver = query("avg(x)").bind(LOCAL)) {
            assertThrows(NoAnswerException.class, receiver::finishNow);
        }
    }

    @Test
    void await__goesOnAfterAnInterrupt() throws Exception {
        try (Table table = Table.of(flights(100));
                QueryReceiver receiver = query("avg(delay)").bind(LOCAL)) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, receiver::await);
            FutureTask<Report> sender = send(table, receiver.address(), job());
            assertEquals(4.5, receiver.await().find().orElseThrow().value(), 1e-9);
            get(sender);
        }
    }

    @Test
    void close__endsWaitsOfOtherThreads() throws Exception {
        QueryReceiver receiver = query("avg(x)").bind(LOCAL);
        List<FutureTask<Answers>> waiting =
                List.of(start(receiver::await), start(receiver::await));
        assertNull(receiver.await(SHORT));
        receiver.close();
        for (FutureTask<Answers> one : waiting) {
            assertEquals(ClosedException.class, failure(one).getClass());
        }
        receiver.close();
        assertThrows(ClosedException.class, receiver::await);
        assertThrows(ClosedException.class, receiver::finishNow);
        assertThrows(ClosedException.class, receiver::progress);
    }

    /** Calls of all kinds while the receiver is closed. */
    @Test
    void close__isSafeDuringOtherCalls() throws Exception {
        try (Table table = Table.of(flights(2_000))) {
            for (int i = 0; i < 20; i++) {
                QueryReceiver receiver = query("avg(delay) by carrier").bind(LOCAL);
                FutureTask<Report> sender = send(table, receiver.address(), job());
                List<FutureTask<?>> calls =
                        List.of(
                                start(receiver::await),
                                start(() -> receiver.await(SHORT)),
                                start(receiver::finishNow),
                                start(
                                        () -> {
                                            while (true) {
                                                receiver.progress();
                                            }
                                        }));
                Thread.sleep(i / 4);
                receiver.close();
                for (FutureTask<?> call : calls) {
                    try {
                        get(call);
                    } catch (ExecutionException e) {
                        assertTrue(e.getCause() instanceof AtpException, e.toString());
                    }
                }
                sender.cancel(true);
            }
        }
    }

    @Test
    void bind__refusesBadQueriesAndOptions() throws Exception {
        String[][] bad = {
            {"", "names no function"},
            {"avg(x", "no `)`"},
            {"SELECT avg(x) FROM a JOIN b ON a.k = b.k", "isn't supported"},
            {"avg(x) over y", "after its function"},
            {"quantile(x, 2)", "a number between 0 and 1"},
            {"\ud800", "names no function"},
        };
        for (String[] one : bad) {
            refuses(query(one[0]), one[1]);
        }
        refuses(query("avg(x)").emax(0), "accepted error of 0 is impossible");
        refuses(query("avg(x)").emax(Double.NaN), "accepted error of NaN");
        refuses(query("avg(x)").emax(5), "a share below 1");
        refuses(query("avg(x)").emaxAbsolute(-1), "accepted error of -1");
        refuses(query("max(x)").emax(0.1), "has no error to accept");
        refuses(query("avg(x)").endInDoubt(true), "end_in_doubt is an option of");
        refuses(query("avg(x)").confidence(1), "confidence of 1 is impossible");
        refuses(query("avg(x)").senders(0), "senders must be 1 at least");
        refuses(query("avg(x)").timeout(Duration.ZERO), "timeout must be more than 0");
        refuses(query("avg(x)").timeout(Duration.ofSeconds(-1)), "timeout must be 0 or longer");
        assertThrows(NullPointerException.class, () -> query(null));
        try (QueryReceiver first = query("avg(x)").bind(LOCAL)) {
            assertThrows(BindException.class, () -> query("avg(x)").bind(first.address()));
        }
    }

    private static void refuses(QueryReceiverBuilder query, String part) {
        var error = assertThrows(IllegalArgumentException.class, () -> query.bind(LOCAL));
        assertTrue(error.getMessage().contains(part), error.getMessage());
    }

    /** Messages of a stranger that are no table. */
    @Test
    void await__leavesOutBytesThatAreNoRows() throws Exception {
        Random random = new Random(3);
        try (QueryReceiver receiver = query("avg(x)").bind(LOCAL)) {
            FutureTask<Report> sender = start(() -> {
                Group[] groups = {new Group(0), new Group(255), new Group(7)};
                try (Job job = job().groups(groups).connect(receiver.address())) {
                    job.send(255, utf8("x\n"));
                    for (int i = 0; i < 300; i++) {
                        byte[] message = new byte[random.nextInt(i % 50 == 0 ? 20_000 : 40)];
                        random.nextBytes(message);
                        job.send(i % 10 == 0 ? 255 : i % 10 == 1 ? 7 : 0, ByteBuffer.wrap(message));
                    }
                    job.send(0, utf8("3\n"));
                    return job.finish();
                }
            });
            Answers answers = receiver.await();
            get(sender);
            assertEquals(Verdict.IN_DOUBT, answers.verdict());
            assertTrue(answers.messagesLeftOut() > 0, answers.toString());
        }
    }

    static ByteBuffer utf8(String text) {
        return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    /** A receiver that the program has lost frees its port. */
    @Test
    void close__isDoneByTheCollector() throws Exception {
        InetSocketAddress address = lost();
        while (true) {
            System.gc();
            try {
                query("avg(x)").bind(address).close();
                return;
            } catch (BindException e) {
                Thread.sleep(20);
            }
        }
    }

    private static InetSocketAddress lost() throws IOException {
        return query("avg(x)").bind(LOCAL).address();
    }
}
