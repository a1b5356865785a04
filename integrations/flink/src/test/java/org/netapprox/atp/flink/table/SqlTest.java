package org.netapprox.atp.flink.table;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.FutureTask;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.Job;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.WindowSender;

/** Tables of SQL read windows and send them. */
@Tag("engine")
class SqlTest {
    private static final int RECORDS = 1_000;
    private static final String COLUMNS =
            "room INT, temperature DOUBLE, atp_n BIGINT METADATA, atp_delivered BIGINT METADATA,"
                    + " atp_weight DOUBLE METADATA, atp_stratum STRING METADATA,"
                    + " atp_window ROW<window_number BIGINT, window_part BIGINT, window_start"
                    + " TIMESTAMP_LTZ(3), window_end TIMESTAMP_LTZ(3)> METADATA,"
                    + " t TIMESTAMP_LTZ(3) METADATA FROM 'atp_timestamp',"
                    + " WATERMARK FOR t AS SOURCE_WATERMARK()";

    private final String address = Loopback.address();

    private static StreamTableEnvironment tables() {
        var env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(1);
        return StreamTableEnvironment.create(env);
    }

    private String options(String more) {
        return " WITH ('connector' = 'atp', 'format' = 'json', 'daemon' = 'none'" + more + ")";
    }

    private void createReadings(StreamTableEnvironment tables, String more) {
        String listen = ", 'listen' = '" + address + "'" + more;
        tables.executeSql("CREATE TABLE readings (" + COLUMNS + ")" + options(listen));
    }

