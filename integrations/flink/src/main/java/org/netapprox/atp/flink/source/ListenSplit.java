package org.netapprox.atp.flink.source;

import java.util.List;
import org.apache.flink.annotation.Internal;
import org.apache.flink.api.connector.source.SourceSplit;

/** An address that a reader listens at, and the state of the streams that come there. */
@Internal
public final class ListenSplit implements SourceSplit {
    private final String address;
    private final byte[] counted;
    private final List<StreamMark> streams;

    /**
     * A split with its state.
     *
     * @param address the address
     * @param counted the offsets that were counted, of {@code Window.confirm}; empty for none
     * @param streams the streams that have sent a window
     */
    public ListenSplit(String address, byte[] counted, List<StreamMark> streams) {
        this.address = address;
        this.counted = counted.clone();
        this.streams = List.copyOf(streams);
    }

    /**
     * A split of which nothing has been received.
     *
     * @param address the address
     * @return the split
     */
    public static ListenSplit begin(String address) {
        return new ListenSplit(address, new byte[0], List.of());
    }

    /**
     * Moves the state to another address.
     *
     * @param other the address
     * @return the split
     */
    public ListenSplit movedTo(String other) {
        return new ListenSplit(other, counted, streams);
    }

    /**
     * The address, as it was given to the builder.
     *
     * @return the address
     */
    public String address() {
        return address;
    }

    /**
     * The offsets that were counted.
     *
     * @return bytes of the library; empty for none
     */
    public byte[] counted() {
        return counted.clone();
    }

    /**
     * The streams that have sent a window.
     *
     * @return the streams
     */
    public List<StreamMark> streams() {
        return streams;
    }

    /** The address: a source listens once at each. */
    @Override
    public String splitId() {
        return address;
    }

    @Override
    public String toString() {
        return address + " with " + streams.size() + " streams";
    }
}
