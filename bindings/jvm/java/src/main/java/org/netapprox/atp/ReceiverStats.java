package org.netapprox.atp;

/**
 * Counters of a receiver since its start.
 *
 * @param packetsReceived packets with data of accepted jobs, duplicates included
 * @param bytes bytes behind their headers
 * @param acksSent acknowledgments sent by this process
 * @param refused packets refused; {@code refusals} divides them by reason
 * @param refusals the reasons
 * @param ignored packets that mean nothing any more, or not yet
 * @param messages complete messages
 * @param sources senders known at present
 * @param evicted silent senders that made room for others
 * @param memoryBytes bytes of incomplete and waiting messages and of records at present
 */
public record ReceiverStats(
        long packetsReceived,
        long bytes,
        long acksSent,
        long refused,
        Refusals refusals,
        long ignored,
        long messages,
        long sources,
        long evicted,
        long memoryBytes) {
    /**
     * Packets refused, by reason.
     *
     * @param malformed packets that aren't ATP's, are damaged, or contradict earlier ones
     * @param unwanted packets of jobs or addresses that the receiver doesn't admit
     * @param tooLarge packets of messages or jobs beyond the receiver's limits
     * @param noRoom packets beyond the limits of senders and memory; their senders try again later
     * @param forgotten packets of senders that were silent for too long
     */
    public record Refusals(
            long malformed, long unwanted, long tooLarge, long noRoom, long forgotten) {}

    static ReceiverStats read(Fields f) {
        return new ReceiverStats(
                f.u64(),
                f.u64(),
                f.u64(),
                f.u64(),
                new Refusals(f.u64(), f.u64(), f.u64(), f.u64(), f.u64()),
                f.u64(),
                f.u64(),
                f.u32(),
                f.u64(),
                f.u64());
    }
}
