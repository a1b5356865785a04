package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class StreamLogTest {
    private static final StreamId ID = new StreamId("readings", "id", 0, "host:1");

    private static void push(StreamLog log, long timeMs) {
        log.push(OptionalLong.of(timeMs), null, new byte[100], List.of(), null);
    }

    /** The steps in words: offsets of records, watermarks behind {@code <}, and closings. */
    private static String words(List<Step> steps) {
        List<String> words = new ArrayList<>();
        for (Step step : steps) {
            if (step instanceof Step.Push push) {
                words.add("" + push.record().offset());
            } else if (step instanceof Step.Advance advance) {
                words.add("<" + advance.timeMs());
            } else {
                words.add("close");
            }
        }
        return String.join(" ", words);
    }

    private static String sendAll(StreamLog log) {
        List<Step> steps = new ArrayList<>();
        for (Step step = log.next(); step != null; step = log.next()) {
            steps.add(step);
        }
        return words(steps);
    }

    @Test
    void trim__keepsWhatFollowsTheLastConfirmedRecord() {
        StreamLog log = new StreamLog(10, false);
        push(log, 1);
        log.advance(10);
        push(log, 11);
        log.advance(20);
        push(log, 21);
        assertEquals("0 <10 1 <20 2", sendAll(log));
        long bytes = log.bytes();
        log.trim(2);
        assertEquals("<20 2", words(log.steps()));
        assertEquals(2, log.firstOffset());
        assertEquals(bytes / 3, log.bytes());
        log.trim(3);
        assertEquals(0, log.bytes());
        assertEquals(3, log.firstOffset());
        log.trim(3);
        push(log, 31);
        assertEquals("3", words(log.steps()));
    }

    /** Before the first window is confirmed, nothing is. */
    @Test
    void trim__keepsAllFromTheFirstRecordOn() {
        StreamLog log = new StreamLog(10, false);
        log.advance(5);
        push(log, 1);
        sendAll(log);
        log.trim(0);
        assertEquals("<5 0", words(log.steps()));
    }

    @Test
    void advance__keepsWatermarksThatMayCloseAWindow() {
        StreamLog log = new StreamLog(10, false);
        push(log, 1);
        for (long timeMs = 0; timeMs < 35; timeMs++) {
            log.advance(timeMs);
        }
        log.advance(12);
        assertEquals("0 <30", words(log.steps()));
        sendAll(log);
        log.advance(40);
        log.advance(50);
        assertEquals("0 <50", words(log.steps()));
        assertEquals("<50", sendAll(log));
        StreamLog byNumber = new StreamLog(0, false);
        byNumber.advance(10);
        assertTrue(byNumber.steps().isEmpty());
    }

    @Test
    void advanceToEnd__closesTheWindowOfTheLatestRecord() {
        StreamLog log = new StreamLog(10, false);
        log.advanceToEnd(false);
        push(log, 19);
        push(log, 3);
        log.advanceToEnd(false);
        log.advanceToEnd(true);
        assertEquals("0 1 <20", words(log.steps()));
        StreamLog empty = new StreamLog(10, false);
        empty.advanceToEnd(true);
        assertEquals(1, empty.steps().size());
        StreamLog byNumber = new StreamLog(0, false);
        push(byNumber, 19);
        byNumber.advanceToEnd(false);
        assertEquals("0", words(byNumber.steps()));
    }

    @Test
    void release__makesReadyWhatTheCheckpointHas() {
        StreamLog log = new StreamLog(10, true);
        push(log, 1);
        log.advance(10);
        log.mark(1);
        // The checkpoint has the watermark of before.
        log.advance(20);
        push(log, 21);
        log.mark(2);
        push(log, 22);
        assertNull(log.next());
        log.release(1);
        assertEquals("0 <10", sendAll(log));
        assertTrue(log.isHolding());
        log.release(2);
        assertEquals("<20 1", sendAll(log));
        log.release(9);
        assertEquals("", sendAll(log));
        assertEquals("0 <10 <20 1 2", words(log.steps()));
        log.releaseAll();
        assertEquals("2", sendAll(log));
        assertFalse(log.isHolding());
        log.mark(3);
        log.release(3);
        assertEquals("", sendAll(log));
    }

    @Test
    void restore__isReadyAndGoesOnWithTheNextOffset() {
        StreamLog log = new StreamLog(10, true);
        push(log, 1);
        push(log, 2);
        log.advance(10);
        log.releaseAll();
        sendAll(log);
        log.trim(1);
        var state = new StreamState(ID, "position", log.firstOffset(), log.steps());
        StreamLog again = StreamLog.restore(10, true, state);
        assertEquals(log.bytes(), again.bytes());
        assertEquals("1 <10", sendAll(again));
        again.advance(10);
        push(again, 3);
        assertEquals("1 <10 2", words(again.steps()));
        assertNull(again.next());
    }
}
