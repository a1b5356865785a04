package org.netapprox.atp.flink.sink;

import java.util.UUID;

/**
 * A stream of a writer. A receiver counts each of its offsets once.
 *
 * @param topic the sink's name
 * @param topicId an id that no other stream has: streams outlive their writers
 * @param partition the number of the writer that made it and of the peer
 * @param peer the address of its receiver
 */
record StreamId(String topic, String topicId, int partition, String peer) {
    /** A stream that doesn't exist yet. */
    static StreamId create(SinkOptions<?> options, int subtask, int peer) {
        int partition = subtask * options.peers().size() + peer;
        String id = UUID.randomUUID().toString();
        return new StreamId(options.topic(), id, partition, options.peers().get(peer));
    }

    @Override
    public String toString() {
        return topic + " [" + partition + "] to " + peer;
    }
}
