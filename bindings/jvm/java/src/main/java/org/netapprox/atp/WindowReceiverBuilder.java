package org.netapprox.atp;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Objects;

/** Options of a {@link WindowReceiver}. An option that isn't set has its default. */
public final class WindowReceiverBuilder {
    private ReceiverBuilder receiver = Receiver.builder();
    private byte[] counted = {};
    private long memoryBytesMax = 1L << 30;

    WindowReceiverBuilder() {}

    /**
     * Options of the receiver, such as the admitted senders.
     *
     * @param options the options
     * @return this builder
     */
    public WindowReceiverBuilder receiver(ReceiverBuilder options) {
        receiver = Objects.requireNonNull(options, "options");
        return this;
    }

    /**
     * The offsets that an earlier receiver has counted. Windows that senders repeat aren't counted
     * again then, and {@link Window#skipped} tells those that were confirmed later.
     *
     * @param offsets what {@link Window#confirm} has returned
     * @return this builder
     */
    public WindowReceiverBuilder counted(byte[] offsets) {
        counted = offsets.clone();
        return this;
    }

    /**
     * The most bytes of windows that are open or wait. Default: 1 GiB.
     *
     * @param bytes bytes, 0 or more
     * @return this builder
     */
    public WindowReceiverBuilder memoryBytesMax(long bytes) {
        memoryBytesMax = bytes;
        return this;
    }

    /**
     * Starts to receive.
     *
     * @param local the address with a port: port 0 is one that the kernel chooses
     * @return the receiver
     * @throws IllegalArgumentException if an option is out of its range
     * @throws java.net.BindException if the port is taken, or the address isn't this host's
     * @throws java.net.UnknownHostException if the name has no address
     * @throws IOException if a socket or the daemon doesn't allow it
     */
    public WindowReceiver bind(String local) throws IOException {
        Objects.requireNonNull(local, "local");
        Library.load();
        return new WindowReceiver(
                Native.windowsBind(local, receiver.texts(), counted, memoryBytesMax));
    }

    /**
     * Starts to receive, as {@link #bind(String)} does.
     *
     * @param local the address
     * @return the receiver
     * @throws IOException as {@link #bind(String)}
     */
    public WindowReceiver bind(InetSocketAddress local) throws IOException {
        return bind(Addresses.text(local));
    }
}
