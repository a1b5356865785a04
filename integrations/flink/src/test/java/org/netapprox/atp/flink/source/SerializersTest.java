package org.netapprox.atp.flink.source;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.WindowStream;

class SerializersTest {
    private static final ListenSplitSerializer SPLITS = new ListenSplitSerializer();
    private static final PendingSplitsSerializer PENDING = new PendingSplitsSerializer();

    /** A split as version 1 wrote it, without its checksum: later versions have to read it. */
    private static byte[] version1() {
        // cluster c, group g, topic t, no topic id, partition 3, watermark 999, not ended.
        String body =
                "0000000d31302e302e302e323a34373437"
                        + "000000020102"
                        + "00000001"
                        + "0000000163"
                        + "0000000167"
                        + "0000000174"
                        + "00000000"
                        + "0000000000000003"
                        + "00000000000003e7"
                        + "00";
        return HexFormat.of().parseHex(body);
    }

    private static String text(Random random) {
        StringBuilder text = new StringBuilder();
        random.ints(random.nextInt(8), 1, 0xD000).forEach(text::appendCodePoint);
        return text.toString();
    }

    private static ListenSplit split(Random random) {
        byte[] counted = new byte[random.nextInt(100)];
        random.nextBytes(counted);
        List<StreamMark> streams = new ArrayList<>();
        for (int i = random.nextInt(4); i > 0; i--) {
            WindowStream stream =
                    new WindowStream(
                            text(random),
                            text(random),
                            text(random),
                            text(random),
                            random.nextInt() & 0xFFFF_FFFFL);
            streams.add(new StreamMark(stream, random.nextLong(), random.nextBoolean()));
        }
        return new ListenSplit("127.0.0.1:" + (1 + random.nextInt(9_999)), counted, streams);
    }

    private static void assertSame(ListenSplit expected, ListenSplit split) {
        assertEquals(expected.address(), split.address());
        assertArrayEquals(expected.counted(), split.counted());
        assertEquals(expected.streams(), split.streams());
    }

    @Test
    void deserialize__readsWhatSerializeWrites() throws IOException {
        for (int seed = 0; seed < 500; seed++) {
            Random random = new Random(seed);
            ListenSplit split = split(random);
            assertSame(split, SPLITS.deserialize(1, SPLITS.serialize(split)));
            PendingSplits state =
                    new PendingSplits(
                            List.of(split, split(random)), List.of(text(random), text(random)));
            PendingSplits read = PENDING.deserialize(1, PENDING.serialize(state));
            assertEquals(state.begun(), read.begun());
            assertEquals(2, read.splits().size());
            assertSame(state.splits().get(0), read.splits().get(0));
            assertSame(state.splits().get(1), read.splits().get(1));
        }
    }

    @Test
    void deserialize__readsALongText() throws IOException {
        // A topic of a hostile sender: longer than Java's `writeUTF` takes.
        WindowStream stream = new WindowStream("", "", "x".repeat(100_000), "", 0);
        List<StreamMark> streams = List.of(new StreamMark(stream, 1, true));
        ListenSplit split = new ListenSplit("127.0.0.1:1", new byte[0], streams);
        assertSame(split, SPLITS.deserialize(1, SPLITS.serialize(split)));
    }

    @Test
    void deserialize__readsVersion1() throws IOException {
        WindowStream stream = new WindowStream("c", "g", "t", "", 3);
        ListenSplit split =
                new ListenSplit(
                        "10.0.0.2:4747",
                        new byte[] {1, 2},
                        List.of(new StreamMark(stream, 999, false)));
        byte[] written = SPLITS.serialize(split);
        byte[] body = Arrays.copyOf(written, written.length - 4);
        assertArrayEquals(version1(), body);
        assertSame(split, SPLITS.deserialize(1, written));
    }

    @Test
    void deserialize__refusesDamagedBytes() throws IOException {
        Random random = new Random(1);
        byte[] split = SPLITS.serialize(split(random));
        byte[] state = PENDING.serialize(new PendingSplits(List.of(split(random)), List.of("a")));
        for (int at = 0; at < split.length; at++) {
            byte[] damaged = split.clone();
            damaged[at] ^= (byte) (1 << random.nextInt(8));
            checkDamaged(() -> SPLITS.deserialize(1, damaged));
            byte[] cut = Arrays.copyOf(split, at);
            checkDamaged(() -> SPLITS.deserialize(1, cut));
        }
        for (int at = 0; at < state.length; at++) {
            byte[] cut = Arrays.copyOf(state, at);
            checkDamaged(() -> PENDING.deserialize(1, cut));
        }
        checkDamaged(() -> SPLITS.deserialize(1, Arrays.copyOf(split, split.length + 1)));
    }

    private interface Read {
        Object read() throws IOException;
    }

    private static void checkDamaged(Read read) {
        String sentence = assertThrows(IOException.class, read::read).getMessage();
        assertTrue(sentence.contains("of version 1 is damaged"), sentence);
        assertTrue(sentence.contains("restore from another checkpoint"), sentence);
    }

    @Test
    void deserialize__refusesAnUnknownVersion() throws IOException {
        byte[] split = SPLITS.serialize(ListenSplit.begin("127.0.0.1:1"));
        String sentence =
                assertThrows(IOException.class, () -> SPLITS.deserialize(2, split)).getMessage();
        assertEquals(
                "the state of an address that the source listens at is of version 2, and this"
                        + " version of atp-flink reads version 1: restore with the version that"
                        + " wrote it",
                sentence);
    }
}
