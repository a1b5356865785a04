package org.netapprox.atp;

import java.lang.ref.Cleaner;

/** Closes native objects, also those that a program has lost. */
final class Closing {
    private static final Cleaner CLEANER = Cleaner.create();

    private Closing() {}

    /** {@code close} runs once: at {@link Cleaner.Cleanable#clean}, or once the object is lost. */
    static Cleaner.Cleanable register(Object object, Runnable close) {
        return CLEANER.register(object, close);
    }
}
