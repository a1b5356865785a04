package org.netapprox.atp;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;

/**
 * Options of a {@link Job}. An option that isn't set has its default. {@link #connect} checks the
 * ranges. Sentences of exceptions name options as the native library does: {@code buffer_bytes} is
 * {@link #bufferBytes}.
 */
public final class JobBuilder {
    private final Options options = new Options();

    JobBuilder() {}

    /**
     * The job's id. Default: the job of the process's cgroup if a daemon knows one, else a
     * random id.
     *
     * @param id the id, 0 to 2^32 - 1
     * @return this builder
     */
    public JobBuilder id(long id) {
        options.setId("id", id);
        return this;
    }

    /**
     * The job's id as a name: sender and receiver use the same. Default: the job of the
     * process's cgroup if a daemon knows one, else a random id.
     *
     * @param name the name; a decimal number is that number
     * @return this builder
     */
    public JobBuilder id(String name) {
        options.set("id", name);
        return this;
    }

    /**
     * Announces N, the number of messages of group 0 from this sender, in each window. The
     * target loss rate is right then from the first packet, and the job can complete before all
     * were sent. A window has at most 2^24 - 1 messages in all groups together. Default: counted
     * at the end.
     *
     * @param messages N, 1 or more
     * @return this builder
     */
    public JobBuilder messages(int messages) {
        options.set("messages", messages);
        return this;
    }

    /**
     * The minimal sampling rate (MSR) of group 0: the share of its messages that must arrive. At
     * 1 the group is exact: all of its messages arrive, in order. Default: 1.
     *
     * @param msr the rate, 0 to 1
     * @return this builder
     */
    public JobBuilder msr(double msr) {
        options.set("msr", msr);
        return this;
    }

    /**
     * The order of the messages of group 0, for the receiver. Default: unknown.
     *
     * @param order the order
     * @return this builder
     */
    public JobBuilder order(Order order) {
        options.set("order", order.option());
        return this;
    }

    /**
     * Adds groups. With this call, the job has group 0 if it is among them, or if {@link #msr},
     * {@link #messages} or {@link #order} set it. Default: group 0 only.
     *
     * @param groups the groups
     * @return this builder
     */
    public JobBuilder groups(Group... groups) {
        for (Group group : groups) {
            options.set("groups", group.option());
        }
        return this;
    }

    /**
     * Sends every message at least once before the job is complete. Without this option the job
     * is complete as soon as every group has ceil(MSR * N) messages. Default: off.
     *
     * @param on whether to
     * @return this builder
     */
    public JobBuilder tryEveryMessage(boolean on) {
        options.set("try_every_message", on);
        return this;
    }

    /**
     * How long a window, or a job without windows, may take from its first message. One that
     * misses it ends with the messages delivered by then. Default: no limit.
     *
     * @param deadline the time, 0 or longer
     * @return this builder
     */
    public JobBuilder windowDeadline(Duration deadline) {
        options.set("window_deadline", deadline);
        return this;
    }

    /**
     * The control socket of the daemon to use. Default: the default daemon if it takes the job,
     * else none.
     *
     * @param path the socket's path
     * @return this builder
     */
    public JobBuilder controlSocket(Path path) {
        options.set("control_socket", path.toAbsolutePath());
        return this;
    }

    /**
     * Uses no daemon, as if none ran on the host.
     *
     * @return this builder
     */
    public JobBuilder noDaemon() {
        options.set("control_socket", "");
        return this;
    }

    /**
     * Without a daemon: the rate of the host's port (Rmax), the most that the rate law may
     * choose. Default: 125,000,000 (1 Gbit/s).
     *
     * @param rate the rate, bytes per second, 1,000 or more
     * @return this builder
     */
    public JobBuilder rateMaxBytesPerSecond(long rate) {
        options.set("rate_max_bytes_per_s", rate);
        return this;
    }

    /**
     * How long the receiver may be silent before the job fails. Default: 10 s.
     *
     * @param timeout the time, 0 or longer
     * @return this builder
     */
    public JobBuilder peerTimeout(Duration timeout) {
        options.set("peer_timeout", timeout);
        return this;
    }

    /**
     * How long the receiver may be silent if its host says that nothing listens on the port.
     * Default: {@link #peerTimeout}, which is its maximum.
     *
     * @param timeout the time, 0 or longer
     * @return this builder
     */
    public JobBuilder refusedTimeout(Duration timeout) {
        options.set("refused_timeout", timeout);
        return this;
    }

    /**
     * Assumed timer granularity of both hosts (RFC 6298's G). A packet without an acknowledgment
     * counts as lost after at least five times this long. Default: 1 ms.
     *
     * @param granularity the time, 1 us to 25 ms
     * @return this builder
     */
    public JobBuilder timerGranularity(Duration granularity) {
        options.set("timer_granularity", granularity);
        return this;
    }

