package org.netapprox.atp;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Runs the callbacks of messages that jobs need no more.
 *
 * <p>The native library's threads put the messages' numbers into a queue. One thread of Java takes
 * them out, and runs the callbacks. It ends when there has been none for a second, so that it keeps
 * no classes from being unloaded.
 */
final class Releases {
    private static final int WAIT_MS = 1_000;
    private static final AtomicLong NEXT = new AtomicLong(1);
    private static final Map<Long, Runnable> WAITING = new ConcurrentHashMap<>();

    /** Guarded by the class. */
    private static boolean isRunning;

    private Releases() {}

    /** A number for a message that is about to be sent. Sees to it that a thread runs. */
    static long add(Runnable released) {
        long number = NEXT.getAndIncrement();
        WAITING.put(number, released);
        try {
            start();
        } catch (Throwable e) {
            WAITING.remove(number);
            throw e;
        }
        return number;
    }

    /** The job has not taken the message. */
    static void remove(long number) {
        WAITING.remove(number);
    }

    private static synchronized void start() {
        if (isRunning) {
            return;
        }
        Thread thread = new Thread(null, Releases::run, "atp-release", 0, false);
        thread.setDaemon(true);
        thread.setContextClassLoader(null);
        thread.start();
        isRunning = true;
    }

    private static void run() {
        do {
            try {
                for (long number : Native.takeReleased(WAIT_MS)) {
                    call(WAITING.remove(number));
                }
            } catch (Throwable e) {
                // No memory, perhaps. The thread goes on for the other callbacks.
                LockSupport.parkNanos(10_000_000);
            }
        } while (!stop());
    }

    /** Whether the thread ends: no callback is due. */
    private static synchronized boolean stop() {
        isRunning = !WAITING.isEmpty();
        return !isRunning;
    }

    private static void call(Runnable released) {
        if (released == null) {
            return;
        }
        try {
            released.run();
        } catch (Throwable e) {
            // As for a thread that ends with it; the other callbacks are run all the same.
            Thread thread = Thread.currentThread();
            try {
                thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
            } catch (Throwable ofHandler) {
                // As the JVM does.
            }
        }
    }
}
