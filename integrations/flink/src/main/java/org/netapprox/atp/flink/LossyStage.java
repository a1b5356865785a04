package org.netapprox.atp.flink;

import java.time.Duration;
import java.util.Objects;
import org.apache.flink.annotation.PublicEvolving;
import org.apache.flink.api.common.serialization.TypeInformationSerializationSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.function.SerializableFunction;

/**
 * Connects two jobs by a lossy stage: from flat-map to reduce-by-key, as in NetApprox's second
 * stage. The first job gets a sink, the second a source. Of each window at least the stated share
 * of records goes over the network.
 *
 * <pre>{@code
 * SampledStream<Tuple2<String, Double>> words =
 *         LossyStage.of(env.fromSource(...).flatMap(new Words()), word -> word)
 *                 .addresses("10.0.0.2:4747", "10.0.0.3:4747")
 *                 .length(Duration.ofSeconds(10))
 *                 .msr(0.8)
 *                 .connect(secondEnv);
 * words.records().keyBy(word -> word.f0).window(...).sum(1);
 * }</pre>
 *
 * <p>All records of a key go to one address. Windows by event time are aligned: the second job's
 * watermark passes a window once all writers of the first job have sent it. Submit both jobs; each
 * waits for the other. If the first job makes checkpoints, records leave once one has them: see
 * {@link #holdUntilCheckpoint}.
 *
 * @param <T> the type of the records
 */
@PublicEvolving
public final class LossyStage<T> {
    private final DataStream<T> stream;
    private final AtpSinkBuilder<T> sink;
    private String name = "lossy stage";
    private String uid;
    private String[] addresses = {};
    private String daemon;
    private boolean usesNoDaemon;
    private boolean isBounded;
    private Duration senderTimeout;

    private LossyStage(DataStream<T> stream, KeySelector<T, ?> key) {
        this.stream = stream;
        var schema =
                new TypeInformationSerializationSchema<>(
                        stream.getType(), stream.getExecutionConfig());
        // Without its stream a receiver would not know whether one is missing or has no record.
        sink =
                new AtpSinkBuilder<>(name, RecordSerializer.of(schema))
                        .partitionBy(key)
                        .beginAllStreams(true);
    }

    /**
     * A lossy stage behind a stream of the first job.
     *
     * @param stream the stream, with event times and watermarks
     * @param key the key of a record, as for {@code keyBy}
     * @param <T> the type of the records
     * @return the stage, whose options are at their defaults
     */
    public static <T> LossyStage<T> of(DataStream<T> stream, KeySelector<T, ?> key) {
        return new LossyStage<>(Objects.requireNonNull(stream, "stream"), key);
    }

    /**
     * The addresses at which the second job receives. One reader has each, on that address's host.
     *
     * @param all IP address and UDP port of each, such as {@code 10.0.0.2:4747}
     * @return this stage
     */
    public LossyStage<T> addresses(String... all) {
        sink.peers(all);
        addresses = all.clone();
        return this;
    }

    /**
     * The name of sink and source in the jobs. Default: "lossy stage".
     *
     * @param text the name
     * @return this stage
     */
    public LossyStage<T> name(String text) {
        sink.topic(text);
        name = text;
        return this;
    }

    /**
     * The uid of sink and source, under which savepoints keep their states. Default: Flink derives
     * one from the shape of each job.
     *
     * @param text a name that no other operator of the jobs has; the sink's is followed by "-sink"
     * @return this stage
     */
    public LossyStage<T> uid(String text) {
        uid = Objects.requireNonNull(text, "text");
        return this;
    }

    /**
     * As {@link AtpSinkBuilder#length}.
     *
     * @param time the time, 1 ms or longer
     * @return this stage
     */
    public LossyStage<T> length(Duration time) {
        sink.length(time);
        return this;
    }

    /**
     * As {@link AtpSinkBuilder#msr}.
     *
     * @param rate the rate, 0 to 1
     * @return this stage
     */
    public LossyStage<T> msr(double rate) {
        sink.msr(rate);
        return this;
    }

