package org.netapprox.atp;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * The native methods. Objects are numbers: one that was closed, or that nobody has given out, is a
 * {@link ClosedException}. Structures are bytes, which {@link Fields} reads.
 */
final class Native {
    static {
        Library.load();
    }

    private Native() {}

    static native String version();

    static native long jobConnect(String peer, String[] options) throws IOException;

    static native byte[] jobFacts(long job) throws IOException;

    static native void jobCheckLength(long job, int length) throws IOException;

    /** Returns the first id above the number of messages taken, 32 bits each. */
    static native long jobTrySend(
            long job,
            int group,
            ByteBuffer messages,
            int offset,
            int[] lengths,
            int messageBytes,
            int from,
            int count)
            throws IOException;

    /** Returns the id, or -1 if there is no room. */
    static native long jobTrySendOwned(
            long job, int group, ByteBuffer message, int offset, int length, long number)
            throws IOException;

    static native long[] takeReleased(int timeoutMs);

    static native void jobWait(long job, int timeoutMs) throws IOException;

    static native void jobForgetWaits(long job) throws IOException;

    static native void jobSetMsr(long job, int group, double msr) throws IOException;

    static native void jobSetMessages(long job, int group, int messages) throws IOException;

    static native byte[] jobProgress(long job) throws IOException;

    static native boolean jobTryBeginEndWindow(long job) throws IOException;

    static native boolean jobAwaitsWindow(long job) throws IOException;

    static native byte[] jobTryWindow(long job, boolean last) throws IOException;

    static native void jobBeginFinish(long job) throws IOException;

    static native void jobBeginCancel(long job) throws IOException;

    static native byte[] jobTryOutcome(long job) throws IOException;

    static native void jobClose(long job);

    static native long receiverBind(String local, String[] options) throws IOException;

    static native byte[] receiverFacts(long receiver) throws IOException;

    /** Returns the bytes of the events, or below 0 the room that the first one needs. */
    static native int receiverRecv(
            long receiver, ByteBuffer room, int offset, int eventsMax, int timeoutMs)
            throws IOException;

    static native void receiverRequestMsr(long receiver, long run, int group, double msr)
            throws IOException;

    static native void receiverRequestEnd(long receiver, long run) throws IOException;

    static native long receiverAskProgress(long receiver) throws IOException;

    static native byte[] receiverTryProgress(long receiver, long asked) throws IOException;

    static native byte[] receiverStats(long receiver) throws IOException;

    static native void receiverClose(long receiver);
}
