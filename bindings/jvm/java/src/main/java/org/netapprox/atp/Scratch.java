package org.netapprox.atp;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;

/** A direct buffer for messages that lie elsewhere. */
final class Scratch {
    private static final int BYTES = 256 << 10;
    private static final int MESSAGES = 1024;

    private final ByteBuffer kept = ByteBuffer.allocateDirect(BYTES);
    private ByteBuffer packed = kept;

    /** A copy of a message. */
    ByteBuffer of(ByteBuffer message) {
        pack(List.of(message));
        return packed;
    }

    /**
     * Copies the first messages, as many as there is room for, and at least one. Returns their
     * lengths.
     */
    int[] pack(List<ByteBuffer> messages) {
        int[] lengths = new int[Math.min(messages.size(), MESSAGES)];
        packed = kept.clear();
        for (int i = 0; i < lengths.length; i++) {
            int length = messages.get(i).remaining();
            if (length > packed.remaining()) {
                if (i > 0) {
                    packed.flip();
                    return Arrays.copyOf(lengths, i);
                }
                // Its memory isn't kept: others are shorter.
                packed = ByteBuffer.allocateDirect(length);
            }
            packed.put(messages.get(i).duplicate());
            lengths[i] = length;
        }
        packed.flip();
        return lengths;
    }

    /** The copies, one behind the other. */
    ByteBuffer packed() {
        return packed;
    }
}
