package org.netapprox.atp.flink.sink;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.flink.annotation.Internal;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * A checkpoint of a writer that holds records. The committer gets it once the checkpoint is
 * complete.
 *
 * @param writer the id of the writer
 * @param number the number of the checkpoint, as the writer counts them
 */
@Internal
public record CheckpointMark(String writer, long number) {
    /** The bytes of marks. */
    public static final class Serializer implements SimpleVersionedSerializer<CheckpointMark> {
        private static final int VERSION = 1;

        /** For {@link org.netapprox.atp.flink.AtpSink}. */
        public Serializer() {}

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(CheckpointMark mark) throws IOException {
            DataOutputSerializer out = new DataOutputSerializer(64);
            out.writeLong(mark.number());
            out.write(mark.writer().getBytes(StandardCharsets.UTF_8));
            return out.getCopyOfBuffer();
        }

        @Override
        public CheckpointMark deserialize(int version, byte[] bytes) throws IOException {
            if (version != VERSION || bytes.length < Long.BYTES) {
                throw new IOException(
                        "the state of the sink's committer is damaged, or of another version of"
                                + " ATP: restore the job from another checkpoint");
            }
            DataInputDeserializer in = new DataInputDeserializer(bytes);
            long number = in.readLong();
            byte[] writer = new byte[in.available()];
            in.readFully(writer);
            return new CheckpointMark(new String(writer, StandardCharsets.UTF_8), number);
        }
    }
}
