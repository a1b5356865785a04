package org.netapprox.atp.flink.sink;

import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.zip.CRC32;
import org.apache.flink.annotation.Internal;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.netapprox.atp.WindowRecord;

/** The bytes of {@link StreamState}, with their checksum. */
@Internal
public final class StreamStateSerializer implements SimpleVersionedSerializer<StreamState> {
    private static final int VERSION = 1;
    private static final int PUSH = 1;
    private static final int ADVANCE = 2;
    private static final int CLOSE_ALL = 3;

    /** The length of a text or an array that is null. */
    private static final int NULL = -1;

    /** The least bytes of a header, and of a step. */
    private static final int HEADER_BYTES_MIN = 8;

    private static final int STEP_BYTES_MIN = 1;

    /** For {@link org.netapprox.atp.flink.AtpSink}. */
    public StreamStateSerializer() {}

    @Override
    public int getVersion() {
        return VERSION;
    }

    @Override
    public byte[] serialize(StreamState state) throws IOException {
        DataOutputSerializer out = new DataOutputSerializer(1 << 10);
        out.writeInt(0); // The checksum's place.
        text(out, state.id().topic());
        text(out, state.id().topicId());
        out.writeInt(state.id().partition());
        text(out, state.id().peer());
        text(out, state.position());
        out.writeLong(state.firstOffset());
        out.writeInt(state.steps().size());
        for (Step step : state.steps()) {
            step(out, step);
        }
        byte[] bytes = out.getCopyOfBuffer();
        int checksum = checksum(bytes);
        for (int at = 0; at < Integer.BYTES; at++) {
            bytes[at] = (byte) (checksum >>> (Byte.SIZE * (Integer.BYTES - 1 - at)));
        }
        return bytes;
    }

    @Override
    public StreamState deserialize(int version, byte[] bytes) throws IOException {
        if (version != VERSION) {
            throw new IOException(
                    "the sink's state has version " + version + ", of which this version of ATP,"
                            + " with " + VERSION + ", knows nothing: restore it with the version"
                            + " that wrote it");
        }
        try {
            DataInputDeserializer in = new DataInputDeserializer(bytes);
            if (in.readInt() != checksum(bytes)) {
                throw damaged(null);
            }
            var id = new StreamId(text(in), text(in), in.readInt(), text(in));
            String position = text(in);
            long first = in.readLong();
            int count = length(in, STEP_BYTES_MIN);
            List<Step> steps = new ArrayList<>(count);
            long offset = first;
            for (int at = 0; at < count; at++) {
                Step step = step(in, offset);
                offset += step instanceof Step.Push ? 1 : 0;
                steps.add(step);
            }
            if (in.available() > 0) {
                throw damaged(null);
            }
            return new StreamState(id, position, first, steps);
        } catch (EOFException e) {
            throw damaged(e);
        }
    }

    private static void step(DataOutputSerializer out, Step step) throws IOException {
        if (step instanceof Step.Push push) {
            WindowRecord record = push.record();
            out.writeByte(PUSH);
            out.writeBoolean(record.timestampMs().isPresent());
            out.writeLong(record.timestampMs().orElse(0));
            bytes(out, record.key());
            bytes(out, record.value());
            out.writeInt(record.headers().size());
            for (WindowRecord.Header header : record.headers()) {
                text(out, header.name());
                bytes(out, header.value());
            }
            text(out, push.group());
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
                byte[] key = bytes(in);
                byte[] value = bytes(in);
                int count = length(in, HEADER_BYTES_MIN);
                List<WindowRecord.Header> headers = new ArrayList<>(count);
                for (int at = 0; at < count; at++) {
                    headers.add(new WindowRecord.Header(text(in), bytes(in)));
                }
                var record = new WindowRecord(offset, timeMs, key, value, List.copyOf(headers));
                return new Step.Push(record, text(in));
            }
            case ADVANCE -> {
                return new Step.Advance(in.readLong());
            }
            case CLOSE_ALL -> {
                return new Step.CloseAll();
            }
            default -> throw damaged(null);
        }
    }

    private static void text(DataOutputSerializer out, String text) throws IOException {
        bytes(out, text == null ? null : text.getBytes(StandardCharsets.UTF_8));
    }

    private static String text(DataInputDeserializer in) throws IOException {
        byte[] bytes = bytes(in);
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    private static void bytes(DataOutputSerializer out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? NULL : bytes.length);
        if (bytes != null) {
            out.write(bytes);
        }
    }

    private static byte[] bytes(DataInputDeserializer in) throws IOException {
        int length = in.readInt();
        if (length == NULL) {
            return null;
        }
        if (length < 0 || length > in.available()) {
            throw damaged(null);
        }
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }

    /** The number of things that follow, each of which takes some bytes. */
    private static int length(DataInputDeserializer in, int bytesMin) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > in.available() / bytesMin) {
            throw damaged(null);
        }
        return length;
    }

    private static int checksum(byte[] bytes) {
        CRC32 sum = new CRC32();
        sum.update(bytes, Integer.BYTES, Math.max(0, bytes.length - Integer.BYTES));
        return (int) sum.getValue();
    }

    private static IOException damaged(Throwable cause) {
        return new IOException(
                "the sink's state is damaged: restore the job from another checkpoint", cause);
    }
}
