package org.netapprox.atp.flink.sink;

import java.io.IOException;
import java.util.List;
import org.netapprox.atp.WindowRecord;

/**
 * The bytes of a record.
 *
 * @param key the key; null without one
 * @param value the value; null for a tombstone
 * @param headers names and values of the headers
 * @param group the group; null for the others
 */
record RecordBytes(
        byte[] key, byte[] value, List<WindowRecord.Header> headers, String group) {
    static <T> RecordBytes of(T element, SinkOptions<T> options) throws IOException {
        var serializer = options.serializer();
        List<WindowRecord.Header> headers = List.copyOf(serializer.headers(element));
        String group = options.groupOf() == null ? null : options.groupOf().apply(element);
        var bytes =
                new RecordBytes(
                        serializer.key(element), serializer.value(element), headers, group);
        if (bytes.length() > SinkOptions.RECORD_BYTES_MAX) {
            throw new IOException(
                    "a record of the sink \"" + options.topic() + "\" has " + bytes.length()
                            + " bytes, and there can be " + SinkOptions.RECORD_BYTES_MAX
                            + ": split it before the sink");
        }
        if (group != null && !options.groups().containsKey(group)) {
            throw new IOException(
                    "a record of the sink \"" + options.topic() + "\" has the group \"" + group
                            + "\", and there are " + options.groups().keySet()
                            + ": add it with group");
        }
        return bytes;
    }

    long length() {
        long length = length(key) + length(value);
        for (WindowRecord.Header header : headers) {
            length += header.name().length() * 3L + length(header.value());
        }
        return length;
    }

    private static long length(byte[] bytes) {
        return bytes == null ? 0 : bytes.length;
    }
}
