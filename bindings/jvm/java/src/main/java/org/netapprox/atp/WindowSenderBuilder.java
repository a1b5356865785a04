package org.netapprox.atp;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Objects;

/**
 * Options of a {@link WindowSender}. One that isn't set has its default. Windows need {@link
 * #records} or {@link #length}.
 */
public final class WindowSenderBuilder {
    private final Options options = new Options();
    private JobBuilder job = Job.builder();

    WindowSenderBuilder(String topic) {
        options.set("topic", topic);
    }

    /**
     * The id that another topic of this name doesn't have. Default: none.
     *
     * @param id the id
     * @return this builder
     */
    public WindowSenderBuilder topicId(String id) {
        options.set("topic_id", id);
        return this;
    }

    /**
     * The partition of the topic. Default: 0.
     *
     * @param partition the partition, 0 or more
     * @return this builder
     */
    public WindowSenderBuilder partition(int partition) {
        options.set("partition", partition);
        return this;
    }

    /**
     * The group of consumers: each counts a partition once. Default: none.
     *
     * @param name the name
     * @return this builder
     */
    public WindowSenderBuilder consumerGroup(String name) {
        options.set("consumer_group", name);
        return this;
    }

    /**
     * The id of the cluster. Default: none.
     *
     * @param id the id
     * @return this builder
     */
    public WindowSenderBuilder cluster(String id) {
        options.set("cluster", id);
        return this;
    }

    /**
     * The number of records of each window.
     *
     * @param records the number, 1 or more
     * @return this builder
     */
    public WindowSenderBuilder records(long records) {
        options.set("records", records);
        return this;
    }

    /**
     * The event time of each window. Windows begin at multiples of it, and close by {@link
     * WindowSender#advance}, or by records with {@link #watermarkDelay}.
     *
     * @param length the time, 1 ms or longer
     * @return this builder
     */
    public WindowSenderBuilder length(Duration length) {
        options.set("length", length);
        return this;
    }

    /**
     * A window by event time closes at the first record this far behind its end. A record that
     * comes later goes into the oldest window that is open.
     *
     * @param delay the time, 0 or longer
     * @return this builder
     */
    public WindowSenderBuilder watermarkDelay(Duration delay) {
        options.set("watermark_delay", delay);
        return this;
    }

    /**
     * A group of records with a minimal sampling rate of its own.
     *
     * @param name the name that records give
     * @param msr the rate, 0 to 1
     * @return this builder
     */
    public WindowSenderBuilder group(String name, double msr) {
        options.set("group", msr + " " + Objects.requireNonNull(name, "name"));
        return this;
    }

    /**
     * The minimal sampling rate of records without a group. Default: 1, all of them arrive.
     *
     * @param msr the rate, 0 to 1
     * @return this builder
     */
    public WindowSenderBuilder msr(double msr) {
        options.set("msr", msr);
        return this;
    }

    /**
     * The share of records that is sent while network and receiver have room, for groups with a
     * lower rate. It falls to their rates while windows are confirmed late. Default: no more than
     * the rates.
     *
     * @param msr the share, 0 to 1
     * @return this builder
     */
    public WindowSenderBuilder msrMax(double msr) {
        options.set("msr_max", msr);
        return this;
    }

    /**
     * The position of an earlier sender of the stream. Records from its offset on follow. A new
     * stream may have the offset of its first record here: its watermarks are told before that
     * record then.
     *
     * @param position the text of {@link WindowSender.State#position}, or an offset
     * @return this builder
     */
    public WindowSenderBuilder position(String position) {
        options.set("position", position);
        return this;
    }

    /**
     * The encoded bytes after which a window closes early. Default: 32 MiB.
     *
     * @param bytes bytes, 0 or more
     * @return this builder
     */
    public WindowSenderBuilder windowBytesMax(int bytes) {
        options.set("window_bytes_max", bytes);
        return this;
    }

    /**
     * How long to try again while the receiver fails. Default: not at all.
     *
     * @param time the time, 0 or longer
     * @return this builder
     */
    public WindowSenderBuilder retry(Duration time) {
        options.set("retry", time);
        return this;
    }

    /**
     * Options of the job, such as the daemon and the rate. Its groups, order, windows and requests
     * are the sender's.
     *
     * @param options the options
     * @return this builder
     */
    public WindowSenderBuilder job(JobBuilder options) {
        job = Objects.requireNonNull(options, "options");
        return this;
    }

    /**
     * Starts a sender. It connects with the first record.
     *
     * @param peer the host and the port of a {@link WindowReceiver}
     * @return the sender
     * @throws IllegalArgumentException if an option is out of its range
     * @throws IOException if the system has no thread left
     */
    public WindowSender open(String peer) throws IOException {
        Objects.requireNonNull(peer, "peer");
        Library.load();
        return new WindowSender(Native.windowSenderOpen(peer, options.texts(), job.texts()));
    }

    /**
     * Starts a sender, as {@link #open(String)} does.
     *
     * @param peer the address
     * @return the sender
     * @throws IOException as {@link #open(String)}
     */
    public WindowSender open(InetSocketAddress peer) throws IOException {
        return open(Addresses.text(peer));
    }
}
