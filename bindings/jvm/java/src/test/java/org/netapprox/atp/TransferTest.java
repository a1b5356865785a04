package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** What was sent arrives, and both ends tell the same. */
class TransferTest {
    @Test
    void exactMessagesArriveInOrder() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().connect(receiver.address())) {
            for (int i = 0; i < 200; i++) {
                assertEquals(i, job.send(("message " + i).getBytes(StandardCharsets.UTF_8)));
            }
            var report = Pairs.start(job::finish);
            List<Event> events = Pairs.untilFinished(receiver);
            List<Event.Message> messages = Pairs.messages(events);
            assertEquals(200, messages.size());
            for (int i = 0; i < 200; i++) {
                Event.Message message = messages.get(i);
                assertEquals("message " + i, StandardCharsets.UTF_8.decode(message.data()).toString());
                assertEquals(i, message.message());
                assertEquals(job.id(), message.job());
            }
            Summary summary = Pairs.finished(events).summary();
            assertTrue(summary.complete());
            assertEquals(List.of(new GroupSummary(0, 200, 200, 200, List.of())), summary.groups());
            GroupReport group = report.result().groups().get(0);
            assertEquals(200, group.delivered());
            assertEquals(1.0, group.msr());
            assertEquals(200, job.progress().messages());
        }
    }

    /** Each way to send, with messages of random lengths, also empty ones. */
    @Test
    void everyWayToSendHasTheSameBytes() throws Exception {
        long seed = new Random().nextLong();
        Random random = new Random(seed);
        List<byte[]> sent = new ArrayList<>();
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().connect(receiver.address())) {
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            CountDownLatch released = new CountDownLatch(4);
            for (int round = 0; round < 4; round++) {
                byte[] one = bytes(random, random.nextInt(3_000));
                assertEquals(sent.size(), job.send(one));
                sent.add(one);

                List<ByteBuffer> many = new ArrayList<>();
                for (int i = 0; i < 1 + random.nextInt(2_000); i++) {
                    byte[] message = bytes(random, random.nextInt(700));
                    ByteBuffer buffer =
                            random.nextBoolean()
                                    ? ByteBuffer.wrap(message)
                                    : direct(List.of(message));
                    many.add(buffer);
                    sent.add(message);
                }
                job.sendMany(0, many);
                many.forEach(buffer -> assertFalse(buffer.hasRemaining()));

                List<byte[]> packed = new ArrayList<>();
                for (int i = 0; i < 1_500; i++) {
                    packed.add(bytes(random, random.nextInt(300)));
                }
                ByteBuffer buffer = direct(packed);
                int[] lengths = packed.stream().mapToInt(message -> message.length).toArray();
                assertEquals(sent.size(), job.sendMany(0, buffer, lengths));
                assertFalse(buffer.hasRemaining());
                sent.addAll(packed);

                byte[] equal = bytes(random, 64 * 100);
                assertEquals(sent.size(), job.sendMany(0, direct(List.of(equal)), 64));
                for (int i = 0; i < 100; i++) {
                    sent.add(java.util.Arrays.copyOfRange(equal, i * 64, i * 64 + 64));
                }

                byte[] owned = bytes(random, random.nextInt(200_000));
                assertEquals(
                        sent.size(),
                        job.sendOwned(0, direct(List.of(owned)), released::countDown));
                sent.add(owned);
            }
            job.finish();
            List<Event.Message> messages = Pairs.messages(events.result());
            assertEquals(sent.size(), messages.size(), "seed " + seed);
            for (int i = 0; i < sent.size(); i++) {
                ByteBuffer expected = ByteBuffer.wrap(sent.get(i));
                assertEquals(expected, messages.get(i).data(), "message " + i + ", seed " + seed);
            }
            assertTrue(released.await(Pairs.HANGS.toSeconds(), TimeUnit.SECONDS));
        }
    }

    /** Messages longer than the batch, and batches that are filled again and again. */
    @Test
    void batchesGrowAndAreUsedAgain() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().connect(receiver.address())) {
            byte[] longMessage = new byte[100_000];
            longMessage[99_999] = 7;
            for (int i = 0; i < 20; i++) {
                job.send(new byte[] {(byte) i});
            }
            job.send(longMessage);
            job.send(new byte[] {20});
            var report = Pairs.start(job::finish);
            Batch batch = Batch.ofBytes(4_096);
            int messages = 0;
            boolean isOver = false;
            while (!isOver) {
                assertTrue(receiver.recvBatch(batch, Pairs.HANGS));
                for (Event event : batch.events()) {
                    if (event instanceof Event.Message message) {
                        assertTrue(message.data().isDirect());
                        if (message.message() == 20) {
                            assertEquals(ByteBuffer.wrap(longMessage), message.data());
                        } else {
                            assertEquals(Math.min(20, message.message()), message.data().get(0));
                        }
                        messages++;
                    }
                    isOver |= event instanceof Event.Finished;
                }
            }
            assertEquals(22, messages);
            report.result();
            assertFalse(receiver.recvBatch(batch, Duration.ZERO));
            assertTrue(batch.events().isEmpty());
            assertNull(receiver.recv(Duration.ZERO));
        }
    }

    @Test
    void groupsTellTheirTermsAndOutcomes() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job =
                        Pairs.options()
                                .id("groups")
                                .nameLost(true)
                                .groups(
                                        new Group(0).name("exact"),
                                        new Group(7)
                                                .msr(0.5)
                                                .messages(40)
                                                .order(Order.shuffledAmong(1_024))
                                                .name("half"))
                                .connect(receiver.address())) {
            for (int i = 0; i < 10; i++) {
                job.send(0, ByteBuffer.wrap(new byte[4]));
            }
            for (int i = 0; i < 40; i++) {
                job.send(7, ByteBuffer.wrap(new byte[4]));
            }
            var report = Pairs.start(job::finish);
            List<Event> events = Pairs.untilFinished(receiver);
            var started =
                    events.stream()
                            .filter(event -> event instanceof Event.Started)
                            .map(event -> ((Event.Started) event).terms())
                            .findFirst();
            // A job that is over before its terms arrive gives none.
            started.ifPresent(
                    terms -> {
                        assertEquals("exact", terms.groups().get(0).name());
                        GroupTerms half = terms.groups().get(1);
                        assertEquals(7, half.group());
                        assertEquals(OptionalLong.of(40), half.messages());
                        assertEquals(0.5, half.msr());
                        assertEquals(Order.shuffledAmong(1_024), half.order());
                    });
            List<GroupReport> groups = report.result().groups();
            assertEquals(20, groups.get(1).needed());
            assertTrue(groups.get(1).delivered() >= 20);
            GroupSummary summary = Pairs.finished(events).summary().groups().get(1);
            assertEquals(new LostIds.Known(summary.lost()), groups.get(1).lostIds());
            assertEquals(summary.delivered(), groups.get(1).delivered());
        }
    }

    @Test
    void windowsEndOneByOne() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().overlapWindows(true).connect(receiver.address())) {
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            for (int window = 0; window < 3; window++) {
                for (int i = 0; i <= window; i++) {
                    assertEquals(i, job.send(new byte[] {(byte) window}));
                }
                WindowReport report = job.endWindow();
                assertEquals(window, report.window());
                assertTrue(report.complete());
                assertEquals(window + 1, report.groups().get(0).messages());
            }
            job.send(new byte[1]);
            job.beginEndWindow();
            assertEquals(3, job.nextWindow().window());
            assertNull(job.nextWindow());
            Report report = job.finish();
            assertTrue(report.windows() >= 4, report.toString());
            List<Long> ended = new ArrayList<>();
            for (Event event : events.result()) {
                if (event instanceof Event.WindowEnded end) {
                    ended.add(end.summary().window());
                }
            }
            assertEquals(List.of(0L, 1L, 2L), ended.subList(0, 3));
        }
    }

    @Test
    void theReceiverEndsAJobAndChangesItsRate() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job =
                        Pairs.options()
                                .msr(0.5)
                                .requests(RequestPolicy.within(0.25, 0.75, true))
                                .connect(receiver.address())) {
            for (int i = 0; i < 50; i++) {
                job.send(new byte[8]);
            }
            Event first = receiver.recv();
            // Requests to runs that nobody has are no error.
            receiver.requestEnd(1L << 40);
            receiver.requestMsr(-1, 255, 1);
            assertTrue(receiver.stats().messages() > 0);
            List<SourceProgress> progress = receiver.progress();
            assertEquals(first.run(), progress.get(0).run());
            assertTrue(progress.get(0).groups().get(0).delivered() > 0);
            receiver.requestMsr(first.run(), 0, 0.9);
            double msr = 0;
            while (msr != 0.75) {
                if (receiver.recv() instanceof Event.TermsChanged changed) {
                    msr = changed.terms().groups().get(0).msr();
                }
            }
            receiver.requestEnd(first.run());
            Pairs.untilFinished(receiver);
            Report report = job.finish();
            assertTrue(report.endedByReceiver());
            assertTrue(report.requests() >= 2);
        }
    }

    @Test
    void trySendNeverWaits() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job =
                        Pairs.options().bufferBytes(10_000).rateMaxBytesPerSecond(1_000)
                                .connect(receiver.address())) {
            ByteBuffer message = ByteBuffer.allocate(1_000);
            int taken = 0;
            while (true) {
                OptionalInt id = job.trySend(0, message.rewind());
                if (id.isEmpty()) {
                    break;
                }
                assertEquals(taken++, id.getAsInt());
            }
            assertEquals(1_000, message.remaining());
            assertTrue(taken >= 1);
            job.cancel();
        }
    }

    private static byte[] bytes(Random random, int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    /** A direct buffer with messages behind some other bytes. */
    private static ByteBuffer direct(List<byte[]> messages) {
        int length = messages.stream().mapToInt(message -> message.length).sum();
        ByteBuffer buffer = ByteBuffer.allocateDirect(length + 5).position(5);
        messages.forEach(buffer::put);
        return buffer.position(5);
    }
}
