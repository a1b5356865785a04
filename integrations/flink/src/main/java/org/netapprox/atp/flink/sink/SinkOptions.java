package org.netapprox.atp.flink.sink;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Set;
import org.apache.flink.annotation.Internal;
import org.apache.flink.api.connector.sink2.StatefulSinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.util.function.SerializableFunction;
import org.netapprox.atp.Job;
import org.netapprox.atp.JobBuilder;
import org.netapprox.atp.WindowSender;
import org.netapprox.atp.WindowSenderBuilder;
import org.netapprox.atp.flink.RecordSerializer;

/**
 * The options of a sink, in their ranges.
 *
 * @param topic a name for its streams
 * @param serializer makes the bytes of the records
 * @param peers host and port of each receiver
 * @param partitioner the number of a record, modulo the receivers; null for one receiver per writer
 * @param msr the minimal sampling rate of records without a group
 * @param msrMax the share that is sent while there is room; 0 for no more than the rates
 * @param groups the rates of the groups
 * @param groupOf the group of a record; null without groups
 * @param length the event time of each window; null for windows by number
 * @param records the records of each window; 0 for windows by event time
 * @param retry how long a receiver may be away
 * @param windowBytesMax the encoded bytes after which a window closes early
 * @param logBytesMax the bytes of unconfirmed records that a writer keeps
 * @param daemon the daemon's socket; null for the default one, {@link #NO_DAEMON} for none
 * @param rateMaxBytesPerSecond the highest rate of each stream; 0 for none
 * @param beginsAll whether streams begin without a record
 * @param <T> the type of the records
 * @serial exclude
 */
@Internal
public record SinkOptions<T>(
        String topic,
        RecordSerializer<T> serializer,
        List<String> peers,
        SerializableFunction<T, Integer> partitioner,
        double msr,
        double msrMax,
        LinkedHashMap<String, Double> groups,
        SerializableFunction<T, String> groupOf,
        Duration length,
        long records,
        Duration retry,
        int windowBytesMax,
        long logBytesMax,
        String daemon,
        long rateMaxBytesPerSecond,
        boolean beginsAll)
        implements Serializable {
    /** The daemon of a sink that uses none. */
    public static final String NO_DAEMON = "";

    /** Names that have a meaning already. */
    public static final Set<String> OWN_GROUPS = Set.of("exact", "records");

    /** The most groups: ids of a job's groups are bytes, and the sink has two of its own. */
    public static final int GROUPS_MAX = 253;

    /** The longest message of a job: 64 MiB. */
    static final int RECORD_BYTES_MAX = (64 << 20) - 1024;

    /** At most the transport's own: a silent receiver is noticed within {@link #retry}. */
    private static final Duration PEER_TIMEOUT_MIN = Duration.ofSeconds(1);

    private static final Duration PEER_TIMEOUT_MAX = Duration.ofSeconds(10);

    /**
     * The writer of a subtask, which goes on with the streams of a checkpoint.
     *
     * @param context the context of the subtask
     * @param restored the streams; none for a new job
     * @param holds whether records wait for a checkpoint
     * @param checkpointIntervalMs the interval of checkpoints; 0 if the writer doesn't hold records
     * @return the writer
     * @throws IOException if a stream's receiver isn't among the peers
     */
    public StatefulSinkWriter<T, StreamState> writer(
            WriterInitContext context,
            Collection<StreamState> restored,
            boolean holds,
            long checkpointIntervalMs)
            throws IOException {
        return holds
                ? new HoldingWriter<>(this, context, restored, checkpointIntervalMs)
                : new AtpWriter<>(this, context, restored, false);
    }

    /** The length of a window, or 0 for windows by number. */
    long lengthMs() {
        return length == null ? 0 : length.toMillis();
    }

    /** The peer of a record. */
    int peer(T record, int subtask) {
        int number = partitioner == null ? subtask : partitioner.apply(record);
        return Math.floorMod(number, peers.size());
    }

    /** Whether a writer may send to a peer. */
    boolean sendsTo(int peer, int subtask) {
        return partitioner != null || peer == Math.floorMod(subtask, peers.size());
    }

    /** Starts the sender of a stream, which goes on at a position. */
    WindowSender open(StreamId id, String position) throws IOException {
        WindowSenderBuilder options =
                WindowSender.builder(id.topic())
                        .topicId(id.topicId())
                        .partition(id.partition())
                        .msr(msr)
                        .msrMax(msrMax)
                        .retry(retry)
                        .position(position)
                        .windowBytesMax(windowBytesMax)
                        .job(job());
        groups.forEach(options::group);
        if (length != null) {
            options.length(length);
        } else {
            options.records(records);
        }
        return options.open(id.peer());
    }

    private JobBuilder job() {
        JobBuilder job = Job.builder();
        Duration timeout = retry.compareTo(PEER_TIMEOUT_MAX) < 0 ? retry : PEER_TIMEOUT_MAX;
        job.peerTimeout(timeout.compareTo(PEER_TIMEOUT_MIN) < 0 ? PEER_TIMEOUT_MIN : timeout);
        if (rateMaxBytesPerSecond > 0) {
            job.rateMaxBytesPerSecond(rateMaxBytesPerSecond);
        }
        if (NO_DAEMON.equals(daemon)) {
            job.noDaemon();
        } else if (daemon != null) {
            job.controlSocket(Path.of(daemon));
        }
        return job;
    }
}
