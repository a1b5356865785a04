package org.netapprox.atp;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

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

    /** A number for a message that is about to be sent. */
    static long add(Runnable released) {
        long number = NEXT.getAndIncrement();
        WAITING.put(number, released);
        return number;
    }

    /** The job has not taken the message. */
    static void remove(long number) {
        WAITING.remove(number);
    }

    /** Sees to it that a thread runs. Called once a message is on its way. */
    static synchronized void start() {
        if (isRunning) {
            return;
        }
        isRunning = true;
        Thread thread = new Thread(null, Releases::run, "atp-release");
        thread.setDaemon(true);
        thread.setContextClassLoader(null);
        thread.start();
    }

    private static void run() {
        do {
            for (long number : Native.takeReleased(WAIT_MS)) {
                call(WAITING.remove(number));
            }
        } while (!stop());
    }

    /** Whether the thread ends: nobody waits for a callback. */
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
            thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
        }
    }
}
