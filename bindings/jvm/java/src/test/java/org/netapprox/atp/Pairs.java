package org.netapprox.atp;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;

/** Receivers and jobs over the loopback, without a daemon. */
final class Pairs {
    /** A call that takes longer hangs. */
    static final Duration HANGS = Duration.ofSeconds(60);

    private Pairs() {}

    static Receiver receiver() throws IOException {
        return Receiver.builder().noDaemon().bind("127.0.0.1:0");
    }

    static JobBuilder options() {
        return Job.builder().noDaemon();
    }

    /** All events up to the end of a job. */
    static List<Event> untilFinished(Receiver receiver) throws IOException, InterruptedException {
        List<Event> events = new ArrayList<>();
        while (true) {
            List<Event> some = receiver.recvBatch(1_000, HANGS);
            if (some.isEmpty()) {
                throw new AssertionError("no event for " + HANGS + " after " + events);
            }
            events.addAll(some);
            if (some.stream().anyMatch(event -> event instanceof Event.Finished)) {
                return events;
            }
        }
    }

    static List<Event.Message> messages(List<Event> events) {
        List<Event.Message> messages = new ArrayList<>();
        for (Event event : events) {
            if (event instanceof Event.Message message) {
                messages.add(message);
            }
        }
        return messages;
    }

    static Event.Finished finished(List<Event> events) {
        for (Event event : events) {
            if (event instanceof Event.Finished finished) {
                return finished;
            }
        }
        throw new AssertionError("no end in " + events);
    }

    /** Runs a call in a thread of its own. */
    static <T> Running<T> start(Callable<T> call) {
        FutureTask<T> task = new FutureTask<>(call);
        Thread thread = new Thread(task, "test-call");
        thread.setDaemon(true);
        thread.start();
        return new Running<>(thread, task);
    }

    record Running<T>(Thread thread, FutureTask<T> task) {
        T result() throws Exception {
            try {
                return task.get(HANGS.toSeconds(), TimeUnit.SECONDS);
            } catch (java.util.concurrent.ExecutionException e) {
                if (e.getCause() instanceof Exception cause) {
                    throw cause;
                }
                throw e;
            }
        }
    }
}