    /**
     * Bytes of messages that the job holds before {@link Job#send(ByteBuffer)} waits. Default: 4
     * MiB.
     *
     * @param bytes bytes, 0 or more
     * @return this builder
     */
    public JobBuilder bufferBytes(long bytes) {
        options.set("buffer_bytes", bytes);
        return this;
    }

    /**
     * Message bytes in one packet; fewer if the path's MTU requires it. Default: as many as the
     * path's MTU allows.
     *
     * @param bytes bytes, 1 to 8,900
     * @return this builder
     */
    public JobBuilder payloadBytes(int bytes) {
        options.set("payload_bytes", bytes);
        return this;
    }

    /**
     * The longest message. Default: 64 MiB.
     *
     * @param bytes bytes, 0 or more
     * @return this builder
     */
    public JobBuilder messageBytesMax(int bytes) {
        options.set("message_bytes_max", bytes);
        return this;
    }

    /**
     * Whether to send the message with the minimal remaining data first (MRDF, NetApprox §4.3).
     * Off sends messages in order. Default: on.
     *
     * @param on whether to
     * @return this builder
     */
    public JobBuilder mrdf(boolean on) {
        options.set("mrdf", on);
        return this;
    }

    /**
     * Whether MRDF compares messages by bytes instead of by packets. A job whose messages differ
     * in length completes faster, but the delivered ones are no fair sample. Default: off.
     *
     * @param on whether to
     * @return this builder
     */
    public JobBuilder rankByBytes(boolean on) {
        options.set("rank_by_bytes", on);
        return this;
    }

    /**
     * Whether several short messages of a group may share a packet. Default: on.
     *
     * @param on whether they may
     * @return this builder
     */
    public JobBuilder packing(boolean on) {
        options.set("packing", on);
        return this;
    }

    /**
     * Whether reports name the lost messages: {@link GroupReport#lostIds}. Default: off.
     *
     * @param on whether to
     * @return this builder
     */
    public JobBuilder nameLost(boolean on) {
        options.set("name_lost", on);
        return this;
    }

    /**
     * Lets a job end several windows although every group announces N. Jobs in which a group
     * announces no N don't need the option. Default: off.
     *
     * @param on whether to
     * @return this builder
     */
    public JobBuilder windows(boolean on) {
        options.set("windows", on);
        return this;
    }

    /**
     * Whether the next window may begin while the last one ends: see {@link Job#nextWindow}. At
     * most two windows are open. Includes {@link #windows}. Default: off.
     *
     * @param on whether it may
     * @return this builder
     */
    public JobBuilder overlapWindows(boolean on) {
        options.set("overlap_windows", on);
        return this;
    }

    /**
     * The most packets in flight until the receiver or its host has answered. 0 is no limit.
     * Default: 16.
     *
     * @param packets packets, 0 or more
     * @return this builder
     */
    public JobBuilder initialWindowPackets(int packets) {
        options.set("initial_window_packets", packets);
        return this;
    }

    /**
     * The requests of the receiver that the job obeys. Default: obey.
     *
     * @param policy the policy
     * @return this builder
     */
    public JobBuilder requests(RequestPolicy policy) {
        options.set("requests", policy.option());
        return this;
    }

    /**
     * Without a daemon: the name of the rate law. With a daemon, the daemon's options decide.
     * Default: the law {@code yield}.
     *
     * @param law the name, such as {@code yield} or {@code paper}
     * @return this builder
     */
    public JobBuilder rules(String law) {
        options.set("rules", law);
        return this;
    }

    /**
     * Opens the job. Sends nothing yet. Waits while a name is resolved.
     *
     * @param peer the receiver: an address or a host name, with a port, as in {@code db7:4747} or
     *     {@code [fe80::1%eth0]:4747}
     * @return the job
     * @throws IllegalArgumentException if an option is out of its range, or options contradict each
     *     other
     * @throws java.net.UnknownHostException if the name has no address
     * @throws IOException if the path, a socket or the daemon doesn't allow it
     */
    public Job connect(String peer) throws IOException {
        Objects.requireNonNull(peer, "peer");
        Library.load();
        return new Job(Native.jobConnect(peer, options.texts()));
    }

    /**
     * Opens the job, as {@link #connect(String)} does.
     *
     * @param peer the receiver
     * @return the job
     * @throws IOException as {@link #connect(String)}
     */
    public Job connect(InetSocketAddress peer) throws IOException {
        return connect(Addresses.text(peer));
    }

    /** The options that were set, for the native library. */
    String[] texts() {
        return options.texts();
    }
}
