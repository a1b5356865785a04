package org.netapprox.atp;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Calls in any order with hostile arguments, over the loopback, drawn from the bytes of an input.
 * {@link CallFuzzerTest} runs random inputs. Jazzer finds others by the code that they reach:
 *
 * <pre>
 * java -cp jazzer.jar:target/... com.code_intelligence.jazzer.Jazzer \
 *     --target_class=org.netapprox.atp.CallFuzzer -max_total_time=600
 * </pre>
 *
 * <p>The JVM stays. An exception is of a kind that the method names, with one sentence. A message
 * arrives unaltered. Memory that was lent comes back once.
 */
public final class CallFuzzer {
    /** Bounds the time of one input: each step may open sockets or wait. */
    private static final int STEPS_MAX = 40;

    private static final int OPEN_MAX = 4;
    private static final Duration WAIT = Duration.ofMillis(2);

    private final Draw draw;
    private final List<Job> jobs = new ArrayList<>();
    private final List<Receiver> receivers = new ArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private final ConcurrentLinkedQueue<Throwable> faults = new ConcurrentLinkedQueue<>();
    private final List<AtomicInteger> lent = new ArrayList<>();
    private final Batch batch = Batch.ofBytes(4_096);
    private long lastRun = 1;

    private CallFuzzer(byte[] input) {
        draw = new Draw(input);
    }

    /**
     * Runs one input. Jazzer calls it, too.
     *
     * @param input the bytes that calls and arguments are drawn from
     */
    public static void fuzzerTestOneInput(byte[] input) throws Exception {
        CallFuzzer fuzzer = new CallFuzzer(input);
        try {
            fuzzer.open();
            for (int step = 0; step < STEPS_MAX && fuzzer.draw.hasMore(); step++) {
                fuzzer.step();
            }
        } finally {
            fuzzer.end();
        }
    }

    /** Bytes of the input as arguments; zeros behind its end. */
    private static final class Draw {
        private final ByteBuffer input;

        Draw(byte[] input) {
            this.input = ByteBuffer.wrap(input);
        }

        boolean hasMore() {
            return input.hasRemaining();
        }

        int u8() {
            return input.hasRemaining() ? Byte.toUnsignedInt(input.get()) : 0;
        }

        int i32() {
            return u8() << 24 | u8() << 16 | u8() << 8 | u8();
        }

        /** Mostly small, sometimes any number. */
        int number(int usual) {
            int first = u8();
            return first < 230 ? first % usual : i32();
        }

        double share() {
            int first = u8();
            return first < 201 ? first / 200.0 : Double.longBitsToDouble((long) i32() << 32);
        }

        String text() {
            StringBuilder text = new StringBuilder();
            for (int left = u8() % 40; left > 0; left--) {
                // Halves of characters, too.
                text.append((char) (u8() < 200 ? u8() : i32()));
            }
            return text.toString();
        }
    }

    private void open() throws Exception {
        receivers.add(Pairs.receiver());
        jobs.add(usual().connect(receivers.get(0).address()));
    }

    private static JobBuilder usual() {
        return Pairs.options().msr(0.5).peerTimeout(Duration.ofMillis(20));
    }

    private Job job() {
        return jobs.get(draw.u8() % jobs.size());
    }

    private Receiver receiver() {
        return receivers.get(draw.u8() % receivers.size());
    }

    /** Mostly 0. */
    private int group() {
        return draw.u8() < 220 ? 0 : draw.number(300);
    }

    /** Equal bytes: a buffer may become several messages. */
    private static ByteBuffer message(int length, boolean direct) {
        ByteBuffer message =
                direct ? ByteBuffer.allocateDirect(length) : ByteBuffer.allocate(length);
        for (int at = 0; at < length; at++) {
            message.put(at, (byte) length);
        }
        return message;
    }

    private static void check(ByteBuffer data) {
        for (int at = data.position(); at < data.limit(); at++) {
            if (data.get(at) != data.get(data.position())) {
                throw new AssertionError("byte " + at + " of a message of " + data.remaining());
            }
        }
    }

