package org.netapprox.atp.flink.sink;

/** Notices that records are held, and no checkpoint ever releases any. Times are arguments. */
final class ReleaseWatch {
    static final long WARN_AFTER_MS = 10_000;

    private static final long NONE = Long.MIN_VALUE;

    private long heldSinceMs = NONE;
    private boolean isOver;

    /** A checkpoint has released records, as later ones will. */
    void onRelease() {
        isOver = true;
    }

    /** Whether records have been held for too long now. It is so once. */
    boolean isOverdue(long nowMs, boolean isHolding) {
        if (isOver || !isHolding) {
            heldSinceMs = NONE;
            return false;
        }
        if (heldSinceMs == NONE) {
            heldSinceMs = nowMs;
        }
        isOver = nowMs - heldSinceMs >= WARN_AFTER_MS;
        return isOver;
    }
}
