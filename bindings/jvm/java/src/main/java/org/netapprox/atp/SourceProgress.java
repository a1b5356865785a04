package org.netapprox.atp;

import java.net.InetSocketAddress;
import java.util.List;

/**
 * The progress of one sender's job, in its current window.
 *
 * @param source the sender's address
 * @param job the job's id
 * @param run the run of the job: see {@link Event#run}
 * @param window the window, counted from 0
 * @param groups one entry per group of which a message has arrived
 */
public record SourceProgress(
        InetSocketAddress source, long job, long run, long window, List<Arrivals> groups) {
    /**
     * The messages of one group that have arrived.
     *
     * @param group the group's id
     * @param delivered complete messages, also those that the program has not taken yet
     */
    public record Arrivals(int group, long delivered) {}

    static SourceProgress read(Fields f) {
        return new SourceProgress(
                f.address(),
                f.u32(),
                f.u64(),
                f.u32(),
                f.list(g -> new Arrivals(g.u8(), g.u32())));
    }
}
