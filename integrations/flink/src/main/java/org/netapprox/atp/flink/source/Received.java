package org.netapprox.atp.flink.source;

import java.util.concurrent.atomic.AtomicInteger;
import org.netapprox.atp.WindowEvent;
import org.netapprox.atp.WindowReceiver;

/**
 * An element on its way from a fetcher's thread to the task's.
 *
 * @param receiver the receiver
 * @param event the event; null if none was there
 * @param atNanos the time, as of {@code System.nanoTime}
 * @param unconfirmed the windows on their way: the task's thread subtracts those that it confirms
 */
record Received(
        WindowReceiver receiver, WindowEvent event, long atNanos, AtomicInteger unconfirmed) {}
