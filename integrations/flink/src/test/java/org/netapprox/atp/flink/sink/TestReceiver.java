package org.netapprox.atp.flink.sink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.netapprox.atp.Receiver;
import org.netapprox.atp.Window;
import org.netapprox.atp.WindowEvent;
import org.netapprox.atp.WindowReceiver;
import org.netapprox.atp.WindowRecord;

/** Confirms all windows at an address of the loopback, and keeps them. */
final class TestReceiver implements AutoCloseable {
    private static final Duration POLL = Duration.ofMillis(50);

    /** Only a hang takes as long. */
    private static final long HANG_S = 100;

    private final WindowReceiver receiver;
    private final Thread thread = new Thread(this::run, "receiver");
    private final List<Window> windows = new ArrayList<>();
    private final List<String> failures = new ArrayList<>();
    private byte[] counted;
    private long ended;
    private boolean isPaused;
    private volatile boolean isStopped;

    private TestReceiver(String address, byte[] counted) throws IOException {
        this.counted = counted;
        receiver =
                WindowReceiver.builder()
                        .receiver(Receiver.builder().noDaemon().linger(Duration.ofMillis(100)))
                        .counted(counted)
                        .bind(address);
        thread.setDaemon(true);
        thread.start();
    }

    static TestReceiver bind() throws IOException {
        // An address of its own: no other program takes the port while nothing listens there.
        var random = ThreadLocalRandom.current();
        String host = "127.83." + random.nextInt(1, 255) + "." + random.nextInt(1, 255);
        return new TestReceiver(host + ":0", new byte[0]);
    }

    /** Another receiver at an address, that goes on with what an earlier one counted. */
    static TestReceiver bind(String address, byte[] counted) throws IOException {
        return new TestReceiver(address, counted);
    }

    /** An address at which nothing listens. */
    static String freeAddress() throws Exception {
        try (TestReceiver receiver = bind()) {
            return receiver.address();
        }
    }

    String address() {
        InetSocketAddress bound = receiver.address();
        return bound.getAddress().getHostAddress() + ":" + bound.getPort();
    }

    private void run() {
        try (receiver) {
            while (!isStopped) {
                WindowEvent event = isPaused() ? null : receiver.receive(POLL);
                if (event instanceof WindowEvent.Ended end) {
                    // Before the confirmation: a test that awaits that finds the window here.
                    add(end.window());
                    setCounted(end.window().confirm());
                } else if (event instanceof WindowEvent.StreamEnded) {
                    addEnded();
                } else if (event instanceof WindowEvent.Malformed malformed) {
                    addFailure(malformed.toString());
                } else if (event == null) {
                    Thread.sleep(1);
                }
            }
        } catch (IOException | InterruptedException | RuntimeException e) {
            addFailure(e.toString());
        }
    }

    private synchronized boolean isPaused() {
        return isPaused;
    }

    /** Windows wait for their confirmation meanwhile. */
    synchronized void pause(boolean on) {
        isPaused = on;
    }

    private synchronized void add(Window window) {
        windows.add(window);
        notifyAll();
    }

    private synchronized void setCounted(byte[] now) {
        counted = now;
    }

    private synchronized void addEnded() {
        ended++;
        notifyAll();
    }

    private synchronized void addFailure(String failure) {
        failures.add(failure);
        notifyAll();
    }

    synchronized List<Window> windows() {
        return List.copyOf(windows);
    }

    synchronized long ended() {
        return ended;
    }

    synchronized byte[] counted() {
        return counted;
    }

    /** The records of all windows, those that didn't arrive included. */
    synchronized long records() {
        return windows.stream().mapToLong(window -> window.records() - window.repeated()).sum();
    }

    synchronized void await(Predicate<TestReceiver> holds) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(HANG_S);
        while (!holds.test(this)) {
            assertTrue(failures.isEmpty(), failures::toString);
            long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
            if (left <= 0) {
                fail("nothing more came behind " + windows);
            }
            wait(left);
        }
    }

    @Override
    public void close() throws InterruptedException {
        isStopped = true;
        thread.join();
        synchronized (this) {
            assertTrue(failures.isEmpty(), failures::toString);
        }
    }

    /** How often each id arrived, of the records of a group. */
    static Map<Long, Integer> ids(List<Window> windows, String group) {
        Map<Long, Integer> ids = new HashMap<>();
        for (Window window : windows) {
            for (Window.Sample sample : window.samples()) {
                if (sample.group().name().equals(group)) {
                    for (WindowRecord record : sample.records()) {
                        ids.merge(ByteBuffer.wrap(record.value()).getLong(), 1, Integer::sum);
                    }
                }
            }
        }
        return ids;
    }

    /** Each window has its share, and counts what wasn't counted before. */
    static void checkShares(List<Window> windows) {
        for (Window window : windows) {
            assertEquals(0, window.skipped(), window::toString);
            assertTrue(window.refused().isEmpty(), window::toString);
            for (Window.Sample sample : window.samples()) {
                long needed = (long) Math.ceil(sample.group().msr() * sample.group().records());
                assertTrue(sample.group().arrived() >= needed, sample.group()::toString);
                if (window.repeated() == 0) {
                    assertEquals(sample.group().arrived(), sample.records().size());
                }
            }
        }
    }
}
