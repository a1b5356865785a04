package org.netapprox.atp.flink.sink;

import java.util.Arrays;
import java.util.Objects;
import org.netapprox.atp.WindowRecord;

/** A call of a stream's sender. The same calls cut the same windows again. */
sealed interface Step {
    /** Memory besides the bytes of a record. */
    int OVERHEAD_BYTES = 96;

    /** The memory of its record, roughly. Steps without one don't add up. */
    default long bytes() {
        return 0;
    }

    /** Gives a record. */
    record Push(WindowRecord record, String group) implements Step {
        @Override
        public long bytes() {
            long bytes = OVERHEAD_BYTES + length(record.key()) + length(record.value());
            for (WindowRecord.Header header : record.headers()) {
                bytes += OVERHEAD_BYTES + header.name().length() + length(header.value());
            }
            return bytes;
        }

        private static long length(byte[] bytes) {
            return bytes == null ? 0 : bytes.length;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Push push
                    && Objects.equals(group, push.group)
                    && record.offset() == push.record.offset()
                    && record.timestampMs().equals(push.record.timestampMs())
                    && Arrays.equals(record.key(), push.record.key())
                    && Arrays.equals(record.value(), push.record.value())
                    && haveSameHeaders(record, push.record);
        }

        @Override
        public int hashCode() {
            return Long.hashCode(record.offset());
        }

        private static boolean haveSameHeaders(WindowRecord a, WindowRecord b) {
            if (a.headers().size() != b.headers().size()) {
                return false;
            }
            for (int at = 0; at < a.headers().size(); at++) {
                WindowRecord.Header one = a.headers().get(at);
                WindowRecord.Header other = b.headers().get(at);
                if (!one.name().equals(other.name())
                        || !Arrays.equals(one.value(), other.value())) {
                    return false;
                }
            }
            return true;
        }
    }

    /** Closes the windows that end at or before a time. */
    record Advance(long timeMs) implements Step {}

    /** Closes all windows. */
    record CloseAll() implements Step {}
}
