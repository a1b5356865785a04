package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.netapprox.atp.WindowRecord;

class StreamStateSerializerTest {
    private final StreamStateSerializer serializer = new StreamStateSerializer();

    private static StreamState state(String position) {
        var headers =
                List.of(
                        new WindowRecord.Header("unit", new byte[] {1, 2}),
                        new WindowRecord.Header("é".repeat(40_000), null));
        var first = new WindowRecord(7, OptionalLong.of(-5), new byte[0], new byte[99], headers);
        var second = new WindowRecord(8, OptionalLong.empty(), null, null, List.of());
        List<Step> steps =
                List.of(
                        new Step.Advance(Long.MIN_VALUE + 1),
                        new Step.Push(first, "tens"),
                        new Step.CloseAll(),
                        new Step.Push(second, null));
        return new StreamState(
                new StreamId("readings", "an-id", 3, "[::1]:4747"), position, 7, steps);
    }

    @Test
    void deserialize__readsWhatSerializeWrote() throws IOException {
        for (String position : new String[] {"0", "7 atp1 epoch=1"}) {
            StreamState state = state(position);
            StreamState read =
                    serializer.deserialize(serializer.getVersion(), serializer.serialize(state));
            assertEquals(state.id(), read.id());
            assertEquals(state.position(), read.position());
            assertEquals(state.firstOffset(), read.firstOffset());
            assertEquals(state.steps(), read.steps());
            assertTrue(read.hasRecords());
        }
    }

    @Test
    void deserialize__refusesAnotherVersion() throws IOException {
        byte[] bytes = serializer.serialize(state("0"));
        var refused = assertThrows(IOException.class, () -> serializer.deserialize(1, bytes));
        assertTrue(refused.getMessage().contains("version 1"), refused.getMessage());
    }

    @Test
    void deserialize__refusesDamagedBytes() throws IOException {
        byte[] bytes = serializer.serialize(state("7 atp1 epoch=1"));
        for (int at = 0; at < 400; at++) {
            byte[] damaged = bytes.clone();
            damaged[at] ^= 0x40;
            refuses(damaged);
            refuses(Arrays.copyOf(bytes, at));
        }
        refuses(Arrays.copyOf(bytes, bytes.length + 1));
    }

    private void refuses(byte[] bytes) {
        int version = serializer.getVersion();
        var refused =
                assertThrows(IOException.class, () -> serializer.deserialize(version, bytes));
        assertTrue(refused.getMessage().contains("is damaged"), refused.getMessage());
    }
}
