package org.netapprox.atp.flink;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.apache.flink.annotation.PublicEvolving;
import org.netapprox.atp.flink.source.AnswerOptions;
import org.netapprox.atp.flink.source.ListenAddress;
import org.netapprox.atp.flink.source.SourceOptions;

/**
 * Options of an {@link AtpSource}. One that isn't set has its default. Each call checks its
 * arguments, and throws an {@link IllegalArgumentException} that says what they have to be.
 *
 * @param <T> the type of the records' elements
 */
@PublicEvolving
public final class AtpSourceBuilder<T> {
    private static final int STREAMS_MAX = 10_000;

    private final RecordDeserializer<T> deserializer;
    private final List<String> addresses = new ArrayList<>();
    private final List<String> senders = new ArrayList<>();
    private int streams = 1;
    private int streamsMax = STREAMS_MAX;
    private Duration idleTimeout = Duration.ofMinutes(5);
    private Duration senderTimeout = Duration.ofMinutes(5);
    private long memoryBytesMax = 1L << 30;
    private boolean isBounded;
    private String daemon;
    private AnswerOptions answer;

    AtpSourceBuilder(RecordDeserializer<T> deserializer) {
        this.deserializer = Objects.requireNonNull(deserializer, "deserializer");
    }

    /**
     * Addresses to listen at, in addition to those of earlier calls. Each is given to one reader
     * whose task manager's host has it; {@code 0.0.0.0:4747} may go to any host. One is needed.
     *
     * @param addresses IP addresses with a UDP port each, such as {@code 10.0.0.2:4747}
     * @return this builder
     */
    public AtpSourceBuilder<T> listen(String... addresses) {
        for (String address : addresses) {
            ListenAddress.parse(Objects.requireNonNull(address, "address"));
            if (this.addresses.contains(address)) {
                throw new IllegalArgumentException(
                        "the source listens at " + address + " already: name each address once");
            }
            this.addresses.add(address);
        }
        return this;
    }

    /**
     * Admits senders at these addresses, and others only if they are named by further calls. This
     * is no protection where hosts can forge addresses. Default: any sender.
     *
     * @param addresses IP addresses; a link-local one may name its interface, as in fe80::1%eth0
     * @return this builder
     */
    public AtpSourceBuilder<T> senders(String... addresses) {
        for (String address : addresses) {
            if (ListenAddress.ip(Objects.requireNonNull(address, "address")) == null) {
                throw new IllegalArgumentException(
                        "the sender \"" + address + "\" is no IP address: give one such as"
                                + " 10.0.0.3");
            }
            senders.add(address);
        }
        return this;
    }

    /**
     * The number of streams to expect at each address, such as the partitions of a topic. The
     * watermark waits until as many have sent a window. Default: 1.
     *
     * @param streams streams, 1 or more
     * @return this builder
     */
    public AtpSourceBuilder<T> streams(int streams) {
        if (streams < 1) {
            throw new IllegalArgumentException("streams must be 1 or more, not " + streams);
        }
        this.streams = streams;
        return this;
    }

    /**
     * The most streams of each address. It forgets none, since a sender may repeat the windows of
     * a stream that has ended, so checkpoints grow with their number. The windows of one more
     * stream are rejected: its sender fails, and the job goes on. Default: 10,000.
     *
     * @param streams streams, 1 or more, and not less than {@link #streams}
     * @return this builder
     */
    public AtpSourceBuilder<T> streamsMax(int streams) {
        if (streams < 1) {
            throw new IllegalArgumentException("streamsMax must be 1 or more, not " + streams);
        }
        streamsMax = streams;
        return this;
    }

    /**
     * A stream without a window for this long is idle: it doesn't hold back the watermark until its
     * next window. Make it longer than the windows. Default: 5 minutes.
     *
     * @param timeout the time; zero: streams are never idle
     * @return this builder
     */
    public AtpSourceBuilder<T> idleTimeout(Duration timeout) {
        idleTimeout = notNegative("idleTimeout", timeout);
        return this;
    }

