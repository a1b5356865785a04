package org.netapprox.atp.flink.source;

import java.io.IOException;
import java.util.List;
import org.apache.flink.annotation.Internal;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputView;
import org.netapprox.atp.WindowStream;
import org.netapprox.atp.flink.state.CheckedBytes;

/** Splits as bytes of a checkpoint. */
@Internal
public final class ListenSplitSerializer implements SimpleVersionedSerializer<ListenSplit> {
    private static final int VERSION = 1;

    /** A serializer, which has no state. */
    public ListenSplitSerializer() {}

    @Override
    public int getVersion() {
        return VERSION;
    }

    @Override
    public byte[] serialize(ListenSplit split) throws IOException {
        return CheckedBytes.write(out -> write(out, split));
    }

    /**
     * Reads a split.
     *
     * @throws IOException if the version is unknown, or the bytes are damaged
     */
    @Override
    public ListenSplit deserialize(int version, byte[] bytes) throws IOException {
        return CheckedBytes.read(
                "the state of an address that the source listens at",
                version,
                VERSION,
                bytes,
                ListenSplitSerializer::read);
    }

    static void write(DataOutputView out, ListenSplit split) throws IOException {
        CheckedBytes.writeText(out, split.address());
        CheckedBytes.writeBytes(out, split.counted());
        out.writeInt(split.streams().size());
        for (StreamMark mark : split.streams()) {
            WindowStream stream = mark.stream();
            CheckedBytes.writeText(out, stream.cluster());
            CheckedBytes.writeText(out, stream.consumerGroup());
            CheckedBytes.writeText(out, stream.topic());
            CheckedBytes.writeText(out, stream.topicId());
            out.writeLong(stream.partition());
            out.writeLong(mark.watermarkMs());
            out.writeBoolean(mark.hasEnded());
        }
    }

    static ListenSplit read(DataInputDeserializer in) throws IOException {
        String address = CheckedBytes.readText(in);
        byte[] counted = CheckedBytes.readBytes(in);
        List<StreamMark> streams = CheckedBytes.readList(in, ListenSplitSerializer::mark);
        return new ListenSplit(address, counted, streams);
    }

    private static StreamMark mark(DataInputDeserializer in) throws IOException {
        WindowStream stream =
                new WindowStream(
                        CheckedBytes.readText(in),
                        CheckedBytes.readText(in),
                        CheckedBytes.readText(in),
                        CheckedBytes.readText(in),
                        in.readLong());
        return new StreamMark(stream, in.readLong(), in.readBoolean());
    }
}
