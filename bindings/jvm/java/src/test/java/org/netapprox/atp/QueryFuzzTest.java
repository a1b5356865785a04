package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Random calls: each returns or throws an exception of its kind, and the JVM goes on. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
final class QueryFuzzTest {
    private static final int CALLS = 20_000;
    private static final String[] QUERIES = {
        "avg(x) by k", "SELECT sum(x), count(*), max(x) WHERE x > 2 GROUP BY k", "top(3, k)",
        "quantile(x, 0.9)", "avg(x", "count(distinct k)", "stddev(x) by k", "", "ratio(x, x)",
    };
    private static final String[] HEADERS = {"k,x\n", "x,k", "k", "\"", ""};
    private static final String[] MESSAGES = {
        "a,1\nb,2\n", "a,\n", "records 5\nmessages 3\n", "\"a,1\n", ",,,,\n", "1,2\n", "", "\n\n",
    };
    private static final String[] OPTIONS = {
        "confidence", "emax", "emax_absolute", "end_in_doubt", "senders", "timeout", "bad",
    };
    private static final String[] VALUES = {"0.9", "0.05", "true", "3", "-1", "NaN", "1e400", ""};
    private static final String[] ORDERS = {"SHUFFLED", "ORDERED", "SHUFFLED:64", "", "SHUFFLED:x"};

    private final Random random;
    private final List<Long> queries = new CopyOnWriteArrayList<>(List.of(0L, -1L, Long.MAX_VALUE));
    private final List<Long> tables = new CopyOnWriteArrayList<>(List.of(0L, -1L));
    private final AtomicInteger succeeded = new AtomicInteger();

    QueryFuzzTest() {
        long seed = Long.getLong("atp.seed", System.nanoTime());
        System.out.println("QueryFuzzTest: -Datp.seed=" + seed + " repeats it");
        random = new Random(seed);
    }

    @Test
    void calls__neverEndTheJvm() {
        calls(CALLS);
        end();
    }

    /** On the same queries and tables. */
    @Test
    void calls__ofSeveralThreadsNeverEndTheJvm() throws Exception {
        FutureTask<?>[] threads = new FutureTask<?>[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new FutureTask<>(() -> calls(CALLS / threads.length), null);
            new Thread(threads[i]).start();
        }
        for (FutureTask<?> thread : threads) {
            thread.get();
        }
        end();
    }

    private void calls(int calls) {
        for (int i = 0; i < calls; i++) {
            try {
                call();
                succeeded.incrementAndGet();
            } catch (IOException | IllegalArgumentException | IllegalStateException e) {
                assertTrue(e.getMessage() != null && !e.getMessage().isEmpty(), e.toString());
            }
        }
    }

    private void end() {
        queries.forEach(Native::queryClose);
        tables.forEach(Native::tableClose);
        assertTrue(succeeded.get() > CALLS / 20, "succeeded: " + succeeded);
    }

    private void call() throws IOException {
        long query = any(queries);
        int stratum = random.nextInt(10) == 0 ? random.nextInt() : random.nextInt(3);
        switch (random.nextInt(20)) {
            case 0 -> queries.add(Native.queryOpen(any(QUERIES), header(), options()));
            case 1 -> {
                if (random.nextInt(8) == 0) {
                    Native.queryClose(query);
                }
            }
            case 2, 3, 4, 5 -> add(query, stratum);
            case 6 -> {
                if (random.nextBoolean()) {
                    Native.querySetMessagesSent(query, stratum, number());
                } else {
                    Native.querySetRows(query, stratum, number());
                }
            }
            case 7 ->
                    Native.querySetDelivery(
                            query, stratum, any(ORDERS), random.nextBoolean(), lost());
            case 8 -> Native.queryMessages(query);
            case 9 -> Answers.read(new Fields(Native.queryAnswers(query)));
            case 10 -> Native.queryOverall(query);
            case 11 -> Native.querySourceStarted(query, stratum, msr());
            case 12 -> Native.querySourceKnown(query, stratum);
            case 13 -> Native.querySourceEnding(query, stratum);
            case 14 -> Native.querySourceEnded(query, stratum);
            case 15 -> {
                Native.queryNextAction(query);
                Native.queryReport(query);
            }
            case 16 -> {
                byte[] csv = random.nextBoolean() ? bytes() : (any(HEADERS) + any(MESSAGES)).getBytes();
                boolean ordered = random.nextBoolean();
                tables.add(
                        Native.tableRead(csv, random.nextInt(5) - 1, ordered, !ordered, number()));
            }
            case 17 -> {
                // The number of another kind of object.
                Native.queryReceiverClose(query);
                Native.queryReceiverRun(query);
            }
            case 18 ->
                    Native.queryReceiverBind(
                            any(QUERIES), options(), any(MESSAGES), options());
            default -> {
                long table = any(tables);
                Native.tableFacts(table);
                Native.tableTrySend(table, query, (int) number());
            }
        }
    }

    private void add(long query, int stratum) throws IOException {
        boolean isTotals = random.nextInt(5) == 0;
        byte[] message =
                random.nextBoolean() ? any(MESSAGES).getBytes(StandardCharsets.UTF_8) : bytes();
        if (random.nextBoolean()) {
            Native.queryAdd(query, stratum, null, 0, 0, message, isTotals);
            return;
        }
        ByteBuffer direct = ByteBuffer.allocateDirect(message.length).put(message);
        int kind = random.nextInt(8);
        int offset = kind == 0 ? random.nextInt() : 0;
        int length = kind == 1 ? random.nextInt() : message.length;
        Native.queryAdd(
                query,
                stratum,
                kind == 2 ? ByteBuffer.wrap(message) : kind == 3 ? null : direct,
                offset,
                length,
                null,
                isTotals);
    }

    private byte[] bytes() {
        byte[] bytes = new byte[random.nextInt(200) == 0 ? 300_000 : random.nextInt(60)];
        if (random.nextBoolean()) {
            random.nextBytes(bytes);
        } else {
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = (byte) "a1,\"\n.-e\\\r".charAt(random.nextInt(10));
            }
        }
        return bytes;
    }

    private byte[] header() {
        return random.nextInt(3) > 0 ? "k,x".getBytes(StandardCharsets.UTF_8)
                : random.nextBoolean() ? bytes() : any(HEADERS).getBytes(StandardCharsets.UTF_8);
    }

    private String[] options() {
        String[] options = new String[random.nextInt(4)];
        for (int i = 0; i < options.length; i++) {
            options[i] = any(i % 2 == 0 ? OPTIONS : VALUES);
        }
        return options;
    }

    private int[] lost() {
        if (random.nextBoolean()) {
            return null;
        }
        int[] lost = random.ints(random.nextInt(5), -1, 100).toArray();
        if (random.nextInt(4) > 0) {
            Arrays.sort(lost);
        }
        return lost;
    }

    private long number() {
        return random.nextInt(10) == 0 ? random.nextLong() : random.nextInt(200);
    }

    private double msr() {
        double[] rates = {0, 0.5, 1, -1, Double.NaN, Double.POSITIVE_INFINITY};
        return rates[random.nextInt(rates.length)];
    }

    private <T> T any(T[] all) {
        return all[random.nextInt(all.length)];
    }

    private long any(List<Long> all) {
        // Mostly the newest: they are open.
        int last = all.size() - 1;
        return all.get(random.nextInt(3) == 0 ? random.nextInt(all.size()) : last);
    }
}
