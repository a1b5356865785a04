package org.netapprox.atp.flink;

import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.flink.annotation.PublicEvolving;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.util.MathUtils;
import org.apache.flink.util.function.SerializableFunction;
import org.netapprox.atp.flink.sink.SinkOptions;

/**
 * Options of an {@link AtpSink}. One that isn't set has its default. {@link #peers} and one of
 * {@link #length} and {@link #records} are needed.
 *
 * <p>An option out of its range is an {@link IllegalArgumentException}.
 *
 * @param <T> the type of the records
 */
@PublicEvolving
public final class AtpSinkBuilder<T> {
    private static final int WINDOW_BYTES_MAX = 32 << 20;
    private static final long LOG_BYTES_MAX = 256L << 20;

    /** The state of a stream is one array, with what lies around the records. */
    private static final long LOG_BYTES_LIMIT = 1L << 30;

    private String topic;
    private final RecordSerializer<T> serializer;
    private final Map<String, Double> groups = new LinkedHashMap<>();
    private List<String> peers = List.of();
    private SerializableFunction<T, Integer> partitioner;
    private SerializableFunction<T, String> groupOf;
    private double msr = 1;
    private double msrMax;
    private Duration length;
    private long records;
    private Duration retry = Duration.ofSeconds(60);
    private int windowBytesMax = WINDOW_BYTES_MAX;
    private long logBytesMax = LOG_BYTES_MAX;
    private String daemon;
    private long rateMaxBytesPerSecond;
    private Boolean holds;
    private boolean beginsAll;

    AtpSinkBuilder(String topic, RecordSerializer<T> serializer) {
        this.serializer = Objects.requireNonNull(serializer, "serializer");
        topic(topic);
    }

    AtpSinkBuilder<T> topic(String name) {
        check(!name.isEmpty(), "the topic is empty: give the sink's streams a name");
        topic = name;
        return this;
    }

    /**
     * The receivers. Without {@link #partitioner} writer <i>i</i> sends to receiver <i>i</i> modulo
     * their number.
     *
     * @param addresses host and port of each, such as {@code 10.0.0.2:4747}
     * @return this builder
     */
    public AtpSinkBuilder<T> peers(String... addresses) {
        for (String address : addresses) {
            check(
                    isAddress(address),
                    "the peer \"%s\" is no address: give host and port, such as 10.0.0.2:4747",
                    address);
        }
        var distinct = new LinkedHashSet<String>(List.of(addresses));
        check(distinct.size() == addresses.length, "a peer is there twice: %s", List.of(addresses));
        peers = List.of(addresses);
        return this;
    }

    /**
     * Chooses the receiver of a record: the result modulo the number of receivers.
     *
     * @param function the number of a record
     * @return this builder
     */
    public AtpSinkBuilder<T> partitioner(SerializableFunction<T, Integer> function) {
        partitioner = Objects.requireNonNull(function, "function");
        return this;
    }

    /**
     * Sends all records of a key to one receiver.
     *
     * @param key the key of a record, whose {@code hashCode} must be the same in all JVMs, as for
     *     {@code keyBy}
     * @return this builder
     */
    public AtpSinkBuilder<T> partitionBy(KeySelector<T, ?> key) {
        Objects.requireNonNull(key, "key");
        return partitioner(record -> hash(key, record));
    }

    /**
     * The minimal sampling rate of records without a group. Default: 1, all of them arrive.
     *
     * @param rate the rate, 0 to 1
     * @return this builder
     */
    public AtpSinkBuilder<T> msr(double rate) {
        check(isRate(rate), "the minimal sampling rate must lie between 0 and 1, not %s", rate);
        msr = rate;
        return this;
    }

    /**
     * The share of records that is sent while network and receiver have room, for groups with a
     * lower rate. Default: no more than the rates.
     *
     * @param rate the share, 0 to 1
     * @return this builder
     */
    public AtpSinkBuilder<T> msrMax(double rate) {
        check(isRate(rate), "the highest sampling rate must lie between 0 and 1, not %s", rate);
        msrMax = rate;
        return this;
    }

