package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class HoldPaceTest {
    private static final long LOG_BYTES_MAX = 1 << 20;

    @Test
    void pauseNanos__leavesTwoIntervalsForTheOtherHalf() {
        HoldPace pace = new HoldPace(LOG_BYTES_MAX, 500);
        assertFalse(pace.isSlow(LOG_BYTES_MAX / 2));
        assertTrue(pace.isSlow(LOG_BYTES_MAX / 2 + 1));
        long pauses = 0;
        for (long bytes = 0; bytes < LOG_BYTES_MAX / 2; bytes += 1 << 10) {
            pauses += pace.pauseNanos(1 << 10);
        }
        assertEquals(1e9, pauses, 1e3);
    }

    @Test
    void isSlow__neverWithoutAnInterval() {
        assertFalse(new HoldPace(LOG_BYTES_MAX, 0).isSlow(LOG_BYTES_MAX));
    }
}
