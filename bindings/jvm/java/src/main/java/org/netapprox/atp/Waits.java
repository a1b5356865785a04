package org.netapprox.atp;

import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Waits in parts, between which a thread notices interrupts. */
final class Waits {
    /** The longest part, milliseconds. An interrupt takes so long at most. */
    private static final int PART_MS = 50;

    /** No limit. */
    static final long NEVER = Long.MAX_VALUE;

    private Waits() {}

    /** A call of the native library that may have no result yet, which is null. */
    interface Attempt<T> {
        T get() throws IOException, InterruptedException;
    }

    /** A wait until another attempt may succeed. */
    interface Change {
        void await(int timeoutMs) throws IOException;
    }

    /** When a timeout that begins now is over, as of System.nanoTime. */
    static long deadline(Duration timeout) {
        if (timeout.isNegative()) {
            throw new IllegalArgumentException("a timeout must be 0 or longer, not " + timeout);
        }
        long nanos;
        try {
            nanos = timeout.toNanos();
        } catch (ArithmeticException e) {
            return NEVER;
        }
        // NEVER is also the largest number that is no time.
        long deadline = System.nanoTime() + Math.min(nanos, Long.MAX_VALUE / 2);
        return deadline == NEVER ? deadline - 1 : deadline;
    }

    /** The next part of a wait, milliseconds; 0 at the deadline. */
    static int partMs(long deadline) {
        if (deadline == NEVER) {
            return PART_MS;
        }
        long left = deadline - System.nanoTime();
        return left <= 0 ? 0 : (int) Math.min(PART_MS, TimeUnit.NANOSECONDS.toMillis(left) + 1);
    }

    static void checkInterrupt() throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException("the thread was interrupted during a call of atp");
        }
    }

    /** Tries until there is a result. */
    static <T> T until(Attempt<T> attempt, Change change)
            throws IOException, InterruptedException {
        while (true) {
            checkInterrupt();
            T result = attempt.get();
            if (result != null) {
                return result;
            }
            long began = System.nanoTime();
            change.await(PART_MS);
            giveTurn(System.nanoTime() - began);
        }
    }

    /**
     * Behind a wait that took {@code nanos}: gives virtual threads a turn. A job may have changed
     * for other calls, such as one that takes a window's report: then it says so at once, again and
     * again.
     */
    static void giveTurn(long nanos) {
        if (nanos < 100_000) {
            LockSupport.parkNanos(200_000);
        } else {
            Thread.yield();
        }
    }
}
