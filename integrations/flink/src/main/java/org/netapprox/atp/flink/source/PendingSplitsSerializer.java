package org.netapprox.atp.flink.source;

import java.io.IOException;
import org.apache.flink.annotation.Internal;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.netapprox.atp.flink.state.CheckedBytes;

/** The state of the enumerator as bytes of a checkpoint. */
@Internal
public final class PendingSplitsSerializer implements SimpleVersionedSerializer<PendingSplits> {
    private static final int VERSION = 1;

    /** A serializer, which has no state. */
    public PendingSplitsSerializer() {}

    @Override
    public int getVersion() {
        return VERSION;
    }

    @Override
    public byte[] serialize(PendingSplits state) throws IOException {
        return CheckedBytes.write(
                out -> {
                    out.writeInt(state.splits().size());
                    for (ListenSplit split : state.splits()) {
                        ListenSplitSerializer.write(out, split);
                    }
                    out.writeInt(state.begun().size());
                    for (String address : state.begun()) {
                        CheckedBytes.writeText(out, address);
                    }
                });
    }

    /**
     * Reads the state.
     *
     * @throws IOException if the version is unknown, or the bytes are damaged
     */
    @Override
    public PendingSplits deserialize(int version, byte[] bytes) throws IOException {
        return CheckedBytes.read(
                "the state of the source's enumerator",
                version,
                VERSION,
                bytes,
                in ->
                        new PendingSplits(
                                CheckedBytes.readList(in, ListenSplitSerializer::read),
                                CheckedBytes.readList(in, CheckedBytes::readText)));
    }
}
