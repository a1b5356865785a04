package org.netapprox.atp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Closed objects, interrupts, and calls of other threads meanwhile. */
class ClosingTest {
    @Test
    void closedObjectsThrow() throws Exception {
        Receiver receiver = Pairs.receiver();
        Job job = Pairs.options().connect(receiver.address());
        job.cancel();
        job.close();
        job.close();
        receiver.close();
        receiver.close();
        List<Callable<?>> calls =
                List.of(
                        () -> job.send(new byte[1]),
                        () -> job.trySend(0, ByteBuffer.allocate(1)),
                        () -> job.sendMany(0, List.of()),
                        () -> job.sendMany(0, ByteBuffer.allocateDirect(0), 1),
                        () -> job.sendOwned(0, ByteBuffer.allocateDirect(1), () -> {}),
                        job::progress,
                        job::endWindow,
                        job::nextWindow,
                        job::finish,
                        job::cancel,
                        receiver::recv,
                        () -> receiver.recvBatch(1, Duration.ZERO),
                        () -> receiver.recvBatch(Batch.ofBytes(4_096), Duration.ZERO),
                        receiver::progress,
                        receiver::stats);
        for (Callable<?> call : calls) {
            assertThrows(ClosedException.class, call::call);
        }
        assertThrows(ClosedException.class, () -> job.setMsr(0, 1));
        assertThrows(ClosedException.class, () -> job.setMessages(0, 1));
        assertThrows(ClosedException.class, () -> receiver.requestEnd(1));
        assertThrows(ClosedException.class, () -> receiver.requestMsr(1, 0, 1));
    }

    @Test
    void waitsEndWithAClose() throws Exception {
        Receiver receiver = Pairs.receiver();
        var waiting = Pairs.start(() -> receiver.recv());
        var batches = Pairs.start(() -> receiver.recvBatch(Batch.ofBytes(4_096), Pairs.HANGS));
        until(() -> waits(waiting) && waits(batches));
        receiver.close();
        assertThrows(ClosedException.class, waiting::result);
        assertThrows(ClosedException.class, batches::result);

        try (Receiver unread = Pairs.receiver()) {
            Job job = Pairs.options().bufferBytes(1).connect(unread.address());
            var sending = Pairs.start(() -> sendUntilItThrows(job));
            until(() -> waits(sending));
            assertThrows(AtpException.class, job::close);
            // The job was closed, or its input was ended before.
            Exception e = assertThrows(Exception.class, sending::result);
            assertTrue(e instanceof ClosedException || e instanceof IllegalStateException
                    || e instanceof ShortfallException, e.toString());
        }
    }

    @Test
    void waitsEndWithAnInterrupt() throws Exception {
        try (Receiver receiver = Pairs.receiver()) {
            var waiting = Pairs.start(() -> receiver.recv());
            var second = Pairs.start(() -> receiver.recvBatch(2, Pairs.HANGS));
            until(() -> waits(waiting) && waits(second));
            second.thread().interrupt();
            assertThrows(InterruptedException.class, second::result);
            waiting.thread().interrupt();
            assertThrows(InterruptedException.class, waiting::result);

            Job job = Pairs.options().bufferBytes(1).connect(receiver.address());
            var sending = Pairs.start(() -> sendUntilItThrows(job));
            until(() -> waits(sending));
            sending.thread().interrupt();
            assertThrows(InterruptedException.class, sending::result);
            // Nothing of the job was lost: it ends as if nothing had been.
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            Report report = job.finish();
            job.close();
            assertEquals(
                    report.groups().get(0).messages(), Pairs.messages(events.result()).size());
        }
        try (Job job =
                Pairs.options().peerTimeout(Pairs.HANGS).connect("127.0.0.1:" + unusedPort())) {
            job.send(new byte[1]);
            var ending = Pairs.start(job::finish);
            until(() -> waits(ending));
            ending.thread().interrupt();
            assertThrows(InterruptedException.class, ending::result);
            assertThrows(AtpException.class, job::close);
        }
    }