    private void step() throws Exception {
        int kind = draw.u8() % 24;
        Job job = job();
        Receiver receiver = receiver();
        int group = group();
        switch (kind) {
            case 0 -> call(() -> add(receivers, Receiver.builder().noDaemon()
                    .sourcesMax(draw.number(3)).bufferBytes(draw.number(200))
                    .bind("127.0.0.1:0")));
            case 1 -> call(() -> connect(receiver.address()));
            case 2 -> call(() -> job.send(group, message(draw.u8() * 16, false)));
            case 3 -> call(() -> job.trySend(group, message(draw.u8() * 16, draw.u8() < 128)));
            case 4 -> call(() -> {
                List<ByteBuffer> many = new ArrayList<>();
                for (int left = draw.u8(); left > 0; left--) {
                    many.add(message(draw.u8() * 2, left % 3 == 0));
                }
                return job.sendMany(group, many);
            });
            case 5 -> call(() -> {
                int length = draw.number(100);
                ByteBuffer one = message(Math.abs(length % 2_000), draw.u8() < 240);
                return job.sendMany(group, one, draw.u8() < 200 ? one.remaining() : length);
            });
            case 6 -> call(() -> {
                ByteBuffer one = message(draw.u8(), true);
                return job.sendMany(group, one, new int[] {draw.number(256), draw.number(256)});
            });
            case 7, 8 -> lend(job, group, message(draw.u8() * 64, draw.u8() < 240));
            case 9 -> call(() -> run(() -> job.setMsr(group, draw.share())));
            case 10 -> call(() -> run(() -> job.setMessages(group, draw.number(100))));
            case 11 -> call(job::progress);
            case 12 -> call(job::endWindow);
            case 13 -> call(job::nextWindow);
            case 14 -> inThread(draw.u8() < 128 ? job::finish : job::cancel);
            case 15 -> call(() -> run(job::close));
            case 16 -> inThread(() -> run(receiver::close));
            case 17 -> call(() -> run(() ->
                    receiver.requestMsr(draw.u8() < 200 ? lastRun : draw.i32(), group,
                            draw.share())));
            case 18 -> call(() -> run(() -> receiver.requestEnd(lastRun)));
            case 19 -> call(receiver::progress);
            case 20 -> call(receiver::stats);
            case 21 -> raw(job, receiver);
            case 22 -> inThread(() -> job.send(group, message(draw.u8() * 100, true)));
            default -> call(() -> receive(receiver));
        }
        // Messages arrive, so that there is more than one state.
        if (kind < 9) {
            call(() -> receive(receiver));
        }
    }

    private <T> T add(List<T> all, T opened) {
        if (all.size() < OPEN_MAX) {
            all.add(opened);
            return opened;
        }
        return all.set(draw.u8() % OPEN_MAX, opened);
    }

    private Object connect(InetSocketAddress peer) throws Exception {
        JobBuilder options = usual().msr(draw.share());
        for (int left = draw.u8() % 4; left > 0; left--) {
            switch (draw.u8() % 14) {
                case 0 -> options.messages(draw.number(50));
                case 1 -> options.groups(new Group(draw.number(2)).msr(draw.share())
                        .messages(draw.number(9)).name(draw.text()));
                case 2 -> options.bufferBytes(draw.number(5_000));
                case 3 -> options.payloadBytes(draw.number(1_400));
                case 4 -> options.messageBytesMax(draw.number(3_000));
                case 5 -> options.windows(true).overlapWindows(draw.u8() < 128);
                case 6 -> options.windowDeadline(Duration.ofMillis(draw.number(20)));
                case 7 -> options.timerGranularity(Duration.ofNanos(draw.number(1 << 30)));
                case 8 -> options.id(draw.text());
                case 9 -> options.rules(draw.text());
                case 10 -> options.nameLost(true).tryEveryMessage(draw.u8() < 128);
                case 11 -> options.requests(
                        RequestPolicy.within(draw.share(), draw.share(), draw.u8() < 128));
                case 12 -> options.order(Order.shuffledAmong(1 + draw.u8())).packing(false);
                default -> options.rateMaxBytesPerSecond(draw.number(1 << 30));
            }
        }
        return add(jobs, draw.u8() < 240 ? options.connect(peer) : options.connect(draw.text()));
    }

