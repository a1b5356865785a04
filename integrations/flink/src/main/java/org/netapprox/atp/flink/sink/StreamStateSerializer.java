package org.netapprox.atp.flink.sink;

import java.io.IOException;
import java.util.List;
import java.util.OptionalLong;
import org.apache.flink.annotation.Internal;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputView;
import org.netapprox.atp.WindowRecord;
import org.netapprox.atp.flink.state.CheckedBytes;

/** The bytes of {@link StreamState}, with their checksum. */
@Internal
public final class StreamStateSerializer implements SimpleVersionedSerializer<StreamState> {
    private static final int VERSION = 2;
    private static final int PUSH = 1;
    private static final int ADVANCE = 2;
    private static final int CLOSE_ALL = 3;

    /** For {@link org.netapprox.atp.flink.AtpSink}. */
    public StreamStateSerializer() {}

    @Override
    public int getVersion() {
        return VERSION;
    }

    @Override
    public byte[] serialize(StreamState state) throws IOException {
        return CheckedBytes.write(
                out -> {
                    CheckedBytes.writeText(out, state.id().topic());
                    CheckedBytes.writeText(out, state.id().topicId());
                    out.writeInt(state.id().partition());
                    CheckedBytes.writeText(out, state.id().peer());
                    CheckedBytes.writeText(out, state.position());
                    out.writeLong(state.firstOffset());
                    out.writeInt(state.steps().size());
                    for (Step step : state.steps()) {
                        step(out, step);
                    }
                });
    }

    /**
     * Reads a state.
     *
     * @throws IOException if the version is unknown, or the bytes are damaged
     */
    @Override
    public StreamState deserialize(int version, byte[] bytes) throws IOException {
        return CheckedBytes.read(
                "the sink's state", version, VERSION, bytes, StreamStateSerializer::read);
    }

    private static StreamState read(DataInputDeserializer in) throws IOException {
        var id =
                new StreamId(
                        CheckedBytes.readText(in),
                        CheckedBytes.readText(in),
                        in.readInt(),
                        CheckedBytes.readText(in));
        String position = CheckedBytes.readText(in);
        long first = CheckedBytes.readOffset(in);
        long[] next = {first};
        List<Step> steps =
                CheckedBytes.readList(
                        in,
                        bytes -> {
                            Step step = step(bytes, next[0]);
                            next[0] += step instanceof Step.Push ? 1 : 0;
                            return step;
                        });
        return new StreamState(id, position, first, steps);
    }

    private static void step(DataOutputView out, Step step) throws IOException {
        if (step instanceof Step.Push push) {
            WindowRecord record = push.record();
            out.writeByte(PUSH);
            out.writeBoolean(record.timestampMs().isPresent());
            out.writeLong(record.timestampMs().orElse(0));
            CheckedBytes.writeBytes(out, record.key());
            CheckedBytes.writeBytes(out, record.value());
            out.writeInt(record.headers().size());
            for (WindowRecord.Header header : record.headers()) {
                CheckedBytes.writeText(out, header.name());
                CheckedBytes.writeBytes(out, header.value());
            }
            CheckedBytes.writeText(out, push.group());
        } else if (step instanceof Step.Advance advance) {
            out.writeByte(ADVANCE);
            out.writeLong(advance.timeMs());
        } else {
            out.writeByte(CLOSE_ALL);
        }
    }

    private static Step step(DataInputDeserializer in, long offset) throws IOException {
        int kind = in.readByte();
        switch (kind) {
            case PUSH -> {
                boolean hasTime = in.readBoolean();
                long time = in.readLong();
                var timeMs = hasTime ? OptionalLong.of(time) : OptionalLong.empty();
                byte[] key = CheckedBytes.readBytesOrNull(in);
                byte[] value = CheckedBytes.readBytesOrNull(in);
                List<WindowRecord.Header> headers =
                        CheckedBytes.readList(in, StreamStateSerializer::header);
                var record = new WindowRecord(offset, timeMs, key, value, List.copyOf(headers));
                return new Step.Push(record, CheckedBytes.readTextOrNull(in));
            }
            case ADVANCE -> {
                return new Step.Advance(in.readLong());
            }
            case CLOSE_ALL -> {
                return new Step.CloseAll();
            }
            default -> throw new IOException("a step of kind " + kind);
        }
    }

    private static WindowRecord.Header header(DataInputDeserializer in) throws IOException {
        return new WindowRecord.Header(
                CheckedBytes.readText(in), CheckedBytes.readBytesOrNull(in));
    }
}
