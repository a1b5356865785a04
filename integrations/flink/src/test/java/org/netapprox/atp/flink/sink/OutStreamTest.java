package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.Predicate;
import org.apache.flink.core.io.SimpleVersionedSerialization;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.Window;
import org.netapprox.atp.flink.AtpSink;
import org.netapprox.atp.flink.AtpSinkBuilder;
import org.netapprox.atp.flink.BeginAll;

/** A stream and its receiver, without a cluster. */
class OutStreamTest {
    private static final int WINDOW_MS = 100;

    private final StreamStateSerializer serializer = new StreamStateSerializer();

    private static AtpSinkBuilder<Long> sink(TestReceiver receiver) {
        return AtpSink.<Long>builder("numbers", SinkJob::bytes)
                .peers(receiver.address())
                .length(Duration.ofMillis(WINDOW_MS))
                .noDaemon();
    }

    private static OutStream create(AtpSinkBuilder<Long> sink) {
        return create(sink, false);
    }

    private static OutStream create(AtpSinkBuilder<Long> sink, boolean holds) {
        return OutStream.create(sink.build().options(), holds, "job", 0, 0);
    }

    private static void write(OutStream stream, long number, long timeMs) throws Exception {
        stream.write(OptionalLong.of(timeMs), null, SinkJob.bytes(number), List.of(), null);
    }

    private static void advance(OutStream stream, long timeMs) throws Exception {
        stream.log().advance(timeMs);
        stream.send();
    }

    private OutStream restore(AtpSinkBuilder<Long> sink, OutStream from) throws Exception {
        byte[] bytes =
                SimpleVersionedSerialization.writeVersionAndSerialize(serializer, from.state());
        StreamState state =
                SimpleVersionedSerialization.readVersionAndDeSerialize(serializer, bytes);
        return OutStream.restore(sink.build().options(), false, state);
    }

    private static void checkNumbers(TestReceiver receiver, long count) {
        var ids = TestReceiver.ids(receiver.windows(), "exact");
        assertEquals(count, ids.size());
        assertTrue(ids.values().stream().allMatch(times -> times == 1), ids::toString);
        assertEquals(count, receiver.records());
    }

    private static void await(OutStream stream, Predicate<OutStream> holds) throws Exception {
        stream.refresh();
        while (!holds.test(stream)) {
            stream.check();
            Thread.sleep(1);
            stream.refresh();
        }
    }

