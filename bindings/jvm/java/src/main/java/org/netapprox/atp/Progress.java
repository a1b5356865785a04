package org.netapprox.atp;

/**
 * The progress of a job.
 *
 * @param messages messages sent, of all groups and windows
 * @param delivered messages known to be delivered, of all groups of the current window
 * @param rateBytesPerSecond the sum of the lanes' rates, bytes per second
 * @param packetsSent packets with data sent, retransmissions included
 * @param complete whether the job, or its current window, needs no more messages: further ones are
 *     dropped
 */
public record Progress(
        long messages,
        long delivered,
        long rateBytesPerSecond,
        long packetsSent,
        boolean complete) {
    static Progress read(Fields f) {
        return new Progress(f.u64(), f.u32(), f.u64(), f.u64(), f.flag());
    }
}