    /** Threads use a job and a receiver while others close them. */
    @Test
    void closingIsSafeBesideEveryCall() throws Exception {
        for (int round = 0; round < 20; round++) {
            Receiver receiver = Pairs.receiver();
            Job job = Pairs.options().msr(0.5).connect(receiver.address());
            ByteBuffer direct = ByteBuffer.allocateDirect(6_400);
            AtomicInteger lent = new AtomicInteger();
            CountDownLatch begun = new CountDownLatch(6);
            List<Pairs.Running<Object>> calls = new ArrayList<>();
            for (Callable<?> call :
                    List.<Callable<?>>of(
                            () -> job.sendMany(0, direct.duplicate(), 64),
                            () -> job.sendOwned(0, direct.duplicate(), lent::incrementAndGet),
                            job::progress,
                            () -> receiver.recvBatch(64, Duration.ofMillis(5)),
                            receiver::stats,
                            receiver::progress)) {
                calls.add(Pairs.start(() -> {
                    try {
                        call.call();
                    } finally {
                        begun.countDown();
                    }
                    while (true) {
                        call.call();
                    }
                }));
            }
            assertTrue(begun.await(Pairs.HANGS.toSeconds(), TimeUnit.SECONDS));
            if (round % 2 == 0) {
                receiver.close();
            }
            try {
                job.close();
            } catch (AtpException e) {
                // Its end wasn't awaited, unless it had failed for want of a receiver.
            }
            receiver.close();
            for (Pairs.Running<Object> call : calls) {
                Exception e = assertThrows(Exception.class, call::result);
                assertTrue(
                        e instanceof IOException || e instanceof IllegalStateException,
                        e.toString());
            }
        }
    }

