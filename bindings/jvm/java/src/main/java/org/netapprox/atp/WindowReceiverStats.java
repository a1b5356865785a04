package org.netapprox.atp;

/**
 * Counters of a receiver of windows since its start.
 *
 * @param windows windows that were confirmed and have counted, in whole or in part
 * @param repeated windows all of whose records had been counted
 * @param unfinished windows that a sender didn't finish
 * @param malformed senders that were refused, because their bytes are no window
 * @param noMemory senders that have to send again, because windows needed too much memory
 * @param received records of confirmed windows that arrived
 * @param lost records of confirmed windows that didn't arrive
 * @param recordsRepeated records that had been counted before
 * @param skipped offsets that no window has brought
 */
public record WindowReceiverStats(
        long windows,
        long repeated,
        long unfinished,
        long malformed,
        long noMemory,
        long received,
        long lost,
        long recordsRepeated,
        long skipped) {
    static WindowReceiverStats read(Fields f) {
        return new WindowReceiverStats(
                f.u64(), f.u64(), f.u64(), f.u64(), f.u64(), f.u64(), f.u64(), f.u64(), f.u64());
    }
}
