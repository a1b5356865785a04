package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tables as messages. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
final class TableTest {
    private static byte[] csv(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static JobBuilder job() {
        return Job.builder().noDaemon();
    }

    /** The answers of a table that arrives whole. */
    private static Answers answers(Table table, String query) throws Exception {
        var builder = QueryReceiver.builder(query).receiver(Receiver.builder().noDaemon());
        try (QueryReceiver receiver = builder.bind("127.0.0.1:0")) {
            FutureTask<Report> sender = new FutureTask<>(() -> {
                try (Job job = table.send(receiver.address(), job())) {
                    return job.finish();
                }
            });
            new Thread(sender).start();
            Answers answers = receiver.await();
            sender.get();
            return answers;
        }
    }

    @Test
    void line__isARowOfAQuery() throws Exception {
        assertEquals("a,\"b,\"\"c\",,\n", Rows.line("a", "b,\"c", null, Double.NaN));
        assertThrows(
                IllegalArgumentException.class, () -> Rows.line(Double.POSITIVE_INFINITY));
        try (Query query = Query.builder("sum(the_x)").open(Rows.line("the_x", "a,b"))) {
            query.setMessagesSent(0, 1);
            query.add(0, ByteBuffer.wrap(csv(Rows.line(2.5, "\""))));
            assertEquals(2.5, query.answers().rows().get(0).estimate().value());
        }
    }

    @Test
    void of__keepsValuesOfAnyText() throws Exception {
        List<String> keys = List.of(" b", "\"", "a\nb", "a,\"b\"", "zu\u0308\ud83d\ude00");
        Rows rows = new Rows("the, key", "x");
        keys.forEach(key -> rows.add(key, 1.5e10).add(key, null).add(key, Double.NaN));
        try (Table table = Table.builder().rowsPerMessage(4).of(rows)) {
            assertEquals(15, table.rows());
            assertEquals(4, table.messages());
            assertTrue(table.note().orElseThrow().contains("3 records have values of several lines"));
            Answers answers = answers(table, "SELECT sum(x), count(*), count(x) GROUP BY \"the, key\"");
            assertEquals(15, answers.rows().size());
            for (int i = 0; i < 15; i++) {
                Answers.Row row = answers.rows().get(i);
                assertEquals(List.of(keys.get(i / 3)), row.key());
                double expected = List.of(1.5e10, 3.0, 1.0).get(i % 3);
                assertEquals(expected, row.estimate().value(), expected * 1e-9);
            }
            assertEquals(10, answers.missing());
        }
    }

    @Test
    void of__keepsMissingValuesOfOneColumn() throws Exception {
        try (Table table = Table.of(new Rows("x").add(1).add((Object[]) null).add(3))) {
            assertEquals(3, table.rows());
            assertEquals(Optional.empty(), table.note());
            Answers answers = answers(table, "SELECT count(*), count(x)");
            assertEquals(3, answers.rows().get(0).estimate().value(), 1e-9);
            assertEquals(2, answers.rows().get(1).estimate().value(), 1e-9);
        }
    }

    @Test
    void ofCsv__refusesWhatIsNoTable() throws Exception {
        refuses("", "is empty");
        refuses("x\n", "holds no record");
        refuses("a,b\n1\n", "reading the CSV records");
        refuses("v,k\n1,\"b\n2,c\n3,\"d\n", "line 4");
        assertThrows(NullPointerException.class, () -> Table.ofCsv((byte[]) null));
        assertThrows(NoSuchFileException.class, () -> Table.ofCsv(Path.of("/no/such/file.csv")));
        assertThrows(IllegalArgumentException.class, () -> Table.builder().rowsPerMessage(0));
        assertThrows(
                IllegalArgumentException.class,
                () -> Table.builder().ordered(true).seed(1).ofCsv(csv("x\n1\n")));
        assertThrows(IllegalArgumentException.class, Rows::new);
        Rows rows = new Rows("a", "b");
        assertThrows(IllegalArgumentException.class, () -> rows.add(1));
        assertThrows(IllegalArgumentException.class, () -> rows.add(1, 1 / 0.0));
        assertThrows(IllegalArgumentException.class, () -> Table.of(rows));
    }

    private static void refuses(String text, String part) {
        var error = assertThrows(IllegalArgumentException.class, () -> Table.ofCsv(csv(text)));
        assertTrue(error.getMessage().contains(part), error.getMessage());
    }

    @Test
    void send__refusesOptionsOfTheTable() throws Exception {
        try (Table table = Table.ofCsv(csv("x\n1\n"))) {
            List<JobBuilder> bad =
                    List.of(
                            job().messages(3),
                            job().order(Order.SHUFFLED),
                            job().groups(new Group(0)),
                            job().msr(2));
            for (JobBuilder one : bad) {
                assertThrows(
                        IllegalArgumentException.class, () -> table.send("127.0.0.1:1", one));
            }
            table.close();
            table.close();
            assertThrows(ClosedException.class, () -> table.send("127.0.0.1:1", job()));
        }
    }

    /** The peer never answers, so the buffer stays full. */
    @Test
    void send__endsWithAnInterrupt() throws Exception {
        Rows rows = new Rows("x");
        for (int i = 0; i < 20_000; i++) {
            rows.add(i);
        }
        try (DatagramSocket silent = new DatagramSocket(0, InetAddress.getLoopbackAddress());
                Table table = Table.of(rows)) {
            var peer = new InetSocketAddress(silent.getLocalAddress(), silent.getLocalPort());
            Thread.currentThread().interrupt();
            assertThrows(
                    InterruptedException.class,
                    () -> table.send(peer, job().bufferBytes(10_000)));
            assertEquals(20_000, table.rows());
        }
    }
}
