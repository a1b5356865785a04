package org.netapprox.atp.flink.state;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;
import org.apache.flink.annotation.Internal;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.core.memory.DataOutputView;

/** State as bytes that end with a checksum, so that damaged bytes aren't taken for offsets. */
@Internal
public final class CheckedBytes {
    private static final int CHECKSUM_BYTES = 4;

    /** The length of a text or an array that is null. */
    private static final int NULL = -1;

    private CheckedBytes() {}

    /** Writes a state. */
    public interface Writer {
        /**
         * Writes it.
         *
         * @param out takes the bytes
         * @throws IOException as {@code out}
         */
        void write(DataOutputView out) throws IOException;
    }

    /**
     * Reads a state.
     *
     * @param <T> the type of the state
     */
    public interface Reader<T> {
        /**
         * Reads it.
         *
         * @param in the bytes
         * @return the state
         * @throws IOException if they are damaged
         */
        T read(DataInputDeserializer in) throws IOException;
    }

    /**
     * Writes a state.
     *
     * @param state writes it
     * @return its bytes, with their checksum
     * @throws IOException as {@code state}
     */
    public static byte[] write(Writer state) throws IOException {
        DataOutputSerializer out = new DataOutputSerializer(256);
        state.write(out);
        out.writeInt(checksum(out.getSharedBuffer(), out.length()));
        return out.getCopyOfBuffer();
    }

    /**
     * Reads a state.
     *
     * @param what names it
     * @param version the version that wrote it
     * @param known the version that this reads
     * @param bytes the bytes
     * @param reader reads it
     * @param <T> its type
     * @return the state
     * @throws IOException a sentence that says {@code what} is damaged or of another version
     */
    public static <T> T read(
            String what, int version, int known, byte[] bytes, Reader<T> reader)
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

    /**
     * Writes an array.
     *
     * @param out takes the bytes
     * @param bytes the array, which may be null
     * @throws IOException as {@code out}
     */
    public static void writeBytes(DataOutputView out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? NULL : bytes.length);
        if (bytes != null) {
            out.write(bytes);
        }
    }

    /**
     * Reads an array.
     *
     * @param in the bytes
     * @return the array
     * @throws IOException if it is damaged, or null
     */
    public static byte[] readBytes(DataInputDeserializer in) throws IOException {
        byte[] bytes = readBytesOrNull(in);
        if (bytes == null) {
            throw new IOException("a length of " + NULL);
        }
        return bytes;
    }

    /**
     * Reads an array that may be null.
     *
     * @param in the bytes
     * @return the array, or null
     * @throws IOException if it is damaged
     */
    public static byte[] readBytesOrNull(DataInputDeserializer in) throws IOException {
        int length = in.readInt();
        if (length == NULL) {
            return null;
        }
        if (length < 0 || length > in.available()) {
            throw new IOException("a length of " + length);
        }
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }

    /**
     * Writes a text of any length: those of senders may be longer than {@code writeUTF} takes.
     *
     * @param out takes the bytes
     * @param text the text, which may be null
     * @throws IOException as {@code out}
     */
    public static void writeText(DataOutputView out, String text) throws IOException {
        writeBytes(out, text == null ? null : text.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * Reads a text.
     *
     * @param in the bytes
     * @return the text
     * @throws IOException if it is damaged, or null
     */
    public static String readText(DataInputDeserializer in) throws IOException {
        return new String(readBytes(in), StandardCharsets.UTF_8);
    }

    /**
     * Reads a text that may be null.
     *
     * @param in the bytes
     * @return the text, or null
     * @throws IOException if it is damaged
     */
    public static String readTextOrNull(DataInputDeserializer in) throws IOException {
        byte[] bytes = readBytesOrNull(in);
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    /**
     * Reads as many elements as a number before them says.
     *
     * @param in the bytes
     * @param element reads an element, of one byte or more
     * @param <T> its type
     * @return the elements
     * @throws IOException if they are damaged
     */
    public static <T> List<T> readList(DataInputDeserializer in, Reader<T> element)
            throws IOException {
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

    /**
     * Reads the offset of a record.
     *
     * @param in the bytes
     * @return the offset
     * @throws IOException if it is negative
     */
    public static long readOffset(DataInputDeserializer in) throws IOException {
        long offset = in.readLong();
        if (offset < 0) {
            throw new IOException("an offset of " + offset);
        }
        return offset;
    }

    private static int checksum(byte[] bytes, int length) {
        CRC32 crc = new CRC32();
        crc.update(bytes, 0, length);
        return (int) crc.getValue();
    }
}
