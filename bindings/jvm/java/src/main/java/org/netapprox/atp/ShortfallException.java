package org.netapprox.atp;

import java.net.InetSocketAddress;
import java.util.List;

/**
 * The job ended below its minimal sampling rate. The message names the receiver, the cause, and the
 * messages delivered in each group that is short.
 */
public final class ShortfallException extends AtpException {
    private static final long serialVersionUID = 1L;

    /** Why a job ended short. */
    public enum Cause {
        /** No packet came from the receiver within the option {@code peerTimeout}. */
        PEER_SILENT,
        /** The receiver's host acknowledges packets, but its program takes no messages. */
        NOT_READING,
        /** The receiver refused the job. */
        REFUSED,
        /** The receiver had no room for as long as the option {@code peerTimeout}. */
        NO_ROOM,
        /** The receiver has fewer messages than it has confirmed: it was restarted. */
        RECEIVER_LOST_STATE,
        /** The path's MTU shrank below the least that ATP needs. */
        PATH_NARROWED,
        /** This host let no packet out for as long as the option {@code peerTimeout}. */
        CANNOT_SEND,
        /** The program closed the job before its end. */
        ABANDONED,
        /** A cause that this version of the jar doesn't know: see the message. */
        OTHER
    }

    /**
     * A group with fewer delivered messages than it needs.
     *
     * @param group the group's id, 0 to 255
     * @param delivered messages known to be delivered
     * @param needed the messages that must be delivered, ceil(MSR * N)
     */
    public record ShortGroup(int group, long delivered, long needed) {}

    /** The receiver. */
    private final transient InetSocketAddress peer;
    /** The cause. */
    private final Cause cause;
    /** The groups. */
    private final transient List<ShortGroup> groups;
    /** The report. */
    private final transient Report report;

    ShortfallException(String message, byte[] bytes) {
        super(message);
        Fields fields = new Fields(bytes);
        peer = fields.address();
        cause = cause(fields.text());
        groups = fields.list(f -> new ShortGroup(f.u8(), f.u32(), f.u32()));
        report = Report.read(fields);
    }

    private static Cause cause(String name) {
        try {
            return Cause.valueOf(name);
        } catch (IllegalArgumentException e) {
            return Cause.OTHER;
        }
    }

    /**
     * The receiver.
     *
     * @return its address; null after serialization
     */
    public InetSocketAddress peer() {
        return peer;
    }

    /**
     * Why the job ended.
     *
     * @return the cause
     */
    public Cause cause() {
        return cause;
    }

    /**
     * The groups that are short. Empty if every group has the messages that it needs, and only the
     * receiver's confirmation is missing.
     *
     * @return the groups, by id; null after serialization
     */
    public List<ShortGroup> groups() {
        return groups;
    }

    /**
     * The report of the messages delivered up to the job's end.
     *
     * @return the report; null after serialization
     */
    public Report report() {
        return report;
    }
}