    /**
     * A group of records with a minimal sampling rate of its own. {@link #groupBy} names the group
     * of a record.
     *
     * @param name the name
     * @param rate the rate, 0 to 1
     * @return this builder
     */
    public AtpSinkBuilder<T> group(String name, double rate) {
        Objects.requireNonNull(name, "name");
        check(
                isRate(rate),
                "the minimal sampling rate of group \"%s\" must lie between 0 and 1, not %s",
                name,
                rate);
        check(
                !SinkOptions.OWN_GROUPS.contains(name),
                "the group \"%s\" is one of ATP's: give it another name",
                name);
        check(groups.put(name, rate) == null, "the group \"%s\" is there twice", name);
        check(groups.size() <= SinkOptions.GROUPS_MAX, "there can be %s groups at most",
                SinkOptions.GROUPS_MAX);
        return this;
    }

    /**
     * Chooses the group of a record.
     *
     * @param function the name of the group of a record; null for the others, of {@link #msr}
     * @return this builder
     */
    public AtpSinkBuilder<T> groupBy(SerializableFunction<T, String> function) {
        groupOf = Objects.requireNonNull(function, "function");
        return this;
    }

    /**
     * The event time of each window. Windows begin at multiples of it, and close with Flink's
     * watermark. A record that comes later goes into the oldest open window, and counts there as
     * late.
     *
     * @param time the time, 1 ms or longer
     * @return this builder
     */
    public AtpSinkBuilder<T> length(Duration time) {
        check(time.toMillis() > 0, "the length of a window must be 1 ms at least, not %s", time);
        length = time;
        return this;
    }

    /**
     * The number of records of each window. Event time doesn't matter then.
     *
     * @param number the number, 1 or more
     * @return this builder
     */
    public AtpSinkBuilder<T> records(long number) {
        check(number > 0, "the records of a window must be 1 at least, not %s", number);
        records = number;
        return this;
    }

    /**
     * How long a receiver may be away. The job fails then. Default: 60 s.
     *
     * @param time the time, 0 or longer
     * @return this builder
     */
    public AtpSinkBuilder<T> retry(Duration time) {
        check(!time.isNegative(), "retry must be 0 or longer, not %s", time);
        retry = time;
        return this;
    }

    /**
     * The encoded bytes after which a window closes early. Default: 32 MiB.
     *
     * @param bytes bytes, 1 or more
     * @return this builder
     */
    public AtpSinkBuilder<T> windowBytesMax(int bytes) {
        check(bytes > 0, "windowBytesMax must be 1 at least, not %s", bytes);
        windowBytesMax = bytes;
        return this;
    }

    /**
     * The bytes of unconfirmed records that each writer keeps for checkpoints. Beyond them it waits
     * for confirmations, and closes its windows early if none is due. The job fails if records
     * that {@link #holdUntilCheckpoint wait for a checkpoint} have more. Default: 256 MiB.
     *
     * @param bytes bytes, 1 to 1 GiB
     * @return this builder
     */
    public AtpSinkBuilder<T> logBytesMax(long bytes) {
        check(
                bytes > 0 && bytes <= LOG_BYTES_LIMIT,
                "logBytesMax must lie between 1 and %s, not %s",
                LOG_BYTES_LIMIT,
                bytes);
        logBytesMax = bytes;
        return this;
    }

    /**
     * The control socket of the host's daemon. Default: that of the daemon's package; without a
     * daemon there, the userspace datapath.
     *
     * @param socket the path
     * @return this builder
     */
    public AtpSinkBuilder<T> daemon(String socket) {
        daemon = Path.of(socket).toAbsolutePath().toString();
        return this;
    }

    /**
     * Uses the userspace datapath also beside a daemon.
     *
     * @return this builder
     */
    public AtpSinkBuilder<T> noDaemon() {
        daemon = SinkOptions.NO_DAEMON;
        return this;
    }

    /**
     * The highest rate of each stream. Default: none.
     *
     * @param rate bytes per second, 1 or more
     * @return this builder
     */
    public AtpSinkBuilder<T> rateMaxBytesPerSecond(long rate) {
        check(rate > 0, "rateMaxBytesPerSecond must be 1 at least, not %s", rate);
        rateMaxBytesPerSecond = rate;
        return this;
    }

