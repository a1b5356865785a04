package org.netapprox.atp.flink.source;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.core.memory.DataOutputView;

/** State as bytes that end with a checksum, so that damaged bytes aren't taken for offsets. */
final class CheckedBytes {
    private static final int CHECKSUM_BYTES = 4;

    private CheckedBytes() {}

    /** Writes a state. */
    interface Writer {
        void write(DataOutputView out) throws IOException;
    }

    /** Reads a state. */
    interface Reader<T> {
        T read(DataInputDeserializer in) throws IOException;
    }

    static byte[] write(Writer state) throws IOException {
        DataOutputSerializer out = new DataOutputSerializer(256);
        state.write(out);
        out.writeInt(checksum(out.getSharedBuffer(), out.length()));
        return out.getCopyOfBuffer();
    }

    /**
     * Reads a state of {@code version}, which has to be {@code known}.
     *
     * @throws IOException a sentence that says {@code what} is damaged or of another version
     */
    static <T> T read(String what, int version, int known, byte[] bytes, Reader<T> reader)
            throws IOException {
        if (version != known) {
            throw new IOException(
                    what + " is of version " + version + ", and this version of atp-flink reads"
                            + " version " + known + ": restore with the version that wrote it");
        }
        try {
            int length = bytes.length - CHECKSUM_BYTES;
            if (length < 0) {
                throw new IOException("it has only " + bytes.length + " bytes");
            }
            DataInputDeserializer sum = new DataInputDeserializer(bytes, length, CHECKSUM_BYTES);
            if (sum.readInt() != checksum(bytes, length)) {
                throw new IOException("its checksum is wrong");
            }
            DataInputDeserializer in = new DataInputDeserializer(bytes, 0, length);
            T state = reader.read(in);
            if (in.available() > 0) {
                throw new IOException("bytes follow it");
            }
            return state;
        } catch (IOException | IllegalArgumentException e) {
            throw new IOException(
                    what + " of version " + version + " is damaged: restore from another"
                            + " checkpoint (" + e.getMessage() + ")", e);
        }
    }

    static void writeBytes(DataOutputView out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    static byte[] readBytes(DataInputDeserializer in) throws IOException {
        int length = in.readInt();
        if (length < 0 || length > in.available()) {
            throw new IOException("a length of " + length);
        }
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }

    /** A text of any length: those of senders may be longer than `writeUTF` takes. */
    static void writeText(DataOutputView out, String text) throws IOException {
        writeBytes(out, text.getBytes(StandardCharsets.UTF_8));
    }

    static String readText(DataInputDeserializer in) throws IOException {
        return new String(readBytes(in), StandardCharsets.UTF_8);
    }

    /** Reads as many elements as a number before them says. */
    static <T> List<T> readList(DataInputDeserializer in, Reader<T> element) throws IOException {
        int size = in.readInt();
        if (size < 0) {
            throw new IOException("a list of " + size + " elements");
        }
        List<T> list = new ArrayList<>();
        for (int i = 0; i < size; i++) {
            list.add(element.read(in));
        }
        return list;
    }

    private static int checksum(byte[] bytes, int length) {
        CRC32 crc = new CRC32();
        crc.update(bytes, 0, length);
        return (int) crc.getValue();
    }
}
