package org.netapprox.atp.flink.sink;

import java.io.IOException;
import org.apache.flink.annotation.Internal;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.netapprox.atp.flink.state.CheckedBytes;

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
        private static final int VERSION = 2;

        /** For {@link org.netapprox.atp.flink.AtpSink}. */
        public Serializer() {}

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(CheckpointMark mark) throws IOException {
            return CheckedBytes.write(
                    out -> {
                        out.writeLong(mark.number());
                        CheckedBytes.writeText(out, mark.writer());
                    });
        }

        @Override
        public CheckpointMark deserialize(int version, byte[] bytes) throws IOException {
            return CheckedBytes.read(
                    "the state of the sink's committer",
                    version,
                    VERSION,
                    bytes,
                    in -> {
                        long number = in.readLong();
                        return new CheckpointMark(CheckedBytes.readText(in), number);
                    });
        }
    }
}