    @Test
    void write__putsALateRecordIntoTheOldestOpenWindow() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind();
                OutStream stream = create(sink(receiver))) {
            write(stream, 0, 5);
            advance(stream, WINDOW_MS);
            write(stream, 1, 150);
            write(stream, 2, 7);
            stream.finish();
            List<Window> windows = receiver.windows();
            assertEquals(List.of(1L, 2L), windows.stream().map(Window::records).toList());
            assertEquals(List.of(0L, 1L), windows.stream().map(Window::late).toList());
        }
    }

    /** A stream may begin after the writer's watermark has passed many windows. */
    @Test
    void write__knowsThatTheFirstRecordIsLate() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind();
                OutStream stream = create(sink(receiver))) {
            advance(stream, 3 * WINDOW_MS);
            write(stream, 0, 5);
            stream.finish();
            // The watermark itself makes an empty window.
            List<Window> windows = receiver.windows();
            assertEquals(List.of(0L, 1L), windows.stream().map(Window::records).toList());
            Window window = windows.get(1);
            assertEquals(1, window.late());
            assertEquals(3 * WINDOW_MS, window.startMs().getAsLong());
        }
    }

    @Test
    void finish__tellsOfAStreamWithoutRecords() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind();
                OutStream stream = create(BeginAll.streams(sink(receiver)))) {
            stream.finish();
            receiver.await(all -> all.ended() == 1);
            Window window = receiver.windows().get(0);
            assertEquals(0, window.records());
            assertTrue(window.isLastPart());
        }
    }

    /** From every state behind a record: nothing counts twice, and nothing is missing. */
    @Test
    void restore__sendsEachRecordOnce() throws Exception {
        int count = 12;
        for (int stop = 0; stop <= count; stop++) {
            try (TestReceiver receiver = TestReceiver.bind()) {
                AtpSinkBuilder<Long> sink = sink(receiver);
                OutStream first = create(sink);
                long[] times = {5, 120, 30, 130, 250, 140, 260, 330, 10, 450, 560, 561};
                for (int number = 0; number < stop; number++) {
                    write(first, number, times[number]);
                    advance(first, times[number] - 30);
                }
                OutStream second = restore(sink, first);
                // The first one goes on until the second one begins: a crash isn't noticed at once.
                for (int number = stop; number < count - 1; number++) {
                    write(first, number, times[number]);
                    advance(first, times[number] - 30);
                }
                first.close();
                second.send();
                for (int number = stop; number < count; number++) {
                    write(second, number, times[number]);
                    advance(second, times[number] - 30);
                }
                second.finish();
                second.close();
                checkNumbers(receiver, count);
            }
        }
    }

    @Test
    void state__dropsWhatIsConfirmed() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind();
                OutStream stream = create(sink(receiver))) {
            for (int number = 0; number < 10; number++) {
                write(stream, number, 50L * number);
            }
            assertEquals(0, stream.state().firstOffset());
            advance(stream, 4 * WINDOW_MS);
            await(stream, all -> all.confirmed() == 4);
            assertEquals(8, stream.state().firstOffset());
            var steps = stream.state().steps();
            assertEquals(2, steps.stream().filter(Step.Push.class::isInstance).count());
            assertTrue(stream.state().position().startsWith("8 "), stream.state().position());
            stream.finish();
            assertEquals(0, stream.log().bytes());
        }
    }

    /** Windows are open, and no watermark comes. */
    @Test
    void makeRoom__closesWindowsEarlyIfNoneIsDue() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind();
                OutStream stream = create(sink(receiver))) {
            write(stream, 0, 5);
            write(stream, 1, 105);
            stream.makeRoom();
            assertEquals(0, stream.log().bytes());
            write(stream, 2, 106);
            OutStream again = restore(sink(receiver), stream);
            stream.close();
            again.finish();
            again.close();
            checkNumbers(receiver, 3);
        }
    }

    @Test
    void makeRoom__waitsForConfirmations() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind();
                OutStream stream = create(sink(receiver))) {
            receiver.pause(true);
            write(stream, 0, 5);
            advance(stream, WINDOW_MS);
            write(stream, 1, 105);
            Thread makes = new Thread(() -> receiver.pause(false));
            makes.start();
            stream.makeRoom();
            makes.join();
            assertEquals(1, stream.state().firstOffset());
        }
    }

    @Test
    void makeRoom__refusesToHoldTooMuch() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind();
                OutStream stream = create(sink(receiver), true)) {
            write(stream, 0, 5);
            var refused = assertThrows(IOException.class, stream::makeRoom);
            assertTrue(refused.getMessage().contains("raise logBytesMax"), refused.getMessage());
        }
    }

    @Test
    void finish__saysWhichReceiverIsAway() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind()) {
            receiver.close();
            try (OutStream stream = create(sink(receiver).retry(Duration.ofMillis(200)))) {
                write(stream, 0, 5);
                var failure = assertThrows(IOException.class, stream::finish);
                String sentence = failure.getMessage();
                assertTrue(sentence.contains(receiver.address()), sentence);
                assertTrue(sentence.contains("tried for 0.2 s"), sentence);
            }
        }
    }

    @Test
    void finish__noticesAnInterrupt() throws Exception {
        try (TestReceiver receiver = TestReceiver.bind();
                OutStream stream = create(sink(receiver))) {
            receiver.pause(true);
            write(stream, 0, 5);
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, stream::finish);
            receiver.pause(false);
        }
    }
}
