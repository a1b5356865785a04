package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.apache.flink.connector.base.source.reader.RecordsWithSplitIds;
import org.apache.flink.connector.base.source.reader.splitreader.SplitsAddition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.netapprox.atp.WindowEvent;
import org.netapprox.atp.WindowStream;

class WindowSplitReaderTest {
    private static WindowSplitReader reader(ListenSplit split, boolean isBounded) {
        return reader(split, isBounded, 0);
    }

    private static WindowSplitReader reader(
            ListenSplit split, boolean isBounded, long senderNanos) {
        SourceOptions options =
                new SourceOptions(
                        List.of(split.address()),
                        List.of(),
                        1,
                        2,
                        0,
                        senderNanos,
                        1 << 20,
                        isBounded,
                        "",
                        null);
        WindowSplitReader reader = new WindowSplitReader(options, 0);
        reader.handleSplitsChanges(new SplitsAddition<>(List.of(split)));
        return reader;
    }

    /** The next event; null if none was there. */
    private static WindowEvent next(WindowSplitReader reader) throws IOException {
        RecordsWithSplitIds<Received> fetched = reader.fetch();
        return fetched.nextSplit() == null ? null : fetched.nextRecordFromSplit().event();
    }

    @Test
    void fetch__handsOverOneWindowAtATime() throws Exception {
        String address = SourceCluster.address();
        WindowSplitReader reader = reader(ListenSplit.begin(address), false);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            sending.send(2 * Sending.WINDOW);
            WindowEvent.Ended first = window(reader);
            assertEquals(0, first.window().id().number());
            // The other one waits: the reader sees that nothing comes.
            assertNull(next(reader));
            first.window().confirm();
            assertEquals(1, window(reader).window().id().number());
        } finally {
            reader.close();
        }
    }

    private static WindowEvent.Ended window(WindowSplitReader reader) throws IOException {
        while (true) {
            if (next(reader) instanceof WindowEvent.Ended ended) {
                return ended;
            }
        }
    }

    @Test
    void fetch__endsWithTheStreamsOfABoundedSource() throws Exception {
        String address = SourceCluster.address();
        WindowSplitReader reader = reader(ListenSplit.begin(address), true);
        try (Sending sending = Sending.to(address, Sending.byNumber(0))) {
            sending.send(Sending.WINDOW);
            byte[] counted = window(reader).window().confirm();
            assertTrue(counted.length > 0);
            sending.sender.finish();
            RecordsWithSplitIds<Received> fetched = reader.fetch();
            while (fetched.finishedSplits().isEmpty()) {
                fetched = reader.fetch();
            }
            assertEquals(Set.of(address), fetched.finishedSplits());
        } finally {
            reader.close();
        }
        // They had ended before the checkpoint: it doesn't listen.
        WindowStream stream = new WindowStream("", "", "readings", "", 0);
        List<StreamMark> streams = List.of(new StreamMark(stream, StreamMark.NONE, true));
        WindowSplitReader restored =
                reader(new ListenSplit(address, new byte[0], streams), true);
        assertEquals(Set.of(address), restored.fetch().finishedSplits());
        restored.close();
    }

    /** The first stream ended after the checkpoint, and the second one still sends a window. */
    @Test
    @Timeout(value = 2, unit = TimeUnit.MINUTES)
    void fetch__ofABoundedSourceFailsWithoutTheEndOfAStream() throws Exception {
        String address = SourceCluster.address();
        List<StreamMark> streams =
                LongStream.range(0, 2)
                        .mapToObj(partition -> new WindowStream("", "", "readings", "", partition))
                        .map(stream -> new StreamMark(stream, StreamMark.NONE, false))
                        .toList();
        ListenSplit split = new ListenSplit(address, new byte[0], streams);
        WindowSplitReader reader = reader(split, true, TimeUnit.SECONDS.toNanos(1));
        // It listens before the sender comes.
        reader.wakeUp();
        assertNull(next(reader));
        try (Sending sending = Sending.to(address, Sending.byNumber(1))) {
            sending.send(Sending.WINDOW);
            String sentence =
                    assertThrows(IOException.class, () -> confirmAll(reader)).getMessage();
            String expected =
                    "the stream readings [0] hasn't ended, and nothing has come to " + address;
            assertTrue(sentence.startsWith(expected), sentence);
        } finally {
            reader.close();
        }
    }

    /** The third stream is no part of the source: its end isn't that of an expected one. */
    @Test
    @Timeout(value = 2, unit = TimeUnit.MINUTES)
    void fetch__knowsNoStreamBeyondTheLimit() throws Exception {
        String address = SourceCluster.address();
        List<StreamMark> streams = List.of(mark(0, true), mark(1, false));
        ListenSplit split = new ListenSplit(address, new byte[0], streams);
        WindowSplitReader reader = reader(split, true, TimeUnit.SECONDS.toNanos(1));
        reader.wakeUp();
        assertNull(next(reader));
        try (Sending sending = Sending.to(address, Sending.byNumber(2))) {
            sending.send(Sending.WINDOW);
            String sentence =
                    assertThrows(IOException.class, () -> confirmAll(reader)).getMessage();
            assertTrue(sentence.startsWith("the stream readings [1] hasn't ended"), sentence);
        } finally {
            reader.close();
        }
    }

    private static StreamMark mark(long partition, boolean hasEnded) {
        WindowStream stream = new WindowStream("", "", "readings", "", partition);
        return new StreamMark(stream, StreamMark.NONE, hasEnded);
    }

    /** Takes and confirms windows until the reader fails. */
    private static void confirmAll(WindowSplitReader reader) throws IOException {
        while (true) {
            RecordsWithSplitIds<Received> fetched = reader.fetch();
            Received element = fetched.nextSplit() == null ? null : fetched.nextRecordFromSplit();
            if (element != null && element.event() instanceof WindowEvent.Ended ended) {
                ended.window().confirm();
                element.unconfirmed().decrementAndGet();
            }
        }
    }

    @Test
    void fetch__ofATakenPortFails() throws Exception {
        String address = SourceCluster.address();
        ListenAddress local = ListenAddress.parse(address);
        WindowSplitReader reader = reader(ListenSplit.begin(address), false);
        try (DatagramSocket socket = new DatagramSocket(null)) {
            socket.bind(new InetSocketAddress(local.ip(), local.port()));
            String sentence = assertThrows(IOException.class, reader::fetch).getMessage();
            assertTrue(sentence.startsWith("the source can't listen at " + address), sentence);
        } finally {
            reader.close();
        }
    }

    @Test
    void fetch__returnsAfterAWakeUp() throws Exception {
        WindowSplitReader reader = reader(ListenSplit.begin(SourceCluster.address()), false);
        reader.wakeUp();
        assertNull(reader.fetch().nextSplit());
        reader.pauseOrResumeSplits(List.of(ListenSplit.begin("127.0.0.1:1")), List.of());
        assertNull(reader.fetch().nextSplit());
        reader.close();
    }
}
