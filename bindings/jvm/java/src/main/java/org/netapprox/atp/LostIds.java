package org.netapprox.atp;

import java.util.List;

/** The ids of the messages that were not delivered, or why they aren't known. */
public sealed interface LostIds {
    /**
     * The ids are known.
     *
     * @param ranges the ids in ascending order; empty if every message was delivered
     */
    record Known(List<IdRange> ranges) implements LostIds {}

    /**
     * The ids aren't known. It doesn't follow that no message was lost.
     *
     * @param why the reason
     */
    record Unknown(Reason why) implements LostIds {}

    /** Why ids aren't known. */
    enum Reason {
        /** The job was opened without the option {@code nameLost}. */
        NOT_ASKED,
        /** The end isn't confirmed: messages may still be retransmitted. */
        END_UNCONFIRMED,
        /** Receipts did not name all messages that the receiver has. */
        NAMES_MISSING
    }
}