    /**
     * As {@link AtpSinkBuilder#msrMax}.
     *
     * @param rate the share, 0 to 1
     * @return this stage
     */
    public LossyStage<T> msrMax(double rate) {
        sink.msrMax(rate);
        return this;
    }

    /**
     * As {@link AtpSinkBuilder#group}.
     *
     * @param group the name
     * @param rate the rate, 0 to 1
     * @return this stage
     */
    public LossyStage<T> group(String group, double rate) {
        sink.group(group, rate);
        return this;
    }

    /**
     * As {@link AtpSinkBuilder#groupBy}.
     *
     * @param function the name of the group of a record; null for the others
     * @return this stage
     */
    public LossyStage<T> groupBy(SerializableFunction<T, String> function) {
        sink.groupBy(function);
        return this;
    }

    /**
     * As {@link AtpSinkBuilder#retry}.
     *
     * @param time the time, 0 or longer
     * @return this stage
     */
    public LossyStage<T> retry(Duration time) {
        sink.retry(time);
        return this;
    }

    /**
     * As {@link AtpSinkBuilder#holdUntilCheckpoint}.
     *
     * @param on whether records wait
     * @return this stage
     */
    public LossyStage<T> holdUntilCheckpoint(boolean on) {
        sink.holdUntilCheckpoint(on);
        return this;
    }

    /**
     * As {@link AtpSourceBuilder#senderTimeout}, for the second job: it fails if the first one
     * doesn't send. Make it longer than the interval of the first job's checkpoints.
     *
     * @param timeout the time; zero: no limit
     * @return this stage
     */
    public LossyStage<T> senderTimeout(Duration timeout) {
        senderTimeout = Objects.requireNonNull(timeout, "timeout");
        return this;
    }

    /**
     * The control socket of the daemon on the hosts of both jobs. Default: that of the daemon's
     * package, if there is one.
     *
     * @param socket the absolute path
     * @return this stage
     */
    public LossyStage<T> daemon(String socket) {
        sink.daemon(socket);
        daemon = socket;
        return this;
    }

    /**
     * Uses no daemon, as if none ran on the hosts.
     *
     * @return this stage
     */
    public LossyStage<T> noDaemon() {
        sink.noDaemon();
        usesNoDaemon = true;
        return this;
    }

    /**
     * The first job ends, and the second one ends with it.
     *
     * @return this stage
     */
    public LossyStage<T> bounded() {
        isBounded = true;
        return this;
    }

    /**
     * Adds the sink to the first job, and the source to the second.
     *
     * @param second the environment of the second job
     * @return the records that arrive there, each with the number of records of its window and
     *     group that it stands for, and the windows
     * @throws IllegalArgumentException if options are missing or contradict each other
     */
    public SampledStream<Tuple2<T, Double>> connect(StreamExecutionEnvironment second) {
        // Chained to the stream's operator, the sink gets records in the order of that.
        int writers = stream.getParallelism();
        AtpSink<T> built = sink.build();
        var schema =
                new TypeInformationSerializationSchema<>(
                        stream.getType(), second.getConfig());
        AtpSourceBuilder<Tuple2<T, Double>> source =
                AtpSource.builder(
                                RecordDeserializer.of(
                                        Types.TUPLE(stream.getType(), Types.DOUBLE),
                                        (record, group, window) ->
                                                Tuple2.of(
                                                        schema.deserialize(record.value()),
                                                        group.weight())))
                        .listen(addresses)
                        .streams(writers);
        if (isBounded) {
            source.bounded();
        }
        if (senderTimeout != null) {
            source.senderTimeout(senderTimeout);
        }
        if (usesNoDaemon) {
            source.noDaemon();
        } else if (daemon != null) {
            source.daemon(daemon);
        }
        SampledStream<Tuple2<T, Double>> received =
                source.build().stream(second, name).setParallelism(addresses.length);
        DataStreamSink<T> sent = stream.sinkTo(built).setParallelism(writers).name(name);
        if (uid != null) {
            received.uid(uid);
            // One environment may have both.
            sent.uid(uid + "-sink");
        }
        return received;
    }
}
