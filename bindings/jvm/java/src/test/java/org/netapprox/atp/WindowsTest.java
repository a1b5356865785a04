package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Windows arrive with their floor, count once, and are sent again until they are confirmed. */
class WindowsTest {
    private static final long RECORDS = 1_000;

    private static WindowReceiverBuilder receiver() {
        return WindowReceiver.builder()
                .receiver(Receiver.builder().noDaemon().linger(Duration.ofMillis(100)));
    }

    private static WindowSenderBuilder sender() {
        return WindowSender.builder("readings").partition(3).job(Job.builder().noDaemon());
    }

    private static WindowRecord record(long offset) {
        byte[] value = ("reading " + offset).getBytes(StandardCharsets.UTF_8);
        var headers = List.of(
                new WindowRecord.Header("unit", new byte[] {67}),
                new WindowRecord.Header("none", null));
        byte[] key = offset % 2 == 0 ? null : new byte[] {(byte) offset};
        return new WindowRecord(
                offset, OptionalLong.of(offset), key, offset % 100 == 99 ? null : value, headers);
    }

    private static Window next(WindowReceiver receiver) throws IOException, InterruptedException {
        while (true) {
            WindowEvent event = receiver.receive(Pairs.HANGS);
            if (event instanceof WindowEvent.Ended ended) {
                return ended.window();
            }
            assertTrue(event instanceof WindowEvent.Unfinished, "instead of a window: " + event);
        }
    }

    private static long size(List<OffsetRange> ranges) {
        return ranges.stream().mapToLong(OffsetRange::size).sum();
    }

    @Test
    void windowsArriveWithTheirFloor() throws Exception {
        try (WindowReceiver receiver = receiver().bind("127.0.0.1:0");
                WindowSender sender = sender().records(RECORDS).group("sampled", 0.7)
                        .open(receiver.address())) {
            var sent = Pairs.start(() -> {
                for (long offset = 0; offset < 3 * RECORDS; offset++) {
                    sender.send(record(offset), offset % 10 == 0 ? null : "sampled");
                }
                sender.finish();
                return sender.state();
            });
            Set<Long> seen = new HashSet<>();
            for (int number = 0; number < 3; number++) {
                Window window = next(receiver);
                assertEquals(number, window.id().number());
                assertEquals("readings [3]", window.stream().toString());
                assertEquals(RECORDS, window.records());
                assertEquals(RECORDS - window.received(), size(window.lost()));
                for (Window.Sample sample : window.samples()) {
                    check(sample, seen);
                }
                window.confirm();
                assertThrows(IllegalStateException.class, window::confirm);
            }
            WindowSender.State state = sent.result();
            assertEquals(3, state.confirmed());
            assertEquals(OptionalLong.of(3 * RECORDS), state.resumeOffset());
            assertTrue(receiver.receive(Pairs.HANGS) instanceof WindowEvent.StreamEnded);
            assertEquals(3, receiver.stats().windows());
        }
    }

    private static void check(Window.Sample sample, Set<Long> seen) {
        WindowGroup group = sample.group();
        assertEquals(group.name().equals("exact") ? 100 : 900, group.records());
        assertEquals(group.sent(), group.arrived());
        assertEquals(group.arrived(), sample.records().size());
        assertTrue(group.arrived() >= Math.ceil(group.msr() * group.records()));
        assertTrue(group.weight() >= 1);
        for (WindowRecord got : sample.records()) {
            assertTrue(seen.add(got.offset()), "twice: " + got.offset());
            WindowRecord expected = record(got.offset());
            assertArrayEquals(expected.key(), got.key());
            assertArrayEquals(expected.value(), got.value());
            assertEquals(expected.timestampMs(), got.timestampMs());
            assertEquals("unit", got.headers().get(0).name());
            assertArrayEquals(new byte[] {67}, got.headers().get(0).value());
            assertNull(got.headers().get(1).value());
        }
    }

    /** Windows by event time close where the sender's application says so. */
    @Test
    void windowsByTimeCloseByAdvance() throws Exception {
        try (WindowReceiver receiver = receiver().bind("127.0.0.1:0");
                WindowSender sender =
                        sender().length(Duration.ofMillis(10)).open(receiver.address())) {
            // The first window is open as long as nobody says that it is over.
            long[] timesMs = {0, 11, 3, 25};
            for (int offset = 0; offset < timesMs.length; offset++) {
                var time = OptionalLong.of(timesMs[offset]);
                var record = new WindowRecord(offset, time, null, new byte[] {1}, List.of());
                sender.send(record, null);
            }
            assertEquals(0, sender.state().unconfirmed());
            sender.advance(20);
            List<Long> sizes = new ArrayList<>();
            for (long start : new long[] {0, 10}) {
                Window window = next(receiver);
                assertEquals(OptionalLong.of(start), window.startMs());
                assertEquals(OptionalLong.of(start + 10), window.endMs());
                sizes.add(window.records());
                window.confirm();
            }
            assertEquals(List.of(2L, 1L), sizes);
            assertTrue(sender.awaitConfirmed(Pairs.HANGS));
        }
    }

