package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.WindowStream;

class StreamWatermarksTest {
    private static final long IDLE = 100;

    private static WindowStream stream(int partition) {
        return new WindowStream("", "", "readings", "", partition);
    }

    private static StreamWatermarks watermarks(int expected) {
        return new StreamWatermarks(expected, IDLE, List.of(), 0);
    }

    private static void window(StreamWatermarks of, int partition, long endMs, long now) {
        of.onWindow(stream(partition), OptionalLong.of(endMs), true, now);
    }

    @Test
    void watermarkMs__waitsForAllExpectedStreams() {
        StreamWatermarks watermarks = watermarks(2);
        window(watermarks, 0, 1_000, 1);
        assertEquals(OptionalLong.empty(), watermarks.watermarkMs());
        window(watermarks, 1, 500, 2);
        assertEquals(OptionalLong.of(499), watermarks.watermarkMs());
    }

    @Test
    void watermarkMs__ofAPartIsThatOfTheWindowBefore() {
        StreamWatermarks watermarks = watermarks(1);
        watermarks.onWindow(stream(0), OptionalLong.of(1_000), false, 1);
        assertEquals(OptionalLong.empty(), watermarks.watermarkMs());
        watermarks.onWindow(stream(0), OptionalLong.of(1_000), true, 2);
        watermarks.onWindow(stream(0), OptionalLong.of(2_000), false, 3);
        assertEquals(OptionalLong.of(999), watermarks.watermarkMs());
    }

    @Test
    void watermarkMs__isNotHeldBackByAnEndedStream() {
        StreamWatermarks watermarks = watermarks(2);
        window(watermarks, 0, 1_000, 1);
        window(watermarks, 1, 500, 1);
        watermarks.onEnded(stream(1), 2);
        assertEquals(OptionalLong.of(999), watermarks.watermarkMs());
        assertFalse(watermarks.haveEnded());
        // Another sender goes on with the stream.
        window(watermarks, 1, 700, 3);
        assertEquals(OptionalLong.of(699), watermarks.watermarkMs());
    }

    @Test
    void watermarkMs__afterARestoreDoesNotWaitForAnEndedStream() {
        StreamWatermarks before = watermarks(2);
        window(before, 0, 1_000, 1);
        window(before, 1, 500, 1);
        before.onEnded(stream(1), 2);
        StreamWatermarks restored = new StreamWatermarks(2, IDLE, before.marks(), 0);
        assertFalse(restored.isWaiting());
        window(restored, 0, 2_000, 1);
        assertEquals(OptionalLong.of(1_999), restored.watermarkMs());
    }

    @Test
    void watermarkMs__isNotHeldBackByAnIdleStream() {
        StreamWatermarks watermarks = watermarks(2);
        window(watermarks, 0, 1_000, 1);
        window(watermarks, 1, 500, 1);
        window(watermarks, 0, 2_000, IDLE);
        watermarks.onQuiet(IDLE);
        assertEquals(OptionalLong.of(499), watermarks.watermarkMs());
        watermarks.onQuiet(IDLE + 1);
        assertEquals(OptionalLong.of(1_999), watermarks.watermarkMs());
        assertFalse(watermarks.isIdle());
    }

    @Test
    void watermarkMs__ofIdleStreamsIsTheGreatest() {
        StreamWatermarks watermarks = watermarks(2);
        window(watermarks, 0, 1_000, 1);
        window(watermarks, 1, 500, 1);
        watermarks.onQuiet(1 + IDLE);
        assertTrue(watermarks.isIdle());
        assertEquals(OptionalLong.of(999), watermarks.watermarkMs());
    }

    @Test
    void watermarkMs__ofWindowsByNumberIsNone() {
        StreamWatermarks watermarks = watermarks(1);
        watermarks.onWindow(stream(0), OptionalLong.empty(), true, 1);
        assertEquals(OptionalLong.empty(), watermarks.watermarkMs());
        watermarks.onEnded(stream(0), 2);
        assertEquals(OptionalLong.empty(), watermarks.watermarkMs());
        assertTrue(watermarks.haveEnded());
    }

    @Test
    void onQuiet__withoutATimeoutMakesNoStreamIdle() {
        StreamWatermarks watermarks = new StreamWatermarks(1, 0, List.of(), 0);
        window(watermarks, 0, 1_000, 1);
        watermarks.onQuiet(Long.MAX_VALUE / 2);
        assertFalse(watermarks.isIdle());
    }

