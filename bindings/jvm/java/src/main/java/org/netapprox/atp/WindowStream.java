package org.netapprox.atp;

/**
 * A stream of records with ascending offsets, such as a partition as one group of consumers reads
 * it. Offsets count once per stream.
 *
 * @param cluster the id of the cluster; empty without one
 * @param consumerGroup the group of consumers that the sender belongs to; empty without one
 * @param topic the topic
 * @param topicId the topic's id, which another topic of that name doesn't have; empty without one
 * @param partition the partition of the topic, 0 to 2^32 - 1
 */
public record WindowStream(
        String cluster, String consumerGroup, String topic, String topicId, long partition) {
    static WindowStream read(Fields f) {
        return new WindowStream(f.text(), f.text(), f.text(), f.text(), f.u32());
    }

    /** The stream in the words of a log, such as {@code readings [3]}. */
    @Override
    public String toString() {
        return topic + " [" + partition + "]";
    }
}