    /** A window that nobody has confirmed is sent again to the next receiver, and counts once. */
    @Test
    void windowsCountOnceAcrossReceivers() throws Exception {
        byte[] counted;
        int port;
        try (WindowReceiver first = receiver().bind("127.0.0.1:0")) {
            port = first.address().getPort();
            try (WindowSender sender = sender().records(10).open(first.address())) {
                for (long offset = 0; offset < 20; offset++) {
                    sender.send(record(offset), null);
                }
                counted = next(first).confirm();
                assertArrayEquals(counted, first.counted());
                next(first);
                assertFalse(sender.awaitConfirmed(Duration.ZERO));
            }
        }
        try (WindowReceiver second = receiver().counted(counted).bind("127.0.0.1:" + port);
                WindowSender sender = sender().records(10).open(second.address())) {
            var sent = Pairs.start(() -> {
                for (long offset = 0; offset < 30; offset++) {
                    sender.send(record(offset), null);
                }
                sender.finish();
                return true;
            });
            assertTrue(second.receive(Pairs.HANGS) instanceof WindowEvent.Repeated);
            for (int number = 1; number < 3; number++) {
                Window window = next(second);
                assertEquals(number, window.id().number());
                assertEquals(0, window.skipped());
                window.confirm();
            }
            assertTrue(sent.result());
        }
    }

    /** A sender that goes on behind a window that the receiver's state lacks: it was lost. */
    @Test
    void skippedOffsetsAreNamed() throws Exception {
        byte[] counted;
        String position;
        try (WindowReceiver first = receiver().bind("127.0.0.1:0");
                WindowSender sender = sender().records(10).open(first.address())) {
            for (long offset = 0; offset < 20; offset++) {
                sender.send(record(offset), null);
            }
            counted = next(first).confirm();
            next(first).confirm();
            assertTrue(sender.awaitConfirmed(Pairs.HANGS));
            position = sender.state().position().orElseThrow();
        }
        try (WindowReceiver second = receiver().counted(counted).bind("127.0.0.1:0");
                WindowSender sender =
                        sender().records(10).position(position).open(second.address())) {
            for (long offset = 20; offset < 30; offset++) {
                sender.send(record(offset), null);
            }
            Window window = next(second);
            assertEquals(2, window.id().number());
            assertEquals(10, window.skipped());
            window.reject();
            // Its sender fails, since it tries no second time.
            assertThrows(IOException.class, sender::flush);
            assertThrows(ClosedException.class, () -> sender.send(record(30), null));
        }
    }

    @Test
    void badInputIsRefused() throws Exception {
        for (WindowSenderBuilder bad : List.of(
                sender(),
                sender().records(0),
                sender().records(5).length(Duration.ofSeconds(1)),
                sender().records(5).watermarkDelay(Duration.ZERO),
                sender().length(Duration.ZERO),
                sender().records(5).msr(1.5),
                sender().records(5).msr(-0.1),
                sender().records(5).msr(Double.NaN),
                sender().records(5).group("exact", 0.5),
                sender().records(5).position("somewhere"),
                sender().records(5).partition(-1))) {
            var e = assertThrows(IllegalArgumentException.class, () -> bad.open("127.0.0.1:9"));
            assertFalse(e.getMessage().isEmpty() || e.getMessage().contains("\n"), e.getMessage());
        }
        assertThrows(IllegalArgumentException.class,
                () -> receiver().counted(new byte[] {1}).bind("127.0.0.1:0"));
        assertThrows(IllegalArgumentException.class,
                () -> receiver().memoryBytesMax(-1).bind("127.0.0.1:0"));
        try (WindowReceiver receiver = receiver().bind("127.0.0.1:0");
                WindowSender sender = sender().records(5).open(receiver.address())) {
            sender.send(record(1), null);
            assertThrows(IllegalArgumentException.class, () -> sender.send(record(1), null));
            assertThrows(IllegalArgumentException.class, () -> sender.send(record(2), "none"));
            assertNull(receiver.receive(Duration.ZERO));
            receiver.close();
            assertThrows(ClosedException.class, receiver::receive);
            assertThrows(ClosedException.class, receiver::stats);
        }
    }
}
