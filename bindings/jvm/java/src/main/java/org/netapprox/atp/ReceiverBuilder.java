package org.netapprox.atp;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;

/** Options of a {@link Receiver}. An option that isn't set has its default. */
public final class ReceiverBuilder {
    private final Options options = new Options();

    ReceiverBuilder() {}

    /**
     * The control socket of the daemon to use. Default: the default daemon if there is one, else
     * none.
     *
     * @param path the socket's path
     * @return this builder
     */
    public ReceiverBuilder controlSocket(Path path) {
        options.set("control_socket", path.toAbsolutePath());
        return this;
    }

    /**
     * Uses no daemon, as if none ran on the host.
     *
     * @return this builder
     */
    public ReceiverBuilder noDaemon() {
        options.set("control_socket", "");
        return this;
    }

    /**
     * Admits this job, and others only if they are named by further calls. Default: any job.
     *
     * @param id the id, 0 to 2^32 - 1
     * @return this builder
     */
    public ReceiverBuilder job(long id) {
        options.setId("jobs", id);
        return this;
    }

    /**
     * Admits this job, and others only if they are named by further calls. Default: any job.
     *
     * @param name the name; a decimal number is that number
     * @return this builder
     */
    public ReceiverBuilder job(String name) {
        options.set("jobs", name);
        return this;
    }

    /**
     * Admits senders at this address, and others only if they are named by further calls. This
     * is no protection where hosts can forge addresses. Default: any address.
     *
     * @param address an IP address; a link-local one may name its interface, as in fe80::1%eth0
     * @return this builder
     */
    public ReceiverBuilder peer(String address) {
        options.set("peers", address);
        return this;
    }

    /**
     * The most senders (address, job and run) at once. One address may hold three times as many
     * places as are free. Default: 256.
     *
     * @param sources senders, 0 or more
     * @return this builder
     */
    public ReceiverBuilder sourcesMax(int sources) {
        options.set("sources_max", sources);
        return this;
    }

    /**
     * The longest message that is accepted. Default: 64 MiB.
     *
     * @param bytes bytes, 0 to 2^30
     * @return this builder
     */
    public ReceiverBuilder messageBytesMax(int bytes) {
        options.set("message_bytes_max", bytes);
        return this;
    }

    /**
     * The most bytes of incomplete messages that are held for each sender. Default: 64 MiB.
     *
     * @param bytes bytes, 0 or more
     * @return this builder
     */
    public ReceiverBuilder incompleteBytesMax(long bytes) {
        options.set("incomplete_bytes_max", bytes);
        return this;
    }

    /**
     * The most bytes of incomplete and waiting messages and of records, of all senders together.
     * Default: 256 MiB.
     *
     * @param bytes bytes, 0 or more
     * @return this builder
     */
    public ReceiverBuilder memoryBytesMax(long bytes) {
        options.set("memory_bytes_max", bytes);
        return this;
    }

    /**
     * Bytes of complete messages that wait for {@link Receiver#recv()}. When there are more, the
     * receiver stops reading its socket. Default: 64 MiB.
     *
     * @param bytes bytes, 0 or more
     * @return this builder
     */
    public ReceiverBuilder bufferBytes(long bytes) {
        options.set("buffer_bytes", bytes);
        return this;
    }

    /**
     * How long {@link Receiver#close} waits for a sender that may not know that its job has
     * ended. It takes that long only if packets were lost at the end, or a sender has crashed.
     * Default: 2 s.
     *
     * @param time the time after the last FIN, 5 s at most
     * @return this builder
     */
    public ReceiverBuilder linger(Duration time) {
        options.set("linger", time);
        return this;
    }

    /**
     * Without a daemon: the rate of this host's line. The receiver then advises each sender of
     * its share. 0: unknown, and no advice. Default: 0.
     *
     * @param rate bytes per second on the wire, 0 or more
     * @return this builder
     */
    public ReceiverBuilder lineRateBytesPerSecond(long rate) {
        options.set("line_rate_bytes_per_s", rate);
        return this;
    }

    /**
     * Without a daemon, on a network with priority queues: the packets of full length that each
     * approximate queue holds at the switch's port to this host. 0: one queue for all traffic.
     * Default: 0.
     *
     * @param packets packets, 0 or more
     * @return this builder
     */
    public ReceiverBuilder queueDepthPackets(int packets) {
        options.set("queue_depth_packets", packets);
        return this;
    }

    /**
     * Starts to receive.
     *
     * @param local the address with a port: port 0 is one that the kernel chooses, and {@code
     *     [::]:4747} receives over IPv4 too
     * @return the receiver
     * @throws IllegalArgumentException if an option is out of its range
     * @throws java.net.BindException if the port is taken, or the address isn't this host's
     * @throws java.net.UnknownHostException if the name has no address
     * @throws IOException if a socket or the daemon doesn't allow it
     */
    public Receiver bind(String local) throws IOException {
        Objects.requireNonNull(local, "local");
        Library.load();
        return new Receiver(Native.receiverBind(local, options.texts()));
    }

    /**
     * Starts to receive, as {@link #bind(String)} does.
     *
     * @param local the address
     * @return the receiver
     * @throws IOException as {@link #bind(String)}
     */
    public Receiver bind(InetSocketAddress local) throws IOException {
        return bind(Addresses.text(local));
    }

    /** The options that were set, for the native library. */
    String[] texts() {
        return options.texts();
    }
}
