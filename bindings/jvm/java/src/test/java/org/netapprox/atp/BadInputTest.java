package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.BindException;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Each bad input is one sentence in the right exception, and nothing is sent. */
class BadInputTest {
    @Test
    void addresses() throws Exception {
        try (Receiver receiver = Pairs.receiver()) {
            said(BindException.class, "in use", () ->
                    Receiver.builder().noDaemon().bind(receiver.address()));
        }
        said(BindException.class, "192.0.2.1", () -> Receiver.builder().bind("192.0.2.1:0"));
        said(UnknownHostException.class, "nobody.invalid", () ->
                Pairs.options().connect("nobody.invalid:4747"));
        said(UnknownHostException.class, "port", () -> Pairs.options().connect("127.0.0.1"));
        said(IllegalArgumentException.class, "127.0.0.1:0", () ->
                Pairs.options().connect("127.0.0.1:0"));
        assertThrows(NullPointerException.class, () -> Pairs.options().connect((String) null));
    }

    @Test
    void options() {
        String peer = "127.0.0.1:4747";
        said(IllegalArgumentException.class, "1.5", () -> Pairs.options().msr(1.5).connect(peer));
        said(IllegalArgumentException.class, "NaN", () ->
                Pairs.options().msr(Double.NaN).connect(peer));
        said(IllegalArgumentException.class, "payload_bytes", () ->
                Pairs.options().payloadBytes(-1).connect(peer));
        said(IllegalArgumentException.class, "payload", () ->
                Pairs.options().payloadBytes(9_000).connect(peer));
        said(IllegalArgumentException.class, "-5", () -> Pairs.options().id(-5));
        said(IllegalArgumentException.class, "4294967296", () -> Pairs.options().id(1L << 32));
        said(IllegalArgumentException.class, "peer_timeout", () ->
                Pairs.options().peerTimeout(Duration.ofSeconds(-1)).connect(peer));
        said(IllegalArgumentException.class, "256", () ->
                Pairs.options().groups(new Group(256)).connect(peer));
        said(IllegalArgumentException.class, "group 3", () ->
                Pairs.options().groups(new Group(3).name("x".repeat(33))).connect(peer));
        said(IllegalArgumentException.class, "0.7", () ->
                Pairs.options().requests(RequestPolicy.within(0.7, 0.2, false)).connect(peer));
        said(IllegalArgumentException.class, "yield", () ->
                Pairs.options().rules("fastest").connect(peer));
        said(IllegalArgumentException.class, "0 messages", () ->
                Pairs.options().messages(0).connect(peer));
        said(IllegalArgumentException.class, "message_bytes_max", () ->
                Receiver.builder().messageBytesMax(Integer.MAX_VALUE).bind("127.0.0.1:0"));
        said(IllegalArgumentException.class, "peers", () ->
                Receiver.builder().peer("nobody").bind("127.0.0.1:0"));
        said(AtpException.class, "/nowhere", () ->
                Job.builder().controlSocket(java.nio.file.Path.of("/nowhere")).connect(peer));
        assertThrows(NullPointerException.class, () -> Pairs.options().rules(null));
        assertThrows(IllegalArgumentException.class, () -> Order.shuffledAmong(0));
        assertThrows(IllegalArgumentException.class, () ->
                new Order(Order.Kind.ORDERED, OptionalInt.of(3)));
        assertThrows(IllegalArgumentException.class, () -> Batch.ofBytes(4_095));
    }

