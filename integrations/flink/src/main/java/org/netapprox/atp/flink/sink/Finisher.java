package org.netapprox.atp.flink.sink;

import java.io.IOException;

/**
 * Finishes a stream in a thread of its own: sends its log, closes its windows, and waits until they
 * are confirmed.
 *
 * <p>Streams that a writer has too many of after a change of the parallelism end like this. The
 * restore doesn't wait for their receivers, which may be slow, and new records needn't wait either.
 */
final class Finisher implements AutoCloseable {
    private static final long END_MS = 5_000;

    private final OutStream stream;
    private final Thread thread;

    /** The state of the stream until it is finished, also for checkpoints meanwhile. */
    private final StreamState begun;

    /** Written before the thread ends. */
    private volatile Throwable failure;

    private volatile boolean isDone;

    private Finisher(OutStream stream, StreamState begun) {
        this.stream = stream;
        this.begun = begun;
        thread = new Thread(this::run, "atp-finish " + stream);
        thread.setDaemon(true);
    }

    /** Starts to finish a stream, which nobody else uses from now on. */
    static Finisher start(OutStream stream) throws IOException {
        Finisher finisher = new Finisher(stream, stream.state());
        finisher.thread.start();
        return finisher;
    }

    private void run() {
        try {
            stream.finish();
            isDone = true;
        } catch (IOException | InterruptedException | RuntimeException | Error e) {
            failure = e;
        }
    }

    /** Whether all windows are confirmed. Throws the failure, if there is one. */
    boolean isDone() throws IOException {
        if (failure instanceof IOException e) {
            throw new IOException(e.getMessage(), e);
        }
        if (failure != null) {
            throw new IOException("the sink's stream " + stream + " failed: " + failure, failure);
        }
        return isDone;
    }

    /** Waits until all windows are confirmed. */
    void await() throws IOException, InterruptedException {
        thread.join();
        isDone();
    }

    /** The stream in a checkpoint. Windows that are confirmed meanwhile are recognized later. */
    StreamState state() {
        return begun;
    }

    /** The stream, once the thread has ended. */
    OutStream stream() {
        return stream;
    }

    @Override
    public void close() {
        thread.interrupt();
        // The task may be interrupted, too: its sender ends without the thread.
        boolean isInterrupted = Thread.interrupted();
        try {
            thread.join(END_MS);
        } catch (InterruptedException e) {
            isInterrupted = true;
        }
        stream.close();
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