    private void lend(Job job, int group, ByteBuffer message) throws Exception {
        AtomicInteger released = new AtomicInteger();
        call(() -> {
            job.sendOwned(group, message, released::incrementAndGet);
            lent.add(released);
            return null;
        });
    }

    private Object receive(Receiver receiver) throws Exception {
        List<Event> events;
        if (draw.u8() < 128) {
            receiver.recvBatch(batch, WAIT);
            events = batch.events();
        } else {
            events = receiver.recvBatch(1 + draw.u8(), WAIT);
        }
        for (Event event : events) {
            lastRun = event.run();
            if (event instanceof Event.Message message) {
                check(message.data());
            }
        }
        return events.size();
    }

    /** The native methods by themselves: they don't rely on the classes before them. */
    private void raw(Job job, Receiver receiver) throws Exception {
        long number = draw.u8() < 128 ? draw.number(1_000) : (long) draw.i32() << 32 | draw.i32();
        ByteBuffer buffer =
                switch (draw.u8() % 4) {
                    case 0 -> null;
                    case 1 -> ByteBuffer.allocate(16);
                    default -> ByteBuffer.allocateDirect(draw.u8());
                };
        int[] lengths = draw.u8() < 128 ? null : new int[] {draw.number(9), draw.number(9), 0};
        int a = draw.number(300);
        int b = draw.number(300);
        int c = draw.number(5);
        switch (draw.u8() % 8) {
            case 0 -> call(() -> Native.jobTrySend(number, a, buffer, b, lengths, c, c, a));
            case 1 -> call(() -> Native.jobTrySendOwned(number, 0, buffer, a, b, -number - 1));
            case 2 -> call(() -> Native.receiverRecv(number, buffer, a, b, c));
            case 3 -> call(() -> Native.jobTryWindow(number, c == 1));
            case 4 -> call(() -> Native.receiverTryProgress(number, b));
            case 5 -> call(() -> run(() -> Native.jobWait(number, Math.min(c, 3))));
            case 6 -> call(() -> Native.jobConnect(draw.text(), new String[] {draw.text(), "1"}));
            default -> call(() -> run(() -> {
                Native.jobClose(-1 - Math.abs(number % 1_000));
                Native.receiverClose(-1 - Math.abs(number % 1_000));
            }));
        }
    }

    private interface Action {
        void run() throws Exception;
    }

    private static Object run(Action action) throws Exception {
        action.run();
        return null;
    }

    /** A call whose exceptions are of the kinds that its method names. */
    private static void call(Callable<?> call) throws Exception {
        try {
            call.call();
        } catch (IOException | IllegalArgumentException | IllegalStateException e) {
            String said = e.getMessage();
            if (said == null || said.length() < 10 || said.contains("\n")) {
                throw new AssertionError("no sentence: " + said, e);
            }
        }
    }

    /** A call that may wait: the input goes on, and interrupts it at the end. */
    private void inThread(Callable<?> call) {
        Thread thread = new Thread(() -> {
            try {
                call(call);
            } catch (InterruptedException e) {
                // At the end.
            } catch (Throwable e) {
                faults.add(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
        threads.add(thread);
    }

    private void end() throws Exception {
        for (Thread thread : threads) {
            thread.interrupt();
        }
        for (Job job : jobs) {
            call(() -> run(job::close));
        }
        for (Receiver receiver : receivers) {
            receiver.close();
        }
        for (Thread thread : threads) {
            thread.join(Pairs.HANGS.toMillis());
            if (thread.isAlive()) {
                throw new AssertionError("a call hangs");
            }
        }
        for (Throwable fault : faults) {
            throw new AssertionError("in a thread: " + fault, fault);
        }
        long hangs = System.nanoTime() + Pairs.HANGS.toNanos();
        for (AtomicInteger released : lent) {
            while (released.get() == 0) {
                if (System.nanoTime() > hangs) {
                    throw new AssertionError("lent memory doesn't come back");
                }
                Thread.sleep(1);
            }
            if (released.get() != 1) {
                throw new AssertionError("lent memory came back " + released + " times");
            }
        }
    }
}