    /**
     * Whether records leave only once a checkpoint has them. Default: they do in jobs that make
     * checkpoints which are exactly-once; in others, and in batch mode, records leave at once.
     *
     * <p>If records wait, each counts once, in whatever order Flink gives records after a restore.
     * The latency is up to the checkpoints' interval, and operator chaining has to be on. From half
     * of {@link #logBytesMax} on, a writer takes records slowly: as many as fit in two intervals.
     * {@code true} refuses a job without such checkpoints. Even so, at the end of its input a
     * writer sends the records that it holds without a checkpoint. If the job fails between that
     * and its last checkpoint, and Flink gives those records again in another order, some count
     * twice and others never.
     *
     * <p>{@code false} is right if Flink gives the records behind a checkpoint again in the same
     * order. A source that reads one split per reader and is chained to the sink does so. Before
     * the first checkpoint its first record must be the same one, too. Behind a {@code keyBy} or
     * {@code rebalance} the order may change: some records count twice then, and others never.
     *
     * @param on whether records wait
     * @return this builder
     */
    public AtpSinkBuilder<T> holdUntilCheckpoint(boolean on) {
        holds = on;
        return this;
    }

    /**
     * Begins the streams of windows by event time without waiting for a record. So each writer has
     * a stream to each receiver that it may send to, and tells of its watermark there, by windows
     * without records if need be: a receiver knows how many streams to expect. Default: a stream
     * begins with its first record.
     *
     * @param on whether streams begin at once
     * @return this builder
     */
    AtpSinkBuilder<T> beginAllStreams(boolean on) {
        beginsAll = on;
        return this;
    }

    /**
     * Makes the sink.
     *
     * @return the sink
     * @throws IllegalArgumentException if options are missing or contradict each other
     */
    public AtpSink<T> build() {
        check(!peers.isEmpty(), "the sink \"%s\" has no peer: give peers", topic);
        check(
                (length == null) != (records == 0),
                "give records, the number of each window, or length, its time, and not both");
        check(
                length != null || !beginsAll,
                "streams of windows by number begin with a record: give length, or leave out"
                        + " beginAllStreams");
        check(
                groups.isEmpty() == (groupOf == null),
                "give both group, a group's rate, and groupBy, the group of a record");
        var options =
                new SinkOptions<>(
                        topic,
                        serializer,
                        peers,
                        partitioner,
                        msr,
                        msrMax,
                        new LinkedHashMap<>(groups),
                        groupOf,
                        length,
                        records,
                        retry,
                        windowBytesMax,
                        logBytesMax,
                        daemon,
                        rateMaxBytesPerSecond,
                        beginsAll);
        return new AtpSink<>(options, holds);
    }

    private static <T> int hash(KeySelector<T, ?> key, T record) {
        try {
            // Keys whose hash codes have a pattern go to all receivers, too.
            return MathUtils.murmurHash(key.getKey(record).hashCode());
        } catch (Exception e) {
            throw new IllegalStateException("a record has no key: " + e.getMessage(), e);
        }
    }

    private static boolean isRate(double rate) {
        return rate >= 0 && rate <= 1;
    }

    /** Whether a text is a host and a port. The host's name is looked up by the tasks. */
    private static boolean isAddress(String text) {
        int colon = text.lastIndexOf(':');
        if (colon <= 0) {
            return false;
        }
        String host = text.substring(0, colon);
        boolean isBracketed = host.startsWith("[") && host.endsWith("]") && host.length() > 2;
        boolean isHost = isBracketed || host.chars().noneMatch(c -> ":[] ".indexOf(c) >= 0);
        String port = text.substring(colon + 1);
        if (!isHost || port.isEmpty() || port.length() > 5
                || !port.chars().allMatch(c -> c >= '0' && c <= '9')) {
            return false;
        }
        int number = Integer.parseInt(port);
        return number > 0 && number < 1 << 16;
    }

    private static void check(boolean holds, String sentence, Object... values) {
        if (!holds) {
            throw new IllegalArgumentException(String.format(sentence, values));
        }
    }
}
