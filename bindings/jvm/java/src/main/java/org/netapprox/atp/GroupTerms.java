package org.netapprox.atp;

import java.util.OptionalLong;

/**
 * The terms of one group of a sender's job.
 *
 * @param group the group's id, 0 to 255
 * @param name the group's name, which may be empty
 * @param exact whether its messages are delivered in order, and all of them
 * @param messages N, if the sender knows it already
 * @param msr the minimal sampling rate, 0 to 1
 * @param order the order of the messages, as the sender states it
 * @param shortestFirst whether short messages come first and messages differ in length: those that
 *     arrive are no fair sample
 */
public record GroupTerms(
        int group,
        String name,
        boolean exact,
        OptionalLong messages,
        double msr,
        Order order,
        boolean shortestFirst) {
    static GroupTerms read(Fields f) {
        return new GroupTerms(
                f.u8(), f.text(), f.flag(), f.optionalU32(), f.f64(), Order.read(f), f.flag());
    }
}