    /** Windows of a second, with {@code RECORDS} records each, and one that ends the last one. */
    private FutureTask<Void> send(double msr, int windows) {
        var task = new FutureTask<Void>(() -> {
            var options = WindowSender.builder("readings").job(Job.builder().noDaemon());
            options.length(Duration.ofSeconds(1)).msr(msr).retry(Duration.ofMinutes(2));
            try (WindowSender sender = options.open(address)) {
                for (long offset = 0; offset < (long) windows * RECORDS; offset++) {
                    String value = String.format(
                            "{\"room\": %d, \"temperature\": %d}", offset % 4, offset % 10);
                    sender.send(
                            new WindowRecord(
                                    offset, OptionalLong.of(offset), null,
                                    value.getBytes(StandardCharsets.UTF_8), List.of()),
                            null);
                    sender.advance(offset + 1);
                }
                sender.finish();
            }
            return null;
        });
        var thread = new Thread(task, "sender");
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    private static List<Row> take(TableResult result, int number) throws Exception {
        List<Row> rows = new ArrayList<>();
        try (CloseableIterator<Row> all = result.collect()) {
            while (rows.size() < number) {
                rows.add(all.next());
            }
        }
        return rows;
    }

    @Test
    void rowsHaveTheirWindow() throws Exception {
        var tables = tables();
        createReadings(tables, "");
        TableResult result = tables.executeSql(
                "SELECT room, atp_n, atp_delivered, atp_weight, atp_window.window_number,"
                        + " atp_stratum FROM readings");
        var sent = send(0.5, 2);
        Map<Long, Long> arrived = new HashMap<>();
        Map<Long, Long> delivered = new HashMap<>();
        try (CloseableIterator<Row> rows = result.collect()) {
            // Both windows are there once as many rows have come as each says.
            while (delivered.size() < 2 || !delivered.equals(arrived)) {
                Row row = rows.next();
                long window = (Long) row.getField(4);
                assertEquals((long) RECORDS, row.getField(1));
                delivered.put(window, (Long) row.getField(2));
                arrived.merge(window, 1L, Long::sum);
                assertEquals(
                        (double) RECORDS / delivered.get(window), (Double) row.getField(3), 1e-12);
                assertTrue(((String) row.getField(5)).contains("/readings/"));
            }
        }
        assertTrue(delivered.values().stream().allMatch(n -> n >= RECORDS / 2), "" + delivered);
        sent.get();
    }

    @Test
    void estimatesOfEventTimeWindows() throws Exception {
        var tables = tables();
        createReadings(tables, "");
        for (var function : List.of(AtpAvg.class, AtpSum.class, AtpCount.class)) {
            tables.createTemporarySystemFunction(function.getSimpleName(), function);
        }
        TableResult result = tables.executeSql(
                "SELECT window_start, room, AtpAvg(temperature, atp_stratum, atp_n, atp_delivered),"
                        + " AtpCount(atp_stratum, atp_n, atp_delivered)"
                        + " FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(t), INTERVAL '1' SECOND))"
                        + " GROUP BY window_start, window_end, room");
        var sent = send(0.8, 3);
        for (Row row : take(result, 12)) {
            Row mean = (Row) row.getField(2);
            Row count = (Row) row.getField(3);
            for (Row estimate : List.of(mean, count)) {
                assertTrue((Double) estimate.getField(1) < (Double) estimate.getField(0));
                assertTrue((Double) estimate.getField(0) < (Double) estimate.getField(2));
            }
            // Bounds that the values have, whatever is drawn.
            assertTrue((Double) mean.getField(0) > 0 && (Double) mean.getField(0) < 9, "" + mean);
        }
        sent.get();
    }

    /** A table that is written is read by another job. */
    @Test
    void aTableIsWrittenAndRead() throws Exception {
        var tables = tables();
        createReadings(tables, "");
        tables.executeSql(
                "CREATE TABLE made (id BIGINT, t AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR t AS t)"
                        + " WITH ('connector' = 'datagen', 'number-of-rows' = '3000',"
                        + " 'rows-per-second' = '100000',"
                        + " 'fields.id.kind' = 'sequence', 'fields.id.start' = '0',"
                        + " 'fields.id.end' = '2999')");
        String to = ", 'peers' = '" + address + "', 'msr' = '1', 'window' = '1 s'";
        tables.executeSql(
                "CREATE TABLE sent (room INT, temperature DOUBLE, t TIMESTAMP_LTZ(3))" + options(to));
        TableResult read = tables.executeSql("SELECT room, temperature, atp_n FROM readings");
        TableResult written = tables.executeSql(
                "INSERT INTO sent SELECT CAST(id AS INT), CAST(id AS DOUBLE), t FROM made");
        boolean[] seen = new boolean[3_000];
        for (Row row : take(read, seen.length)) {
            int id = (Integer) row.getField(0);
            assertTrue(!seen[id], "twice: " + id);
            seen[id] = true;
        }
        written.await();
    }

    @Test
    void badOptionsAreRefused() {
        String listen = ", 'listen' = '" + address + "'";
        for (String[] bad : new String[][] {
            {"", "listen"},
            {", 'listen' = 'nowhere'", "nowhere"},
            {listen + ", 'msr' = '1.5'", "between 0 and 1"},
            {listen + ", 'msr' = 'NaN'", "between 0 and 1"},
            {listen + ", 'streams' = '0'", "streams"},
            {listen + ", 'colour' = 'red'", "colour"},
            {listen + ", 'daemon' = 'here'", "daemon"},
        }) {
            var tables = tables();
            tables.executeSql("CREATE TABLE readings (" + COLUMNS + ")" + options(bad[0]));
            check(bad, () -> tables.executeSql("SELECT * FROM readings"));
        }
        String peers = ", 'peers' = '" + address + "'";
        for (String[] bad : new String[][] {
            {listen, "peers"},
            {peers, "length"},
            {peers + ", 'window' = '0 s'", "length"},
            {peers + ", 'window' = '1 s', 'msr' = '-1'", "between 0 and 1"},
            {peers + ", 'window' = '1 s', 'window-records' = '5'", "not both"},
            {", 'peers' = 'nowhere', 'window' = '1 s'", "nowhere"},
            {
                peers + ", 'window-records' = '5', 'hold-until-checkpoint' = 'true'",
                "enable such checkpoints"
            },
        }) {
            var tables = tables();
            tables.executeSql("CREATE TABLE sent (room INT)" + options(bad[0]));
            check(bad, () -> tables.executeSql("INSERT INTO sent VALUES (1)"));
        }
    }

    private static void check(String[] bad, Runnable run) {
        Throwable e = assertThrows(Exception.class, run::run);
        StringBuilder all = new StringBuilder();
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            all.append(cause.getMessage()).append('\n');
        }
        assertTrue(all.toString().contains(bad[1]), bad[0] + ": " + all);
    }

    /** A rate that is lower than the table's demand ends the query with a sentence. */
    @Test
    void aLowerRateIsRefused() throws Exception {
        var tables = tables();
        createReadings(tables, ", 'msr' = '0.9'");
        TableResult result = tables.executeSql("SELECT room FROM readings");
        send(0.5, 1);
        Throwable e = assertThrows(Exception.class, () -> take(result, 1));
        StringBuilder all = new StringBuilder();
        for (Throwable cause = e; cause != null; cause = cause.getCause()) {
            all.append(cause.getMessage()).append('\n');
        }
        assertTrue(all.toString().contains("demands 0.9"), all.toString());
    }
}
