package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class ReleaseWatchTest {
    private static final long BEGIN_MS = 7;
    private static final long END_MS = BEGIN_MS + ReleaseWatch.WARN_AFTER_MS;

    private final ReleaseWatch watch = new ReleaseWatch();

    @Test
    void isOverdue__warnsOnce() {
        assertFalse(watch.isOverdue(0, false));
        assertFalse(watch.isOverdue(BEGIN_MS, true));
        assertFalse(watch.isOverdue(END_MS - 1, true));
        assertTrue(watch.isOverdue(END_MS, true));
        assertFalse(watch.isOverdue(END_MS + 1, true));
        assertFalse(watch.isOverdue(3 * END_MS, true));
    }

    @Test
    void isOverdue__isFalseBehindARelease() {
        assertFalse(watch.isOverdue(BEGIN_MS, true));
        watch.onRelease();
        assertFalse(watch.isOverdue(END_MS, true));
    }

    @Test
    void isOverdue__countsFromTheFirstHeldRecord() {
        assertFalse(watch.isOverdue(BEGIN_MS, true));
        assertFalse(watch.isOverdue(END_MS - 1, false));
        assertFalse(watch.isOverdue(END_MS, true));
    }
}
