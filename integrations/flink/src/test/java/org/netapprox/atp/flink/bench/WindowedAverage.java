package org.netapprox.atp.flink.bench;

import java.nio.ByteBuffer;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.types.Row;
import org.netapprox.atp.flink.table.AtpAvg;
import org.netapprox.atp.flink.table.AtpCount;

/**
 * The job of {@code cargo xtask bench kafka --engine flink}: the average of each window of event
 * time, from Kafka over TCP or from windows over ATP. A task manager prints a line of JSON for each
 * answer.
 *
 * <p>Arguments are {@code --name value}: {@code source} is kafka or atp; {@code brokers} and {@code
 * topic}, or {@code listen} and {@code streams}; {@code window-ms}; {@code share} is that of the
 * records which the topic has; {@code parallelism}.
 */
public final class WindowedAverage {
    private WindowedAverage() {}

    /**
     * Runs the job.
     *
     * @param words the arguments
     * @throws Exception if it fails
     */
    public static void main(String[] words) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int at = 0; at + 1 < words.length; at += 2) {
            options.put(words[at].substring("--".length()), words[at + 1]);
        }
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(Integer.parseInt(options.get("parallelism")));
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().setLocalTimeZone(ZoneOffset.UTC);
        tables.createTemporarySystemFunction("NUMBER_OF", NumberOf.class);
        tables.createTemporarySystemFunction("ATP_AVG", AtpAvg.class);
        tables.createTemporarySystemFunction("ATP_COUNT", AtpCount.class);
        boolean isAtp = options.get("source").equals("atp");
        long windowMs = Long.parseLong(options.get("window-ms"));
        double share = Double.parseDouble(options.get("share"));
        tables.executeSql(isAtp ? windows(options) : topic(options));
        tables.toDataStream(tables.sqlQuery(query(isAtp, windowMs)))
                .map(row -> say(row, windowMs, share))
                .returns(Long.class)
                .sinkTo(new DiscardingSink<>());
        env.execute("windowed average over " + options.get("source"));
    }

    private static String topic(Map<String, String> options) {
        return "CREATE TABLE readings (v BYTES, p INT METADATA FROM 'partition', t"
                + " TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR t AS t) WITH ("
                + "'connector' = 'kafka', 'format' = 'raw',"
                + " 'properties.bootstrap.servers' = '" + options.get("brokers") + "',"
                + " 'topic' = '" + options.get("topic") + "',"
                + " 'properties.group.id' = 'flink', 'scan.startup.mode' = 'earliest-offset')";
    }

    private static String windows(Map<String, String> options) {
        return "CREATE TABLE readings (v BYTES, p BIGINT METADATA FROM 'atp_partition', atp_n"
                + " BIGINT METADATA, atp_delivered BIGINT METADATA, atp_stratum STRING METADATA,"
                + " t TIMESTAMP_LTZ(3) METADATA FROM 'atp_timestamp', WATERMARK FOR t AS"
                + " SOURCE_WATERMARK()) WITH ('connector' = 'atp', 'format' = 'raw',"
                + " 'listen' = '" + options.get("listen") + "',"
                + " 'streams' = '" + options.get("streams") + "',"
                + " 'daemon' = '" + options.get("daemon") + "')";
    }

    /** The mean, N and the number of arrived records of each partition and window. */
    private static String query(boolean isAtp, long windowMs) {
        String mean = isAtp
                ? "ATP_AVG(NUMBER_OF(v), atp_stratum, atp_n, atp_delivered)"
                : "ROW(AVG(NUMBER_OF(v)), CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE))";
        String count = isAtp
                ? "ATP_COUNT(atp_stratum, atp_n, atp_delivered)"
                : "ROW(CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE))";
        return "SELECT window_start, p, " + mean + ", " + count + ", COUNT(*) FROM TABLE(TUMBLE("
                + "TABLE readings, DESCRIPTOR(t), INTERVAL '" + windowMs / 1_000.0
                + "' SECOND(4, 3))) GROUP BY window_start, window_end, p";
    }

    /** Prints the line, which the benchmark reads from the task manager's output. */
    private static long say(Row row, long windowMs, double share) {
        long startMs = ((LocalDateTime) row.getField(0)).toInstant(ZoneOffset.UTC).toEpochMilli();
        Row mean = (Row) row.getField(2);
        Double count = (Double) ((Row) row.getField(3)).getField(0);
        long received = (Long) row.getField(4);
        System.out.println(String.format(
                Locale.ROOT,
                "{\"answer\":{\"partition\":%s,\"window\":%d,\"received\":%d,\"count\":%s,"
                        + "\"mean\":%s,\"low\":%s,\"high\":%s,\"at_ms\":%d}}",
                row.getField(1),
                startMs / windowMs,
                received,
                count == null ? received / share : count,
                mean.getField(0),
                mean.getField(1),
                mean.getField(2),
                System.currentTimeMillis()));
        return received;
    }

    /** The number in the first bytes of a value. */
    public static final class NumberOf extends ScalarFunction {
        private static final long serialVersionUID = 1;

        /** The function. */
        public NumberOf() {}

        /**
         * Reads the number.
         *
         * @param value a record's value
         * @return the number
         */
        public @DataTypeHint("DOUBLE") Double eval(@DataTypeHint("BYTES") byte[] value) {
            return ByteBuffer.wrap(value).getDouble();
        }
    }
}