    @Test
    void hasReached__ofALastPartOnly() {
        StreamWatermarks watermarks = watermarks(1);
        assertFalse(watermarks.hasReached(stream(0), 1_000));
        watermarks.onWindow(stream(0), OptionalLong.of(1_000), false, 1);
        assertFalse(watermarks.hasReached(stream(0), 1_000));
        assertFalse(watermarks.hasReached(stream(0), Long.MIN_VALUE));
        window(watermarks, 0, 1_000, 2);
        assertTrue(watermarks.hasReached(stream(0), 1_000));
        assertFalse(watermarks.hasReached(stream(0), 1_001));
        assertFalse(watermarks.hasReached(stream(1), 1_000));
    }

    @Test
    void watermarkMs__ofTheLeastEndIsNone() {
        StreamWatermarks watermarks = watermarks(1);
        window(watermarks, 0, Long.MIN_VALUE, 1);
        assertEquals(OptionalLong.empty(), watermarks.watermarkMs());
    }

    /** Random events: a model that keeps all of them agrees, and so does a restored one. */
    @Test
    void watermarkMs__agreesWithAModel() {
        for (int seed = 0; seed < 500; seed++) {
            Random random = new Random(seed);
            int expected = 1 + random.nextInt(3);
            StreamWatermarks watermarks = watermarks(expected);
            Map<Integer, long[]> model = new HashMap<>(); // end, last time, ended, idle
            long now = 0;
            for (int step = 0; step < 60; step++) {
                now += random.nextInt(40);
                int partition = random.nextInt(4);
                switch (random.nextInt(6)) {
                    case 0 -> {
                        watermarks.onEnded(stream(partition), now);
                        long[] place = model.computeIfAbsent(partition, any -> fresh());
                        place[1] = now;
                        place[2] = 1;
                    }
                    case 1 -> {
                        watermarks.onQuiet(now);
                        for (long[] place : model.values()) {
                            place[3] |= now - place[1] >= IDLE ? 1 : 0;
                        }
                    }
                    default -> {
                        long endMs = random.nextInt(10_000);
                        boolean isLast = random.nextBoolean();
                        OptionalLong end = OptionalLong.of(endMs);
                        watermarks.onWindow(stream(partition), end, isLast, now);
                        long[] place = model.computeIfAbsent(partition, any -> fresh());
                        place[0] = isLast ? Math.max(place[0], endMs - 1) : place[0];
                        place[1] = now;
                        place[2] = 0;
                        place[3] = 0;
                    }
                }
                assertEquals(of(model, expected), watermarks.watermarkMs(), "seed " + seed);
            }
            checkRestored(watermarks, expected, now, seed);
        }
    }

    private static void checkRestored(
            StreamWatermarks before, int expected, long now, int seed) {
        StreamWatermarks restored = new StreamWatermarks(expected, IDLE, before.marks(), now);
        assertEquals(before.seen(), restored.seen(), "seed " + seed);
        assertEquals(before.haveEnded(), restored.haveEnded(), "seed " + seed);
        // Idle streams hold it back again, for a while.
        long beforeMs = before.watermarkMs().orElse(Long.MIN_VALUE);
        assertTrue(restored.watermarkMs().orElse(Long.MIN_VALUE) <= beforeMs, "seed " + seed);
        restored.onQuiet(now + IDLE);
        before.onQuiet(now + IDLE);
        assertEquals(before.watermarkMs(), restored.watermarkMs(), "seed " + seed);
    }

    private static long[] fresh() {
        return new long[] {StreamMark.NONE, 0, 0, 0};
    }

    private static OptionalLong of(Map<Integer, long[]> model, int expected) {
        if (model.size() < expected) {
            return OptionalLong.empty();
        }
        OptionalLong least =
                model.values().stream()
                        .filter(place -> place[2] == 0 && place[3] == 0)
                        .mapToLong(place -> place[0])
                        .min();
        long greatest = model.values().stream().mapToLong(place -> place[0]).max().orElseThrow();
        long watermarkMs = least.orElse(greatest);
        return watermarkMs == StreamMark.NONE
                ? OptionalLong.empty()
                : OptionalLong.of(watermarkMs);
    }
}
