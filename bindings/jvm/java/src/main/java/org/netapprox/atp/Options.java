package org.netapprox.atp;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * The options that were set, under their names in the native library's table. It checks their
 * ranges when a job or a receiver is opened.
 */
final class Options {
    private final List<String> texts = new ArrayList<>();

    void set(String name, Object value) {
        texts.add(name);
        texts.add(Objects.requireNonNull(value, name).toString());
    }

    /** A number, which the native library would take for a name if it's out of the range. */
    void setId(String name, long id) {
        if (id != (id & 0xFFFF_FFFFL)) {
            throw new IllegalArgumentException(
                    "a job's id must be from 0 to 4294967295, not " + id);
        }
        set(name, Long.valueOf(id));
    }

    /** Durations are nanoseconds. Those of more than 292 years are no limit either. */
    void set(String name, Duration value) {
        long nanos;
        try {
            nanos = value.toNanos();
        } catch (ArithmeticException e) {
            nanos = value.isNegative() ? -1 : Long.MAX_VALUE;
        }
        set(name, Long.valueOf(nanos));
    }

    String[] texts() {
        return texts.toArray(new String[0]);
    }
}
