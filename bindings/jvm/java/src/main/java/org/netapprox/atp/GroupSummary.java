package org.netapprox.atp;

import java.util.List;

/**
 * The outcome of one group of a job, at the receiver.
 *
 * @param group the group's id, 0 to 255
 * @param messages N, the number of messages
 * @param needed the messages that must be delivered, ceil(MSR * N), as the sender states it
 * @param delivered messages delivered
 * @param lost the ids of the messages that were not delivered, in ascending order
 */
public record GroupSummary(
        int group, long messages, long needed, long delivered, List<IdRange> lost) {
    static GroupSummary read(Fields f) {
        return new GroupSummary(f.u8(), f.u32(), f.u32(), f.u32(), f.list(IdRange::read));
    }
}
