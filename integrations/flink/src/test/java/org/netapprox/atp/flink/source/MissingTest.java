package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.WindowStream;

class MissingTest {
    private static final long LIMIT = TimeUnit.SECONDS.toNanos(30);
    private static final long LATE = 100 * LIMIT;
    private static final String ADDRESS = "127.0.0.1:1";
    private static final ListenSplit RESTORED =
            new ListenSplit(
                    ADDRESS,
                    new byte[0],
                    List.of(new StreamMark(stream(0), 1, false)));

    private final StreamWatermarks streams = new StreamWatermarks(2, 0, List.of(), 0);

    private static WindowStream stream(int partition) {
        return new WindowStream("", "", "t", "", partition);
    }

    private static Missing missing(boolean isBounded, long senderNanos, ListenSplit split) {
        SourceOptions options =
                new SourceOptions(
                        List.of(ADDRESS), List.of(), 2, 9, 0, senderNanos, 1, isBounded, "", null);
        return new Missing(options, split, 0);
    }

    @Test
    void check__failsAtTheLimit() throws IOException {
        Missing missing = missing(false, LIMIT, ListenSplit.begin(ADDRESS));
        missing.check(streams, LIMIT - 1);
        var error = assertThrows(IOException.class, () -> missing.check(streams, LIMIT));
        assertEquals(
                "no window has come to 127.0.0.1:1 in 30.0 s: check that a sender sends to this"
                        + " address, that the source admits it, and that UDP reaches it, or set a"
                        + " longer senderTimeout",
                error.getMessage());
    }

    @Test
    void check__countsFromTheRestart() throws IOException {
        Missing missing = missing(false, LIMIT, ListenSplit.begin(ADDRESS));
        missing.restart(LIMIT);
        missing.check(streams, 2 * LIMIT - 1);
        assertThrows(IOException.class, () -> missing.check(streams, 2 * LIMIT));
    }

    @Test
    void check__afterAWindowDoesNotFail() throws IOException {
        Missing missing = missing(false, LIMIT, ListenSplit.begin(ADDRESS));
        missing.onWindow(1);
        missing.check(streams, LATE);
    }

    @Test
    void check__ofABoundedSourceNamesTheStreamThatHasNotEnded() throws IOException {
        Missing missing = missing(true, LIMIT, RESTORED);
        streams.onSeen(stream(1), 1);
        streams.onSeen(stream(0), 1);
        missing.onWindow(1);
        streams.onEnded(stream(0), 2);
        missing.onEnded(2);
        missing.check(streams, LIMIT + 1);
        var error = assertThrows(IOException.class, () -> missing.check(streams, LIMIT + 2));
        assertEquals(
                "the stream t [1] hasn't ended, and nothing has come to 127.0.0.1:1 in 30.0 s:"
                        + " start its sender again if it has failed, start the source and its"
                        + " senders anew if it ended after the source's checkpoint, or set a longer"
                        + " senderTimeout",
                error.getMessage());
    }

    @Test
    void check__ofABoundedSourceCountsTheStreamsThatHaveCome() {
        Missing missing = missing(true, LIMIT, ListenSplit.begin(ADDRESS));
        streams.onEnded(stream(0), 1);
        missing.onWindow(1);
        var error = assertThrows(IOException.class, () -> missing.check(streams, LATE));
        assertEquals(
                "only 1 of 2 streams have come, and nothing has come to 127.0.0.1:1 in 30.0 s:"
                        + " start the senders of the others, expect fewer streams, or set a longer"
                        + " senderTimeout",
                error.getMessage());
    }

    /** Neither the time without room at the task counts, nor that of a window that it emits. */
    @Test
    void check__leavesOutTheTimeOfASlowTask() throws IOException {
        Missing missing = missing(true, LIMIT, ListenSplit.begin(ADDRESS));
        streams.onSeen(stream(0), 1);
        missing.onWindow(1);
        missing.leaveOut(LATE);
        missing.check(streams, LATE + LIMIT);
        missing.onUnconfirmed(LATE + LIMIT);
        missing.check(streams, LATE + 2 * LIMIT - 1);
        assertThrows(IOException.class, () -> missing.check(streams, LATE + 2 * LIMIT));
    }

    @Test
    void check__withoutALimitDoesNotFail() throws IOException {
        missing(true, 0, ListenSplit.begin(ADDRESS)).check(streams, LATE);
    }

    @Test
    void check__afterARestoreFailsABoundedSourceOnly() throws IOException {
        missing(false, LIMIT, RESTORED).check(streams, LATE);
        Missing bounded = missing(true, LIMIT, RESTORED);
        assertThrows(IOException.class, () -> bounded.check(streams, LATE));
    }
}