    /**
     * The job fails if no window comes to an address for this long after it started. It warns after
     * 10 s. Restored from a checkpoint with windows, only a bounded source fails: senders may have
     * no more to send. A bounded source also fails if nothing comes for this long before all of
     * its streams have ended: make it longer than their pauses. Default: 5 minutes.
     *
     * @param timeout the time; zero: no limit
     * @return this builder
     */
    public AtpSourceBuilder<T> senderTimeout(Duration timeout) {
        senderTimeout = notNegative("senderTimeout", timeout);
        return this;
    }

    /**
     * The most bytes of windows that are open or wait, for each address. A sender whose window
     * doesn't fit sends it again later. Default: 1 GiB.
     *
     * @param bytes bytes, 1 or more
     * @return this builder
     */
    public AtpSourceBuilder<T> memoryBytesMax(long bytes) {
        if (bytes < 1) {
            throw new IllegalArgumentException("memoryBytesMax must be 1 or more, not " + bytes);
        }
        memoryBytesMax = bytes;
        return this;
    }

    /**
     * Ends the source once the senders of all expected streams have ended their jobs.
     *
     * @return this builder
     */
    public AtpSourceBuilder<T> bounded() {
        isBounded = true;
        return this;
    }

    /**
     * The control socket of the daemon to use on the task managers' hosts. Default: the default
     * daemon if there is one, else none.
     *
     * @param path the socket's absolute path
     * @return this builder
     */
    public AtpSourceBuilder<T> daemon(String path) {
        if (!Path.of(path).isAbsolute()) {
            throw new IllegalArgumentException(
                    "the daemon's path must be absolute, since it is another host's, not " + path);
        }
        daemon = path;
        return this;
    }

    /**
     * Uses no daemon, as if none ran on the hosts.
     *
     * @return this builder
     */
    public AtpSourceBuilder<T> noDaemon() {
        daemon = "";
        return this;
    }

    /**
     * Answers a query about all records of each window, lost ones included, with an interval of
     * 95 %: see {@link WindowSummary#answers}. The records that arrived of each group are a sample
     * of all of them. A job that can't load the native library where it is built notices a wrong
     * query only when it runs.
     *
     * @param query the query, such as {@code avg(temperature) by room}
     * @param columns the names of the table's columns
     * @param row makes the row of a record
     * @return this builder
     */
    public AtpSourceBuilder<T> answer(String query, List<String> columns, RowFunction row) {
        AnswerOptions asked =
                new AnswerOptions(
                        Objects.requireNonNull(query, "query"),
                        List.copyOf(columns),
                        Objects.requireNonNull(row, "row"));
        try {
            asked.open().close();
        } catch (LinkageError e) {
            // The library isn't for this host: the task managers check the query.
        }
        answer = asked;
        return this;
    }

    /**
     * The source with these options.
     *
     * @return the source
     * @throws IllegalArgumentException if it has no address, or expects more streams than it takes
     */
    public AtpSource<T> build() {
        if (addresses.isEmpty()) {
            throw new IllegalArgumentException(
                    "the source has no address: call listen, for example with 0.0.0.0:4747");
        }
        if (streamsMax < streams) {
            throw new IllegalArgumentException(
                    "the source expects " + streams + " streams at each address, and takes "
                            + streamsMax + " at most: raise streamsMax");
        }
        return new AtpSource<>(
                deserializer,
                new SourceOptions(
                        List.copyOf(addresses),
                        List.copyOf(senders),
                        streams,
                        streamsMax,
                        nanos(idleTimeout),
                        nanos(senderTimeout),
                        memoryBytesMax,
                        isBounded,
                        daemon,
                        answer));
    }

    private static Duration notNegative(String name, Duration time) {
        if (Objects.requireNonNull(time, name).isNegative()) {
            throw new IllegalArgumentException(name + " must be 0 or longer, not " + time);
        }
        return time;
    }

    /** Times beyond 292 years are as long. */
    private static long nanos(Duration time) {
        return TimeUnit.NANOSECONDS.convert(time);
    }
}
