package org.netapprox.atp.flink.sink;

import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.flink.api.connector.sink2.WriterInitContext;

/**
 * A stream of a writer. A receiver counts each of its offsets once.
 *
 * @param topic the sink's name
 * @param topicId an id that no other stream has: streams outlive their writers
 * @param partition the number of the writer that made it and of the peer
 * @param peer the address of its receiver
 */
record StreamId(String topic, String topicId, int partition, String peer) {
    /** The variable of an operator's metrics that names the operator within its job. */
    private static final String OPERATOR = "<operator_id>";

    /**
     * A new stream of a writer.
     *
     * @param origin the {@link #origin} of the writer
     */
    static StreamId create(SinkOptions<?> options, String origin, int subtask, int peer) {
        int partition = subtask * options.peers().size() + peer;
        String address = options.peers().get(peer);
        String name = String.join("\n", origin, "" + partition, address, options.topic());
        String id = UUID.nameUUIDFromBytes(name.getBytes(StandardCharsets.UTF_8)).toString();
        return new StreamId(options.topic(), id, partition, address);
    }

    /**
     * The sink and the checkpoint at which a writer begins. Attempts from one checkpoint have the
     * same origin: the receiver recognizes records that Flink gives again. At another parallelism
     * the records come in another order, and offsets must not be the same.
     */
    static String origin(WriterInitContext context) {
        var checkpoint = context.getRestoredCheckpointId();
        return String.join(
                "\n",
                context.getJobInfo().getJobId().toString(),
                "" + context.metricGroup().getAllVariables().get(OPERATOR),
                "" + context.getTaskInfo().getNumberOfParallelSubtasks(),
                checkpoint.isPresent() ? "" + checkpoint.getAsLong() : "none");
    }

    @Override
    public String toString() {
        return topic + " [" + partition + "] to " + peer;
    }
}
