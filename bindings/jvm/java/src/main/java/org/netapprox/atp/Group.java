package org.netapprox.atp;

import java.util.Objects;
import java.util.OptionalInt;

/**
 * Messages of a job with a minimal sampling rate (MSR) of their own: a stratum, for example.
 *
 * @param id the group's id, 0 to 255
 * @param msr the share of the messages that must arrive, 0 to 1; at 1 the group is exact: all of
 *     its messages arrive, in order
 * @param messages N, the number of messages in each window, if it is announced; otherwise it is
 *     counted at the end
 * @param order the order of the messages, for the receiver
 * @param name a name for people, which the receiver gets: at most 32 bytes
 */
public record Group(int id, double msr, OptionalInt messages, Order order, String name) {
    /**
     * Checks that nothing is null. {@link JobBuilder#connect} checks ranges.
     *
     * @param id the group's id, 0 to 255
     * @param msr the share of the messages that must arrive, 0 to 1
     * @param messages N, the number of messages in each window, if it is announced
     * @param order the order of the messages
     * @param name a name for people, at most 32 bytes
     * @throws NullPointerException if something is null
     */
    public Group {
        Objects.requireNonNull(messages, "messages");
        Objects.requireNonNull(order, "order");
        Objects.requireNonNull(name, "name");
    }

    /**
     * An exact group without an announced number of messages.
     *
     * @param id the group's id, 0 to 255
     */
    public Group(int id) {
        this(id, 1, OptionalInt.empty(), Order.UNKNOWN, "");
    }

    /**
     * The group with another minimal sampling rate.
     *
     * @param msr the rate, 0 to 1
     * @return a copy
     */
    public Group msr(double msr) {
        return new Group(id, msr, messages, order, name);
    }

    /**
     * The group with an announced number of messages.
     *
     * @param messages N, 0 or more
     * @return a copy
     */
    public Group messages(int messages) {
        return new Group(id, msr, OptionalInt.of(messages), order, name);
    }

    /**
     * The group with another order.
     *
     * @param order the order
     * @return a copy
     */
    public Group order(Order order) {
        return new Group(id, msr, messages, order, name);
    }

    /**
     * The group with another name.
     *
     * @param name the name, at most 32 bytes without control characters
     * @return a copy
     */
    public Group name(String name) {
        return new Group(id, msr, messages, order, name);
    }

    /** The text for the native library. */
    String option() {
        String n = messages.isPresent() ? Integer.toString(messages.getAsInt()) : "-";
        return id + " " + msr + " " + n + " " + order.option() + " " + name;
    }
}
