package org.netapprox.atp;

import java.util.List;

/**
 * The outcome of one sender's job, or of a window of it, at the receiver.
 *
 * @param window the window, counted from 0
 * @param complete whether every group has ceil(MSR * N) messages; if not, the sender canceled the
 *     job, or the window's deadline had passed
 * @param messages N, the number of this sender's messages in all groups
 * @param delivered messages delivered, in all groups
 * @param groups one entry per group
 */
public record Summary(
        long window, boolean complete, long messages, long delivered, List<GroupSummary> groups) {
    static Summary read(Fields f) {
        return new Summary(f.u32(), f.flag(), f.u32(), f.u32(), f.list(GroupSummary::read));
    }
}