    @Test
    void buffers() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().messageBytesMax(100).connect(receiver.address())) {
            ByteBuffer heap = ByteBuffer.allocate(100);
            said(IllegalArgumentException.class, "heap", () -> job.sendMany(0, heap, 10));
            said(IllegalArgumentException.class, "heap", () -> job.sendMany(0, heap, new int[] {100}));
            said(IllegalArgumentException.class, "heap", () -> job.sendOwned(0, heap, () -> {}));
            ByteBuffer direct = ByteBuffer.allocateDirect(105);
            said(IllegalArgumentException.class, "105", () -> job.sendMany(0, direct, 10));
            said(IllegalArgumentException.class, "105", () -> job.sendMany(0, direct, 0));
            said(IllegalArgumentException.class, "-1", () ->
                    job.sendMany(0, direct, new int[] {106, -1}));
            said(IllegalArgumentException.class, "105", () ->
                    job.sendMany(0, direct, new int[] {Integer.MAX_VALUE, Integer.MAX_VALUE}));
            said(IllegalArgumentException.class, "message_bytes_max", () ->
                    job.sendMany(0, direct, new int[] {1, 104}));
            List<ByteBuffer> many = new ArrayList<>(Collections.nCopies(3_000, heap));
            many.add(ByteBuffer.allocate(101));
            said(IllegalArgumentException.class, "101", () -> job.sendMany(0, many));
            said(IllegalArgumentException.class, "message_bytes_max", () ->
                    job.sendOwned(0, direct, () -> { throw new AssertionError("not sent"); }));
            said(IllegalArgumentException.class, "256", () ->
                    job.send(256, ByteBuffer.allocate(1)));
            said(IllegalArgumentException.class, "group 9", () -> job.send(9, ByteBuffer.allocate(1)));
            assertThrows(NullPointerException.class, () -> job.send((byte[]) null));
            assertThrows(NullPointerException.class, () -> job.sendOwned(0, direct, null));
            assertEquals(105, direct.remaining());
            assertEquals(100, heap.remaining());
            // No message was sent.
            assertEquals(0, job.send(new byte[1]));
            said(IllegalArgumentException.class, "2", () -> job.setMsr(0, 2));
            said(IllegalArgumentException.class, "-1", () -> job.setMessages(0, -1));
            said(IllegalArgumentException.class, "-3", () -> receiver.recv(Duration.ofSeconds(-3)));
            said(IllegalArgumentException.class, "0", () -> receiver.recvBatch(0, Duration.ZERO));
            said(IllegalArgumentException.class, "rate", () -> receiver.requestMsr(1, 0, -1));
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            job.finish();
            assertEquals(1, Pairs.messages(events.result()).size());
        }
    }

    @Test
    void states() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().messages(2).connect(receiver.address())) {
            job.send(new byte[1]);
            job.send(new byte[1]);
            said(IllegalStateException.class, "2 messages", () -> job.send(new byte[1]));
            said(IllegalArgumentException.class, "windows", job::endWindow);
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            job.finish();
            events.result();
            said(ClosedException.class, "ended", () -> job.send(new byte[1]));
            said(ClosedException.class, "ended", job::finish);
        }
    }

    @Test
    void aShortfallNamesGroupAndCause() throws Exception {
        int port;
        try (Receiver receiver = Pairs.receiver()) {
            port = receiver.address().getPort();
        }
        Job job =
                Pairs.options()
                        .peerTimeout(Duration.ofMillis(200))
                        .groups(new Group(4).msr(0.5))
                        .connect("127.0.0.1:" + port);
        try (job) {
            for (int i = 0; i < 9; i++) {
                job.send(4, ByteBuffer.allocate(1));
            }
            ShortfallException e = assertThrows(ShortfallException.class, job::finish);
            assertEquals(ShortfallException.Cause.PEER_SILENT, e.cause());
            assertEquals(List.of(new ShortfallException.ShortGroup(4, 0, 5)), e.groups());
            assertEquals(job.peer(), e.peer());
            assertEquals(9, e.report().groups().get(0).messages());
            assertTrue(e.getMessage().contains("0 of 5"), e.getMessage());
        }
    }

    /** A forgotten end is told, and covers no other exception. */
    @Test
    void aJobThatWasNotFinishedTellsIt() throws Exception {
        try (Receiver receiver = Pairs.receiver()) {
            Job job = Pairs.options().connect(receiver.address());
            job.send(new byte[1]);
            said(AtpException.class, "finish()", job::close);
            job.close();
            IllegalStateException e =
                    assertThrows(IllegalStateException.class, () -> {
                        try (Job other = Pairs.options().connect(receiver.address())) {
                            throw new IllegalStateException("of the program, with " + other);
                        }
                    });
            assertEquals(1, e.getSuppressed().length);
        }
    }

    private static void said(Class<? extends Exception> kind, String part, Executable call) {
        String said = assertThrows(kind, call).getMessage();
        assertTrue(said.contains(part), said);
        assertTrue(!said.contains("\n"), said);
    }
}
