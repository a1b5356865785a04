package org.netapprox.atp.flink.table;

import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.types.DataType;
import org.netapprox.atp.WindowGroup;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.flink.WindowSummary;

/** The metadata columns of a table that is read. */
enum SampleMetadata {
    N("atp_n", DataTypes.BIGINT().notNull(), (r, g, w) -> g.records()),
    DELIVERED("atp_delivered", DataTypes.BIGINT().notNull(), (r, g, w) -> g.arrived()),
    WEIGHT("atp_weight", DataTypes.DOUBLE().notNull(), (r, g, w) -> g.weight()),
    WINDOW(
            "atp_window",
            DataTypes.ROW(
                            DataTypes.FIELD("window_number", DataTypes.BIGINT().notNull()),
                            DataTypes.FIELD("window_part", DataTypes.BIGINT().notNull()),
                            DataTypes.FIELD("window_start", DataTypes.TIMESTAMP_LTZ(3)),
                            DataTypes.FIELD("window_end", DataTypes.TIMESTAMP_LTZ(3)))
                    .notNull(),
            (r, g, w) -> GenericRowData.of(w.number, w.part, time(w.startMs), time(w.endMs))),
    GROUP("atp_group", DataTypes.STRING().notNull(), (r, g, w) -> StringData.fromString(g.name())),
    STRATUM("atp_stratum", DataTypes.STRING(), (r, g, w) -> stratum(g, w)),
    OFFSET("atp_offset", DataTypes.BIGINT().notNull(), (r, g, w) -> r.offset()),
    TOPIC("atp_topic", DataTypes.STRING().notNull(), (r, g, w) -> StringData.fromString(w.topic)),
    PARTITION("atp_partition", DataTypes.BIGINT().notNull(), (r, g, w) -> w.partition),
    TIMESTAMP(
            "atp_timestamp",
            DataTypes.TIMESTAMP_LTZ(3),
            (r, g, w) -> r.timestampMs().isEmpty() ? null : time(r.timestampMs().getAsLong()));

    final String key;
    final DataType type;
    final Reader reader;

    SampleMetadata(String key, DataType type, Reader reader) {
        this.key = key;
        this.type = type;
        this.reader = reader;
    }

    /** Reads a column of a record, in Flink's internal form. */
    @FunctionalInterface
    interface Reader extends Serializable {
        Object read(WindowRecord record, WindowGroup group, WindowSummary window);
    }

    static Map<String, DataType> all() {
        Map<String, DataType> all = new LinkedHashMap<>();
        for (SampleMetadata column : values()) {
            all.put(column.key, column.type);
        }
        return all;
    }

    static SampleMetadata of(String key) {
        for (SampleMetadata column : values()) {
            if (column.key.equals(key)) {
                return column;
            }
        }
        throw new IllegalArgumentException("there is no metadata column " + key);
    }

    private static TimestampData time(Long timeMs) {
        return timeMs == null ? null : TimestampData.fromEpochMillis(timeMs);
    }

    /** Null where records that arrived are no random sample: any of them may have got lost. */
    private static StringData stratum(WindowGroup group, WindowSummary window) {
        if (group.msr() == 0) {
            return null;
        }
        return StringData.fromString(
                String.join(
                        "/",
                        escaped(window.cluster),
                        escaped(window.consumerGroup),
                        escaped(window.topic),
                        escaped(window.topicId),
                        Long.toString(window.partition),
                        Long.toString(window.number),
                        Long.toString(window.part),
                        Integer.toString(group.id())));
    }

    /** Without the separator, so that two samples never have the same text. */
    private static String escaped(String name) {
        return name.replace("%", "%25").replace("/", "%2F");
    }
}