    /** A job has the only reference to a buffer that the program has forgotten. */
    @Test
    void lentMemoryStaysWhileTheJobHasIt() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().connect(receiver.address())) {
            CountDownLatch released = new CountDownLatch(50);
            for (int i = 0; i < 50; i++) {
                ByteBuffer message = ByteBuffer.allocateDirect(50_000);
                for (int at = 0; at < message.capacity(); at++) {
                    message.put(at, (byte) i);
                }
                job.sendOwned(0, message, released::countDown);
                if (i % 10 == 0) {
                    System.gc();
                }
            }
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            job.finish();
            for (Event.Message message : Pairs.messages(events.result())) {
                ByteBuffer data = message.data();
                assertEquals(50_000, data.remaining());
                while (data.hasRemaining()) {
                    assertEquals((byte) message.message(), data.get());
                }
            }
            assertTrue(released.await(Pairs.HANGS.toSeconds(), TimeUnit.SECONDS));
        }
    }

    /** A callback that throws ends neither the thread nor the other callbacks. */
    @Test
    void everyLentMessageIsReleasedOnce() throws Exception {
        AtomicInteger[] released = new AtomicInteger[300];
        CountDownLatch all = new CountDownLatch(released.length);
        ByteBuffer message = ByteBuffer.allocateDirect(100);
        try (Receiver receiver = Pairs.receiver()) {
            Job job = Pairs.options().bufferBytes(2_000).connect(receiver.address());
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            for (int i = 0; i < released.length; i++) {
                AtomicInteger count = released[i] = new AtomicInteger();
                boolean throwsToo = i % 100 == 5;
                job.sendOwned(0, message, () -> {
                    count.incrementAndGet();
                    all.countDown();
                    if (throwsToo) {
                        throw new IllegalStateException("a callback's own, which is printed");
                    }
                });
            }
            job.finish();
            events.result();
            job.close();
        }
        assertTrue(all.await(Pairs.HANGS.toSeconds(), TimeUnit.SECONDS));
        for (AtomicInteger count : released) {
            assertEquals(1, count.get());
        }
    }

    /** As of a program whose handler throws, too. */
    @Test
    void callbacksGoOnBehindAHandlerThatThrows() throws Exception {
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, e) -> {
            throw new IllegalStateException("a handler's own");
        });
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().connect(receiver.address())) {
            CountDownLatch second = new CountDownLatch(1);
            ByteBuffer message = ByteBuffer.allocateDirect(10);
            job.sendOwned(0, message, () -> { throw new IllegalStateException("a callback's"); });
            job.sendOwned(0, message, second::countDown);
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            job.finish();
            events.result();
            assertTrue(second.await(Pairs.HANGS.toSeconds(), TimeUnit.SECONDS));
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
    }

    /** The second thread has no window to wait for. */
    @Test
    void twoThreadsMayAwaitWindows() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().connect(receiver.address())) {
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            job.send(new byte[1]);
            job.beginEndWindow();
            var one = Pairs.start(job::nextWindow);
            var other = Pairs.start(job::nextWindow);
            WindowReport first = one.result();
            WindowReport second = other.result();
            assertTrue((first == null) != (second == null), first + " and " + second);
            job.finish();
            events.result();
        }
    }

    /** The window that has begun to end is the one whose report comes. */
    @Test
    void anInterruptedEndOfAWindowGoesOn() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().overlapWindows(true).connect(receiver.address())) {
            for (int i = 0; i < 30; i++) {
                job.send(new byte[1]);
            }
            Thread.currentThread().interrupt();
            WindowReport report = null;
            while (report == null) {
                try {
                    report = job.endWindow();
                } catch (InterruptedException e) {
                    // Again.
                }
                if (report == null) {
                    var interrupted = Pairs.start(job::endWindow);
                    interrupted.thread().interrupt();
                    try {
                        report = interrupted.result();
                    } catch (InterruptedException e) {
                        // Again.
                    }
                }
            }
            assertEquals(0, report.window());
            assertEquals(30, report.groups().get(0).messages());
            var events = Pairs.start(() -> Pairs.untilFinished(receiver));
            job.finish();
            events.result();
        }
    }

    /** A batch of a million messages, through a buffer that holds few. */
    @Test
    void hugeBatchesWaitForRoom() throws Exception {
        try (Receiver receiver = Pairs.receiver();
                Job job = Pairs.options().msr(0).connect(receiver.address())) {
            int count = 1 << 20;
            int[] lengths = new int[count];
            java.util.Arrays.fill(lengths, 1);
            var events = Pairs.start(() -> {
                try {
                    while (!(receiver.recvBatch(10_000, Pairs.HANGS).stream()
                            .anyMatch(event -> event instanceof Event.Finished))) {}
                } catch (ClosedException e) {
                    // The test is over.
                }
                return null;
            });
            assertEquals(0, job.sendMany(0, ByteBuffer.allocateDirect(count), lengths));
            assertEquals(count, job.sendMany(0, ByteBuffer.allocateDirect(1_000_000), 500_000));
            assertEquals(count + 2L, job.progress().messages());
            job.cancel();
            events.result();
        }
    }

    private static Object sendUntilItThrows(Job job) throws Exception {
        while (true) {
            job.send(new byte[1_000]);
        }
    }

    private static int unusedPort() throws IOException {
        try (Receiver receiver = Pairs.receiver()) {
            return receiver.address().getPort();
        }
    }

    /** Whether a thread is in a call of the native library that waits, or waits for its turn. */
    private static boolean waits(Pairs.Running<?> call) {
        for (StackTraceElement frame : call.thread().getStackTrace()) {
            if (List.of("jobWait", "receiverRecv", "lock").contains(frame.getMethodName())) {
                return true;
            }
        }
        return false;
    }

    private static void until(Callable<Boolean> condition) throws Exception {
        long hangs = System.nanoTime() + Pairs.HANGS.toNanos();
        while (!condition.call()) {
            assertTrue(System.nanoTime() < hangs, "hangs");
            Thread.sleep(1);
        }
    }
}
