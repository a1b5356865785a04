package org.netapprox.atp;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * The native methods. Objects are numbers: one that was closed, or that nobody has given out, is a
 * {@link ClosedException}. Structures are bytes, which {@link Fields} reads.
 *
 * <p>{@link Library#load} comes before the first of them.
 */
final class Native {
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

    static native long queryReceiverBind(
            String query, String[] queryOptions, String local, String[] receiverOptions)
            throws IOException;

    static native byte[] queryReceiverAddress(long receiver) throws IOException;

    /**
     * Takes the events that are there. Null if there is none at present, an empty array if there
     * may be more, and the answers at the end.
     */
    static native byte[] queryReceiverRun(long receiver) throws IOException;

    static native void queryReceiverWait(long receiver, int timeoutMs) throws IOException;

    static native void queryReceiverCutShort(long receiver) throws IOException;

    static native byte[] queryReceiverProgress(long receiver) throws IOException;

    static native void queryReceiverClose(long receiver);

    static native long tableRead(
            byte[] csv, int rows, boolean ordered, boolean hasSeed, long seed);

    static native byte[] tableFacts(long table) throws IOException;

    static native long tableConnect(long table, String peer, String[] options)
            throws IOException;

    /** Returns the number of messages taken, or -1 if all were sent. */
    static native int tableTrySend(long table, long job, int from) throws IOException;

    static native void tableClose(long table);

    static native long queryOpen(String query, byte[] header, String[] options);

    /** The message is a part of a direct buffer, or all of an array. */
    static native void queryAdd(
            long query,
            int stratum,
            ByteBuffer buffer,
            int offset,
            int length,
            byte[] heap,
            boolean isTotals)
            throws IOException;

    static native void querySetMessagesSent(long query, int stratum, long messages)
            throws IOException;

    static native void querySetRows(long query, int stratum, long rows) throws IOException;

    static native void querySetDelivery(
            long query, int stratum, String order, boolean shortestFirst, int[] lost)
            throws IOException;

    static native long queryMessages(long query) throws IOException;

    static native byte[] queryAnswers(long query) throws IOException;

    static native byte[] queryOverall(long query) throws IOException;

    static native void querySourceStarted(long query, int stratum, double msr)
            throws IOException;

    static native void querySourceKnown(long query, int stratum) throws IOException;

    static native void querySourceEnding(long query, int stratum) throws IOException;

    static native void querySourceEnded(long query, int stratum) throws IOException;

    static native byte[] queryNextAction(long query) throws IOException;

    static native byte[] queryReport(long query) throws IOException;

    static native void queryClose(long query);

    static native long windowsBind(
            String local, String[] receiverOptions, byte[] counted, long memoryBytesMax)
            throws IOException;

    static native byte[] windowsAddress(long receiver) throws IOException;

    /** Waits for the next arrival. Null if none came. */
    static native byte[] windowsNext(long receiver, int timeoutMs) throws IOException;

    /** Returns the offsets that are counted then. */
    static native byte[] windowsConfirm(long receiver, long window) throws IOException;

    static native void windowsReject(long receiver, long window) throws IOException;

    static native byte[] windowsCounted(long receiver) throws IOException;

    static native byte[] windowsStats(long receiver) throws IOException;

    static native void windowsClose(long receiver);

    static native long windowSenderOpen(
            String peer, String[] senderOptions, String[] jobOptions) throws IOException;

    static native void windowSenderPush(
            long sender,
            long offset,
            boolean hasTime,
            long timeMs,
            byte[] key,
            byte[] value,
            String[] names,
            byte[][] values,
            String group)
            throws IOException;

    static native void windowSenderAdvance(long sender, long watermarkMs) throws IOException;

    static native void windowSenderCloseWindows(long sender) throws IOException;

    static native void windowSenderFinish(long sender) throws IOException;

    /** Waits for a state, and returns whether it has come. */
    static native boolean windowSenderWait(long sender, int state, int timeoutMs)
            throws IOException;

    static native byte[] windowSenderState(long sender) throws IOException;

    static native void windowSenderClose(long sender);
}
