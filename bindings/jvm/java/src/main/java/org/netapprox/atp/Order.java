package org.netapprox.atp;

import java.util.Objects;
import java.util.OptionalInt;

/**
 * The order in which the messages of a group are sent, for the receiver. The library doesn't change
 * the order.
 *
 * <p>A job mostly leaves out its last messages. Only of shuffled ones those that arrive are a fair
 * sample.
 *
 * @param kind the kind of order
 * @param bufferMessages of shuffled messages, the number from which each one was drawn; empty for
 *     all
 */
public record Order(Kind kind, OptionalInt bufferMessages) {
    /**
     * Checks that only shuffled messages have a buffer, of 1 message at least.
     *
     * @param kind the kind of order
     * @param bufferMessages of shuffled messages, the number from which each one was drawn
     * @throws IllegalArgumentException if they contradict each other
     */
    public Order {
        Objects.requireNonNull(kind, "kind");
        if (bufferMessages.isPresent() && kind != Kind.SHUFFLED) {
            throw new IllegalArgumentException(
                    "only shuffled messages have a buffer: leave it out for " + kind);
        }
        if (bufferMessages.orElse(1) < 1) {
            throw new IllegalArgumentException(
                    "a shuffle's buffer must have 1 message at least, not "
                            + bufferMessages.getAsInt());
        }
    }

    /** The sender doesn't say. */
    public static final Order UNKNOWN = new Order(Kind.UNKNOWN, OptionalInt.empty());

    /** The order of the data, such as time. */
    public static final Order ORDERED = new Order(Kind.ORDERED, OptionalInt.empty());

    /** An order without meaning: every message was drawn from all. */
    public static final Order SHUFFLED = new Order(Kind.SHUFFLED, OptionalInt.empty());

    /** The kinds of order. */
    public enum Kind {
        /** The sender doesn't say. */
        UNKNOWN,
        /** The order of the data, such as time. */
        ORDERED,
        /** An order without meaning. */
        SHUFFLED
    }

    /**
     * Messages of a shuffle whose buffer holds a part of them.
     *
     * @param messages the messages from which each one was drawn, 1 or more; a sender rounds it
     *     down to a power of two, 2^24 at most
     * @return the order
     * @throws IllegalArgumentException if {@code messages} is below 1
     */
    public static Order shuffledAmong(int messages) {
        return new Order(Kind.SHUFFLED, OptionalInt.of(messages));
    }

    /** The text for the native library. */
    String option() {
        return bufferMessages.isPresent() ? kind + ":" + bufferMessages.getAsInt() : kind.name();
    }

    static Order read(Fields f) {
        return new Order(Kind.valueOf(f.text()), f.optionalI32());
    }
}
